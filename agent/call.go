package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"metier"
	"metier/agent/step"
	"metier/event"
	"metier/policy"
	"metier/record"
)

// startTool begins a tool call. Calls run one at a time, in the model's order,
// so that each sees the effects of those before it and the log has one order. A
// read does not wait for an open question, any other call does.
func (d *driver) startTool(ctx context.Context, a step.CallTool) (verdict, error) {
	reads := d.reads(ctx, a.Tool)
	if d.calling() || !reads && len(d.flight) > 0 {
		return blocked, nil
	}
	return d.call(ctx, a)
}

// startChild begins a call that is a run of its own. Children of one reply run
// beside each other and beside reads, and begin in the model's order.
func (d *driver) startChild(ctx context.Context, a step.Spawn) (verdict, error) {
	working := 0
	for _, c := range d.st.Calls {
		if _, busy := d.flight[step.Spawn{ID: c.ID, Try: c.Try}.Key()]; busy && c.Kind == step.KindChild {
			working++
		}
	}
	if working >= d.Children || d.busyWriting(ctx) {
		return blocked, nil
	}
	return d.call(ctx, step.CallTool(a))
}

// call makes a call through the session's gate.
func (d *driver) call(ctx context.Context, a step.CallTool) (verdict, error) {
	args, err := d.Blobs.Open(ctx, a.Args)
	if err != nil {
		return blocked, fault(err)
	}
	c := metier.Call{ID: a.ID, Tool: a.Tool, Args: args, Bad: a.Bad, Actor: policy.ByModel, By: d.By, Try: a.Try}
	d.tell(Progress{Kind: CallBegan, Turn: d.st.Turn, Call: a.ID, Tool: a.Tool, Args: args})
	d.launch(ctx, a, func(ctx context.Context) ([]event.Event, error) {
		_, err := d.Session.Call(ctx, c)
		if _, ok := errors.AsType[*metier.NeedsApproval](err); ok {
			return nil, nil // the session asked; the machine awaits
		}
		if _, later := errors.AsType[*metier.Suspended](err); later || err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return []event.Event{event.Lost{ID: a.ID, Try: a.Try}}, nil
		}
		return nil, err
	})
	return started, nil
}

// reads reports whether a tool can only read. A tool nobody knows is refused,
// so it counts as a read.
func (d *driver) reads(ctx context.Context, tool string) bool {
	if d.effect == nil {
		d.effect = map[string]bool{}
		for _, sp := range metier.Offer(ctx, d.Session) {
			d.effect[sp.Canonical] = sp.Effect == policy.Read
		}
	}
	r, known := d.effect[tool]
	return r || !known
}

// calling reports whether a tool call is in flight.
func (d *driver) calling() bool {
	for _, f := range d.flight {
		if _, is := f.of.(step.CallTool); is {
			return true
		}
	}
	return false
}

// busyWriting reports whether a call that does more than read is in flight.
func (d *driver) busyWriting(ctx context.Context) bool {
	for _, c := range d.st.Calls {
		if c.Kind == step.KindTool && c.Status != step.Done && !d.reads(ctx, c.Tool) {
			if _, busy := d.flight[step.CallTool{ID: c.ID, Try: c.Try}.Key()]; busy {
				return true
			}
		}
	}
	return false
}

// startAwait brings a question to a person, answers it with no where nobody
// is there, or leaves it open.
func (d *driver) startAwait(ctx context.Context, a step.Await) (verdict, error) {
	q := Question{Asked: a.Question, Text: d.text(ctx, a.Question.Text)}
	if d.Ask == nil {
		if d.Park {
			return started, nil
		}
		err := d.Session.Answer(ctx, a.ID, policy.Answer{Question: q.ID, Allow: false, Scope: "once", By: "batch"})
		if err != nil {
			return started, err
		}
		return changed, d.refresh(ctx)
	}
	d.tell(Progress{Kind: Asking, Turn: d.st.Turn, Call: a.ID, Text: q.Text})
	d.launch(ctx, a, func(ctx context.Context) ([]event.Event, error) {
		ans, err := d.Ask(ctx, q)
		if ctx.Err() != nil {
			return nil, nil // the question stays open
		}
		if err != nil {
			return []event.Event{event.Stopped{Scope: "run", Reason: "nobody answered: " + err.Error(), By: d.By}}, nil
		}
		ans.Question = q.ID
		if err = d.Session.Answer(ctx, a.ID, ans); metier.CodeOf(err) == "question_not_open" {
			err = nil // an answer for the session was faster
		}
		return nil, err
	})
	return started, nil
}

// toolName is the name of a call as a fact: canonical where the model was shown
// it, else what the model wrote if that is a name at all.
func toolName(shown []metier.Spec, name string) string {
	for _, sp := range shown {
		if sp.Name == name || sp.Canonical == name {
			return sp.Canonical
		}
	}
	plain := len(name) <= 128 && !slices.ContainsFunc([]rune(name), func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", r)
	})
	if name == "" || !plain {
		return "unknown"
	}
	return name
}

// observe takes note of an event of the log, written at a time, and tells the
// watcher what it means.
func (d *driver) observe(e event.Event, at time.Time) {
	switch e := e.(type) {
	case event.Failed:
		d.reason = e.Detail
		if e.Retry {
			d.wait[fmt.Sprintf("%s#%d", e.ID, e.Try+1)] = at.Add(time.Duration(e.WaitMS) * time.Millisecond)
		}
	case event.Returned:
		d.asked = slices.DeleteFunc(d.asked, func(c event.CallRef) bool { return c.ID == e.ID })
		d.tell(Progress{Kind: CallEnded, Turn: d.st.Turn, Call: e.ID, Tool: e.Tool, Code: e.Code})
	case event.Activated:
		d.effect = nil
		d.tell(Progress{Kind: SkillBegan, Turn: d.st.Turn, Skill: e.Name})
	case event.Begun:
		d.asked = nil
	case event.Replied:
		d.asked = append(d.asked, e.Calls...)
		d.reason = record.Ref{}
		d.tell(Progress{Kind: Tokens, Turn: d.st.Turn, Usage: d.st.Usage})
	case event.Compacted:
		d.tell(Progress{Kind: Tokens, Turn: d.st.Turn, Usage: d.st.Usage})
	}
}

func (d *driver) putJSON(ctx context.Context, v any) (r record.Ref, err error) {
	b, err := json.Marshal(v)
	if err != nil {
		return r, &metier.Error{Op: "run", Kind: metier.Internal, Code: "encode", Err: err}
	}
	if r, err = d.Blobs.Put(ctx, "application/json", b); err != nil {
		return r, fault(err)
	}
	return r, nil
}

func (d *driver) loadJSON(ctx context.Context, r record.Ref, v any) error {
	b, err := d.Blobs.Open(ctx, r)
	if err != nil {
		return fault(err)
	}
	return json.Unmarshal(b, v)
}

// text is the text of a blob, or a note that it is gone.
func (d *driver) text(ctx context.Context, r record.Ref) string {
	if r.Digest == "" {
		return ""
	}
	b, err := d.Blobs.Open(ctx, r)
	if err != nil {
		return erased
	}
	return string(b)
}
