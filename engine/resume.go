package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/agent"
	"metier/config"
	"metier/event"
	"metier/internal/digest"
	"metier/internal/distinct"
	"metier/internal/plural"
	"metier/model"
	"metier/model/provider"
	"metier/record"
	"metier/run"
	"metier/settings"
)

// ResumeOptions override what a resumed run began with. Zero fields keep it.
type ResumeOptions struct {
	Surface     string // the user's interface
	Prompt      string // the next message of the user; "": continue the task
	Custom      Custom
	Batch       *bool  // whether no person answers
	Park        bool   // leave questions open instead of answering no
	OnDrift     string // what to do with changed skills: fail, warn, reload, or ignore
	Model       string
	MaxTurns    int
	MaxTokens   int64
	TrustRecord bool // accept a record that was not written here, or lost entries
	Browser     BrowserRequest
}

// Resume reopens the run with this id below root, with the recorded launch. On error the run is
// closed.
func (e *Engine) Resume(ctx context.Context, root, id string, o ResumeOptions, h Hooks) (_ *Run, err error) {
	op, err := config.Load(e.Env)
	if err != nil {
		return nil, err
	}
	ro := e.RunOptions()
	ro.RequireHead = !o.TrustRecord
	folder, err := run.Open(root, id, ro)
	if err != nil {
		return nil, err
	}
	var r *Run
	defer func() {
		if err == nil {
			return
		}
		if r == nil || r.folder == nil {
			err = closed(folder.Close(), err)
		}
		if r != nil {
			err = closed(r.Close(context.WithoutCancel(ctx)), err)
		}
	}()
	restored, err := folder.Restore(ctx)
	if err == nil {
		err = folder.Unaltered(ctx)
	}
	if err != nil {
		return nil, err
	}
	past, err := readPast(ctx, folder)
	if err != nil {
		return nil, err
	}
	tell := e.o.Notify
	if h.Notify != nil {
		tell = h.Notify
	}
	recovered := past.recovered()
	for _, n := range recovered {
		tell(n)
	}
	l := *past.launch
	if l.Model == modelNone {
		return nil, metier.Errorf(metier.Invalid, "run_no_agent", "run the command again; 'metier runs list' shows the runs of agents", "%s is the record of metier exec or metier mcp, not of an agent: there is nothing to continue", folder.ID())
	}
	if err := errors.Join(l.ofParent(folder), e.sweep(ctx, l.Workspace)); err != nil {
		return nil, err
	}
	l.Artifacts = filepath.Dir(folder.Dir()) // where it is now
	if past.runs > 0 && !past.ended {        // an earlier resume may have changed them
		l.Spec.MaxTurns, l.Spec.MaxTokens = past.limits.MaxTurns, past.limits.MaxTokens
	}
	if r, err = e.reopen(ctx, &l, o, op, h); err != nil {
		return nil, err
	}
	r.notices.prepend(recovered)
	folder.KeepOut(r.secrets...) // which servers there are is in the record, so they were not known before
	r.run, r.trusted = past.run, o.TrustRecord
	return r, r.continueFrom(ctx, folder, restored, past, o.Prompt)
}

