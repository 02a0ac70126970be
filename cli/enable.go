package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"metier"
	"metier/userstate"
)

// switchedSkills is the output of `enable --json` and `disable --json`.
type switchedSkills struct {
	Skills []switchedSkill `json:"skills"`
	File   string          `json:"file"`
	Kept   string          `json:"kept,omitempty"` // where a file that could not be understood was put
}

type switchedSkill struct {
	ID      string        `json:"id"`
	Name    string        `json:"name"`
	Dir     string        `json:"dir"`
	State   metier.Status `json:"state"` // now; "" where the skill is not there
	Changed bool          `json:"changed"`
}

func (a *app) enableCommand() *cobra.Command {
	c := a.switchCommand(true)
	c.Use, c.Short = "enable NAME|PATH", "Enable disabled skills"
	c.Long = `Enable reverses 'metier disable' for all skills with a name, or for one skill by
its ID or path. It exits with 3 if the skill stays disabled because the operator
denies it or another state file disables it.`
	c.Example = "  metier enable table-report\n  metier enable project:greet --json"
	return c
}

func (a *app) disableCommand() *cobra.Command {
	c := a.switchCommand(false)
	c.Use, c.Short = "disable NAME|PATH", "Disable skills without changing their files"
	c.Long = `Disable removes skills from all catalogs, shell completions, and sessions. To undo
it, use 'metier enable'. If you specify a name, every skill that currently has that
name is disabled. If you specify an ID or a path, only that skill is disabled, and
the next skill with the same name takes its place. With protect_names, a less
trusted skill never takes its place.

The state_store setting selects the file that stores the change: the user's file,
or the workspace's .metier/skills.json, which can only disable skills. Other
commands read .metier/skills.json only if metier.yaml or the configuration sets
state_store=project_file.`
	c.Example = "  metier disable table-report\n  metier disable project:greet\n  metier disable greet --set state_store=project_file"
	return c
}

func (a *app) switchCommand(on bool) *cobra.Command {
	var place skillLocation
	c := &cobra.Command{Use: "enable NAME|PATH", GroupID: "skills", Args: oneSkill, RunE: func(c *cobra.Command, args []string) error {
		sh, err := a.openIndex(c.Context(), place)
		if err != nil {
			return err
		}
		doc, err := sh.switchSkills(c.Context(), args[0], on)
		if err != nil {
			return err
		}
		return a.put(doc, func() {
			a.showSwitched(doc, on)
			for _, set := range place.set {
				if set == "state_store=project_file" || set == "state_store=keen_file" {
					fmt.Fprintf(a.Err, "note: commands read this file only if the configuration sets %s\n", set)
				}
			}
		})
	}}
	place.flags(c)
	a.completions(c)
	c.ValidArgsFunction = firstArg(1, a.completeWhich(func(sk metier.Skill) bool {
		return on == (sk.State == metier.Disabled) && (on || sk.State == metier.Loaded || sk.State == metier.Hidden)
	}))
	return c
}

// switchSkills enables or disables the skills that the user named, and reports the result.
func (sh *skillIndex) switchSkills(ctx context.Context, subject string, on bool) (switchedSkills, error) {
	file, err := sh.a.engine().State().Writable(sh.Settings.Discover, sh.Workspace)
	if err != nil {
		return switchedSkills{}, err
	}
	doc := switchedSkills{Skills: []switchedSkill{}, File: file.Path}
	targets := sh.targets(file, subject)
	if err := sh.a.engine().Claim(ctx, file.Path); err != nil {
		return doc, err
	}
	var switched []bool
	gone := false
	if len(targets) == 0 && on { // perhaps it does not exist any more
		gone, doc.Kept, err = file.EnableMissing(ctx, subject)
	} else {
		switched, doc.Kept, err = file.Switch(ctx, targets, on)
	}
	switch {
	case err != nil:
		return doc, err
	case gone:
		doc.Skills = append(doc.Skills, switchedSkill{Name: subject, Changed: true})
		return doc, nil
	case len(targets) == 0:
		return doc, sh.nothingAt(ctx, subject)
	}
	return doc, sh.outcome(ctx, &doc, targets, switched, on)
}

// targets returns the skills that the user refers to. If the file identifies skills by name, it
// returns all skills with that name.
func (sh *skillIndex) targets(file userstate.File, subject string) []metier.Skill {
	found := sh.entries(subject)
	if !file.ByName() {
		return found
	}
	var out []metier.Skill
	for _, sk := range sh.Snapshot.All() {
		if slices.ContainsFunc(found, func(f metier.Skill) bool { return f.Name == sk.Name }) {
			out = append(out, sk)
		}
	}
	return out
}

// nothingAt returns the error for a name or path that is not a skill that runs find here, with the
// reason and the fix.
func (sh *skillIndex) nothingAt(ctx context.Context, subject string) error {
	if err := sh.missing(subject); err != nil {
		return err
	}
	e, err := sh.unlisted(ctx, subject)
	if err != nil {
		return err
	}
	text := "there is no skill at this path: "
	if e.Name != "" {
		text = "runs do not find this skill: "
	}
	return &metier.Error{Path: subject, Kind: metier.NotFound, Code: "skill_not_found", Hint: e.Fix, Err: errors.New(text + e.Reason)}
}

// outcome reads the skills again.
func (sh *skillIndex) outcome(ctx context.Context, doc *switchedSkills, targets []metier.Skill, changed []bool, on bool) error {
	snap, err := sh.a.engine().Snapshot(ctx, sh.Roots, sh.Settings, sh.Workspace, nil)
	if err != nil {
		return err
	}
	now := map[metier.ID]metier.Skill{}
	for _, sk := range snap.All() {
		now[sk.ID] = sk
	}
	for i, was := range targets {
		sk := now[was.ID]
		doc.Skills = append(doc.Skills, switchedSkill{was.ID.String(), was.Name, was.Dir(), sk.State, changed[i]})
		if on && sk.State == metier.Disabled {
			return &problem{exit: exitDenied, code: "still_disabled", err: fmt.Errorf("skill %q is still disabled: %s", was.Name, snap.Explain(sk, metier.Catalog{}, nil).Reason),
				hint: "enable it in the user's file: metier enable NAME --set state_store=user_file"}
		}
	}
	if sh.a.json {
		return nil
	}
	for _, sk := range targets {
		if next, err := snap.Find(sk.Name); err == nil && next.ID != sk.ID && !on && sk.State != metier.Shadowed {
			fmt.Fprintf(sh.a.Err, "note: the name %s now refers to %s\n", oneLine(sk.Name), oneLine(next.ID.String()))
		}
		if on && sh.a.denies(sk) {
			fmt.Fprintf(sh.a.Err, "note: the operator still denies %s\n", oneLine(sk.Name))
		}
	}
	return nil
}

func (a *app) showSwitched(doc switchedSkills, on bool) {
	word := map[bool]string{true: "enabled", false: "disabled"}[on]
	for _, s := range doc.Skills {
		text := oneLine(s.Name)
		if s.ID != "" {
			text += " (" + oneLine(s.ID) + ")"
		}
		switch {
		case !s.Changed:
			text += " was already " + word
		default:
			text += " is " + word
		}
		if on && s.State != metier.Loaded && s.State != "" {
			text += ", but " + string(s.State)
		}
		fmt.Fprintln(a.Out, text)
	}
	a.noteKept(doc.File, doc.Kept)
}

func (a *app) noteKept(file, kept string) {
	a.noteCopy(file, kept)
	fmt.Fprintf(a.Err, "stored in %s\n", oneLine(file))
}
