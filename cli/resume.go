package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"metier"
	"metier/agent"
	"metier/config"
	"metier/event"
	"metier/internal/digest"
	"metier/model"
	"metier/model/provider"
	"metier/record"
	"metier/run"
	"metier/settings"
)

// resumeFlags are the flags that go with --resume. All others are in the
// record: a resumed run keeps what it began with.
var resumeFlags = []string{"resume", "workspace", "artifact-root", "model", "output-mode", "park", "on-drift", "max-turns", "max-tokens", "result-json", "trust-record", "json",
	"browser-endpoint", "browser-origin", "browser-until", "fail-on"}

// resume goes on with a run that was stopped, killed or parked, or that failed.
// It uses what the record says the run was started with; flags choose only the
// model, limits, and what happens with changed skills.
func (a *app) resume(ctx context.Context, c *cobra.Command, f runFlags) error {
	var stray error
	c.Flags().Visit(func(fl *pflag.Flag) {
		if stray == nil && !slices.Contains(resumeFlags, fl.Name) {
			stray = wrong("usage", "a resumed run keeps what it began with; leave the flag out, or begin a new run", "--%s does not go with --resume", fl.Name)
		}
	})
	if stray == nil {
		stray = checkDriftFlag(f.onDrift)
	}
	if stray != nil {
		return stray
	}
	op, err := config.Load(a.env)
	if err != nil {
		return err
	}
	root, id, err := a.findRun(runPlace{f.workspace, f.artifacts}, f.resume)
	if err != nil {
		return err
	}
	o := a.runOptions()
	o.Witnessed = !f.trustRecord
	folder, err := run.Open(root, id, o)
	if err != nil {
		return err
	}
	r, err := a.resumeFolder(ctx, f, op, folder)
	if r.Run == "" {
		return err
	}
	return a.finishRun(f, []result{r}, err)
}

func (a *app) resumeFolder(ctx context.Context, f runFlags, op config.Operator, folder *run.Folder) (r result, err error) {
	var j *job
	defer func() {
		if j == nil || j.folder == nil {
			err = closed(folder.Close(), err)
		}
		if j != nil {
			err = closed(j.close(context.WithoutCancel(ctx)), err)
		}
		err = a.resumable(folder, err)
	}()
	restored, err := folder.Restore(ctx)
	if err != nil {
		return r, err
	}
	past, err := readPast(ctx, folder)
	if err != nil {
		return r, err
	}
	a.noteRecovered(past)
	l := past.launch
	if l.Model == modelNone {
		return r, wrong("run_no_agent", "run the command again; 'metier runs list' shows the runs of agents", "%s is the record of metier exec or metier mcp, not of an agent: there is nothing to go on with", folder.ID())
	}
	if err := ofParent(ctx, folder); err != nil {
		return r, err
	}
	l.Artifacts = filepath.Dir(folder.Dir()) // where it is now
	if past.runs > 0 && !past.ended {        // an earlier resume may have changed them
		l.Spec.MaxTurns, l.Spec.MaxTokens = past.limits.MaxTurns, past.limits.MaxTokens
	}
	if j, err = a.reopen(ctx, &l, f, op); err != nil {
		return r, err
	}
	folder.KeepOut(a.mcpSecrets...) // which servers there are is in the record, so they were not known before
	j.run, j.trusted = past.run, f.trustRecord
	if over := restored.State.Status; over == run.StatusDone || over == run.StatusDenied {
		if err := j.open(ctx, folder); err != nil {
			return r, err
		}
		return j.follow(ctx) // tells how it ended; nothing is done
	}
	j.noteLease()
	d, err := j.drift(restored)
	if err != nil {
		return r, err
	}
	if err := j.driftOfChildren(ctx, folder.Dir(), restored.State); err != nil {
		return r, err
	}
	j.anew = len(d.all()) > 0 && j.onDrift() == "reload"
	if err := j.open(ctx, folder); err != nil {
		return r, err
	}
	if err := j.resumed(ctx, restored, d, j.onDrift()); err != nil {
		return r, err
	}
	if err := j.settle(ctx); err != nil {
		return r, err
	}
	if past.ended {
		if err := j.goOn(ctx, past, restored.State.Code); err != nil {
			return r, err
		}
	}
	return j.follow(ctx)
}

