package metier

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"metier/event"
	"metier/policy"
	"metier/record"
)

// sync makes all appended entries durable, if the log supports it.
func (s *Session) sync(ctx context.Context) error {
	if y, ok := s.cfg.Log.(record.Syncer); ok {
		if err := y.Sync(ctx); err != nil {
			return s.fault("sync", err)
		}
	}
	return nil
}

// mostRaces is the maximum number of retries while other processes write to the log.
const mostRaces = 100

var errContended = &Error{Op: "record", Kind: Conflict, Code: "log_contended", Hint: "stop the other process that writes to this log",
	Err: fmt.Errorf("lost %d races for the head of the log", mostRaces)}

// refresh folds entries of other processes. The caller holds mu.
func (s *Session) refresh(ctx context.Context) error {
	for range mostRaces {
		head, err := s.cfg.Log.Head(ctx)
		switch {
		case err != nil:
			return s.fault("open", err)
		case head.Seq == s.head.Seq:
			s.head = head
			return nil
		case head.Seq < s.head.Seq:
			return &Error{Op: "open", Kind: Drift, Code: "log_shrank", Err: fmt.Errorf("the log ended at entry %d and now at %d", s.head.Seq, head.Seq)}
		}
		for en, err := range s.cfg.Log.Read(ctx, s.head.Seq+1) {
			if err != nil {
				return s.fault("open", err)
			}
			if err := s.fold(en); err != nil {
				return err
			}
			s.head = record.Head{Seq: en.Seq} // Head sets its hash if no entry follows
		}
	}
	return errContended
}

// append calls decide with the newest state and appends its events for a principal ("" is the one
// who opened the session). If another process appended first, it folds the new entries and calls
// decide again. The caller holds mu.
func (s *Session) append(ctx context.Context, by string, decide func(*State) ([]event.Event, error)) error {
	for range mostRaces {
		if err := s.refresh(ctx); err != nil {
			return err
		}
		evs, err := decide(&s.state)
		if err != nil || len(evs) == 0 {
			return err
		}
		entries := make([]record.Entry, 0, len(evs))
		for i, e := range evs {
			en, err := event.New(e, entryID(e, s.head.Seq+uint64(i)+1), cmp.Or(by, s.cfg.By), s.cfg.Now())
			if err != nil {
				return &Error{Op: "record", Kind: Internal, Code: "encode", Err: err}
			}
			entries = append(entries, en)
		}
		head, err := s.cfg.Log.Append(ctx, s.head, entries...)
		switch {
		case errors.Is(err, record.ErrMoved):
			continue
		case err != nil:
			return s.fault("record", err)
		case head.Seq != s.head.Seq+uint64(len(entries)):
			return s.refresh(ctx) // the entry already existed
		}
		for i, e := range evs {
			s.tally.entry(entries[i])
			s.state.apply(e, entries[i].At)
			s.forget(e)
		}
		s.head = head
		return nil
	}
	return errContended
}

// mostDone is the maximum number of finished and refused reads that a ToolsOnly session keeps.
const mostDone = 32

// forget removes the oldest finished or refused read, because a client may call for days with new
// IDs. Calls with effects are kept, because they must never run twice, or after a refusal. The log
// has all calls. The caller holds mu.
func (s *Session) forget(e event.Event) {
	r, is := e.(event.ToolResult)
	if !is || !s.cfg.ToolsOnly || s.state.Calls[r.ID].Effect != policy.Read {
		return
	}
	if s.done = append(s.done, r.ID); len(s.done) > mostDone {
		delete(s.state.Calls, s.done[0])
		s.done = s.done[1:]
	}
}

// tally counts the bytes that a session adds to its record.
type tally struct {
	record.Blobs
	bytes atomic.Int64

	mu   sync.Mutex
	seen map[[sha256.Size]byte]struct{} // digests of the larger content so far
}

// entryBytes is about what an entry takes in the record in addition to its data and references.
const entryBytes = 512

func (t *tally) entry(en record.Entry) {
	t.bytes.Add(int64(entryBytes + len(en.Data) + 128*len(en.Refs)))
}

// Put implements [record.Blobs]. Content of more than record.MaxInline bytes counts only once.
func (t *tally) Put(ctx context.Context, media string, b []byte) (record.Ref, error) {
	r, err := t.Blobs.Put(ctx, media, b)
	if err != nil {
		return r, err
	}
	if len(b) > record.MaxInline {
		sum := sha256.Sum256([]byte(r.Digest)) // takes a fifth of the memory of the text
		t.mu.Lock()
		defer t.mu.Unlock()
		if _, seen := t.seen[sum]; seen {
			return r, nil
		}
		t.seen[sum] = struct{}{}
	}
	t.bytes.Add(int64(len(b)))
	return r, nil
}

// each is Put for content that counts each time: the artifacts of calls repeat their arguments.
func (t *tally) each(ctx context.Context, media string, b []byte) (record.Ref, error) {
	t.bytes.Add(int64(len(b)))
	return t.Blobs.Put(ctx, media, b)
}

// fault converts an error of the log or the blobs.
func (s *Session) fault(op string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if e, ok := errors.AsType[*record.Error](err); ok {
		kind := Drift
		if e.Code == "disk_full" || e.Code == "read_only" {
			kind = Unavailable
		}
		return &Error{Op: op, Kind: kind, Code: string(e.Code), Path: e.Path, Err: err}
	}
	return &Error{Op: op, Kind: Unavailable, Code: "record_failed", Err: err}
}

func (s *Session) putJSON(ctx context.Context, v any) (record.Ref, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return record.Ref{}, &Error{Op: "record", Kind: Internal, Code: "encode", Err: err}
	}
	ref, err := s.cfg.Blobs.Put(ctx, "application/json", b)
	if err != nil {
		return record.Ref{}, s.fault("record", err)
	}
	return ref, nil
}

func (s *Session) putText(ctx context.Context, text string) (record.Ref, error) {
	ref, err := s.cfg.Blobs.Put(ctx, "text/plain; charset=utf-8", []byte(text))
	if err != nil {
		return record.Ref{}, s.fault("record", err)
	}
	return ref, nil
}

// capped reads at most limit bytes and reports whether there are more.
func capped(r io.Reader, limit int64) (b []byte, more bool, err error) {
	b, err = io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(b)) > limit {
		return b[:limit], true, err
	}
	return b, false, err
}