// continueFrom opens the session of a record and records what changed since.
func (r *Run) continueFrom(ctx context.Context, folder *run.Folder, restored run.Restored, past past, prompt string) error {
	if prompt != "" { // checked before anything is recorded
		if err := past.answered(); err != nil {
			return err
		}
		if err := checkPrompt(prompt); err != nil {
			return err
		}
		if _, err := r.typed(prompt); err != nil {
			return err
		}
	}
	if over := restored.State.Status; prompt == "" && (over == run.StatusDone || over == run.StatusDenied) {
		r.over = &restored
		return r.open(ctx, folder) // Drive returns how it ended, and does nothing
	}
	r.noteLease()
	d, err := r.drift(restored)
	if err != nil {
		return err
	}
	if err := r.driftOfChildren(ctx, folder.Dir(), restored.State); err != nil {
		return err
	}
	r.anew = len(d.all()) > 0 && r.onDrift().Reloads()
	if err := r.open(ctx, folder); err != nil {
		return err
	}
	if err := r.resumed(ctx, restored, d, string(r.onDrift())); err != nil {
		return err
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	switch {
	case prompt != "":
		return r.say(ctx, past, prompt)
	case past.ended:
		return r.goOn(ctx, past, restored.State.Code)
	}
	return nil
}

// CheckDrift checks a choice of what to do with changed skills, as in ResumeOptions.OnDrift.
func CheckDrift(choice string) error {
	i := slices.IndexFunc(settings.Table(), func(r settings.Row) bool { return r.Name == "drift_batch" })
	if values := settings.Table()[i].Values; choice != "" && !slices.Contains(values, choice) {
		return metier.Fieldf(metier.Invalid, "ResumeOptions.OnDrift", "usage", "choices: "+strings.Join(values, ", "), "%q is not a valid value for ResumeOptions.OnDrift", choice)
	}
	return nil
}

// reopen prepares the recorded launch under today's conditions: the operator's current denials
// apply, and missing skills count as drift, not as an error.
func (e *Engine) reopen(ctx context.Context, l *Launch, o ResumeOptions, op config.Operator, h Hooks) (*Run, error) {
	if err := CheckDrift(o.OnDrift); err != nil {
		return nil, err
	}
	layers := settings.Recorded(l.Settings, l.Operator)
	if o.OnDrift != "" { // the session asks the settings when a skill is taken up again
		layers = append(layers, settings.Layer{Name: "ResumeOptions.OnDrift", Operator: true, Values: map[string]string{"drift_batch": o.OnDrift, "drift_interactive": o.OnDrift}})
	}
	set, origins, err := settings.Resolve(layers...)
	if err != nil {
		return nil, settingsFault(err)
	}
	if o.Batch != nil {
		l.Batch = *o.Batch
	}
	l.Park = l.Park || o.Park
	if err := e.renewBrowser(l, o.Browser, op); err != nil {
		return nil, err
	}
	l.Denied = distinct.Of(append(l.Denied, op.Deny...))
	if err := l.strictest(op); err != nil {
		return nil, err
	}
	if err := checkLimits(o.MaxTurns, o.MaxTokens); err != nil {
		return nil, err
	}
	l.Spec.MaxTurns, l.Spec.MaxTokens = cmp.Or(o.MaxTurns, l.Spec.MaxTurns), cmp.Or(o.MaxTokens, l.Spec.MaxTokens)
	if l.Mounts, err = e.settleMounts(l.Workspace, l.Mounts, true); err != nil {
		return nil, err
	}
	for i := range l.Roots {
		l.Roots[i].Named = false
		if err := e.Finder().Place(&l.Roots[i], set, l.Workspace, l.Mounts); err != nil {
			return nil, err
		}
	}
	absent, err := o.Custom.absent(ctx, l.Tools)
	if err != nil {
		return nil, err
	}
	m := provider.Model{Model: o.Custom.Model, ID: cmp.Or(o.Model, l.Model)}
	if m.Model == nil && m.ID == customModel {
		return nil, metier.Fieldf(metier.Invalid, "ResumeOptions.Custom", "model_custom", "resume it with ResumeOptions.Model, or from the program that started it", "the run used a custom model from the program that started it")
	}
	if m.Model == nil {
		if m, err = provider.Open(m.ID, op.Models(e.Env)); err != nil {
			return nil, err
		}
	}
	l.Spec.Model, l.resumed = m.ID, true
	r, err := e.prepare(ctx, &Plan{launch: *l, op: op, settings: set, origins: settings.Snapshot(set, origins), model: m, surface: o.Surface, custom: o.Custom}, h)
	if err != nil {
		return nil, err
	}
	if len(absent) > 0 {
		r.note("tool_unknown", "the run continues without %s of the program that started it", strings.Join(absent, ", "))
	}
	r.limited = agent.Limits{MaxTurns: o.MaxTurns, MaxTokens: o.MaxTokens}
	return r, nil
}

// goOn starts the next run of a session whose last run failed or was canceled. The conversation is
// kept, and the model is told to continue.
func (r *Run) goOn(ctx context.Context, p past, code string) error {
	r.run = fmt.Sprintf("%s.%d", r.folder.ID(), p.runs+1)
	text := fmt.Sprintf("The work was stopped before the task was done (%s). Go on with the task.", cmp.Or(code, "stopped"))
	_, err := r.session.Send(ctx, metier.Input{ID: "again-" + r.run, Parts: []model.Part{model.Text(text)}, Role: r.launch.PromptRole, Surface: r.from, By: r.e.Principal()})
	return err
}

// past is the recorded beginning and progress of a run.
type past struct {
	launch *Launch // nil if it is missing or unreadable
	run    string  // the last run of the session, "" before the first
	runs   int
	inputs int
	ended  bool
	limits agent.Limits            // of the last run
	lost   []event.RecordRecovered // what this opening took off the end of the record
	asks   map[string]string       // call of each open question, by its ID
}

// answered returns an error while a question is open: a message cannot replace its answer.
func (p past) answered() error {
	if len(p.asks) == 0 || p.ended {
		return nil
	}
	return &metier.Error{Op: "send", Kind: metier.Approval, Code: "run_parked", Hint: "answer it first, then send the message", Err: fmt.Errorf("the run has %s", plural.Of(len(p.asks), "open question"))}
}

// readPast folds the record. The error has Kind Invalid if only the launch is missing or unreadable.
func readPast(ctx context.Context, folder *run.Folder) (past, error) {
	p := past{asks: map[string]string{}}
	var started, lease record.Ref
	for e, err := range events(ctx, folder.Log()) {
		if err != nil {
			return p, err
		}
		if r, recovered := e.(event.RecordRecovered); recovered {
			p.lost = append(p.lost, r)
		} else {
			p.lost = nil
		}
		switch e := e.(type) {
		case event.SessionOpened:
			if started.Digest == "" {
				started = e.Launch
			}
		case event.RunStarted:
			p.run, p.ended, p.limits = e.Run, false, agent.Limits{MaxTurns: e.MaxTurns, MaxTokens: e.MaxTokens}
			p.runs++
		case event.RunLimited:
			p.limits = agent.Limits{MaxTurns: cmp.Or(e.MaxTurns, p.limits.MaxTurns), MaxTokens: cmp.Or(e.MaxTokens, p.limits.MaxTokens)}
		case event.RunResumed:
			if e.Lease.Digest != "" {
				lease = e.Lease
			}
		case event.Input:
			p.inputs++
		case event.ApprovalRequested:
			p.asks[e.ID] = e.Call
		case event.ApprovalAnswered:
			delete(p.asks, e.ID)
		case event.ApprovalExpired:
			delete(p.asks, e.ID)
		case event.ToolResult:
			maps.DeleteFunc(p.asks, func(_, call string) bool { return call == e.ID })
		case event.RunEnded:
			p.ended = true
		}
	}
	missing := &metier.Error{Op: "resume", Path: folder.Dir(), Kind: metier.Invalid, Code: "run_not_begun",
		Hint: "start the task as a new run", Err: errors.New("the record does not contain the options of the run")}
	if started.Digest == "" {
		return p, missing
	}
	var l Launch
	b, err := folder.Blobs().Open(ctx, started)
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err == nil && lease.Digest != "" {
		if b, err = folder.Blobs().Open(ctx, lease); err == nil {
			l.Browser = nil // none of it is mixed with the one before
			err = json.Unmarshal(b, &l.Browser)
		}
	}
	if err != nil {
		missing.Code, missing.Err = "launch_unreadable", fmt.Errorf("what the run was started with cannot be read: %w", err)
		return p, missing
	}
	p.launch = &l
	return p, nil
}

// recovered returns notices about the tail that was removed when the record was opened. They are
// warnings, because another program may have written it.
func (p past) recovered() (out []Notice) {
	warn := func(code, format string, args ...any) {
		out = append(out, Notice{code, Warning, fmt.Sprintf(format, args...)})
	}
	for _, x := range p.lost {
		whole := "all before them is whole"
		switch {
		case x.Unanchored > 0:
			warn("record_unanchored", "no recorded head covers what followed entry %d (%d in all): another program wrote it, or a power failure took the head. It does not count and is in %s",
				x.Seq, x.Unanchored, x.Kept)
			continue
		case x.LostID != "":
			whole = fmt.Sprintf("entries that were confirmed are gone too, up to %s (%s)", x.LostID, x.LostType)
		}
		warn("record_recovered", "a crash left %d bytes of an unfinished entry after entry %d; they were cut off, %s", x.Bytes, x.Seq, whole)
	}
	return out
}

// ofParent returns an error for a subagent, which only its parent can resume.
func (l *Launch) ofParent(folder *run.Folder) error {
	if l == nil || l.Child == nil {
		return nil
	}
	return &metier.Error{Op: "run", Path: folder.Dir(), Kind: metier.Conflict, Code: "run_is_subagent", Hint: "name its parent run: " + l.Child.Manifest.Parent,
		Err: fmt.Errorf("%s is a subagent of another run; resume that run", folder.ID())}
}

// resumed records that the run continues, and what was found.
func (r *Run) resumed(ctx context.Context, restored run.Restored, d drifts, choice string) error {
	reg, err := json.Marshal(restored.Registry)
	if err != nil {
		return err
	}
	var evs []event.Event
	for _, x := range d.all() {
		evs = append(evs, x)
	}
	if restored.Registry.Unbound() {
		r.unbound()
		evs = append(evs, event.Note{Code: codeUnbound})
	}
	lease, err := r.recordLease(ctx)
	if err != nil {
		return err
	}
	evs = append(evs, event.RunResumed{Run: r.folder.ID(), Registry: digest.Bytes(reg), Active: len(restored.Activations.Activations),
		Verified: len(restored.Active) - len(d.active), Drifted: len(d.all()), OnDrift: choice, Lease: lease})
	if err := r.append(ctx, evs); err != nil {
		return err
	}
	if !r.anew {
		return r.askAgain(ctx)
	}
	if err := r.session.Refresh(ctx); err != nil {
		return err
	}
	for _, x := range d.active {
		if !reloaded(x) {
			continue
		}
		at := slices.IndexFunc(restored.Active, func(e event.SkillActivated) bool { return e.SkillID == x.SkillID })
		if err := r.loadAgain(ctx, restored.Active[at]); err != nil {
			return err
		}
	}
	return r.askAgain(ctx)
}

// loadAgain loads a skill from disk as it was loaded before: by the same party, and with the same
// arguments.
func (r *Run) loadAgain(ctx context.Context, before event.SkillActivated) error {
	var args struct{ Arguments []string }
	for e, err := range events(ctx, r.log) {
		if err != nil {
			return err
		}
		call, ok := e.(event.ToolCallStarted)
		if !ok || call.ID != before.Call {
			continue
		}
		b, err := r.folder.Blobs().Open(ctx, call.Args)
		if err != nil {
			return fmt.Errorf("read the arguments of the skill %s: %w", before.Name, err)
		}
		_ = json.Unmarshal(b, &args) // a model's call has a name only
		break
	}
	_, err := r.session.Activate(ctx, before.SkillID, before.ActivationSource, args.Arguments...)
	return err
}

// codeUnbound is the code of a notice that the record lacks the list of skills from the run's
// start.
const codeUnbound = "registry_unbound"

func (r *Run) unbound() {
	r.notices.deliver(Notice{codeUnbound, Note, "the record does not hold the list of skills and files of the run's start any more; skills that are not active are used as they are now"})
}

// appendNotices records the notices that no other entry followed.
func (r *Run) appendNotices(ctx context.Context) error {
	var evs []event.Event
	for _, n := range r.notices.write() {
		evs = append(evs, n)
	}
	if len(evs) == 0 {
		return nil
	}
	return r.append(ctx, evs)
}

// append writes entries on behalf of the command itself.
func (r *Run) append(ctx context.Context, evs []event.Event) error {
	head, err := r.log.Head(ctx)
	if err != nil {
		return err
	}
	var entries []record.Entry
	for i, e := range evs {
		en, err := event.New(e, fmt.Sprintf("%s@%d", e.Type(), head.Seq+uint64(i)+1), r.e.Principal(), r.e.Now())
		if err != nil {
			return err
		}
		entries = append(entries, en)
	}
	_, err = r.log.Append(ctx, head, entries...)
	return err
}
