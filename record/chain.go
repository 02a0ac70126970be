package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Limits of a log. If they are exceeded, Append fails with [CodeTooLarge].
const (
	MaxLine    = 1 << 20   // bytes of one stored line
	MaxEntries = 1_000_000 // entries of one log
)

// line is the stored form of an entry. More counts the lines of the same Append that follow, so
// that an incomplete batch on disk is recognized and dropped as a whole.
type line struct {
	Entry
	More int `json:"more,omitempty"`
}

type sum [sha256.Size]byte

func (s sum) String() string { return "sha256:" + hex.EncodeToString(s[:]) }

// chain is the state of a log that Append needs: its end and its IDs.
type chain struct {
	path       string
	head       Head
	ids        map[idKey]struct{}
	maxEntries uint64
}

func newChain(path string) chain {
	return chain{path: path, ids: map[idKey]struct{}{}, maxEntries: MaxEntries}
}

// idKey represents an ID by half of its SHA-256, which takes a fifth of the memory in a log of many
// calls.
type idKey [sha256.Size / 2]byte

func keyOf(id string) idKey {
	s := sha256.Sum256([]byte(id))
	return idKey(s[:len(idKey{})])
}

// batch is what one Append adds.
type batch struct {
	bytes []byte // all lines, each with its newline
	ends  []int  // end of each line in bytes, after the newline
	sums  []sum
	ids   []string
	entry []Entry // as stored
	head  Head
}

// plan encodes what e would add after the given head, or returns nil if there is nothing to add. It
// changes nothing.
func (c *chain) plan(after Head, now func() time.Time, e []Entry) (*batch, error) {
	if after != c.head {
		return nil, fmt.Errorf("append after entry %d, the log is at %d: %w", after.Seq, c.head.Seq, ErrMoved)
	}
	todo, err := c.unseen(e)
	if err != nil || len(todo) == 0 {
		return nil, err
	}
	if c.head.Seq+uint64(len(todo)) > c.maxEntries {
		return nil, &Error{Code: CodeTooLarge, Path: c.path, Seq: c.head.Seq + 1,
			Detail: fmt.Sprintf("the log is full at %d entries; end this session and start another", c.maxEntries)}
	}
	b := &batch{head: c.head}
	buf := make([]byte, 0, 1024*len(todo))
	for i, x := range todo {
		x.Seq, x.Prev = b.head.Seq+1, b.head.Hash
		if x.At.IsZero() {
			x.At = now()
		}
		x.At = x.At.UTC().Round(0)
		if x.Data != nil { // as it will be read back; the caller keeps its own bytes
			var data bytes.Buffer
			if err := json.Compact(&data, x.Data); err != nil {
				return nil, &Error{Code: CodeBadEntry, Path: c.path, Seq: x.Seq, Detail: "type " + x.Type, Err: err}
			}
			x.Data = data.Bytes()
		}
		x.Refs = slices.Clone(x.Refs)
		start := len(buf)
		if buf, err = appendLine(buf, line{x, len(todo) - 1 - i}); err != nil {
			return nil, &Error{Code: CodeBadEntry, Path: c.path, Seq: x.Seq, Detail: "type " + x.Type, Err: err}
		}
		buf = append(buf, '\n')
		stored := buf[start : len(buf)-1]
		if len(stored) > MaxLine {
			return nil, &Error{Code: CodeTooLarge, Path: c.path, Seq: x.Seq,
				Detail: fmt.Sprintf("type %s: %d bytes, at most %d fit in a line; put content into a blob", x.Type, len(stored), MaxLine)}
		}
		s := sum(sha256.Sum256(stored))
		b.sums, b.ids, b.ends, b.entry = append(b.sums, s), append(b.ids, x.ID), append(b.ends, len(buf)), append(b.entry, x)
		b.head = Head{x.Seq, s.String()}
	}
	b.bytes = buf
	return b, nil
}

