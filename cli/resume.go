package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"metier"
	"metier/event"
	"metier/internal/digest"
	"metier/record"
	"metier/run"
	"metier/settings"
)

// resume goes on with a run that was stopped, killed or parked. It uses what
// the record says the run was started with; flags choose only the model and
// what happens with changed skills.
func (a *app) resume(ctx context.Context, c *cobra.Command, f runFlags) error {
	for _, name := range []string{"skill", "skills-root", "prompt", "prompt-file", "file", "allow-tool", "profile", "set", "mount", "mode", "output-schema"} {
		if c.Flags().Changed(name) {
			return wrong("usage", "a resumed run keeps what it began with; leave the flag out, or begin a new run", "--%s does not go with --resume", name)
		}
	}
	op, err := a.operatorConfig()
	if err != nil {
		return err
	}
	ws, err := a.workspaceDir(f.workspace)
	if err != nil {
		return err
	}
	root, id, err := run.Find(a.runsRoot(f.artifacts, op, ws), f.resume)
	if err != nil {
		return err
	}
	folder, err := run.Open(root, id, a.runOptions())
	if err != nil {
		return err
	}
	r, err := a.resumeFolder(ctx, f, op, folder)
	if err != nil {
		return err
	}
	return a.finishRun(ctx, f.resultJSON, "", []result{r})
}

func (a *app) resumeFolder(ctx context.Context, f runFlags, op operator, folder *run.Folder) (r result, err error) {
	var j *job
	defer func() {
		if j == nil || j.folder == nil {
			err = closed(folder.Close(), err)
		}
		if j != nil {
			err = closed(j.close(context.WithoutCancel(ctx)), err)
		}
	}()
	restored, err := folder.Restore(ctx)
	if err != nil {
		return r, err
	}
	l, err := readLaunch(ctx, folder)
	if err != nil {
		return r, err
	}
	set, origins, err := settings.Resolve(settings.Layer{Name: "record", Operator: true, Values: l.Settings})
	if err != nil {
		return r, err
	}
	if l.Batch, err = a.batchOfResume(f, l.Batch); err != nil {
		return r, err
	}
	l.Park = l.Park || f.park
	m, err := a.openModel(op, firstSet(f.model, l.Model))
	if err != nil {
		return r, err
	}
	if j, err = a.prepare(ctx, l, set, settings.Snapshot(set, origins), m); err != nil {
		return r, err
	}
	drifts, err := j.drift(restored.Active, f.onDrift)
	if err != nil {
		return r, err
	}
	if err := j.open(ctx, folder); err != nil {
		return r, err
	}
	if err := j.resumed(ctx, restored, drifts, j.onDrift(f.onDrift)); err != nil {
		return r, err
	}
	return j.follow(ctx)
}

func (a *app) batchOfResume(f runFlags, was bool) (bool, error) {
	if f.outputMode == "" {
		return was, nil
	}
	return a.batch(f.outputMode)
}

// readLaunch reads what the run was started with from the record's first entry.
func readLaunch(ctx context.Context, folder *run.Folder) (launch, error) {
	var l launch
	missing := &metier.Error{Op: "resume", Skill: "", Path: folder.Dir(), Kind: metier.Invalid, Code: "run_not_begun",
		Hint: "start the task as a new run", Err: errors.New("the record does not say what the run was started with")}
	for en, err := range folder.Log().Read(ctx, 1) {
		if err != nil {
			return l, err
		}
		e, err := event.Decode(en)
		if err != nil {
			continue
		}
		opened, ok := e.(event.Opened)
		if !ok {
			continue
		}
		if opened.Launch.Digest == "" {
			return l, missing
		}
		b, err := folder.Blobs().Open(ctx, opened.Launch)
		if err != nil {
			missing.Code, missing.Err = "launch_unreadable", err
			return l, missing
		}
		return l, json.Unmarshal(b, &l)
	}
	return l, missing
}

// onDrift is what happens with changed skills: the flag, else the setting for
// batch or for a person.
func (j *job) onDrift(flag string) string {
	switch {
	case flag != "":
		return flag
	case j.launch.Batch:
		return string(j.settings.Activate.DriftBatch)
	}
	return string(j.settings.Activate.DriftInteractive)
}

// drift compares the active skills with what is on disk. Where the
// choice is fail, it refuses and names them.
func (j *job) drift(active []event.Activated, flag string) ([]event.Drifted, error) {
	choice := j.onDrift(flag)
	drifts := run.Drift(active, j.digests)
	for i := range drifts {
		drifts[i].Choice = choice
	}
	if len(drifts) == 0 || choice != "fail" {
		for _, d := range drifts {
			if choice != "ignore" {
				fmt.Fprintf(j.a.Err, "drift: %s changed since the run was recorded (%s); %s\n", printable(d.Path), d.SkillID, choice)
			}
		}
		return drifts, nil
	}
	return drifts, &metier.Error{Op: "resume", Skill: drifts[0].SkillID, Path: drifts[0].Path, Kind: metier.Drift, Code: "skill_drifted",
		Hint: "put the skill back, or choose with --on-drift warn (keep the recorded text) or --on-drift reload (take the new one)",
		Err:  fmt.Errorf("%d active skills are not the recorded ones: %s was %s, is %s", len(drifts), drifts[0].SkillID, drifts[0].Was, orGone(drifts[0].Now))}
}

func orGone(d string) string {
	if d == "" {
		return "gone"
	}
	return d
}

// digests looks a skill up as it is on disk now.
func (j *job) digests(skillID string) (file, tree string, err error) {
	ctx := context.Background()
	for _, sk := range j.snapshot.All() {
		if sk.ID.String() != skillID {
			continue
		}
		full, err := j.snapshot.Index(ctx, sk)
		if err != nil {
			return "", "", err
		}
		return string(full.Digest), string(full.Tree), nil
	}
	return "", "", &metier.Error{Op: "resume", Skill: skillID, Kind: metier.NotFound, Code: "skill_not_found", Err: errors.New("it is gone")}
}

// resumed records that the run goes on, with what was found.
func (j *job) resumed(ctx context.Context, r run.Restored, drifts []event.Drifted, choice string) error {
	reg, err := json.Marshal(r.Registry)
	if err != nil {
		return err
	}
	var evs []event.Event
	for _, d := range drifts {
		evs = append(evs, d)
	}
	evs = append(evs, event.Resumed{Run: j.folder.ID(), Registry: digest.Bytes(reg), Active: len(r.Activations.Activations),
		Verified: len(r.Active) - len(drifts), Drifted: len(drifts), OnDrift: choice})
	if err := j.append(ctx, evs); err != nil {
		return err
	}
	if choice != "reload" {
		return nil
	}
	for _, d := range drifts {
		if _, err := j.session.Activate(ctx, d.SkillID, "cli-preload"); err != nil {
			return err
		}
	}
	return nil
}

// append writes entries of the command itself.
func (j *job) append(ctx context.Context, evs []event.Event) error {
	log := j.folder.Log()
	head, err := log.Head(ctx)
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
	_, err = log.Append(ctx, head, entries...)
	return err
}
