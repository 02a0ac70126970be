// Package run reads and writes the folder of a run. It makes no decisions.
//
//	<root>/<id>/events.jsonl    the log: the only truth
//	<root>/<id>/blobs/          content by digest, redacted before it was hashed
//	<root>/<id>/lock            held by the one process that may write
//	<root>/<id>/children/       the run folders of child runs, each with its own log
//	<root>/<id>/*.json          artifacts: what the log says, for people and scripts
//	<root>/<id>/tool-outputs/   one artifact per call that returned
//
// Every artifact is a projection: a pure function of the log and its blobs. It can be deleted and
// written again, and [Verify] can detect a changed one. run-state.json is also the checkpoint:
// [Folder.State] uses it if its head is the log's head, and folds the log otherwise.
//
// The heads of the log are also stored outside the workspace ([Options].StateDir). Anyone who can
// write to the workspace can truncate the log or rewrite all of it, and only a head kept elsewhere
// reveals that.
//
// [Create] and [Open] open a folder for writing, [Look] opens it for reading. Everything in it is
// untrusted input, because a workspace can come with such folders in it.
package run
