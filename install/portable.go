package install

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"metier"
	"metier/internal/archive"
	"metier/internal/nfkc"
	"metier/internal/termtext"
)

// portable reports a file that not every machine can have, or that makes git take a folder of a skill for a
// repository, in which it would run programs that the skill names.
func portable(m metier.Manifest) error {
	refused := func(p, hint, format string, args ...any) error {
		return &metier.Error{Path: p, Kind: metier.Invalid, Code: "skill_file_refused", Hint: hint, Err: fmt.Errorf(format, args...)}
	}
	names, r := foldedNames{}, repositories{map[string]string{}, map[string]bool{}}
	for _, f := range m.Files {
		if err := archive.CheckPath(f.Path); err != nil {
			if e, ok := errors.AsType[*archive.Error](err); ok {
				err = e.Err
			}
			return refused(f.Path, "rename the file", "%w", err)
		}
		if twin := names.add(f.Path); twin != "" {
			return refused(f.Path, "rename one of them", "%s has the same name on some file systems", termtext.Quote(twin))
		}
		r.add(f.Path)
	}
	if at := r.found(); at != "" {
		return refused(at, "remove the repository from the skill", "git would take its folder for a repository")
	}
	return nil
}

// repositories finds git repositories in a list of files. Folders are named as a file system without case
// has them.
type repositories struct {
	heads map[string]string // by folder: what git recognizes a repository by
	rests map[string]bool   // folders with the rest of a repository
}

func (r repositories) add(file string) {
	for p := file; p != "."; p = path.Dir(p) {
		dir := strings.ToLower(path.Dir(p))
		switch macName(path.Base(p)) {
		case ".git", "git~1":
			r.heads[dir], r.rests[dir] = file, true
		case "head":
			if _, ok := r.heads[dir]; !ok {
				r.heads[dir] = file
			}
		case "objects", "commondir": // also a file: git only checks access
			r.rests[dir] = true
		}
	}
}

// macName returns a name as macOS compares it: without case, and without characters that it ignores.
func macName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// found returns a file of the first repository, or "".
func (r repositories) found() string {
	for _, dir := range slices.Sorted(maps.Keys(r.heads)) {
		if r.rests[dir] {
			return r.heads[dir]
		}
	}
	return ""
}

// foldedNames are paths by what a file system that ignores case and composition makes of them.
type foldedNames map[string]string

// add adds a path and its folders, and returns a path that some file systems cannot tell from one of
// them, or "".
func (n foldedNames) add(p string) string {
	for ; p != "."; p = path.Dir(p) {
		folded := strings.ToLower(nfkc.String(p))
		if was, ok := n[folded]; ok && was != p {
			return was
		}
		n[folded] = p
	}
	return ""
}
