package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"metier"
	"metier/event"
	"metier/run"
)

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
				fmt.Fprintf(j.a.Err, "drift: %s changed since the run was recorded (%s); %s\n", oneLine(d.Path), oneLine(d.SkillID), choice)
			}
		}
		return drifts, nil
	}
	return drifts, &metier.Error{Op: "resume", Skill: drifts[0].SkillID, Path: drifts[0].Path, Kind: metier.Drift, Code: "skill_drifted",
		Hint: "put the skill back, or choose with --on-drift warn (keep the recorded text) or --on-drift reload (take the new one)",
		Err:  fmt.Errorf("%d active skills are not the recorded ones: %s was %s, is %s", len(drifts), drifts[0].SkillID, drifts[0].Was, orGone(drifts[0].Now))}
}

// driftOfChildren refuses as drift does, for the skills of subagents that are not
// done: before anything goes on, so that they can be put back. With any other
// choice each sees to its own when it is taken up.
func (j *job) driftOfChildren(ctx context.Context, dir string, s run.State, flag string) error {
	if j.onDrift(flag) != "fail" {
		return nil
	}
	root := run.ChildrenOf(dir)
	list, err := os.ReadDir(root)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range list {
		if slices.ContainsFunc(s.Children, func(c run.ChildRun) bool { return c.Run == d.Name() }) {
			continue
		}
		if err := j.driftOfChild(ctx, root, d.Name(), flag); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) driftOfChild(ctx context.Context, root, id, flag string) (err error) {
	f, err := run.Look(root, id, j.a.runOptions())
	if err != nil {
		return nil // whoever takes it up says what is wrong with it
	}
	defer func() { err = closed(f.Close(), err) }()
	r, err := f.Restore(ctx)
	if err != nil || r.State.Status == run.StatusDone || r.State.Status == run.StatusFailed || r.State.Status == run.StatusDenied {
		return nil
	}
	if _, err := j.drift(r.Active, flag); err != nil {
		return fmt.Errorf("subagent %s: %w", id, err)
	}
	return j.driftOfChildren(ctx, f.Dir(), r.State, flag)
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
	if file, tree, ok := j.harnessDigests(ctx, skillID); ok {
		return file, tree, nil
	}
	return "", "", &metier.Error{Op: "resume", Skill: skillID, Kind: metier.NotFound, Code: "skill_not_found", Err: errors.New("it is gone")}
}
