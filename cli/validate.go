package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"metier/internal/confusable"
	"metier/internal/nfkc"
	"metier/internal/plural"
	"metier/internal/rootfile"
	"metier/internal/termtext"
	"metier/skillmd"
	"metier/skillmd/reference"
)

// maxSkillFile caps the SKILL.md that is validated.
const maxSkillFile = 16 << 20

// Codes of what is wrong around a SKILL.md; what is wrong in it has the codes
// of skillmd.
const (
	codePathMissing  = "path-missing"
	codeNotFolder    = "not-a-folder"
	codeFileMissing  = "skill-file-missing"
	codeFileName     = "skill-file-name"
	codeHoldsSkills  = "holds-skills"
	codeUnreadable   = "unreadable"
	codeReference    = "reference"           // any message of the reference validator
	codeReferenceEnd = "reference-exception" // where it ends with an exception
)

// verdict is what `validate` says about one path.
type verdict struct {
	Path        string               `json:"path"` // as it was given, cleaned
	OK          bool                 `json:"ok"`
	Errors      []string             `json:"errors"`
	Warnings    []string             `json:"warnings"` // and advice
	Diagnostics []skillmd.Diagnostic `json:"diagnostics,omitempty"`
	file        string               // the SKILL.md, as the path was given
	missing     bool
	name        string // in the frontmatter; "" if it could not be read
}

func (a *app) validateCommand() *cobra.Command {
	var format, profile string
	var ref bool
	c := &cobra.Command{Use: "validate PATH...", GroupID: "author", Short: "Check skills against the specification",
		Long: `Validate judges each skill folder, or the SKILL.md in it, by the text of the
Agent Skills specification, in the words of the reference validator skills-ref.
Beyond it come warnings (links that lead nowhere) and advice (descriptions that
do not say when to use the skill, scripts that nothing here can run); they make
no skill invalid.

With --reference it is that validator: the same verdicts and messages, its
oddities included, and no advice. docs/internal/conformance.md lists the differences.
With --profile it is the judge that loading skills has under that profile: a
skill is valid if it would be loaded.

Exit 0: every skill is valid. 1: one is not. 4: a path is not there.`,
		Example: "  metier validate .agents/skills/*\n  metier validate --reference my-skill\n  metier validate --profile agent-runtime my-skill\n  metier validate --format sarif skills/* > skills.sarif",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			show, err := a.formatOf(c, format)
			if err != nil {
				return err
			}
			judge := a.judge
			switch {
			case ref && profile != "":
				return wrong("usage", "leave out one of the two", "--reference and --profile exclude each other")
			case ref:
				judge = a.judgeAsReference
			case profile != "":
				if judge, err = a.judgeAsProfile(c.Context(), profile); err != nil {
					return err
				}
			}
			return a.validate(c.Context(), args, judge, show, ref)
		}}
	c.Flags().StringVar(&format, "format", formatText, "how to print: text, json or sarif")
	c.Flags().BoolVar(&ref, "reference", false, "judge exactly as the reference validator skills-ref 0.1.0 does")
	c.Flags().StringVar(&profile, "profile", "", "judge as loading skills under this profile does, see 'metier profile list'")
	a.completions(c)
	c.ValidArgsFunction = folders
	return c
}

// validate judges the paths in their order, and prints each as soon as it is
// judged where the format has no end to wait for.
func (a *app) validate(ctx context.Context, paths []string, judge func(string) verdict, show shower, quiet bool) error {
	invalid, missing := 0, 0
	seen := map[string]verdict{}
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		j := judge(p)
		if !quiet {
			j = j.compared(seen)
		}
		switch {
		case j.missing && !quiet:
			missing++
		case !j.OK:
			invalid++
		}
		show.one(j)
	}
	if err := show.end(); err != nil {
		return err
	}
	switch bad := invalid + missing; {
	case bad == 0:
		return nil
	case invalid == 0:
		return &problem{exit: exitNotFound, code: "path_missing", err: fmt.Errorf("%s not there", countOf(missing, len(paths), "path")),
			hint: "name folders that hold a SKILL.md"}
	default:
		return &problem{exit: exitFailed, code: "skill_invalid", err: fmt.Errorf("%s invalid", countOf(bad, len(paths), "skill")), silent: quiet && !a.json,
			hint: "mend what is listed; the rules are at https://agentskills.io/specification"}
	}
}

// compared adds a warning if the name looks like that of a skill before it. seen
// has those by the shape of their names.
func (j verdict) compared(seen map[string]verdict) verdict {
	if j.name == "" {
		return j
	}
	shape := confusable.Skeleton(j.name)
	first, met := seen[shape]
	if !met {
		seen[shape] = j
		return j
	}
	if nfkc.String(first.name) != nfkc.String(j.name) {
		j.add(skillmd.Diagnostic{Severity: skillmd.Warning, Code: "confusable-name", Detail: confusable.Alike(j.name, first.name, termtext.Line(first.Path))})
	}
	return j.done()
}

