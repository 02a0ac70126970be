package record

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Ref names a blob by what it contains.
type Ref struct {
	Digest string `json:"digest"`          // "sha256:<64 hex digits>"
	Size   int64  `json:"size"`            // bytes
	Media  string `json:"media,omitempty"` // as given to Put; not part of the digest
}

// Head names the last entry of a log. The zero Head is that of an empty log.
type Head struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"` // "sha256:<hex>" of the stored line
}

// Entry is one fact of a log. Treat what Read yields as read-only: Data and
// Refs may be shared with other readers.
type Entry struct {
	V    int             `json:"v"`              // version of Type's data
	Seq  uint64          `json:"seq"`            // 1, 2, …; set by Append
	Prev string          `json:"prev"`           // Hash of the entry before, "" for the first; set by Append
	ID   string          `json:"id"`             // idempotency key, unique in the log, required
	At   time.Time       `json:"at"`             // stored in UTC; a zero time becomes the log's clock
	By   string          `json:"by,omitempty"`   // principal
	Type string          `json:"type"`           // dotted, required
	Must bool            `json:"must,omitempty"` // who does not know Type must not resume
	Data json.RawMessage `json:"data,omitempty"` // facts only
	Refs []Ref           `json:"refs,omitempty"` // blobs named in Data
}

// Log is one totally ordered, append-only, hash-chained sequence of entries.
// All methods may be called concurrently.
type Log interface {
	// Append adds all of e after the head named by after, or none of them, and
	// returns the new head. It returns an error that is [ErrMoved] when after
	// is not the head; that check comes first. An entry whose ID is in the log
	// already is left out; when nothing remains to add, the head returned
	// equals after. Seq and Prev of e are ignored.
	//
	// After an error that is neither ErrMoved nor an [Error] the entries may or
	// may not be in the log: read the head to find out. Data, Refs and the
	// slice e are not changed and not kept.
	Append(ctx context.Context, after Head, e ...Entry) (Head, error)

	// Read yields the entries with Seq >= from, in order, up to the head at the
	// time the iteration starts. An error ends it.
	Read(ctx context.Context, from uint64) iter.Seq2[Entry, error]

	Head(ctx context.Context) (Head, error)
}

// Syncer is what a Log or Blobs implements when an append can be lost in a
// power cut: all entries and blobs it holds are durable when Sync returns nil.
type Syncer interface {
	Sync(ctx context.Context) error
}

// Lines is what a Log implements that can show what it stores: the exact lines
// that the chain is made of, in order, without newlines. A line is valid until
// the next one.
type Lines interface {
	Lines(ctx context.Context) iter.Seq2[[]byte, error]
}

// Blobs holds content by digest. All methods may be called concurrently.
type Blobs interface {
	// Put stores b and returns its name. Storing the same bytes again changes
	// nothing. The digest is that of the stored bytes; a redacting decorator
	// stores other bytes than it was given.
	Put(ctx context.Context, media string, b []byte) (Ref, error)

	// Open returns the bytes r names. The error is [ErrErased] when they are
	// not there and [ErrAltered] when what is there is not what r names.
	Open(ctx context.Context, r Ref) ([]byte, error)
}

// Eraser is what Blobs implement that can delete content. Erasing what is not
// there is no error.
type Eraser interface {
	Erase(ctx context.Context, r Ref) error
}