// reopen prepares the recorded launch as it can be had today: the operator's
// denials of today count, and skills that are gone are drift, not an error.
func (a *app) reopen(ctx context.Context, l *launch, f runFlags, op config.Operator) (*job, error) {
	layers := []settings.Layer{{Name: "record", Operator: true, Values: l.Settings}}
	if f.onDrift != "" { // the session asks the settings when a skill is taken up again
		layers = append(layers, settings.Layer{Name: "flag --on-drift", Operator: true, Values: map[string]string{"drift_batch": f.onDrift, "drift_interactive": f.onDrift}})
	}
	set, origins, err := settings.Resolve(layers...)
	if err != nil {
		return nil, err
	}
	if l.Batch, err = a.batchOfResume(f, l.Batch); err != nil {
		return nil, err
	}
	l.Park = l.Park || f.park
	if err := a.relend(l, f.browser, op); err != nil {
		return nil, err
	}
	l.Denied = dedupe(append(l.Denied, op.Deny...))
	if err := l.strictest(op); err != nil {
		return nil, err
	}
	if f.maxTurns < 0 || f.maxTokens < 0 {
		return nil, wrong("usage", "give a positive number", "--max-turns and --max-tokens cannot be negative")
	}
	l.Spec.MaxTurns, l.Spec.MaxTokens = cmp.Or(f.maxTurns, l.Spec.MaxTurns), cmp.Or(f.maxTokens, l.Spec.MaxTokens)
	for i := range l.Roots {
		l.Roots[i].Named = false
		if err := a.finder().Place(&l.Roots[i], set.Discover, l.Workspace, l.Mounts); err != nil {
			return nil, err
		}
	}
	m, err := provider.Open(cmp.Or(f.model, l.Model), op.Models(a.env))
	if err != nil {
		return nil, err
	}
	l.Spec.Model, l.resumed = m.ID, true
	j, err := a.prepare(ctx, planned{launch: *l, op: op, settings: set, origins: settings.Snapshot(set, origins), model: m})
	if err != nil {
		return nil, err
	}
	j.limited = agent.Limits{MaxTurns: f.maxTurns, MaxTokens: f.maxTokens}
	return j, nil
}

// goOn begins the next run of the session whose last one failed or was
// cancelled: the conversation stays, and the model is told to go on.
func (j *job) goOn(ctx context.Context, p past, code string) error {
	j.run = fmt.Sprintf("%s.%d", j.folder.ID(), p.runs+1)
	text := fmt.Sprintf("The work was stopped before the task was done (%s). Go on with the task.", cmp.Or(code, "stopped"))
	_, err := j.session.Say(ctx, metier.Input{ID: "again-" + j.run, Parts: []model.Part{model.Text(text)}, Role: j.launch.PromptRole, Surface: "cli", By: j.a.principal()})
	return err
}

func (a *app) batchOfResume(f runFlags, was bool) (bool, error) {
	if f.outputMode == "" {
		return was, nil
	}
	return a.batch(f.outputMode)
}

// past is what the record says of a run's beginning and of how far it came.
type past struct {
	launch launch
	run    string // the last run of the session, "" before the first
	runs   int
	ended  bool
	limits agent.Limits      // of the last run
	lost   []event.Recovered // what this opening took off the end of the record
}

// readPast folds the record.
func readPast(ctx context.Context, folder *run.Folder) (past, error) {
	var p past
	var started, lease record.Ref
	for en, err := range folder.Log().Read(ctx, 1) {
		if err != nil {
			return p, err
		}
		e, err := event.Decode(en)
		if err != nil {
			continue // Restore has judged it
		}
		if r, recovered := e.(event.Recovered); recovered {
			p.lost = append(p.lost, r)
		} else {
			p.lost = nil
		}
		switch e := e.(type) {
		case event.Opened:
			if started.Digest == "" {
				started = e.Launch
			}
		case event.Begun:
			p.run, p.ended, p.limits = e.Run, false, agent.Limits{MaxTurns: e.MaxTurns, MaxTokens: e.MaxTokens}
			p.runs++
		case event.Limited:
			p.limits = agent.Limits{MaxTurns: cmp.Or(e.MaxTurns, p.limits.MaxTurns), MaxTokens: cmp.Or(e.MaxTokens, p.limits.MaxTokens)}
		case event.Resumed:
			if e.Lease.Digest != "" {
				lease = e.Lease
			}
		case event.Ended:
			p.ended = true
		}
	}
	missing := &metier.Error{Op: "resume", Path: folder.Dir(), Kind: metier.Invalid, Code: "run_not_begun",
		Hint: "start the task as a new run", Err: errors.New("the record does not say what the run was started with")}
	if started.Digest == "" {
		return p, missing
	}
	b, err := folder.Blobs().Open(ctx, started)
	if err == nil {
		err = json.Unmarshal(b, &p.launch)
	}
	if err == nil && lease.Digest != "" {
		if b, err = folder.Blobs().Open(ctx, lease); err == nil {
			p.launch.Browser = nil // none of it is mixed with the one before
			err = json.Unmarshal(b, &p.launch.Browser)
		}
	}
	if err != nil {
		missing.Code, missing.Err = "launch_unreadable", fmt.Errorf("what the run was started with cannot be read: %w", err)
		return p, missing
	}
	return p, nil
}

