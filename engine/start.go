package engine

import (
	"context"
	"errors"
	"fmt"

	"metier"
	"metier/agent"
	"metier/event"
	"metier/model"
	"metier/run"
)

// Outcome is how a run ended, or what it waits for.
type Outcome struct {
	agent.Outcome
	Phase     string
	Workspace string
	Dir       string            // of the record
	Denied    []event.Denial    // calls, those of subagents included
	Catalog   run.CatalogReport // the skills that the model was shown
	Notices   []Notice          // what the user should know
}

// Check finds what is wrong with a plan before it is started.
func (e *Engine) Check(ctx context.Context, p *Plan) error {
	j, err := e.prepare(ctx, p, Hooks{Notify: func(Notice) {}})
	if err != nil {
		return err
	}
	return errors.Join(j.known(), j.Close(ctx))
}

// Start opens a run with an ID of [Engine.RunID]. On error the run is closed. It is
// not nil if there is a record, which can be resumed.
func (e *Engine) Start(ctx context.Context, p *Plan, id string, h Hooks) (*Run, error) {
	j, err := e.prepare(ctx, p, h)
	if err != nil {
		return nil, err
	}
	if err := j.known(); err != nil {
		return nil, closed(j.Close(context.WithoutCancel(ctx)), err)
	}
	folder, err := e.CreateRecord(ctx, p.launch.Workspace, p.launch.Artifacts, id, j.secrets...)
	if err != nil {
		return nil, closed(j.Close(context.WithoutCancel(ctx)), err)
	}
	if err := j.open(ctx, folder); err != nil {
		return j, closed(j.Close(context.WithoutCancel(ctx)), err)
	}
	return j, nil
}

// ID returns the ID of the run.
func (j *Run) ID() string { return j.folder.ID() }

// Dir returns the folder of the record.
func (j *Run) Dir() string { return j.folder.Dir() }

// Clean removes secrets from a text.
func (j *Run) Clean(s string) string {
	b, _ := j.redactor().Clean([]byte(j.e.Clean(s)))
	return string(b)
}

// Drive works on the task until it is done, or until only a person can continue. An
// outcome without an ID means that the work did not begin.
func (j *Run) Drive(ctx context.Context) (Outcome, error) {
	if !j.begun {
		if err := j.introduce(ctx); err != nil {
			return Outcome{}, err
		}
	}
	o, err := j.drive(ctx, j.hooks.Progress)
	if err != nil {
		o.Status, o.Code = "interrupted", codeOf(err)
	}
	o.Run = j.folder.ID()
	calls, failed := deniedIn(context.WithoutCancel(ctx), j.log)
	return Outcome{Outcome: o, Phase: j.launch.Phase, Workspace: j.launch.Workspace, Dir: j.folder.Dir(), Denied: calls, Catalog: j.catalogReport(ctx), Notices: j.notices.all()}, closed(failed, err)
}

// introduce gives the notices of the beginning and puts skills and task into the
// session.
func (j *Run) introduce(ctx context.Context) error {
	if j.model.Note != "" {
		j.note("", "%s", j.model.Note)
	}
	if err := j.presentHarnesses(ctx); err != nil {
		return err
	}
	j.noteSkipped()
	j.noteHosts()
	j.NoteReadOnly()
	j.noteBrowser()
	if err := j.begin(ctx); err != nil {
		return err
	}
	j.noteCatalog(ctx)
	if err := j.folder.Project(ctx); err != nil { // the registry is in its file from the start
		return err
	}
	j.begun = true
	return nil
}

// Send adds a message of the user to the conversation. [Run.Drive] answers it.
func (j *Run) Send(ctx context.Context, text string) error {
	if err := checkPrompt(text); err != nil {
		return err
	}
	if _, err := j.typed(text); err != nil {
		return err
	}
	p, err := readPast(ctx, j.folder)
	if err != nil {
		return err
	}
	switch {
	case !j.begun && !p.ended: // the task comes before what follows it
		if err = j.introduce(ctx); err == nil {
			p, err = readPast(ctx, j.folder)
		}
	case j.over != nil:
		err = j.reopenOver(ctx)
	case p.ended:
		err = j.reopened(ctx)
	}
	if err != nil {
		return err
	}
	return j.say(ctx, p, text)
}

// say records a message of the user, in the next run of the session if the last one
// ended.
func (j *Run) say(ctx context.Context, p past, text string) error {
	id := fmt.Sprintf("message-%d", p.inputs+1)
	if p.ended {
		j.run = fmt.Sprintf("%s.%d", j.folder.ID(), p.runs+1)
	}
	task := text
	line, err := j.typed(text)
	if err == nil && line != nil {
		task, err = line.follow(ctx, j.session)
	}
	if err != nil {
		return err
	}
	_, err = j.session.Say(ctx, metier.Input{ID: id, Parts: []model.Part{model.Text(task)}, Role: j.launch.PromptRole, Surface: j.from, By: j.e.Principal()})
	return err
}

// reopened records that a run whose session is still open continues after its end.
func (j *Run) reopened(ctx context.Context) error {
	active := len(j.session.State().Active)
	return j.append(ctx, []event.Event{event.Resumed{Run: j.folder.ID(), Active: active, Verified: active, OnDrift: j.onDrift()}})
}

// reopenOver checks what changed since a run ended, and records that it continues.
func (j *Run) reopenOver(ctx context.Context) error {
	j.noteLease()
	d, err := j.drift(*j.over)
	if err != nil {
		return err
	}
	if len(d.all()) > 0 && j.onDrift() == "reload" {
		j.anew = true
		if err := errors.Join(j.session.Close(ctx), j.openOn(ctx, j.folder.ID(), j.log, j.folder.Blobs())); err != nil {
			return err
		}
	}
	if err := j.resumed(ctx, *j.over, d, j.onDrift()); err != nil {
		return err
	}
	j.over = nil
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
func (j *Run) childProgress(name string) func(agent.Progress) {
	if j.hooks.Child == nil {
		return func(agent.Progress) {}
	}
	return j.hooks.Child(name)
}
