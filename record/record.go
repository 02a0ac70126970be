package record

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Ref identifies a blob by its content.
type Ref struct {
	Digest string `json:"digest"`          // "sha256:<64 hex digits>"
	Size   int64  `json:"size"`            // bytes
	Media  string `json:"media,omitempty"` // as given to Put; not part of the digest
}

// Head identifies the last entry of a log. The zero Head is that of an empty log.
type Head struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"` // "sha256:<hex>" of the stored line
}

// Entry is one fact of a log. Do not change entries that Read yields: other
// readers may share Data and Refs.
type Entry struct {
	V    int             `json:"v"`              // version of Type's data
	Seq  uint64          `json:"seq"`            // 1, 2, …; set by Append
	Prev string          `json:"prev"`           // Hash of the entry before, "" for the first; set by Append
	ID   string          `json:"id"`             // idempotency key, unique in the log, required
	At   time.Time       `json:"at"`             // stored in UTC; a zero time becomes the log's clock
	By   string          `json:"by,omitempty"`   // principal
	Type string          `json:"type"`           // dotted, required
	Must bool            `json:"must,omitempty"` // readers that do not know Type must not resume
	Data json.RawMessage `json:"data,omitempty"` // facts only
	Refs []Ref           `json:"refs,omitempty"` // blobs named in Data
}

// Log is a totally ordered, append-only, hash-chained sequence of entries. It
// is safe for concurrent use.
type Log interface {
	// Append adds all of e after the head named by after, or none of them, and
	// returns the new head. It returns an error that is [ErrMoved] when after
	// is not the head; that check comes first. An entry whose ID is in the log
	// already is left out; when nothing remains to add, the head returned
	// equals after. Seq and Prev of e are ignored.
	//
	// After an error other than ErrMoved or an [Error], the entries may or may
	// not be in the log: read the head to find out. Append does not change or
	// retain e, Data, or Refs.
	Append(ctx context.Context, after Head, e ...Entry) (Head, error)

	// Read yields the entries with Seq >= from, in order, up to the head at the
	// time the iteration starts. An error ends it.
	Read(ctx context.Context, from uint64) iter.Seq2[Entry, error]

	Head(ctx context.Context) (Head, error)
}

// Syncer is implemented by a [Log] or [Blobs] that can lose appends in a power
// failure. All its entries and blobs are durable when Sync returns nil.
type Syncer interface {
	Sync(ctx context.Context) error
}

// Lines is implemented by a [Log] that can return its stored form: the exact
// lines of the chain, in order, without newlines. A line is valid until the
// next one.
type Lines interface {
	Lines(ctx context.Context) iter.Seq2[[]byte, error]
}

// Blobs stores content by digest. It is safe for concurrent use.
type Blobs interface {
	// Put stores b and returns its name. Storing the same bytes again changes
	// nothing. The digest is that of the stored bytes; a redacting decorator
	// stores other bytes than it was given.
	Put(ctx context.Context, media string, b []byte) (Ref, error)

	// Open returns the content of r. The error is [ErrErased] if it does not
	// exist, and [ErrAltered] if it does not match r.
	Open(ctx context.Context, r Ref) ([]byte, error)
}

// Eraser is implemented by [Blobs] that can delete content. Erasing missing
// content returns nil.
type Eraser interface {
	Erase(ctx context.Context, r Ref) error
}
