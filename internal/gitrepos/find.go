// Package gitrepos finds git repositories in a folder, and checks whether git would run programs
// that their configuration names.
package gitrepos

import (
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"metier/internal/confine"
)

// Finder finds git repositories. It keeps what it read of each folder, and reads a folder again only
// if the folder changed. The zero value is ready to use. A Finder is safe for concurrent use.
type Finder struct {
	mu      sync.Mutex
	folders map[string]*folder
}

type folder struct {
	key        confine.Key // changes with the folder's entries
	subfolders []string
	repository bool
	cut        bool // it has more entries
	used       bool // in the current search
}

// settled is how long a folder must be unchanged before it is kept: file systems round times.
const settled = 2 * time.Second

// mostEntries is how many entries of a folder are read.
const mostEntries = 1 << 20

// Find returns the folders below root with a .git, and bare repositories, as sorted slash-separated
// paths. It reads at most most folders; whole reports whether that was enough. It does not search
// .git and .metier.
func (f *Finder) Find(root string, most int) (repositories []string, whole bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, err := confine.OpenDir(root)
	if err != nil {
		return nil, false
	}
	defer d.Close()
	whole = true
	left := []string{"."}
	for n := 0; len(left) > 0; n++ {
		if n == most {
			whole = false
			break
		}
		dir := left[len(left)-1]
		left = left[:len(left)-1]
		at := f.read(d, root, dir)
		if at == nil {
			continue // gone, or closed to this user
		}
		whole = whole && !at.cut
		if at.repository && dir != "." {
			repositories = append(repositories, dir)
		}
		for _, sub := range at.subfolders {
			left = append(left, path.Join(dir, sub))
		}
	}
	f.forget(root)
	slices.Sort(repositories)
	return repositories, whole
}

// read returns what is in a folder, or nil if it cannot be read.
func (f *Finder) read(d *confine.Dir, root, dir string) *folder {
	info, err := d.Stat(dir)
	if err != nil {
		return nil
	}
	key, reliable := info.Key()
	name := filepath.Join(root, filepath.FromSlash(dir))
	if kept := f.folders[name]; kept != nil && reliable && kept.key == key {
		kept.used = true
		return kept
	}
	fresh := time.Since(info.Ctime) < settled
	entries, more, err := d.ReadDir(dir, mostEntries)
	if err != nil {
		return nil
	}
	at := &folder{key: key, used: true, cut: more}
	_, err = d.Stat(path.Join(dir, ".git"))
	names := map[string]bool{".git": err == nil} // also if there are more entries
	for _, e := range entries {
		if names[e.Name] = true; e.Type.IsDir() && e.Name != ".git" && e.Name != ".metier" {
			at.subfolders = append(at.subfolders, e.Name)
		}
	}
	at.repository = names[".git"] || isBare(func(name string) bool { return names[name] })
	if reliable && !fresh {
		if f.folders == nil {
			f.folders = map[string]*folder{}
		}
		f.folders[name] = at
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
