package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"metier"
	"metier/agent/step"
	"metier/event"
	"metier/model"
	"metier/record"
)

// Run drives the run of the log until it ends, waits for an approval, or ctx ends, and returns
// its status. With an empty log, it starts the run of c.Spec. Otherwise it continues the run.
// If ctx ends, Run stops the calls in flight, records it, and returns with status interrupted.
// It returns an error only if the record cannot be written or read.
func Run(ctx context.Context, c Config) (Outcome, error) {
	if err := c.withDefaults(); err != nil {
		return Outcome{}, err
	}
	d := &driver{Config: c, flight: map[string]flight{}, done: make(chan finished, 64)}
	return d.run(ctx)
}

// driver is one Run. All fields but mu's are used by its one goroutine.
type driver struct {
	Config
	st     step.State
	head   record.Head
	effect map[string]bool   // canonical name → reads only
	flight map[string]flight // by key
	done   chan finished
	wait   map[string]time.Time // key of a retried op → not before
	parked bool
	reason record.Ref      // of the last model call that failed
	asked  []event.CallRef // calls without a result in the log, in the order of the replies

	talk  conversation
	offer offer

	folding bool       // begin reads the log
	held    []Progress // what it would tell

	watch sync.Mutex // one Observe at a time
}

// offer is what the model is shown, by the digest of event.Offered.
type offer struct {
	of, system string
	tools      []model.ToolSpec
}

// is reports whether the offer of that digest is this one, and says just that.
func (o offer) is(of, system string, tools []model.ToolSpec) bool {
	return of != "" && o.of == of && o.system == system && slices.EqualFunc(o.tools, tools, func(a, b model.ToolSpec) bool {
		return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Schema, b.Schema)
	})
}

// flight is an action that was begun and has not finished.
type flight struct {
	of      step.Action
	cancel  context.CancelFunc
	claimed <-chan struct{} // closed when a child is claimed
	over    <-chan struct{} // closed when the action recorded what it did
}

// finished is what a goroutine of the driver brings back: events to append,
// and the error that keeps the record from being written.
type finished struct {
	key    string
	events []event.Event
	err    error
}

func (d *driver) run(ctx context.Context) (Outcome, error) {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer d.drain(stop)
	if err := d.begin(work); err != nil {
		return Outcome{}, err
	}
	for d.st.Phase != step.Ended {
		if err := d.start(work); err != nil {
			return Outcome{}, err
		}
		if d.st.Phase == step.Ended {
			break
		}
		if len(d.flight) == 0 {
			return d.rest(work)
		}
		select {
		case f := <-d.done:
			if err := d.finish(work, f); err != nil {
				return Outcome{}, err
			}
		case <-ctx.Done():
			return d.interrupt(work)
		}
	}
	return d.outcome(work), d.sync(work)
}

// interrupt ends what is in flight and leaves the run to be taken up again: a
// call that cannot be stopped is waited for.
func (d *driver) interrupt(ctx context.Context) (Outcome, error) {
	for _, f := range d.flight {
		f.cancel()
	}
	for len(d.flight) > 0 {
		if err := d.finish(ctx, <-d.done); err != nil {
			return Outcome{}, err
		}
	}
	for _, l := range step.Interrupted(&d.st) {
		if err := d.append(ctx, l); err != nil {
			return Outcome{}, err
		}
	}
	if err := d.settle(ctx); err != nil {
		return Outcome{}, err
	}
	o := d.outcome(ctx)
	if o.Status == "" {
		o.Status = "interrupted"
	}
	return o, d.sync(ctx)
}

// drain waits for what is still in flight, so that nothing acts after Run
// returned.
func (d *driver) drain(stop context.CancelFunc) {
	stop()
	for len(d.flight) > 0 {
		f := <-d.done
		delete(d.flight, f.key)
	}
}

