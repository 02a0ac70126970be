package install

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"metier/internal/namedfile"
	"metier/signature"
	"metier/skillmd"
)

// Limits of a diff.
const (
	maxDiffBytes = 256 << 10 // of a file that is compared line by line
	maxDiffLines = 200       // of one file
	maxDiffAll   = 1000      // of one skill
)

// Diff is what a change does to the content of a skill, the most dangerous first.
type Diff struct {
	ToolsWere []string `json:"toolsWere,omitempty"` // allowed-tools of the installed skill, if they change
	ToolsNow  []string `json:"toolsNow,omitempty"`
	Tools     bool     `json:"toolsChanged"`
	// Requires and Releases are the skills that it requires now, and that it does not require any more.
	Requires []string   `json:"requires,omitempty"`
	Releases []string   `json:"releases,omitempty"`
	Files    []FileDiff `json:"files"`
}

// FileDiff is a file that differs.
type FileDiff struct {
	Path    string `json:"path"`
	Action  Action `json:"action"`
	Program bool   `json:"program"`        // it is executable, or in scripts
	Text    string `json:"diff,omitempty"` // as patch reads it
	Cut     int    `json:"cut,omitempty"`  // lines that Text lacks
	Note    string `json:"note,omitempty"` // why there is no text
}

// Diff compares what a change stages with what is installed: first programs, then SKILL.md, then the
// other files.
func (p *Plan) Diff(c Change) (Diff, error) {
	d := Diff{Files: []FileDiff{}}
	left := maxDiffAll
	if c.Was != nil {
		d.Requires, d.Releases = without(c.Entry.Dependencies, c.Was.Dependencies), without(c.Was.Dependencies, c.Entry.Dependencies)
	}
	for _, f := range c.Files {
		d.Files = append(d.Files, FileDiff{Path: f.Path, Action: f.Action, Program: isProgram(f.Path, c)})
	}
	slices.SortStableFunc(d.Files, func(a, b FileDiff) int { return cmp.Compare(rank(a), rank(b)) })
	for i := range d.Files {
		f := &d.Files[i]
		was, err := p.read(path.Join(c.Name, f.Path), f.Action == Add)
		if err != nil {
			return d, err
		}
		now, err := p.read(path.Join(work, p.id, "new", c.Name, f.Path), f.Action == Remove)
		if err != nil {
			return d, err
		}
		f.compare(was, now, c, &left)
	}
	return d, p.compareTools(c, &d)
}

// without returns the items of a that are not in b.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

// isSkillFile reports whether a file of a skill is its SKILL.md.
func isSkillFile(p string) bool { return strings.EqualFold(p, "SKILL.md") }

// Programs returns the new files of a skill that are meant to run.
func (c Change) Programs() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.Entry.Files)), func(p string) bool { return !isProgram(p, c) })
}

// isProgram reports whether a file is meant to run, before the change or after it.
func isProgram(p string, c Change) bool {
	run := modeText(true)
	return strings.HasPrefix(p, "scripts/") || c.Entry.Files[p].Mode == run || c.Was != nil && c.Was.Files[p].Mode == run
}

func rank(f FileDiff) int {
	switch {
	case f.Program:
		return 0
	case isSkillFile(f.Path):
		return 1
	}
	return 2
}

// read reads a file of the store. It returns nil if it is too large, and no bytes if there is none.
func (p *Plan) read(name string, none bool) ([]byte, error) {
	if none {
		return []byte{}, nil
	}
	info, err := p.store.root.Lstat(filepath.FromSlash(name))
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxDiffBytes) {
		return nil, nil
	}
	var b []byte
	if err == nil {
		b, err = namedfile.ReadIn(p.store.root, filepath.FromSlash(name), maxDiffBytes)
	}
	if err == nil && b == nil {
		b = []byte{}
	}
	return b, err
}

// compare fills in the text. left is how many lines it may have.
func (f *FileDiff) compare(was, now []byte, c Change, left *int) {
	switch {
	case signature.IsFile(f.Path):
		f.Note = "signature"
		return
	case was == nil || now == nil:
		f.Note = fmt.Sprintf("more than %d KiB", maxDiffBytes>>10)
		return
	case !isText(was) || !isText(now):
		f.Note = "not text"
		return
	case bytes.Equal(was, now) && c.Was != nil:
		f.Note = "mode " + c.Was.Files[f.Path].Mode + " → " + c.Entry.Files[f.Path].Mode
		return
	}
	_, text, _ := bytes.Cut(diff.Diff("a/"+f.Path, was, "b/"+f.Path, now), []byte("\n"))
	all := slices.Collect(strings.Lines(string(text)))
	shown := min(len(all), maxDiffLines, *left)
	*left -= shown
	f.Text, f.Cut = strings.Join(all[:shown], ""), len(all)-shown
}

func isText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// compareTools compares the lists of allowed tools of two versions of a skill, however large their
// SKILL.md is.
func (p *Plan) compareTools(c Change, d *Diff) error {
	a, err := p.front(c.Name)
	if err != nil {
		return err
	}
	b, err := p.front(path.Join(work, p.id, "new", c.Name))
	if err != nil {
		return err
	}
	if !slices.Equal(a.AllowedTools, b.AllowedTools) || a.AllowedToolsDeclared != b.AllowedToolsDeclared {
		d.Tools, d.ToolsWere, d.ToolsNow = true, a.AllowedTools, b.AllowedTools
	}
	return nil
}

// front returns the frontmatter of a skill in a folder of the store; an empty one if it has no SKILL.md.
func (p *Plan) front(folder string) (skillmd.Front, error) {
	for _, name := range []string{"SKILL.md", "skill.md"} {
		at := filepath.FromSlash(path.Join(folder, name))
		if info, err := p.store.root.Lstat(at); errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		file, err := p.store.root.Open(at)
		if err != nil {
			return skillmd.Front{}, err
		}
		defer file.Close()
		text, err := io.ReadAll(io.LimitReader(file, skillmd.MaxHead))
		doc, _ := skillmd.Parse(text)
		return doc.Front, err
	}
	return skillmd.Front{}, nil
}
