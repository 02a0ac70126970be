package record

import (
	"bytes"
	"context"
	"io"
	"iter"
	"sync"
	"time"

	"metier/internal/digest"
	"metier/internal/jsonl"
)

// Memory is an in-memory [Log] and [Blobs]. It is the reference for the other implementations.
type Memory struct {
	// Now returns the time for entries without one. Set it before use.
	Now func() time.Time

	mu    sync.Mutex
	chain chain
	lines [][]byte // of entry 1, 2, …; elements are never changed
	blobs map[string][]byte
}

// NewMemory returns an empty log without blobs.
func NewMemory() *Memory {
	return &Memory{Now: time.Now, chain: newChain(""), blobs: map[string][]byte{}}
}

// Append implements [Log].
func (m *Memory) Append(ctx context.Context, after Head, e ...Entry) (Head, error) {
	if err := ctx.Err(); err != nil {
		return Head{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.chain.plan(after, m.Now, e)
	if err != nil {
		return Head{}, err
	}
	if b == nil {
		return m.chain.head, nil
	}
	m.chain.take(b)
	start := 0
	for _, end := range b.ends {
		m.lines = append(m.lines, b.bytes[start:end-1:end-1])
		start = end
	}
	return m.chain.head, nil
}

// Read implements [Log].
func (m *Memory) Read(ctx context.Context, from uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		lines := m.snapshot()
		from = max(from, 1)
		if from > uint64(len(lines)) {
			lines = nil
			if err := ctx.Err(); err != nil {
				yield(Entry{}, err)
			}
		} else {
			lines = lines[from-1:]
		}
		for _, b := range lines {
			err := ctx.Err()
			var x line
			if err == nil {
				var bad *Error
				if x, bad = parse(b); bad != nil {
					err = bad
				}
			}
			if !yield(x.Entry, err) || err != nil {
				return
			}
		}
	}
}

// Lines implements [Lines].
func (m *Memory) Lines(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, b := range m.snapshot() {
			if err := ctx.Err(); !yield(b, err) || err != nil {
				return
			}
		}
	}
}

func (m *Memory) snapshot() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lines
}

// Head implements [Log].
func (m *Memory) Head(ctx context.Context) (Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.chain.head, ctx.Err()
}

// Put implements [Blobs].
func (m *Memory) Put(ctx context.Context, media string, b []byte) (Ref, error) {
	if err := ctx.Err(); err != nil {
		return Ref{}, err
	}
	if err := checkSize("", b); err != nil {
		return Ref{}, err
	}
	r := Ref{Digest: digest.Bytes(b), Size: int64(len(b)), Media: media}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.blobs[r.Digest]; !ok {
		m.blobs[r.Digest] = bytes.Clone(b)
	}
	return r, nil
}

// Open implements [Blobs].
func (m *Memory) Open(ctx context.Context, r Ref) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	b, ok := m.blobs[r.Digest]
	m.mu.Unlock()
	if !ok {
		return nil, erased("", r)
	}
	if err := checkBlob("", r, b); err != nil {
		return nil, err
	}
	return bytes.Clone(b), nil
}

// Erase implements [Eraser].
func (m *Memory) Erase(ctx context.Context, r Ref) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blobs, r.Digest)
	return ctx.Err()
}

// scan yields the complete lines of r. A line over the limit is returned empty, which fails every
// check.
func scan(ctx context.Context, path string, r io.Reader, yield func([]byte, error) bool) {
	for ln, err := range jsonl.Scan(r, 0, MaxLine) {
		if err != nil {
			err = storage(path, uint64(ln.N), err)
		} else {
			err = ctx.Err()
		}
		if !yield(ln.Bytes, err) || err != nil {
			return
		}
	}
}
