package engine

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"metier"
	"metier/event"
	"metier/record"
	"metier/run"
)

// Event is an entry of the record of a run.
type Event struct {
	Seq   uint64
	Type  string
	At    time.Time
	Event event.Event // nil for a type that this release does not know
}

// followEvery is how often Follow polls for new entries.
const followEvery = 100 * time.Millisecond

// Runs lists the runs in a folder of records, oldest first.
func (e *Engine) Runs(ctx context.Context, root string) ([]run.Summary, error) {
	return run.List(ctx, root, e.RunOptions())
}

// Follow yields the events of a run after the given entry: first those already recorded, then each
// new one. It returns when no process is working on the run anymore, so that it can be answered or
// resumed. The run may belong to another process. Follow also returns after an error.
func (e *Engine) Follow(ctx context.Context, root, id string, after uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := run.CheckID(id); err != nil {
			yield(Event{}, err)
			return
		}
		log, size := filepath.Join(root, id, run.FileLog), int64(-1)
		for {
			busy := run.Busy(root, id) // before the log is read: what the process wrote last is in it
			info, err := os.Stat(log)
			var rest []record.Entry
			if err == nil && info.Size() != size {
				size = info.Size()
				rest, err = e.entries(ctx, root, id, after)
			}
			if errors.Is(err, fs.ErrNotExist) {
				err = &metier.Error{Op: "follow", Path: filepath.Join(root, id), Kind: metier.NotFound, Code: "run_not_found", Err: errors.New("there is no such run")}
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, en := range rest {
				ev, err := event.Decode(en)
				if err != nil {
					ev = nil
				}
				after = en.Seq
				if !yield(Event{en.Seq, en.Type, en.At, ev}, nil) {
					return
				}
			}
			if !busy {
				return
			}
			select {
			case <-ctx.Done():
				yield(Event{}, ctx.Err())
				return
			case <-e.after(followEvery):
			}
		}
	}
}

func (e *Engine) after(d time.Duration) <-chan time.Time {
	if e.o.After != nil {
		return e.o.After(d)
	}
	return time.After(d)
}

// entries reads the entries after the given one. It fails if entries are missing at the end.
func (e *Engine) entries(ctx context.Context, root, id string, after uint64) (out []record.Entry, err error) {
	f, err := run.Look(root, id, e.RunOptions())
	if err != nil {
		return nil, err
	}
	defer func() { err = closed(f.Close(), err) }()
	if err := f.VerifyHead(ctx); err != nil {
		return nil, err
	}
	for en, err := range f.Log().Read(ctx, after+1) {
		if err != nil {
			return nil, &metier.Error{Op: "follow", Path: f.Dir(), Kind: metier.KindOf(err), Code: metier.CodeOf(err), Err: err}
		}
		out = append(out, en)
	}
	return out, nil
}
