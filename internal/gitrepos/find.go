// Package gitrepos finds git repositories in a folder, and checks whether git would run programs
// that their configuration names.
package gitrepos

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Finder finds git repositories. It keeps what it read of each folder, and reads a folder again only
// if the folder changed. The zero value is ready to use. A Finder is safe for concurrent use.
type Finder struct {
	mu      sync.Mutex
	folders map[string]*folder
}

type folder struct {
	stamp      string // changes with the folder's entries; "": unknown
	subfolders []string
	repository bool
	used       bool // in the current search
}

// settled is how long a folder must be unchanged before it is kept: file systems round times.
const settled = 2 * time.Second

// Find returns the folders below root with a .git, and bare repositories, as sorted slash-separated
// paths. It reads at most most folders; whole reports whether that was enough. It does not search
// .git and .metier.
func (f *Finder) Find(root string, most int) (repositories []string, whole bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	whole = true
	left := []string{root}
	for n := 0; len(left) > 0; n++ {
		if n == most {
			whole = false
			break
		}
		dir := left[len(left)-1]
		left = left[:len(left)-1]
		at := f.read(dir)
		if at == nil {
			continue // gone, or closed to this user
		}
		if rel, err := filepath.Rel(root, dir); err == nil && at.repository && dir != root {
			repositories = append(repositories, filepath.ToSlash(rel))
		}
		for _, sub := range at.subfolders {
			left = append(left, filepath.Join(dir, sub))
		}
	}
	f.forget(root)
	slices.Sort(repositories)
	return repositories, whole
}

// read returns what is in a folder, or nil if it cannot be read.
func (f *Finder) read(dir string) *folder {
	s, changed := stamp(dir)
	if kept := f.folders[dir]; kept != nil && s != "" && kept.stamp == s {
		kept.used = true
		return kept
	}
	fresh := time.Since(changed) < settled
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	at := &folder{stamp: s, used: true}
	names := map[string]bool{}
	for _, e := range entries {
		switch names[e.Name()] = true; {
		case e.IsDir() && e.Name() != ".git" && e.Name() != ".metier":
			at.subfolders = append(at.subfolders, e.Name())
		}
	}
	at.repository = names[".git"] || names["HEAD"] && (names["objects"] || names["commondir"])
	if s != "" && !fresh {
		if f.folders == nil {
			f.folders = map[string]*folder{}
		}
		f.folders[dir] = at
	}
	return at
}

// forget drops the folders below root that a search did not use.
func (f *Finder) forget(root string) {
	for dir, at := range f.folders {
		if !at.used && within(root, dir) {
			delete(f.folders, dir)
		}
		at.used = false
	}
}

func within(root, p string) bool {
	rel, err := filepath.Rel(root, p)
	return err == nil && filepath.IsLocal(rel)
}
