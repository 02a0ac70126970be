package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"metier"
	"metier/event"
	"metier/record"
)

// fact is an entry with its event. The event is nil if this build does not know its type.
type fact struct {
	record.Entry
	event event.Event
}

// history is a log as read up to head. All artifacts are produced from it.
type history struct {
	id      string // of the folder
	head    record.Head
	facts   []fact
	unknown []fact // types this build does not know, in facts as well
}

// recall reads a log up to its head. Entries appended during the read are ignored.
func recall(ctx context.Context, id string, log record.Log) (h *history, err error) {
	h = &history{id: id}
	if h.head, err = facts(ctx, log, h.add); err != nil {
		return nil, err
	}
	return h, nil
}

// facts calls use with each entry of a log up to its head, which it returns. Entries appended during
// the read are ignored.
func facts(ctx context.Context, log record.Log, use func(fact)) (record.Head, error) {
	head, err := log.Head(ctx)
	if err != nil {
		return record.Head{}, fault("read", "", err)
	}
	for en, err := range log.Read(ctx, 1) {
		if err != nil {
			return record.Head{}, fault("read", "", err)
		}
		if en.Seq > head.Seq {
			break
		}
		f, err := factOf(en)
		if err != nil {
			return record.Head{}, err
		}
		use(f)
	}
	return head, nil
}

// session returns the ID of the first session in the log: that of the run when it was recorded,
// unless the record is one of several clients of a server.
func (h *history) session() string {
	for _, f := range h.facts {
		if e, is := f.event.(event.SessionOpened); is {
			return e.Session
		}
	}
	return ""
}

func (h *history) add(f fact) {
	if f.event == nil {
		h.unknown = append(h.unknown, f)
	}
	h.facts = append(h.facts, f)
}

// factOf decodes an entry.
func factOf(en record.Entry) (fact, error) {
	e, err := event.Decode(en)
	switch {
	case errors.Is(err, event.ErrUnknown):
		e = nil
	case err != nil:
		return fact{}, &metier.Error{Op: "read", Kind: metier.Drift, Code: "record_bad_event", Err: err,
			Hint: "do not rely on this record: the entry is chained but does not match its type, so another program wrote it"}
	}
	return fact{Entry: en, event: e}, nil
}

// must returns an error for the first required entry that this build does not understand.
func (h *history) must() error {
	for _, f := range h.unknown {
		if f.Must {
			return &metier.Error{Op: "resume", Kind: metier.Unsupported, Code: "record_newer",
				Hint: "use the version of metier that wrote this record, or a newer one",
				Err:  fmt.Errorf("entry %d has the type %q (version %d), which this build does not know", f.Seq, f.Type, f.V)}
		}
	}
	return nil
}

// last returns the newest event of a type.
func last[E event.Event](h *history) (e E, at fact, ok bool) {
	for i := len(h.facts) - 1; i >= 0; i-- {
		if e, ok := h.facts[i].event.(E); ok {
			return e, h.facts[i], true
		}
	}
	return e, at, false
}

// began and ended return the times of the first and the last entry.
func (h *history) began() time.Time {
	if len(h.facts) == 0 {
		return time.Time{}
	}
	return h.facts[0].At
}

func (h *history) ended() time.Time {
	if len(h.facts) == 0 {
		return time.Time{}
	}
	return h.facts[len(h.facts)-1].At
}

// stamp formats a time for artifacts.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