// unseen returns the entries whose ID is new.
func (c *chain) unseen(e []Entry) ([]Entry, error) {
	var todo []Entry
	var here map[string]struct{}
	for i, x := range e {
		if x.ID == "" || x.Type == "" {
			return nil, &Error{Code: CodeBadEntry, Path: c.path, Seq: c.head.Seq + 1,
				Detail: fmt.Sprintf("entry %d of the append needs both an ID (%q) and a Type (%q)", i+1, x.ID, x.Type)}
		}
		known := c.has(x.ID)
		_, twice := here[x.ID]
		if known || twice {
			continue
		}
		if len(e) > 1 {
			if here == nil {
				here = make(map[string]struct{}, len(e))
			}
			here[x.ID] = struct{}{}
		}
		todo = append(todo, x)
	}
	return todo, nil
}

// take adds a planned and stored batch to the log.
func (c *chain) take(b *batch) {
	c.head = b.head
	for _, id := range b.ids {
		c.ids[keyOf(id)] = struct{}{}
	}
}

// parse reads one stored line strictly.
func parse(b []byte) (l line, err *Error) {
	l, own := parseOwn(b)
	if !own {
		l, err = parseAny(b)
	}
	if err == nil && (l.Seq == 0 || l.ID == "" || l.Type == "" || l.More < 0) {
		err = &Error{Code: CodeAltered, Detail: "not an entry: seq, id or type is missing"}
	}
	return l, err
}

// parseAny reads a line in any form of JSON. An unknown field means that a newer version wrote the
// line, and must not be ignored.
func parseAny(b []byte) (line, *Error) {
	var l line
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		if json.Valid(b) && strings.Contains(err.Error(), "unknown field") {
			return l, &Error{Code: CodeNewer, Err: err,
				Detail: "a newer version wrote this line, or it was changed; read it with that version"}
		}
		return l, &Error{Code: CodeAltered, Detail: "not an entry", Err: err}
	}
	if _, err := dec.Token(); err != io.EOF {
		return l, &Error{Code: CodeAltered, Detail: "more than one value in the line"}
	}
	return l, nil
}

// walker checks the lines of a log in order.
type walker struct {
	head  Head
	more  int  // lines of the current batch still to come
	blind bool // the line before could not be read: nothing to compare with
}

// step checks the next line. The caller can continue after an error: the walker then accepts the
// line, so that each fault is reported once.
func (w *walker) step(b []byte) (line, sum, *Error) {
	s := sum(sha256.Sum256(b))
	l, err := parse(b)
	if err != nil {
		w.head = Head{w.head.Seq + 1, s.String()}
		w.more, w.blind = 0, true
		err.Seq = w.head.Seq
		return l, s, err
	}
	switch want := w.head.Seq + 1; {
	case l.Seq > want:
		err = &Error{Code: CodeGap, Seq: want, Detail: missing(want, l.Seq-1)}
	case l.Seq < want:
		err = &Error{Code: CodeAltered, Seq: want, Detail: fmt.Sprintf("the line at entry %d has the number %d", want, l.Seq)}
	case w.blind:
	case l.Prev != w.head.Hash && w.head.Seq == 0:
		err = &Error{Code: CodeAltered, Seq: 1, Detail: "the first entry names one before it"}
	case l.Prev != w.head.Hash:
		err = &Error{Code: CodeAltered, Seq: w.head.Seq, Detail: fmt.Sprintf("the line does not match the hash in entry %d: one of the two entries was changed", l.Seq)}
	case w.more > 0 && l.More != w.more-1:
		err = &Error{Code: CodeAltered, Seq: l.Seq, Detail: "the line does not continue its batch"}
	}
	w.head, w.more, w.blind = Head{l.Seq, s.String()}, l.More, false
	return l, s, err
}

// missing reports that the entries from first to last are missing.
func missing(first, last uint64) string {
	if first == last {
		return fmt.Sprintf("entry %d is missing", first)
	}
	return fmt.Sprintf("entries %d to %d are missing", first, last)
}