// begin folds the log and, where no run is under way, begins one. What was
// claimed by a process that is gone is lost.
func (d *driver) begin(ctx context.Context) error {
	d.wait = map[string]time.Time{}
	d.folding = true // what an earlier process did is not progress
	err := d.refresh(ctx)
	d.folding = false
	if err != nil {
		return err
	}
	if d.st.Rules == 0 {
		for _, p := range d.held {
			d.report(p) // the session was prepared for this run
		}
	}
	d.held = nil
	if d.st.Phase == step.Ended && d.st.Run == d.Spec.Run {
		return nil // it is over; Run says how it ended
	}
	if d.st.Rules == 0 || d.st.Phase == step.Ended {
		begun, err := d.begun(ctx)
		if err != nil {
			return err
		}
		return d.append(ctx, begun)
	}
	d.Spec.Mode = d.mode(ctx)
	if turns, tokens := cmp.Or(d.Limits.MaxTurns, d.st.Spec.MaxTurns), cmp.Or(d.Limits.MaxTokens, d.st.Spec.MaxTokens); turns != d.st.Spec.MaxTurns || tokens != d.st.Spec.MaxTokens {
		if err := d.append(ctx, event.RunLimited{Run: d.st.Run, MaxTurns: turns, MaxTokens: tokens}); err != nil {
			return err
		}
	}
	for _, l := range step.Interrupted(&d.st) {
		if err := d.append(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) begun(ctx context.Context) (event.RunStarted, error) {
	s := d.Spec
	e := event.RunStarted{Run: s.Run, Rules: step.Rules, Model: s.Model, MaxTurns: s.MaxTurns, MaxCalls: s.MaxCalls, MaxRepeats: s.MaxRepeats,
		MaxRetries: s.MaxRetries, Window: s.Window, CompactAt: s.CompactAt, KeepLast: s.KeepLast, MaxTokens: s.MaxTokens, OutputTries: s.OutputTries, Results: true}
	var err error
	if e.Spec, err = d.putJSON(ctx, s); err != nil {
		return e, err
	}
	if s.Output != nil {
		e.Schema, err = d.Blobs.Put(ctx, "application/schema+json", s.Output)
	}
	return e, err
}

// mode reads the mode a resumed run began with.
func (d *driver) mode(ctx context.Context) string {
	var s Spec
	if err := d.loadJSON(ctx, d.st.Spec.Spec, &s); err != nil || s.Mode == "" {
		return d.Spec.Mode
	}
	return s.Mode
}

// start begins every outstanding action that is not in flight: tool calls one at
// a time in the model's order, everything else at once.
func (d *driver) start(ctx context.Context) error {
	for {
		again := false
		if err := d.settle(ctx); err != nil || d.recall() {
			return err
		}
		next := step.Next(&d.st)
		d.unask(next)
		for _, a := range next {
			if _, busy := d.flight[a.Key()]; busy {
				continue
			}
			did, err := d.begin1(ctx, a)
			if err != nil {
				return err
			}
			if did == changed {
				again = true
				break
			}
			if did == blocked {
				break
			}
		}
		if !again {
			return nil
		}
	}
}

// unask stops asking what is answered: an answer for the session was given to
// another call.
func (d *driver) unask(next []step.Action) {
	for key, f := range d.flight {
		if _, asks := f.of.(step.Await); asks && !slices.ContainsFunc(next, func(a step.Action) bool { return a.Key() == key }) {
			f.cancel()
		}
	}
}

// verdict is what starting one action led to.
type verdict int

const (
	started verdict = iota // in flight, or nothing to do for it now
	changed                // the state changed: ask Next again
	blocked                // must wait for what is in flight, and so must all after it
)

func (d *driver) begin1(ctx context.Context, a step.Action) (verdict, error) {
	switch a := a.(type) {
	case step.CallModel:
		return d.startModel(ctx, a)
	case step.Compact:
		return started, d.startCompact(ctx, a)
	case step.Check:
		return changed, d.check(ctx, a)
	case step.CallTool:
		return d.startTool(ctx, a)
	case step.Spawn:
		return d.startChild(ctx, a)
	case step.Await:
		return d.startAwait(ctx, a)
	case step.Cancel:
		if f, busy := d.flight[step.CallTool{ID: a.ID, Try: a.Try}.Key()]; busy {
			f.cancel() // model calls and children have the key of a tool's call
		}
		return started, nil
	case step.End:
		return changed, d.end(ctx, a)
	}
	return started, &metier.Error{Op: "run", Kind: metier.Internal, Code: "unknown_action", Err: fmt.Errorf("the step machine asks for %T", a)}
}

// launch runs one action in a goroutine of its own.
func (d *driver) launch(ctx context.Context, a step.Action, do func(context.Context) ([]event.Event, error)) flight {
	ctx, cancel := context.WithCancel(ctx)
	key, over := a.Key(), make(chan struct{})
	f := flight{of: a, cancel: cancel, over: over}
	d.flight[key] = f
	go func() {
		defer cancel()
		evs, err := guarded(ctx, do)
		close(over)
		d.done <- finished{key, evs, err}
	}()
	return f
}

// guarded turns a panic of what a program brings, such as its model, into an error.
func guarded(ctx context.Context, do func(context.Context) ([]event.Event, error)) (evs []event.Event, err error) {
	defer func() {
		if p := recover(); p != nil {
			evs, err = nil, &metier.Error{Op: "run", Kind: metier.Internal, Code: "run_panic", Hint: "report it to the author of the model or the hook", Err: fmt.Errorf("a model or a hook panicked: %v", p)}
		}
	}()
	return do(ctx)
}

func (d *driver) finish(ctx context.Context, f finished) error {
	delete(d.flight, f.key)
	if f.err != nil {
		return f.err
	}
	if len(f.events) > 0 {
		return d.append(ctx, f.events...)
	}
	if err := d.refresh(ctx); err != nil {
		return err
	}
	return d.moved(f.key)
}

// moved fails when a call came back and the machine would make it again: the log
// then holds a result from before the model asked for it, and making the call
// again would go on forever.
func (d *driver) moved(key string) error {
	for _, c := range d.st.Calls {
		same := key == step.CallTool{ID: c.ID, Try: c.Try}.Key() || key == step.Spawn{ID: c.ID, Try: c.Try}.Key()
		if same && c.Status == step.Ready {
			return &metier.Error{Op: "run", Kind: metier.Drift, Code: "record_inconsistent", Hint: "start the task as a new run",
				Err: fmt.Errorf("the record holds a result of call %s from before the model asked for it", c.ID)}
		}
	}
	return nil
}

func (d *driver) end(ctx context.Context, a step.End) error {
	if err := d.append(ctx, event.RunEnded{Run: a.Run, Status: a.Status, Code: a.Code, Answer: a.Answer, Output: a.Output}); err != nil {
		return err
	}
	d.report(Progress{Kind: RunEnded, Text: a.Status, Code: a.Code, Turn: d.st.Turn})
	return nil
}

// rest is where nothing is in flight and the run has not ended: it is parked,
// or waits for input that will not come.
func (d *driver) rest(ctx context.Context) (Outcome, error) {
	if !step.Waiting(&d.st) {
		if d.st.Phase != step.Idle {
			return Outcome{}, &metier.Error{Op: "run", Kind: metier.Internal, Code: "stuck", Err: fmt.Errorf("nothing is outstanding in phase %s", d.st.Phase)}
		}
		return Outcome{}, &metier.Error{Op: "run", Kind: metier.Invalid, Code: "no_input", Hint: "give the session an input with Session.Send first", Err: errors.New("no task was given")}
	}
	var ids []string
	for _, c := range d.st.Calls {
		if c.Ask != nil {
			ids = append(ids, c.Ask.ID)
		}
	}
	if err := d.append(ctx, event.RunWaiting{Run: d.st.Run, Asks: ids}); err != nil {
		return Outcome{}, err
	}
	d.parked = true
	return d.outcome(ctx), d.sync(ctx)
}

func (d *driver) outcome(ctx context.Context) Outcome {
	o := Outcome{Run: d.st.Run, Status: d.st.Status, Code: d.st.Code, Turns: d.st.Turn - d.st.First, Usage: d.st.Usage, Head: d.head}
	if d.parked {
		o.Status = "parked"
		for _, c := range d.st.Calls {
			if c.Ask != nil {
				o.Asks = append(o.Asks, Question{ApprovalRequested: *c.Ask, Text: d.text(ctx, c.Ask.Text)})
			}
		}
	}
	o.Answer = d.answer(ctx, d.st.Answer)
	if o.Status == step.RunFailed {
		o.Reason = d.text(ctx, d.reason)
	}
	if d.st.Output.Digest != "" {
		o.Output, _ = d.Blobs.Open(ctx, d.st.Output) // an erased result is no result
	}
	return o
}

// report reports progress, one at a time.
func (d *driver) report(p Progress) {
	if d.folding {
		d.held = append(d.held, p)
		return
	}
	d.watch.Lock()
	defer d.watch.Unlock()
	d.Observe(p)
}
