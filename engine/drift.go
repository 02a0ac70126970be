package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"metier"
	"metier/event"
	"metier/policy"
	"metier/registry"
	"metier/run"
	"metier/settings"
)

// CodeDrift is the code of a notice about a skill that changed since a run began.
const CodeDrift = "skill_drifted"

// onDrift returns what to do about changed skills. ResumeOptions.OnDrift sets it.
func (r *Run) onDrift() settings.Drift { return r.settings.Activate.OnDrift(r.launch.Batch) }

// drifts are the changes since a record was written.
type drifts struct {
	active   []event.SkillDrifted // of skills whose instructions are in the conversation
	recorded []event.SkillDrifted // of the other skills the record lists, and of the list
}

func (d drifts) all() []event.SkillDrifted { return slices.Concat(d.active, d.recorded) }

// drift compares the skills of a record with those on disk: the active ones and, if all files were
// indexed at the start, all of them. If the choice is fail, the error names the changes.
func (r *Run) drift(restored run.Restored) (d drifts, err error) {
	choice := r.onDrift()
	d.active = run.Drift(restored.Active, r.digests)
	if d.recorded, err = r.recorded(restored); err != nil {
		return d, err
	}
	for _, list := range [][]event.SkillDrifted{d.active, d.recorded} {
		for i := range list {
			list[i].Choice = string(choice)
		}
	}
	for i, x := range d.active {
		if choice.Reloads() && r.approved(x.SkillID, restored.Active) {
			d.active[i].Choice = string(choice.Bound(false, true))
		}
	}
	all := d.all()
	if len(all) == 0 || choice.Silent() {
		return d, nil
	}
	if !choice.Ends() {
		for _, x := range all {
			with := "recorded text"
			if reloaded(x) {
				with = "files on disk"
			}
			r.notices.deliver(Notice{CodeDrift, Warning, fmt.Sprintf("%s (%s); continuing with the %s", changed(x), x.SkillID, with)})
		}
		return d, nil
	}
	var texts []string
	for _, x := range all[:min(len(all), mostNamed)] {
		texts = append(texts, fmt.Sprintf("%s: %s was %s, is %s", x.SkillID, x.Path, cmp.Or(x.Was, "not there"), cmp.Or(x.Now, "gone")))
	}
	if more := len(all) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return d, &metier.Error{Op: "resume", Skill: all[0].SkillID, Path: all[0].Path, Kind: metier.Drift, Code: "skill_drifted",
		Hint: "restore the skills, or choose ResumeOptions.OnDrift warn (keep the recorded text) or ResumeOptions.OnDrift reload (use the files on disk)",
		Err:  fmt.Errorf("skills have changed since the run was recorded: %s", strings.Join(texts, "; "))}
}

// reloaded reports whether the files on disk are used.
func reloaded(x event.SkillDrifted) bool { return settings.Drift(x.Choice).Reloads() }

// approved reports whether an active skill was loaded after the question of an ask rule, which covers
// only the files that it named. Skills that the operator or the user loaded need no approval.
func (r *Run) approved(skillID string, active []event.SkillActivated) bool {
	at := slices.IndexFunc(active, func(a event.SkillActivated) bool {
		return a.SkillID == skillID && a.ActivationSource != sourceRun && a.ActivationSource != sourceUser
	})
	if at < 0 {
		return false
	}
	g := r.grants()
	effect, _ := g.Skill(skillID, active[at].Name)
	return effect == policy.RuleAsk || slices.ContainsFunc(r.disk.All(), func(sk metier.Skill) bool {
		return sk.ID.String() == skillID && sk.Effect(&g) == policy.RuleAsk
	})
}

