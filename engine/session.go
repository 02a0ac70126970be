package engine

import (
	"context"
	"errors"

	"metier"
	"metier/policy"
	"metier/record"
	"metier/settings"
)

// Open opens the workspace, skills, and tools of a plan for a program that calls
// tools itself. [Run.Session] opens its sessions.
func (e *Engine) Open(ctx context.Context, p *Plan, h Hooks) (*Run, error) {
	r, err := e.prepare(ctx, p, h)
	if err == nil {
		r.noteUnconfined()
	}
	return r, err
}

// SessionOptions configure one of the sessions of a run.
type SessionOptions struct {
	Log      record.Log // nil: a record of its own
	Blobs    record.Blobs
	ID       string // of the session, with Log
	Tools    []metier.Tool
	Snapshot func(context.Context) (*metier.Snapshot, error) // the skills; nil: the skills of the run
	Like     *metier.Session                                 // another session of the same run, or nil
	Output   func(call, stream string, p []byte)             // receives what programs write
	Brief    bool                                            // the only artifact of a record of its own is run-state.json
}

// Session opens a session with the skills, tools, and grants of the run. Call end to close it.
func (r *Run) Session(ctx context.Context, o SessionOptions) (s *metier.Session, end func() error, err error) {
	k := *r
	k.owned = nil // they belong to the run
	if o.Snapshot == nil {
		o.Snapshot = r.Skills
	}
	if k.snapshot, err = o.Snapshot(ctx); err != nil {
		return nil, nil, err
	}
	k.hooks.Output = o.Output
	k.surface = surface{o.Tools, o.Snapshot, o.Like, o.Brief}
	if o.Log != nil {
		err := k.openOn(ctx, o.ID, o.Log, o.Blobs)
		return k.session, func() error { return nil }, err
	}
	if err := k.e.rememberSources(k.launch); err != nil {
		return nil, nil, err
	}
	folder, err := k.e.CreateRecord(ctx, k.launch.Workspace, k.launch.Artifacts, k.e.RunID(), k.secrets...)
	if err != nil {
		return nil, nil, err
	}
	end = func() error { return k.Close(ctx) }
	if err := k.open(ctx, folder); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return k.session, end, nil
}

// Skills lists the current skills of the run's roots and of the sources that the program supplies.
func (r *Run) Skills(ctx context.Context) (*metier.Snapshot, error) {
	return r.listSkills(ctx, r.custom.Mounts)
}

// Grants returns what the operator allows.
func (r *Run) Grants() policy.Grants { return r.grants() }

// Settings returns the settings of the run.
func (r *Run) Settings() settings.Settings { return r.settings }

// Records returns the workspace of the run, and the folder of its records.
func (r *Run) Records() (workspace, root string) { return r.launch.Workspace, r.launch.Artifacts }
