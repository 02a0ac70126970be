package folder

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"metier/internal/rootfile"
	"metier/internal/termtext"
	"metier/skillmd"
	"metier/skillmd/reference"
)

// Codes of what keeps [Fix] from a file.
const (
	codeLink    = "skill-file-link"    // SKILL.md or its folder is a link
	codeChanged = "skill-file-changed" // another program wrote the file meanwhile
)

// Fixed is what [Fix] did with one path.
type Fixed struct {
	Path    string               `json:"path"` // as it was given, cleaned
	File    string               `json:"file"` // the SKILL.md, relative as Path is
	OK      bool                 `json:"ok"`   // nothing is left to repair
	Changed bool                 `json:"changed"`
	Written bool                 `json:"written"`
	Fixed   []skillmd.Diagnostic `json:"fixed"`
	Left    []skillmd.Diagnostic `json:"left"` // only a person knows what was meant
	Diff    string               `json:"diff"`
	Missing bool                 `json:"-"` // nothing is at the path
}

// Fix repairs the frontmatter of the skill at a path, which may be relative to
// base. It writes the file if write is set. A file that is a link is left alone,
// and so is one whose folder is a link, or is reached through a link below base.
func Fix(base, path string, write bool) Fixed {
	s := reference.At(base, path)
	f := Fixed{Path: s.Path, File: s.Path, Fixed: []skillmd.Diagnostic{}, Left: []skillmd.Diagnostic{}}
	dir, info, wrong := find(s, os.Lstat, nothing, noFolder)
	if wrong == nil {
		wrong = f.at(base, dir, info, write)
	}
	if wrong != nil {
		f.OK, f.Written, f.Missing = false, false, wrong.Code == CodePathMissing
		f.Left = append(f.Left, *wrong)
	}
	return f
}

// at repairs the skill in a folder, and returns what keeps it from that.
func (f *Fixed) at(base, dir string, info fs.FileInfo, write bool) *skillmd.Diagnostic {
	fail := func(code, detail string) *skillmd.Diagnostic {
		d := fault(code, detail)
		return &d
	}
	root, err := enter(base, dir)
	switch {
	case errors.Is(err, rootfile.ErrLink):
		return fail(codeLink, "a folder of the path is a link; specify the folder it leads to")
	case err != nil:
		return unread(err)
	}
	defer root.Close()
	if now, err := root.Stat("."); err != nil || !os.SameFile(info, now) {
		return fail(codeLink, "the folder was replaced during the fix; run the command again")
	}
	name, err := skillFile(root)
	switch {
	case err != nil:
		return unread(err)
	case name == "":
		return fail(CodeFileMissing, "there is no SKILL.md in this folder")
	}
	f.File = filepath.Join(f.Path, name)
	info, err = root.Lstat(name)
	switch {
	case err != nil:
		return unread(err)
	case info.Mode()&fs.ModeSymlink != 0:
		return fail(codeLink, name+" is a symlink; fix the file it points to")
	}
	src, err := rootfile.Read(root, name, maxFile)
	if err != nil {
		return unread(err)
	}
	fixed := f.repair(src)
	if !f.Changed || !write {
		return nil
	}
	switch err := rootfile.Replace(root, name, src, fixed, info.Mode().Perm()); {
	case errors.Is(err, rootfile.ErrChanged):
		return fail(codeChanged, name+" changed during the fix and was not written; run the command again")
	case err != nil:
		return fail(CodeUnreadable, name+" is not written: "+err.Error())
	}
	f.Written = true
	return nil
}

// enter opens a folder. It follows no link below base: there a repository may have it.
func enter(base, dir string) (*os.Root, error) {
	base, err := filepath.Abs(base)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(base, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return os.OpenRoot(dir)
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return rootfile.EnterPath(root, filepath.ToSlash(rel), nil)
}

// repair returns the repaired text, and notes what is repaired and what is left.
func (f *Fixed) repair(src []byte) []byte {
	file := skillmd.Open(src)
	f.Fixed = append(f.Fixed, file.Fix()...)
	for _, d := range file.Diagnostics() {
		if d.Repair() || d.Severity == skillmd.Error || d.Code == skillmd.CodeNoFrontmatter {
			f.Left = append(f.Left, d)
		}
	}
	out := file.Bytes()
	if doc, _ := skillmd.Parse(out); len(f.Left) == 0 && strings.TrimSpace(doc.Front.Description) == "" {
		f.Left = append(f.Left, fault(skillmd.CodeMissingDesc, "the description is missing, and it cannot be written for you"))
	}
	f.OK, f.Changed = len(f.Left) == 0, !bytes.Equal(src, out)
	if f.Changed {
		f.Diff = unified(termtext.Escape(strings.TrimPrefix(filepath.ToSlash(f.File), "/")), src, out)
	}
	return out
}

// unified returns the change of a file as patch reads it.
func unified(name string, before, after []byte) string {
	_, text, _ := bytes.Cut(diff.Diff("a/"+name, before, "b/"+name, after), []byte("\n")) // patch needs no line "diff a b"
	return string(text)
}
