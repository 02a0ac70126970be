// Package record stores the log of a session: its events in one total order, so that a reader can
// later prove that nothing was changed.
//
// A [Log] contains entries. An [Entry] contains facts (IDs, digests, codes, sizes), and never text
// of users, models, skills, or tools. Such text is stored in [Blobs] and referenced by digest in
// [Entry.Refs]. So a deleted blob is a known gap ([ErrErased]), and not a broken chain.
//
// # Writing
//
// Append takes the head that the writer has seen. If another writer appended first, it returns
// [ErrMoved]: read the new entries, decide again, and append again. A claim is an append, so only
// one of several writers acts.
//
//	head, err := log.Append(ctx, head, record.Entry{V: 1, ID: "t3.c1.started", Type: "call.started"})
//	if errors.Is(err, record.ErrMoved) { … }
//
// An append survives the death of the process. It survives a power cut after
// [Syncer].Sync has returned.
//
// # Proving
//
// Every stored line contains the SHA-256 of the previous line. A chain alone cannot reveal that its
// end was cut off or that it was completely rewritten. [Heads], stored where writers of the
// workspace have no access, can. [Verify] checks chain, blobs, and heads, including the logs of
// subagents.
//
// # Implementations
//
// [OpenFile] and [OpenBlobs] store a log in a folder, and [NewMemory] in memory. Package recordtest
// contains the tests that every implementation must pass.
package record
