package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"metier/internal/termtext"
	"metier/skillmd/folder"
)

func (a *app) initCommand() *cobra.Command {
	var parent string
	c := &cobra.Command{Use: "init NAME", GroupID: "author", Short: "Create a new skill",
		Long: `Init creates the folder NAME with a valid SKILL.md: 'metier validate' and the
reference validator accept it. It never overwrites existing files. If runs in the
current folder do not search the new skill's folder, it prints a note. With --dir
.agents/skills, runs find the skill.`,
		Example: "  metier init word-count --dir .agents/skills\n  metier init word-count", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name, shown := args[0], filepath.Join(parent, args[0])
			text, bad := folder.New(name)
			if bad != nil {
				return wrong("name_invalid", nameHint(name), "%q is not a valid skill name: %s", name, ruleOf(name, bad.Detail))
			}
			file := filepath.Join(shown, "SKILL.md")
			if err := a.engine().Claim(c.Context(), a.env.Path(shown)); err != nil {
				return err
			}
			if err := folder.Create(a.env.Path(shown), text); err != nil {
				return notMade(file, err)
			}
			unsearched := a.notSearched(c.Context(), shown)
			if a.json {
				return a.document(map[string]string{"name": name, "dir": shown, "file": file, "notSearched": unsearched})
			}
			_, err := fmt.Fprintf(a.Out, "created %s\nNext: describe in it what the skill does and when to use it, then run: metier validate %s\n", oneLine(file), termtext.Word(shown))
			if unsearched != "" {
				fmt.Fprintf(a.Err, "note: runs in this folder will not find the new skill: %s\n", oneLine(unsearched))
			}
			return err
		}}
	c.Flags().StringVar(&parent, "dir", "", "`folder` in which to create the skill (default: the current one)")
	a.completions(c)
	return c
}

// notSearched returns why runs in the current folder do not find the skill in a folder, and the
// fix, or "". A skill is created even if that cannot be determined.
func (a *app) notSearched(ctx context.Context, dir string) string {
	sh, err := a.openIndex(ctx, skillLocation{})
	if err != nil {
		return ""
	}
	why, _ := sh.NotSearched(ctx, dir)
	return asFlags(why)
}

// ruleOf shortens a validator's message about a name that the error already contains.
func ruleOf(name, message string) string {
	rest, ok := strings.CutPrefix(message, "Skill name '"+name+"' ")
	if !ok {
		rest, ok = strings.CutPrefix(message, "Skill name ")
	}
	if !ok {
		return message
	}
	return "it " + rest
}

// nameHint suggests a valid name.
func nameHint(name string) string {
	const rule = "use at most 64 lowercase letters, digits, and single hyphens"
	if s := folder.Suggest(name); s != "" {
		return rule + "; for example " + s
	}
	return rule
}

func notMade(file string, err error) error {
	p := &problem{exit: exitFailed, code: "skill_not_written", err: fmt.Errorf("%s was not written: %w", file, err),
		hint: "choose another name, or a writable folder with --dir"}
	if errors.Is(err, folder.ErrExists) {
		p.err = fmt.Errorf("%s already exists, so nothing was written", file)
		p.code, p.hint = "skill_exists", "choose another name, or another folder with --dir"
	}
	return p
}
