// Package folder validates, repairs, and creates folders of skills on disk. It
// knows no settings and loads no skills.
package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"metier/internal/confusable"
	"metier/internal/nfkc"
	"metier/internal/plural"
	"metier/internal/rootfile"
	"metier/internal/termtext"
	"metier/skillmd"
	"metier/skillmd/reference"
)

// maxFile is the largest SKILL.md that is read, in bytes.
const maxFile = 16 << 20

// maxSkill is the largest SKILL.md that metier loads, in bytes.
const maxSkill = 4 << 20

// Codes of problems around a SKILL.md. Problems in it have the codes of skillmd.
const (
	CodePathMissing  = "path-missing"
	CodeNotFolder    = "not-a-folder"
	CodeFileMissing  = "skill-file-missing"
	CodeFileName     = "skill-file-name"
	CodeHoldsSkills  = "holds-skills"
	CodeUnreadable   = "unreadable"
	CodeReference    = "reference"           // any message of the reference validator
	CodeReferenceEnd = "reference-exception" // where it ends with an exception
)

// Verdict is the result of validating one path.
type Verdict struct {
	Path        string               `json:"path"` // as it was given, cleaned
	OK          bool                 `json:"ok"`
	Errors      []string             `json:"errors"`
	Warnings    []string             `json:"warnings"` // and advice
	Diagnostics []skillmd.Diagnostic `json:"diagnostics,omitempty"`
	File        string               `json:"-"` // the SKILL.md, relative as Path is
	Missing     bool                 `json:"-"` // nothing is at the path
	Name        string               `json:"-"` // in the frontmatter; "" if it could not be read
}

// Add adds diagnostics, and derives the other fields from all of them.
func (v Verdict) Add(list ...skillmd.Diagnostic) Verdict {
	v.Diagnostics = append(v.Diagnostics, list...)
	v.Errors, v.Warnings = []string{}, []string{}
	for _, d := range v.Diagnostics {
		if d.Severity == skillmd.Error {
			v.Errors = append(v.Errors, d.Detail)
		} else {
			v.Warnings = append(v.Warnings, d.Detail)
		}
	}
	v.OK = len(v.Errors) == 0
	return v
}

// Fail adds an error.
func (v Verdict) Fail(code, detail string) Verdict { return v.Add(fault(code, detail)) }

// Compared adds a warning if the name looks like the name of an earlier skill.
// seen holds the earlier verdicts by the shape of their names.
func (v Verdict) Compared(seen map[string]Verdict) Verdict {
	if v.Name == "" {
		return v
	}
	shape := confusable.Skeleton(v.Name)
	first, met := seen[shape]
	switch {
	case !met:
		seen[shape] = v
	case nfkc.String(first.Name) != nfkc.String(v.Name):
		return v.Add(skillmd.Diagnostic{Severity: skillmd.Warning, Code: "confusable-name", Detail: confusable.Alike(v.Name, first.Name, termtext.Line(first.Path))})
	}
	return v
}

func fault(code, detail string) skillmd.Diagnostic {
	return skillmd.Diagnostic{Severity: skillmd.Error, Code: code, Detail: detail}
}