// readLaunch reads what the run was started with.
func readLaunch(ctx context.Context, folder *run.Folder) (launch, error) {
	p, err := readPast(ctx, folder)
	return p.launch, err
}

// noteRecovered reports what opening the record took off its end.
func (a *app) noteRecovered(p past) {
	if a.json {
		return
	}
	for _, e := range p.lost {
		whole := "all before them is whole"
		switch {
		case e.Unanchored > 0:
			fmt.Fprintf(a.Err, "note: no recorded head covers what followed entry %d (%d in all): another program wrote it, or a power failure took the head. It does not count and is in %s [record_unanchored]\n",
				e.Seq, e.Unanchored, oneLine(e.Kept))
			continue
		case e.LostID != "":
			whole = fmt.Sprintf("entries that were confirmed are gone too, up to %s (%s)", oneLine(e.LostID), oneLine(e.LostType))
		}
		fmt.Fprintf(a.Err, "note: a crash left %d bytes of an unfinished entry after entry %d; they were cut off, %s [record_recovered]\n", e.Bytes, e.Seq, whole)
	}
}

// ofParent refuses what is done to a subagent by itself: its parent takes it up.
func ofParent(ctx context.Context, folder *run.Folder) error {
	l, err := readLaunch(ctx, folder)
	if err != nil || l.Child == nil {
		return nil // what cannot be read is told elsewhere
	}
	return &metier.Error{Op: "run", Path: folder.Dir(), Kind: metier.Conflict, Code: "run_is_subagent", Hint: "name the run that began it: " + l.Child.Manifest.Parent,
		Err: fmt.Errorf("%s is a subagent of another run, which goes on with it", folder.ID())}
}

// resumed records that the run goes on, with what was found.
func (j *job) resumed(ctx context.Context, r run.Restored, d drifts, choice string) error {
	reg, err := json.Marshal(r.Registry)
	if err != nil {
		return err
	}
	var evs []event.Event
	for _, x := range d.all() {
		evs = append(evs, x)
	}
	if r.Registry.Unbound() {
		j.unbound()
		evs = append(evs, event.Note{Code: codeUnbound})
	}
	lease, err := j.keepLease(ctx)
	if err != nil {
		return err
	}
	evs = append(evs, event.Resumed{Run: j.folder.ID(), Registry: digest.Bytes(reg), Active: len(r.Activations.Activations),
		Verified: len(r.Active) - len(d.active), Drifted: len(d.all()), OnDrift: choice, Lease: lease})
	if err := j.append(ctx, evs); err != nil {
		return err
	}
	if !j.anew {
		return nil
	}
	if err := metier.Refresh(ctx, j.session); err != nil {
		return err
	}
	for _, x := range d.active {
		if _, err := j.session.Activate(ctx, x.SkillID, j.source()); err != nil {
			return err
		}
	}
	return nil
}

// codeUnbound is the code of a note: the list of skills of the run's start is
// not in the record.
const codeUnbound = "registry_unbound"

func (j *job) unbound() {
	if !j.a.json {
		fmt.Fprintf(j.a.Err, "note: the record does not hold the list of skills and files of the run's start any more; skills that are not active are used as they are now [%s]\n", codeUnbound)
	}
}

// source is the activation source of what the run begins with.
func (j *job) source() string {
	if j.launch.Child != nil {
		return sourceChild
	}
	return sourceRun
}

// append writes entries of the command itself.
func (j *job) append(ctx context.Context, evs []event.Event) error {
	head, err := j.log.Head(ctx)
	if err != nil {
		return err
	}
	var entries []record.Entry
	for i, e := range evs {
		en, err := event.New(e, fmt.Sprintf("%s@%d", e.Type(), head.Seq+uint64(i)+1), j.a.principal(), j.a.now())
		if err != nil {
			return err
		}
		entries = append(entries, en)
	}
	_, err = j.log.Append(ctx, head, entries...)
	return err
}
