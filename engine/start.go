package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"metier"
	"metier/agent"
	"metier/event"
	"metier/model"
)

// Check finds problems with a plan before it is started.
func (e *Engine) Check(ctx context.Context, p *Plan) error {
	r, err := e.prepare(ctx, p, Hooks{Notify: func(Notice) {}})
	if err != nil {
		return err
	}
	return errors.Join(r.known(), r.Close(ctx))
}

// Start opens a run with an ID of [Engine.RunID]. If an error occurs after the record
// was created, Start also returns the run. It is closed, and its record can be resumed.
func (e *Engine) Start(ctx context.Context, p *Plan, id string, h Hooks) (*Run, error) {
	r, err := e.prepare(ctx, p, h)
	if err != nil {
		return nil, err
	}
	if err := r.known(); err != nil {
		return nil, closed(r.Close(context.WithoutCancel(ctx)), err)
	}
	if err := e.rememberSources(r.launch); err != nil {
		return nil, closed(r.Close(context.WithoutCancel(ctx)), err)
	}
	folder, err := e.CreateRecord(ctx, p.launch.Workspace, p.launch.Artifacts, id, r.secrets...)
	if err != nil {
		return nil, closed(r.Close(context.WithoutCancel(ctx)), err)
	}
	if err := r.open(ctx, folder); err != nil {
		return r, closed(r.Close(context.WithoutCancel(ctx)), err)
	}
	return r, nil
}

// ID returns the ID of the run.
func (r *Run) ID() string { return r.folder.ID() }

// Dir returns the folder of the record.
func (r *Run) Dir() string { return r.folder.Dir() }

// Clean removes secrets from a text.
func (r *Run) Clean(s string) string {
	b, _ := r.redactor().Clean([]byte(r.e.Clean(s)))
	return string(b)
}

// Drive works on the task until it is done, or until it needs the user to continue. A run that fails
// is not an error of Drive: check Outcome.Status and Outcome.Reason. An outcome without an ID means
// that the work did not begin.
func (r *Run) Drive(ctx context.Context) (Outcome, error) {
	if r.ended {
		return Outcome{}, r.isClosed()
	}
	if !r.begun {
		if err := r.introduce(ctx); err != nil {
			return Outcome{}, err
		}
	}
	o, err := r.drive(ctx, r.hooks.Progress)
	if err != nil {
		o.Status, o.Code = "interrupted", codeOf(err)
	}
	o.Run = r.folder.ID()
	calls, failed := deniedIn(context.WithoutCancel(ctx), r.log)
	scripts, unread := r.deniedScripts(context.WithoutCancel(ctx), calls)
	failed = cmp.Or(failed, unread)
	return Outcome{Outcome: o, Phase: r.launch.Phase, Workspace: r.launch.Workspace, Dir: r.folder.Dir(), Denied: calls, Scripts: scripts, Catalog: r.catalogReport(ctx), Notices: r.notices.all(), Unstarted: r.unstarted(o.Status),
		Batch: r.launch.Batch && !r.launch.Park, MaxTokens: cmp.Or(r.limited.MaxTokens, r.launch.Spec.MaxTokens)}, closed(failed, err)
}

// isClosed is the error of what cannot be done after Close.
func (r *Run) isClosed() error {
	return metier.Errorf(metier.Conflict, "run_closed", "continue it with Engine.Resume", "run %s is closed", r.ID())
}

// introduce sends the initial notices and adds skills and the task to the session.
func (r *Run) introduce(ctx context.Context) error {
	if r.model.Note != "" {
		r.note("model_substituted", "%s", r.model.Note)
	}
	if err := r.presentHarnesses(ctx); err != nil {
		return err
	}
	r.noteSkipped()
	r.noteGrants()
	if err := r.begin(ctx); err != nil {
		return err
	}
	r.noteCatalog(ctx)
	if err := r.folder.ProjectStart(ctx); err != nil { // the registry is in its file from the start
		return err
	}
	r.begun = true
	return nil
}

// Send adds a user message to the conversation. [Run.Drive] answers it.
func (r *Run) Send(ctx context.Context, text string) error {
	if r.ended {
		return r.isClosed()
	}
	if err := checkPrompt(text); err != nil {
		return err
	}
	if _, err := r.typed(text); err != nil {
		return err
	}
	p, err := readPast(ctx, r.folder)
	if err != nil {
		return err
	}
	if err := p.answered(); err != nil {
		return err
	}
	switch {
	case !r.begun && !p.ended: // the task comes before what follows it
		if err = r.introduce(ctx); err == nil {
			p, err = readPast(ctx, r.folder)
		}
	case r.over != nil:
		err = r.reopenOver(ctx)
	case p.ended:
		err = r.reopened(ctx)
	}
	if err != nil {
		return err
	}
	return r.say(ctx, p, text)
}

// say records a user message. If the last run ended, the message goes into the session's next run.
func (r *Run) say(ctx context.Context, p past, text string) error {
	id := fmt.Sprintf("message-%d", p.inputs+1)
	if p.ended {
		r.run = fmt.Sprintf("%s.%d", r.folder.ID(), p.runs+1)
	}
	task := text
	line, err := r.typed(text)
	if err == nil && line != nil {
		task, err = line.follow(ctx, r.session)
	}
	if err != nil {
		return err
	}
	_, err = r.session.Send(ctx, metier.Input{ID: id, Parts: []model.Part{model.Text(task)}, Role: r.launch.PromptRole, Surface: r.from, By: r.e.Principal()})
	return err
}

// reopened records that a run whose session is still open continues after its end.
func (r *Run) reopened(ctx context.Context) error {
	active := len(r.session.State().Active)
	return r.append(ctx, []event.Event{event.RunResumed{Run: r.folder.ID(), Active: active, Verified: active, OnDrift: string(r.onDrift())}})
}

// reopenOver checks what changed since a run ended, and records that the run continues.
func (r *Run) reopenOver(ctx context.Context) error {
	r.noteLease()
	d, err := r.drift(*r.over)
	if err != nil {
		return err
	}
	if len(d.all()) > 0 && r.onDrift().Reloads() {
		r.anew = true
		if err := errors.Join(r.session.Close(ctx), r.openOn(ctx, r.folder.ID(), r.log, r.folder.Blobs())); err != nil {
			return err
		}
	}
	if err := r.resumed(ctx, *r.over, d, string(r.onDrift())); err != nil {
		return err
	}
	r.over = nil
	return nil
}

// codeOf returns the code of an error, or "failed".
func codeOf(err error) string {
	if e, ok := errors.AsType[*metier.Error](err); ok {
		return metier.CodeOf(e)
	}
	return "failed"
}

func hintOf(err error) string {
	if e, ok := errors.AsType[*metier.Error](err); ok {
		return e.Hint
	}
	return ""
}

// childProgress returns the function that receives the progress of a subagent.
func (r *Run) childProgress(name string) func(agent.Progress) {
	if r.hooks.Child == nil {
		return func(agent.Progress) {}
	}
	return r.hooks.Child(name)
}