func advice(code, format string, args ...any) skillmd.Diagnostic {
	return skillmd.Diagnostic{Severity: skillmd.Advice, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// unread is the diagnostic of an error of the file system.
func unread(err error) *skillmd.Diagnostic {
	d := fault(CodeUnreadable, err.Error())
	return &d
}

// find returns the absolute path of a skill's folder, or why there is none.
// missing and other are the messages for a path where nothing, or no folder, is.
func find(s reference.Skill, stat func(string) (fs.FileInfo, error), missing, other string) (dir string, info fs.FileInfo, wrong *skillmd.Diagnostic) {
	dir, err := s.Dir()
	if err == nil {
		info, err = stat(dir)
	}
	var d skillmd.Diagnostic
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d = fault(CodePathMissing, missing)
	case err != nil:
		return "", nil, unread(err)
	case info.Mode()&fs.ModeSymlink != 0:
		d = fault(codeLink, "the folder is a link; specify the folder it leads to")
	case !info.IsDir():
		d = fault(CodeNotFolder, other)
	default:
		return dir, info, nil
	}
	return "", nil, &d
}

// At returns the absolute path of the folder of the skill at a path, which may
// be relative to base, and a verdict without diagnostics. If there is no such
// folder, the verdict says so, and is not OK.
func At(base, path string) (dir string, v Verdict) {
	s := reference.At(base, path)
	v = Verdict{Path: s.Path, File: s.Path}.Add()
	dir, _, wrong := find(s, os.Stat, nothing, noFolder)
	if wrong != nil {
		v = v.Add(*wrong)
		v.Missing = wrong.Code == CodePathMissing
	}
	return dir, v
}

const (
	nothing  = "nothing exists at this path"
	noFolder = "this is neither a folder nor a SKILL.md"
)

// ValidateAsReference validates the skill at a path exactly as the reference
// validator does.
func ValidateAsReference(base, path string) Verdict {
	s := reference.At(base, path)
	v := Verdict{Path: s.Path, Missing: !s.Exists(), File: filepath.Join(s.Path, "SKILL.md")}.Add()
	messages, err := s.Validate()
	for _, m := range messages {
		v = v.Fail(CodeReference, m)
	}
	if err != nil {
		v = v.Fail(CodeReferenceEnd, err.Error())
	}
	return v
}

// Validate validates the skill at a path by the specification. has reports
// whether a program is on this machine: a script that needs another one gets
// advice.
func Validate(base, path string, has func(program string) bool) Verdict {
	s := reference.At(base, path)
	v := Verdict{Path: s.Path, File: s.Path}
	dir, _, wrong := find(s, os.Stat, "Path does not exist: "+s.Path, "Not a directory: "+s.Path)
	if wrong != nil {
		v.Missing = wrong.Code == CodePathMissing
		return v.Add(*wrong)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return v.Add(*unread(err))
	}
	defer root.Close()
	name, err := skillFile(root)
	switch {
	case err != nil:
		return v.Add(*unread(err))
	case name == "":
		return v.Fail(CodeFileMissing, "Missing required file: SKILL.md").Add(elsewhere(root, s.Path)...)
	}
	v.File = filepath.Join(s.Path, name)
	src, err := rootfile.Read(root, name, maxFile)
	if err != nil {
		return v.Add(*unread(err))
	}
	if len(src) > maxSkill {
		v = v.Fail("skill-too-large", fmt.Sprintf("SKILL.md has %d bytes; at most %d are read", len(src), maxSkill))
	}
	doc, _ := skillmd.Parse(src)
	v.Name = doc.Front.Name
	if mixed := confusable.Mixed(v.Name); mixed != "" {
		v = v.Add(skillmd.Diagnostic{Severity: skillmd.Warning, Code: "mixed-script-name", Detail: mixed})
	}
	return v.Add(skillmd.Validate(src, skillmd.Folder{Name: filepath.Base(dir), Has: func(p string) bool {
		_, err := root.Stat(filepath.FromSlash(p))
		return err == nil
	}})...).Add(missingInterpreters(root, has)...)
}

// skillFile returns the name of the SKILL.md in a folder, or "".
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

// elsewhere says where a missing SKILL.md may be.
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
			return []skillmd.Diagnostic{advice(CodeFileName, "rename %s to SKILL.md", n)}
		}
		if _, err := root.Stat(filepath.Join(n, "SKILL.md")); err == nil {
			below++
		}
	}
	if below == 0 {
		return nil
	}
	in, them := "skills are in subfolders", "them"
	if below == 1 {
		in, them = "skill is in a subfolder", "it"
	}
	all := "*" // outside of the quotes, for the shell to expand
	if dir := filepath.Clean(shown); dir != "." {
		all = termtext.Word(dir) + string(filepath.Separator) + all
	}
	return []skillmd.Diagnostic{advice(CodeHoldsSkills, "%s %s; to check %s, run: metier validate %s", plural.Thousands(int64(below)), in, them, all)}
}
