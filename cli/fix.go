package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"metier/internal/plural"
	"metier/internal/rootfile"
	"metier/internal/termtext"
	"metier/skillmd"
	"metier/skillmd/reference"
)

// Codes of what keeps `fix` from a file.
const (
	codeLink    = "skill-file-link"    // SKILL.md or its folder is a link
	codeChanged = "skill-file-changed" // somebody else wrote the file meanwhile
)

// fixed is what `fix` did with one path.
type fixed struct {
	Path    string               `json:"path"` // as it was given, cleaned
	File    string               `json:"file"` // the SKILL.md, likewise
	OK      bool                 `json:"ok"`   // nothing is left to be mended
	Changed bool                 `json:"changed"`
	Written bool                 `json:"written"`
	Mended  []skillmd.Diagnostic `json:"mended"`
	Left    []skillmd.Diagnostic `json:"left"` // only a person knows what was meant
	Diff    string               `json:"diff"`
	missing bool
}

func (a *app) fixCommand() *cobra.Command {
	var write bool
	c := &cobra.Command{Use: "fix PATH...", GroupID: "author", Short: "Repair the frontmatter of skills",
		Long: `Fix mends the frontmatter of skills that metier can read only by repairing them:
values that need quotes, a missing closing line, a code fence around the file,
lines before the frontmatter, broken escapes, misspelt fields. The values stay
those that were read, and every byte it is not about stays as it is.

It prints the change as a diff, and changes nothing without --write. A file
that is a link, or whose folder is one, is left alone.

Exit 0: nothing is left to be mended. 1: something is that only a person can
mend, or a file cannot be written. 4: a path is not there.`,
		Example: "  metier fix .agents/skills/*\n  metier fix my-skill --write\n  metier fix my-skill | patch -p1",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.fix(c.Context(), args, write)
		}}
	c.Flags().BoolVar(&write, "write", false, "write the files instead of printing what would change")
	a.completions(c)
	c.ValidArgsFunction = folders
	return c
}

func (a *app) fix(ctx context.Context, paths []string, write bool) error {
	doc := struct {
		OK      bool    `json:"ok"`
		Results []fixed `json:"results"`
	}{OK: true, Results: []fixed{}}
	left, missing := 0, 0
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		f := a.fixOne(p, write)
		switch {
		case f.missing:
			missing++
		case !f.OK:
			left++
		}
		doc.OK, doc.Results = doc.OK && f.OK, append(doc.Results, f)
		if !a.json {
			a.showFixed(f, write)
		}
	}
	if a.json {
		if err := a.document(doc); err != nil {
			return err
		}
	}
	switch {
	case left > 0:
		return &problem{exit: exitFailed, code: "skill_not_mended", err: fmt.Errorf("%s not mended", countOf(left+missing, len(paths), "skill")),
			hint: "mend what is listed by hand: only a person knows what was meant"}
	case missing > 0:
		return &problem{exit: exitNotFound, code: "path_missing", err: fmt.Errorf("%s not there", countOf(missing, len(paths), "path")),
			hint: "name folders that hold a SKILL.md"}
	}
	return nil
}

func (a *app) showFixed(f fixed, write bool) {
	switch {
	case f.Written:
		fmt.Fprintf(a.Out, "mended %s: %s\n", oneLine(f.File), oneLine(codesOf(f.Mended)))
	case f.Changed && a.outTerminal():
		io.WriteString(a.Out, printable(strings.ToValidUTF8(f.Diff, "\uFFFD")))
	case f.Changed:
		io.WriteString(a.Out, f.Diff)
	}
	switch {
	case f.Changed && !write:
		fmt.Fprintf(a.Err, "%s: %s to write: metier fix --write %s\n", oneLine(f.File), plural.Of(len(f.Mended), "repair"), termtext.Word(f.Path))
	case !f.Changed && f.OK:
		fmt.Fprintf(a.Err, "%s: nothing to repair ('metier validate' judges the rest)\n", oneLine(f.File))
	}
	for _, d := range f.Left {
		where := ""
		if d.Line > 0 {
			where = fmt.Sprintf("line %d: ", d.Line)
		}
		fmt.Fprintf(a.Err, "%s: left: %s%s [%s]\n", oneLine(f.File), where, oneLine(d.Detail), d.Code)
	}
}

// codesOf names each code once, with its lines.
func codesOf(diags []skillmd.Diagnostic) string {
	var out []string
	for _, d := range diags {
		out = append(out, fmt.Sprintf("%s on line %d", d.Code, max(d.Line, 1)))
	}
	return strings.Join(out, ", ")
}

// fixOne mends the skill at one path.
func (a *app) fixOne(p string, write bool) fixed {
	s := reference.At(a.Dir, p)
	f := fixed{Path: s.Path, File: s.Path, Mended: []skillmd.Diagnostic{}, Left: []skillmd.Diagnostic{}}
	fail := func(code, detail string) fixed {
		f.OK, f.Written = false, false
		f.Left = append(f.Left, skillmd.Diagnostic{Severity: skillmd.Error, Code: code, Detail: detail})
		return f
	}
	dir, err := s.Dir()
	if err != nil {
		return fail(codeUnreadable, err.Error())
	}
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.missing = true
		return fail(codePathMissing, "there is nothing at this path")
	case err != nil:
		return fail(codeUnreadable, err.Error())
	case info.Mode()&fs.ModeSymlink != 0:
		return fail(codeLink, "the folder is a link; name the folder it leads to")
	case !info.IsDir():
		return fail(codeNotFolder, "this is no folder and no SKILL.md")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fail(codeUnreadable, err.Error())
	}
	defer root.Close()
	if now, err := root.Stat("."); err != nil || !os.SameFile(info, now) {
		return fail(codeLink, "the folder was put in the place of another one; run the command again")
	}
	name, err := skillFile(root)
	switch {
	case err != nil:
		return fail(codeUnreadable, err.Error())
	case name == "":
		return fail(codeFileMissing, "there is no SKILL.md in this folder")
	}
	f.File = filepath.Join(s.Path, name)
	info, err = root.Lstat(name)
	switch {
	case err != nil:
		return fail(codeUnreadable, err.Error())
	case info.Mode()&fs.ModeSymlink != 0:
		return fail(codeLink, name+" is a link; mend the file it leads to")
	}
	src, err := readSkillFile(root, name)
	if err != nil {
		return fail(codeUnreadable, err.Error())
	}
	mended := f.fix(src)
	if f.Changed && write {
		switch err := rootfile.Replace(root, name, src, mended, info.Mode().Perm()); {
		case errors.Is(err, rootfile.ErrChanged):
			return fail(codeChanged, name+" changed while it was mended, and is not written; run the command again")
		case err != nil:
			return fail(codeUnreadable, name+" is not written: "+err.Error())
		}
		f.Written = true
	}
	return f
}

// fix gives the text as it should be, and notes what is mended and what is left.
func (f *fixed) fix(src []byte) []byte {
	file := skillmd.Open(src)
	f.Mended = append(f.Mended, file.Mend()...)
	for _, d := range file.Diagnostics() {
		if d.Repair() || d.Severity == skillmd.Error {
			f.Left = append(f.Left, d)
		}
	}
	out := file.Bytes()
	f.OK, f.Changed = len(f.Left) == 0, !bytes.Equal(src, out)
	if f.Changed {
		slash := strings.TrimPrefix(filepath.ToSlash(f.File), "/")
		f.Diff = unified("a/"+slash, "b/"+slash, string(src), string(out))
	}
	return out
}
