package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"metier"
	"metier/event"
	"metier/record"
)

// refresh folds what was appended to the log, by whomever.
func (d *driver) refresh(ctx context.Context) error {
	// The head first: what is appended while we read belongs to the next time.
	head, err := d.Log.Head(ctx)
	if err != nil {
		return fault(err)
	}
	for en, err := range d.Log.Read(ctx, d.head.Seq+1) {
		if err != nil {
			return fault(err)
		}
		if en.Seq > head.Seq {
			break
		}
		e, err := event.Decode(en)
		if errors.Is(err, event.ErrUnknown) && !en.Must {
			continue
		}
		if err == nil {
			_, err = d.st.Apply(e)
		}
		if err != nil {
			return &metier.Error{Op: "run", Kind: metier.Unsupported, Code: "record_newer", Hint: "use the version of metier that wrote this record", Err: err}
		}
		d.observe(e, en.At)
	}
	d.head = head
	return nil
}

// append writes events of the driver. When somebody else was faster, it folds
// what they wrote and appends again: none of the driver's events depends on
// the head, and the machine ignores what came too late.
func (d *driver) append(ctx context.Context, evs ...event.Event) error {
	const most = 100
	evs = slices.Concat(d.notes(), evs)
	for range most {
		if err := d.refresh(ctx); err != nil {
			return err
		}
		entries := make([]record.Entry, 0, len(evs))
		for i, e := range evs {
			id := fmt.Sprintf("%s@%d", e.Type(), d.head.Seq+uint64(i)+1)
			if r, is := e.(event.ToolResult); is {
				id = "returned:" + r.ID // as the session's, so that a call has one
			}
			en, err := event.New(e, id, d.By, d.Now())
			if err != nil {
				return &metier.Error{Op: "run", Kind: metier.Internal, Code: "encode", Err: err}
			}
			entries = append(entries, en)
		}
		_, err := d.Log.Append(ctx, d.head, entries...)
		if errors.Is(err, record.ErrMoved) {
			continue
		}
		if err != nil {
			return fault(err)
		}
		return d.refresh(ctx)
	}
	return &metier.Error{Op: "run", Kind: metier.Conflict, Code: "log_contended", Err: fmt.Errorf("lost %d races for the head of the log", most)}
}

// notes returns the notices to record.
func (d *driver) notes() (out []event.Event) {
	if d.Notes == nil {
		return nil
	}
	for _, n := range d.Notes() {
		out = append(out, n)
	}
	return out
}

// sync makes the log durable, where it can.
func (d *driver) sync(ctx context.Context) error {
	if y, ok := d.Log.(record.Syncer); ok {
		if err := y.Sync(ctx); err != nil {
			return fault(err)
		}
	}
	return nil
}

// fault words an error of the record.
func fault(err error) error {
	if e, ok := errors.AsType[*record.Error](err); ok {
		kind := metier.Drift
		if e.Code == "disk_full" || e.Code == "read_only" {
			kind = metier.Unavailable
		}
		return &metier.Error{Op: "run", Kind: kind, Code: string(e.Code), Path: e.Path, Err: err}
	}
	if e, ok := errors.AsType[*metier.Error](err); ok {
		return e
	}
	return &metier.Error{Op: "run", Kind: metier.Unavailable, Code: "record_failed", Err: err}
}
