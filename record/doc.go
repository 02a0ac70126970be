// Package record is the log of a session: what happened, in one total order,
// kept so that a reader can later prove that nothing was changed.
//
// A [Log] holds entries. An [Entry] holds facts (ids, digests, codes, sizes),
// never text of a user, a model, a skill or a tool; that text is content and
// lives in [Blobs], named by digest in [Entry.Refs]. A deleted blob is
// therefore a known gap ([ErrErased]), not a broken chain.
//
// # Writing
//
// Append takes the head the writer has seen. Who comes second gets [ErrMoved],
// reads the tail, folds it, decides again and appends again. A claim is an
// append: its loser does not act.
//
//	head, err := log.Append(ctx, head, record.Entry{V: 1, ID: "t3.c1.started", Type: "call.started"})
//	if errors.Is(err, record.ErrMoved) { … }
//
// An append survives the death of the process. It survives a power cut after
// [Syncer].Sync has returned.
//
// # Proving
//
// Every stored line carries the SHA-256 of the stored line before it. A chain
// alone cannot show that its tail was cut off or that all of it was written
// anew; [Heads], kept where the writer of the workspace cannot reach, can.
// [Verify] checks chain, blobs and heads and walks into the logs of children.
//
// # Implementations
//
// [OpenFile] and [OpenBlobs] keep a log in a folder, [NewMemory] in memory.
// Package recordtest holds the tests that every implementation must pass.
package record
