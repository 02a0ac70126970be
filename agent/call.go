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

// startTool starts a tool call. Calls run one at a time, in the model's order,
// so that each sees the effects of the earlier ones and the log has one order.
// Reads do not wait for an open question; all other calls do.
func (d *driver) startTool(ctx context.Context, a step.CallTool) (verdict, error) {
	if d.calling(true) || !d.reads(ctx, a.Tool) && len(d.flight) > 0 {
		return blocked, nil
	}
	c, err := d.callOf(ctx, a)
	if err != nil {
		return blocked, err
	}
	d.launch(ctx, a, func(ctx context.Context) ([]event.Event, error) { return d.call(ctx, c) })
	return started, nil
}

// startChild starts a call that runs a subagent. Subagents of one reply run
// concurrently. They are claimed, and their results are recorded, in the model's
// order.
func (d *driver) startChild(ctx context.Context, a step.Spawn) (verdict, error) {
	if d.calling(false) {
		return blocked, nil
	}
	working, before, earlier := 0, true, []flight(nil)
	for _, c := range d.st.Calls {
		before = before && c.ID != a.ID
		if f, busy := d.flight[step.Spawn{ID: c.ID, Try: c.Try}.Key()]; busy && c.Kind == step.KindChild {
			working++
			if before {
				earlier = append(earlier, f)
			}
		}
	}
	if working >= d.Children {
		return blocked, nil
	}
	c, err := d.callOf(ctx, step.CallTool(a))
	if err != nil {
		return blocked, err
	}
	claimed := make(chan struct{})
	c.Claimed = func() { close(claimed) }
	c.Before = func() {
		for _, f := range earlier {
			<-f.over
		}
	}
	f := d.launch(ctx, a, func(ctx context.Context) ([]event.Event, error) {
		for _, f := range earlier {
			select {
			case <-f.claimed:
			case <-f.over:
			case <-ctx.Done():
			}
		}
		return d.call(ctx, c)
	})
	f.claimed = claimed
	d.flight[a.Key()] = f
	return started, nil
}

// callOf is the call that an action asks for.
func (d *driver) callOf(ctx context.Context, a step.CallTool) (metier.Call, error) {
	args, err := d.Blobs.Open(ctx, a.Args)
	if err != nil {
		return metier.Call{}, fault(err)
	}
	d.report(Progress{Kind: ToolCallRunning, Turn: d.st.Turn, Call: a.ID, Tool: a.Tool, Args: args})
	return metier.Call{ID: a.ID, Tool: a.Tool, Args: args, Bad: a.Bad, Actor: policy.ByModel, By: d.By, Try: a.Try}, nil
}

// call makes a call through the session's gate.
func (d *driver) call(ctx context.Context, c metier.Call) ([]event.Event, error) {
	_, err := d.Session.Call(ctx, c)
	if _, ok := errors.AsType[*metier.NeedsApproval](err); ok {
		return nil, nil // the session asked; the machine awaits
	}
	if _, later := errors.AsType[*metier.Suspended](err); later || err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return []event.Event{event.ToolCallLost{ID: c.ID, Try: c.Try}}, nil
	}
	return nil, err
}

// reads reports whether a tool can only read. An unknown tool is refused, so it
// counts as a read.
func (d *driver) reads(ctx context.Context, tool string) bool {
	if d.effect == nil {
		d.effect = map[string]bool{}
		for _, sp := range d.Session.Offer(ctx) {
			d.effect[sp.Canonical] = sp.Effect == policy.Read
		}
	}
	r, known := d.effect[tool]
	return r || !known
}

// calling reports whether a tool call is in flight; with children, also whether
// a call that is a run of its own is.
func (d *driver) calling(children bool) bool {
	for _, f := range d.flight {
		switch f.of.(type) {
		case step.CallTool:
			return true
		case step.Spawn:
			if children {
				return true
			}
		}
	}
	return false
}

// startAwait asks the user a question. If no user is available, it answers no or
// leaves the question open.
func (d *driver) startAwait(ctx context.Context, a step.Await) (verdict, error) {
	q := Question{ApprovalRequested: a.Question, Text: d.text(ctx, a.Question.Text)}
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
	d.report(Progress{Kind: ApprovalRequested, Turn: d.st.Turn, Call: a.ID, Text: q.Text})
	d.launch(ctx, a, func(ctx context.Context) ([]event.Event, error) {
		ans, err := d.Ask(ctx, q)
		if ctx.Err() != nil {
			return nil, nil // the question stays open
		}
		if err != nil {
			detail, failed := d.Blobs.Put(ctx, "text/plain; charset=utf-8", []byte(err.Error()))
			return []event.Event{event.RunStopped{Scope: "run", Reason: codeAskFailed, By: d.By, Detail: detail}}, failed
		}
		ans.Question = q.ID
		ctx = context.WithoutCancel(ctx) // what was answered is recorded, whatever ends the question meanwhile
		if err = d.Session.Answer(ctx, a.ID, ans); metier.CodeOf(err) == "question_not_open" {
			err = nil // an answer for the session was faster
		}
		return nil, err
	})
	return started, nil
}

// codeAskFailed ends a run whose question the program could not ask.
const codeAskFailed = "ask_failed"

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
	case event.RunStopped:
		d.reason = e.Detail
	case event.ModelFailed:
		d.reason = e.Detail
		if e.Retry {
			d.wait[fmt.Sprintf("%s#%d", e.ID, e.Try+1)] = at.Add(time.Duration(e.WaitMS) * time.Millisecond)
		}
	case event.ToolResult:
		d.asked = slices.DeleteFunc(d.asked, func(c event.CallRef) bool { return c.ID == e.ID })
		d.report(Progress{Kind: ToolResult, Turn: d.st.Turn, Call: e.ID, Tool: e.Tool, Code: e.Code})
	case event.SkillActivated:
		d.effect = nil
		d.report(Progress{Kind: SkillActivated, Turn: d.st.Turn, Skill: e.Name})
	case event.RunStarted:
		d.asked = nil
	case event.ModelReplied:
		d.asked = append(d.asked, e.Calls...)
		d.reason = record.Ref{}
		d.report(Progress{Kind: TokenUsage, Turn: d.st.Turn, Usage: d.st.Usage})
	case event.OutputChecked:
		if e.Code != "" {
			d.report(Progress{Kind: OutputInvalid, Code: e.Code}) // the state may be in the next turn already
		}
	case event.ContextCompacted:
		d.talk = conversation{} // the machine's messages are others now
		d.report(Progress{Kind: TokenUsage, Turn: d.st.Turn, Usage: d.st.Usage})
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
