package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"metier/internal/termtext"
	"metier/skillmd/reference"
)

func (a *app) readPropertiesCommand() *cobra.Command {
	c := &cobra.Command{Use: "read-properties PATH", GroupID: "author", Short: "Print a skill's properties as JSON, like skills-ref",
		Long: `Read the frontmatter of a skill as the reference validator skills-ref does,
including its quirks. Print the name, the description, and the optional fields
that are present, as JSON. The skill is not validated.

Exit 1: the skill cannot be read. 2: PATH does not exist.`,
		Example: "  metier read-properties my-skill", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			skills, err := a.skillsAt(c, args)
			if err != nil {
				return err
			}
			p, err := skills[0].Properties()
			if err != nil {
				return a.unread(skills[0], err)
			}
			_, err = fmt.Fprintf(a.Out, "%s\n", p.JSON())
			return err
		}}
	a.completions(c)
	c.ValidArgsFunction = firstArg(1, folders)
	return c
}

func (a *app) toPromptCommand() *cobra.Command {
	c := &cobra.Command{Use: "to-prompt PATH...", GroupID: "author", Short: "Print skills as an <available_skills> block, like skills-ref",
		Long: `Print the name, description, and location of each skill as the
<available_skills> block for a system prompt, byte for byte as the reference
validator skills-ref does. If a skill cannot be read, the command fails and prints
nothing.

Exit 1: a skill cannot be read. 2: a PATH does not exist.`,
		Example: "  metier to-prompt my-skill other-skill\n  metier to-prompt .agents/skills/* > prompt.xml", Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			skills, err := a.skillsAt(c, args)
			if err != nil {
				return err
			}
			for _, s := range skills {
				if _, err := s.Properties(); err != nil {
					return a.unread(s, err)
				}
			}
			text, err := reference.Prompt(skills)
			switch {
			case err != nil:
				return a.unread(skills[0], err)
			case a.json:
				return a.document(map[string]string{"prompt": text})
			case a.outTerminal():
				text = printable(text)
			}
			_, err = fmt.Fprintln(a.Out, text)
			return err
		}}
	a.completions(c)
	c.ValidArgsFunction = folders
	return c
}

// skillsAt returns the skills at paths, which must exist. Like the reference implementation, these
// two commands treat anything else as incorrect usage.
func (a *app) skillsAt(c *cobra.Command, paths []string) ([]reference.Skill, error) {
	var out []reference.Skill
	for _, p := range paths {
		s := reference.At(a.Dir, p)
		if !s.Exists() {
			return nil, &problem{exit: exitUsage, code: "path_missing", err: fmt.Errorf("path %q does not exist", s.Path),
				hint: fmt.Sprintf("specify a folder that contains a SKILL.md; see '%s --help'", c.CommandPath())}
		}
		out = append(out, s)
	}
	return out, nil
}

// unread returns the error for an unreadable skill. Scripts get one line in the wording of the
// reference implementation. People and JSON get a hint too.
func (a *app) unread(s reference.Skill, err error) error {
	hint := "'metier validate " + termtext.Word(s.Path) + "' lists all problems"
	if a.json {
		return &problem{exit: exitFailed, code: "skill_unreadable", err: err, hint: hint}
	}
	fmt.Fprintf(a.Err, "Error: %s\n", oneLine(err.Error()))
	if a.Terminal {
		fmt.Fprintf(a.Err, "  hint: %s\n", oneLine(hint))
	}
	return &problem{exit: exitFailed, code: "skill_unreadable", err: errors.New("a skill cannot be read"), silent: true}
}
