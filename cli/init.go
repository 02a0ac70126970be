package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"metier/internal/nfkc"
	"metier/internal/termtext"
	"metier/skillmd"
)

//go:embed newskill.md
var newSkillBody string

func (a *app) initCommand() *cobra.Command {
	var parent string
	c := &cobra.Command{Use: "init NAME", GroupID: "author", Short: "Create a new skill",
		Long: `Init makes the folder NAME with a SKILL.md that is valid as it is: 'metier
validate' and the reference validator accept it. What is there is never
overwritten.`,
		Example: "  metier init word-count\n  metier init word-count --dir .agents/skills", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name, shown := args[0], filepath.Join(parent, args[0])
			text, err := newSkill(name)
			if err != nil {
				return err
			}
			file := filepath.Join(shown, "SKILL.md")
			if err := a.engine().Claim(c.Context(), a.env.Path(shown)); err != nil {
				return err
			}
			if err := writeNew(a.env.Path(shown), text); err != nil {
				return notMade(file, err)
			}
			if a.json {
				return a.document(map[string]string{"name": name, "dir": shown, "file": file})
			}
			_, err = fmt.Fprintf(a.Out, "made %s\nNext: say in it what the skill does and when to use it, then: metier validate %s\n", oneLine(file), termtext.Word(shown))
			return err
		}}
	c.Flags().StringVar(&parent, "dir", "", "folder to make it in (default: the current one)")
	a.completions(c)
	return c
}

// newSkill is the text of a new SKILL.md, which both validators accept.
func newSkill(name string) (string, error) {
	title := []rune(strings.ReplaceAll(name, "-", " "))
	if len(title) > 0 {
		title[0] = unicode.ToUpper(title[0])
	}
	// Quotes keep a name such as null or 007 a text.
	text := fmt.Sprintf("---\nname: %q\ndescription: Says in a sentence or two what this skill does. Use when the task is one that it helps with.\n---\n", name) +
		strings.ReplaceAll(newSkillBody, "{{title}}", string(title))
	for _, d := range skillmd.Validate([]byte(text), skillmd.Folder{Name: name}) {
		if d.Code == skillmd.CodeNamePortable || d.Severity == skillmd.Error {
			return "", wrong("name_invalid", nameHint(name), "%q cannot be the name of a skill: %s", name, d.Detail)
		}
	}
	return text, nil
}

// nameHint proposes a name that is valid.
func nameHint(name string) string {
	const rule = "lower-case letters, digits and single hyphens, at most 64"
	parts := strings.FieldsFunc(strings.ToLower(nfkc.String(name)), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	if s := strings.Join(parts, "-"); s != "" && len(s) <= skillmd.MaxName && s != name {
		return rule + "; for example " + s
	}
	return rule
}

// errSkillThere is what init finds where it would write.
var errSkillThere = errors.New("there is a skill already")

// writeNew makes dir and SKILL.md in it; nothing that is there is touched, and
// a dir that is a link is not followed: it may lead anywhere.
func writeNew(dir, text string) (err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer func() { err = closed(parent.Close(), err) }()
	name := filepath.Base(dir)
	if err := parent.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	switch info, err := parent.Lstat(name); {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a link", name)
	case !info.IsDir():
		return fmt.Errorf("%s is a file", name)
	}
	for _, n := range []string{"SKILL.md", "skill.md"} {
		if _, err := parent.Lstat(filepath.Join(name, n)); err == nil {
			return errSkillThere
		}
	}
	file := filepath.Join(name, "SKILL.md")
	f, err := parent.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.WriteString(text); err != nil {
		return closed(errors.Join(f.Close(), parent.Remove(file)), err)
	}
	return f.Close()
}

func notMade(file string, err error) error {
	p := &problem{exit: exitFailed, code: "skill_not_written", err: fmt.Errorf("%s is not written: %w", file, err),
		hint: "choose another name, or a folder that can be written to with --dir"}
	if errors.Is(err, errSkillThere) || errors.Is(err, fs.ErrExist) {
		p.code, p.err, p.hint = "skill_exists", fmt.Errorf("%s is not written: %w", file, errSkillThere), "choose another name, or another folder with --dir"
	}
	return p
}