// countOf words "1 of 3 skills is".
func countOf(n, of int, word string) string {
	if of == 1 {
		return "the " + word + " is"
	}
	verb := " are"
	if n == 1 {
		verb = " is"
	}
	return fmt.Sprintf("%d of %s", n, plural.Of(of, word)) + verb
}

// judgeAsReference is the reference validator on one path.
func (a *app) judgeAsReference(p string) verdict {
	s := reference.At(a.Dir, p)
	j := verdict{Path: s.Path, missing: !s.Exists(), file: filepath.Join(s.Path, "SKILL.md")}
	messages, err := s.Validate()
	for _, m := range messages {
		j.add(skillmd.Diagnostic{Severity: skillmd.Error, Code: codeReference, Detail: m})
	}
	if err != nil {
		j.add(skillmd.Diagnostic{Severity: skillmd.Error, Code: codeReferenceEnd, Detail: err.Error()})
	}
	return j.done()
}

// judge is the specification on one path.
func (a *app) judge(p string) verdict {
	s := reference.At(a.Dir, p)
	j := verdict{Path: s.Path, file: s.Path}
	fail := func(code, detail string) verdict {
		j.add(skillmd.Diagnostic{Severity: skillmd.Error, Code: code, Detail: detail})
		return j.done()
	}
	dir, err := s.Dir()
	if err != nil {
		return fail(codeUnreadable, err.Error())
	}
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		j.missing = true
		return fail(codePathMissing, "Path does not exist: "+s.Path)
	case err != nil:
		return fail(codeUnreadable, err.Error())
	case !info.IsDir():
		return fail(codeNotFolder, "Not a directory: "+s.Path)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fail(codeUnreadable, err.Error())
	}
	defer root.Close()
	name, err := skillFile(root)
	if err != nil {
		return fail(codeUnreadable, err.Error())
	}
	if name == "" {
		j.add(skillmd.Diagnostic{Severity: skillmd.Error, Code: codeFileMissing, Detail: "Missing required file: SKILL.md"})
		j.add(elsewhere(root, s.Path)...)
		return j.done()
	}
	j.file = filepath.Join(s.Path, name)
	src, err := readSkillFile(root, name)
	if err != nil {
		return fail(codeUnreadable, err.Error())
	}
	doc, _ := skillmd.Parse(src)
	j.name = doc.Front.Name
	if mixed := confusable.Mixed(j.name); mixed != "" {
		j.add(skillmd.Diagnostic{Severity: skillmd.Warning, Code: "mixed-script-name", Detail: mixed})
	}
	j.add(skillmd.Validate(src, skillmd.Folder{Name: filepath.Base(dir), Has: func(p string) bool {
		_, err := root.Stat(filepath.FromSlash(p))
		return err == nil
	}})...)
	j.add(a.missingInterpreters(root)...)
	return j.done()
}

// skillFile is the name of the SKILL.md in a folder, or "".
func skillFile(root *os.Root) (string, error) {
	for _, name := range []string{"SKILL.md", "skill.md"} {
		switch _, err := root.Lstat(name); {
		case err == nil:
			return name, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	return "", nil
}

// elsewhere says where the SKILL.md that is not here may be.
func elsewhere(root *os.Root, shown string) []skillmd.Diagnostic {
	f, err := root.Open(".")
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(1000) // a hint, from what can be read
	below := 0
	for _, n := range names {
		if strings.EqualFold(n, "skill.md") {
			return []skillmd.Diagnostic{{Severity: skillmd.Advice, Code: codeFileName, Detail: "rename " + n + " to SKILL.md"}}
		}
		if _, err := root.Stat(filepath.Join(n, "SKILL.md")); err == nil {
			below++
		}
	}
	if below == 0 {
		return nil
	}
	return []skillmd.Diagnostic{{Severity: skillmd.Advice, Code: codeHoldsSkills,
		Detail: fmt.Sprintf("%s below it: metier validate %s", plural.Of(below, "skill"), filepath.Join(shown, "*"))}}
}

// readSkillFile reads a regular file that lies in the folder, links followed.
func readSkillFile(root *os.Root, name string) ([]byte, error) {
	return rootfile.Read(root, name, maxSkillFile)
}

func (j *verdict) add(diags ...skillmd.Diagnostic) { j.Diagnostics = append(j.Diagnostics, diags...) }

// done derives the messages from the diagnostics.
func (j *verdict) done() verdict {
	j.Errors, j.Warnings = []string{}, []string{}
	for _, d := range j.Diagnostics {
		if d.Severity == skillmd.Error {
			j.Errors = append(j.Errors, d.Detail)
		} else {
			j.Warnings = append(j.Warnings, d.Detail)
		}
	}
	j.OK = len(j.Errors) == 0
	return *j
}
