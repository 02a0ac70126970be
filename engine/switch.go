package engine

import (
	"context"
	"slices"

	"metier"
	"metier/policy"
	"metier/userstate"
)

// Switched is what [Discovery.Switch] did. Its list is never nil.
type Switched struct {
	Skills []SwitchedSkill `json:"skills"`
	File   string          `json:"file"`
	Kept   string          `json:"kept,omitempty"` // copy of a file that could not be parsed
}

// SwitchedSkill is a skill that was enabled or disabled.
type SwitchedSkill struct {
	ID      string        `json:"id"`
	Name    string        `json:"name"`
	Dir     string        `json:"dir"`
	State   metier.Status `json:"state"` // now; "": the skill does not exist
	Changed bool          `json:"changed"`
}

// Switch enables or disables the skills with a name, or the skill with an ID or at a path. It fails
// if a skill stays disabled.
func (d *Discovery) Switch(ctx context.Context, ref string, on bool) (Switched, error) {
	file, err := d.e.State().Writable(d.Settings.Discover, d.Workspace)
	if err != nil {
		return Switched{}, err
	}
	out := Switched{Skills: []SwitchedSkill{}, File: file.Path}
	targets := d.targets(file, ref)
	if err := d.e.Claim(ctx, file.Path); err != nil {
		return out, err
	}
	var changed []bool
	gone := false
	if len(targets) == 0 && on { // it may no longer exist
		gone, out.Kept, err = file.EnableMissing(ctx, ref)
	} else {
		changed, out.Kept, err = file.Switch(ctx, targets, on)
	}
	switch {
	case err != nil:
		return out, err
	case gone:
		out.Skills = append(out.Skills, SwitchedSkill{Name: ref, Changed: true})
		return out, nil
	case len(targets) == 0:
		return out, d.nothingAt(ctx, ref)
	}
	return out, d.switched(ctx, &out, targets, changed, on)
}

// targets returns the skills that the user refers to. If the file identifies skills by name, it
// returns all skills with that name.
func (d *Discovery) targets(file userstate.File, ref string) []metier.Skill {
	found := d.Entries(ref)
	if !file.ByName() {
		return found
	}
	return slices.DeleteFunc(d.Snapshot.All(), func(sk metier.Skill) bool {
		return !slices.ContainsFunc(found, func(f metier.Skill) bool { return f.Name == sk.Name })
	})
}

// switched reads the skills again.
func (d *Discovery) switched(ctx context.Context, out *Switched, targets []metier.Skill, changed []bool, on bool) error {
	snap, err := d.e.Snapshot(ctx, d.Roots, d.Settings, d.Workspace, nil)
	if err != nil {
		return err
	}
	now := map[metier.ID]metier.Skill{}
	for sk := range snap.Each() {
		now[sk.ID] = sk
	}
	for i, was := range targets {
		sk := now[was.ID]
		out.Skills = append(out.Skills, SwitchedSkill{was.ID.String(), was.Name, was.Dir(), sk.State, changed[i]})
		if on && sk.State == metier.Disabled {
			return metier.Errorf(metier.Denied, "still_disabled", "enable it in the user's file, with Request.Layers state_store=user_file",
				"skill %q is still disabled: %s", was.Name, snap.Explain(sk, metier.Catalog{}, nil).Reason)
		}
	}
	for _, sk := range targets {
		if next, err := snap.Find(sk.Name); err == nil && next.ID != sk.ID && !on && sk.State != metier.Shadowed {
			d.e.Notify(Notice{Severity: Note, Text: "the name " + sk.Name + " now refers to " + next.ID.String()})
		}
		if on && d.Denies(sk) {
			d.e.Notify(Notice{Severity: Note, Text: "the operator still denies " + sk.Name})
		}
	}
	return nil
}

// Trusted is what [Discovery.Trust] did.
type Trusted struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Dir     string `json:"dir"`
	Tree    string `json:"tree"` // digest over all files that are trusted
	Tier    string `json:"tier"` // what they count as now
	Root    string `json:"root"` // tier of the root
	Files   int    `json:"files"`
	Changed bool   `json:"changed"`
	File    string `json:"file"`
	Kept    string `json:"kept,omitempty"` // copy of a file that could not be parsed
}

// Trust assigns a tier to the current files of a skill, or revokes it.
func (d *Discovery) Trust(ctx context.Context, ref string, tier policy.Tier, revoke bool) (Trusted, error) {
	own := d.e.State().Own()
	if len(own) == 0 {
		return Trusted{}, userstate.ErrNoHome
	}
	file := own[0]
	out := Trusted{File: file.Path}
	sk, err := d.Find(ctx, ref)
	if err != nil {
		if revoke {
			return d.distrust(ctx, file, ref, err)
		}
		return out, err
	}
	out.ID, out.Name, out.Dir, out.Root = sk.ID.String(), sk.Name, sk.Dir(), string(d.rootTier(sk))
	if out.Tier = out.Root; !revoke {
		if out.Root != string(policy.ThirdParty) {
			return out, metier.Errorf(metier.Invalid, "tier_not_given", "no change is needed: only third_party skills are less trusted than the user's skills",
				"skill %q already has its root's tier, %s", sk.Name, out.Root)
		}
		if sk, err = d.Snapshot.Index(ctx, sk); err != nil {
			return out, err
		}
		out.Tree, out.Tier, out.Files = string(sk.Tree), string(tier), len(sk.Resources)
	}
	if err := d.e.Claim(ctx, file.Path); err != nil {
		return out, err
	}
	if revoke {
		out.Changed, out.Kept, err = file.Distrust(ctx, sk)
	} else {
		out.Changed, out.Kept, err = file.Trust(ctx, sk, tier, d.e.Now())
	}
	return out, err
}

// distrust revokes the trust of a skill that no longer exists.
func (d *Discovery) distrust(ctx context.Context, file userstate.File, ref string, missing error) (Trusted, error) {
	out := Trusted{Name: ref, File: file.Path}
	var err error
	out.Changed, out.Kept, err = file.DistrustMissing(ctx, ref)
	if err == nil && !out.Changed {
		err = missing
	}
	return out, err
}

// rootTier returns the tier that a skill has if nobody trusts it more.
func (d *Discovery) rootTier(sk metier.Skill) policy.Tier {
	for _, m := range d.Snapshot.Mounts() {
		if m.Label == sk.ID.Source {
			return m.TierOf(sk.Head)
		}
	}
	return policy.ThirdParty
}
