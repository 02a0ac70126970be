package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"metier"
	"metier/engine"
)

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
		doc, err := sh.Switch(c.Context(), args[0], on)
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

func (a *app) showSwitched(doc engine.Switched, on bool) {
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
