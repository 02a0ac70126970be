// Package gitrepos finds git repositories in a folder, and checks whether git would run programs
// that their configuration names.
package gitrepos

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
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
	mu   sync.Mutex
	kept map[string]map[string]*folder // what the last search of a root read, by path; not changed anymore

	mostBytes int // in tests
}

type folder struct {
	key        confine.Key // changes with the folder's entries
	dev        uint64
	subfolders []string
	repository bool
	cut        bool // it has entries that were not read
}

// settled is how long a folder must be unchanged before it is kept: file systems round times.
const settled = 2 * time.Second

const (
	mostEntries = 1 << 20  // entries of a folder that are read
	mostBytes   = 64 << 20 // of the paths of folders: each is resolved again, from root on
	batch       = 1 << 10  // entries that are read at once
)

// Find returns the folders below root with a .git, and bare repositories, as sorted slash-separated
// paths. It reads at most most folders, whose paths have at most 64 MiB together, and ends early if
// ctx does. whole reports whether these are all, and none of them is closed to this user, who owns
// it. Find does not search any .git, nor the .metier of root, which programs cannot write.
func (f *Finder) Find(ctx context.Context, root string, most int) (repositories []string, whole bool) {
	f.mu.Lock()
	before := f.kept[root]
	f.mu.Unlock()
	whole = true
	left, read, bytes := []string{"."}, map[string]*folder{}, cmp.Or(f.mostBytes, mostBytes)
	for n := 1; len(left) > 0; n++ {
		if ctx.Err() != nil || most < 1 {
			whole = false
			break
		}
		dir := left[len(left)-1]
		left = left[:len(left)-1]
		at, keep := look(root, dir, before[dir])
		if at.repository && dir != "." {
			repositories = append(repositories, dir)
		}
		for _, sub := range at.subfolders {
			p := path.Join(dir, sub)
			if p == ".metier" {
				continue
			}
			if bytes -= len(p); bytes < 0 || n+len(left) >= most {
				whole, keep = false, false // no folder is kept without those in it
				break
			}
			left = append(left, p)
		}
		if keep {
			read[dir] = at
		}
		whole = whole && !at.cut
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept == nil {
		f.kept = map[string]map[string]*folder{}
	}
	f.kept[root] = read
	slices.Sort(repositories)
	return repositories, whole
}

// look returns what is in a folder. keep reports whether that holds while the folder's key is the
// same. before is what was kept of it. Names need not be ones that metier accepts in paths, because
// programs can create others.
func look(root, dir string, before *folder) (at *folder, keep bool) {
	name := filepath.Join(root, filepath.FromSlash(dir))
	fi, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !fi.IsDir() {
		return &folder{}, false // it was replaced
	}
	if err != nil {
		return &folder{cut: !errors.Is(err, fs.ErrPermission)}, false
	}
	info := confine.InfoOf(fi)
	key, reliable := info.Key()
	if before != nil && reliable && before.key == key && before.dev == info.Dev {
		return before, true
	}
	fresh := time.Since(info.Ctime) < settled
	_, err = os.Lstat(filepath.Join(name, ".git"))
	own := int(info.Owner) == os.Geteuid()
	closed := own && errors.Is(err, fs.ErrPermission) // nothing in it can be reached
	names := map[string]bool{".git": err == nil}      // also if there are more entries, or none can be listed
	at = &folder{key: key, dev: info.Dev, repository: err == nil}
	d, err := os.OpenFile(name, os.O_RDONLY|confine.Direct, 0) // it may have become a pipe or a link
	if err != nil {
		at.cut = !errors.Is(err, fs.ErrNotExist) && (own || !errors.Is(err, fs.ErrPermission))
		return at, false
	}
	defer d.Close()
	for n, bytes := 0, 0; ; {
		entries, err := d.ReadDir(batch)
		for _, e := range entries {
			switch name := e.Name(); name {
			case ".git", "HEAD", "objects", "commondir":
				names[name] = true
			}
			if e.IsDir() && e.Name() != ".git" {
				at.subfolders, bytes = append(at.subfolders, e.Name()), bytes+len(e.Name())
			}
		}
		if n += len(entries); err != nil || n >= mostEntries || bytes > mostBytes {
			at.cut = err != io.EOF
			break
		}
	}
	at.cut = at.cut || closed && len(at.subfolders) > 0
	at.repository = names[".git"] || isBare(func(name string) bool { return names[name] })
	return at, reliable && !fresh
}