// onDisk returns the usable skills, and recorded skills that have since lost their name to another.
// Files are indexed if the record has them.
func (r *Run) onDisk(recorded map[string]registry.Skill) []registry.Skill {
	var out []registry.Skill
	for sk := range r.disk.Each() {
		was, known := recorded[sk.ID.String()]
		switch {
		case sk.State == metier.Loaded, sk.State == metier.Hidden, sk.State == metier.Shadowed && known:
		default:
			continue
		}
		if was.Indexed {
			full, err := r.disk.Index(context.Background(), sk)
			if err != nil {
				continue // it cannot be read, which counts as gone
			}
			sk = full
		}
		dir := r.view.Dir(sk)
		x := registry.Skill{ID: sk.ID.String(), SkillDir: dir, SkillPath: dir + "/" + sk.Head.FileName, Digest: string(sk.Digest), Tree: string(sk.Tree), Indexed: sk.Indexed}
		for _, f := range sk.Resources {
			x.Resources = append(x.Resources, registry.Resource{Path: f.Path, Digest: string(f.Digest)})
		}
		out = append(out, x)
	}
	return out
}

// mostNamed is the maximum number of changes named in a message.
const mostNamed = 5

func changed(d event.SkillDrifted) string {
	switch {
	case d.Was == "":
		return d.Path + " has been added since the run was recorded"
	case d.Now == "":
		return d.Path + " has been removed since the run was recorded"
	}
	return d.Path + " has changed since the run was recorded"
}

// recorded compares the inactive skills with the recorded list. If files are indexed on first use,
// a skill that was added or removed is only reported: the recorded list stays in effect, and each
// file is compared when it is used.
func (r *Run) recorded(restored run.Restored) ([]event.SkillDrifted, error) {
	was, err := restored.Registry.List()
	if err != nil || restored.Registry.Unbound() || r.reloads() {
		return nil, err
	}
	all := run.Since(was, r.onDisk(registry.List{Skills: was}.ByID()))
	if indexesAtStart(r.settings.Discover) {
		active := func(d event.SkillDrifted) bool {
			return slices.ContainsFunc(restored.Active, func(a event.SkillActivated) bool { return a.SkillID == d.SkillID })
		}
		return slices.DeleteFunc(all, active), nil
	}
	var added []string
	for _, d := range all {
		if d.Was == "" {
			added = append(added, d.SkillID)
		}
	}
	if n := len(added); n > 0 {
		r.note("not-recorded", "the run does not have the skills that were added since it began: %s%s",
			strings.Join(added[:min(n, mostNamed)], ", "), map[bool]string{true: fmt.Sprintf(" and %d more", n-mostNamed)}[n > mostNamed])
	}
	return nil, nil
}

// driftOfChildren checks the skills of unfinished subagents as drift does. It fails before anything
// is resumed, so that the skills can be restored. If the choice is not fail, each subagent handles
// its own drift when it is resumed.
func (r *Run) driftOfChildren(ctx context.Context, dir string, s run.State) error {
	if !r.onDrift().Ends() {
		return nil
	}
	root := run.ChildrenOf(dir)
	list, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range list {
		if slices.ContainsFunc(s.Children, func(c run.ChildRun) bool { return c.Run == d.Name() }) {
			continue
		}
		if err := r.driftOfChild(ctx, root, d.Name()); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) driftOfChild(ctx context.Context, root, id string) (err error) {
	f, err := run.Look(root, id, r.e.RunOptions())
	if err != nil {
		return nil // whoever takes it up says what is wrong with it
	}
	defer func() { err = closed(f.Close(), err) }()
	restored, err := f.Restore(ctx)
	if err != nil || run.Over(restored.State.Status) {
		return nil
	}
	if _, err := r.drift(restored); err != nil {
		return fmt.Errorf("subagent %s: %w", id, err)
	}
	return r.driftOfChildren(ctx, f.Dir(), restored.State)
}

// digests returns the digests of a skill as it is on disk now.
func (r *Run) digests(skillID string) (file, tree string, err error) {
	ctx := context.Background()
	for sk := range r.disk.Each() {
		if sk.ID.String() != skillID {
			continue
		}
		full, err := r.disk.Index(ctx, sk)
		if err != nil {
			return "", "", err
		}
		return string(full.Digest), string(full.Tree), nil
	}
	if file, tree, ok := r.harnessDigests(ctx, skillID); ok {
		return file, tree, nil
	}
	return "", "", &metier.Error{Op: "resume", Skill: skillID, Kind: metier.NotFound, Code: "skill_not_found", Err: errors.New("it is gone")}
}
