// Package run keeps the folder of a run and nothing that decides.
//
//	<root>/<id>/events.jsonl    the log: the only truth
//	<root>/<id>/blobs/          content by digest, redacted before it was hashed
//	<root>/<id>/lock            held by the one process that may write
//	<root>/<id>/children/       the run folders of child runs, each with its own log
//	<root>/<id>/*.json          artifacts: what the log says, for people and scripts
//	<root>/<id>/tool-outputs/   one artifact per call that returned
//
// Every artifact is a projection: a pure function of the log and its blobs, so
// it can be thrown away and written again, and [Verify] can tell one that was
// changed. run-state.json is also the checkpoint: [Folder.State] takes it when
// its head is the log's and folds the log again when it is not.
//
// The heads of the log are kept a second time, outside of the workspace
// ([Options].StateDir): who can write to the workspace can cut the log's tail or
// write all of it anew, and only a head kept elsewhere shows it.
//
// A folder is opened by [Create] and [Open] for writing, by [Look] for reading.
// Everything in it is untrusted input: workspaces come with folders in them.
package run
