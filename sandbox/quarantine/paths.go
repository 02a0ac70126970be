package quarantine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"metier/internal/rootfile"
	"metier/sandbox"
)

// An item is a protected path that must stay unchanged while programs run.
type item struct {
	// Path is the slash path in the workspace. None of its parent folders is a link.
	Path string `json:"path"`
	// Link is the target of the symbolic link at Path. If Link and Node are empty, nothing exists at
	// Path.
	Link string `json:"link,omitempty"`
	// Node identifies the file or folder at Path. The backend covers it, but a program on the host
	// that replaces it removes the cover.
	Node string `json:"node,omitempty"`
	// Keep leaves in place what replaces the file at Path.
	Keep bool `json:"keep,omitempty"`
}

// split divides the protected paths of a workspace. The backend protects those that exist, by their
// path without links. The items are for the guard: also those that exist, which may be replaced.
func split(root *os.Root, ws sandbox.Workspace) (sandbox.Workspace, []item, error) {
	var items []item
	existing := func(paths []string, hidden bool) ([]string, error) {
		var out []string
		seen := map[string]bool{}
		for _, p := range paths {
			real, found, err := resolve(root, ws.Host, p)
			if err != nil {
				return nil, fmt.Errorf("the workspace's %s: %w", p, err)
			}
			if real != "" && !seen[real] {
				out, seen[real] = append(out, real), true
				found = append(found, covered(root, real, hidden)...)
			}
			items = append(items, found...)
		}
		return out, nil
	}
	var err error
	if ws.ReadOnly, err = existing(ws.ReadOnly, false); err != nil {
		return ws, nil, err
	}
	if ws.Hidden, err = existing(ws.Hidden, true); err != nil {
		return ws, nil, err
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.Path, b.Path) })
	return ws, slices.Compact(items), nil
}

// covered returns the item of an existing path. A hidden file that is replaced, such as a secret,
// is kept: programs could read it by then.
func covered(root *os.Root, p string, hidden bool) []item {
	info, err := root.Lstat(p)
	id := node(filepath.Join(root.Name(), filepath.FromSlash(p)))
	if err != nil || id == "" {
		return nil
	}
	return []item{{Path: p, Node: id, Keep: hidden && !info.IsDir()}}
}

// mostLinks is the maximum number of symbolic links followed for a path.
const mostLinks = 40

// resolve follows a path of the workspace as far as it exists. It returns the path without links,
// or "" if it does not exist or a link leads outside, where programs cannot write. items are the
// links on the path, and the missing part.
func resolve(root *os.Root, host, p string) (real string, items []item, err error) {
	at, todo := ".", strings.Split(p, "/")
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if at == "." {
				return "", items, nil
			}
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, name)
		info, err := root.Lstat(next)
		switch {
		case missing(err):
			if !slices.Contains(todo, "..") {
				next = path.Join(append([]string{next}, todo...)...)
			}
			return "", append(items, item{Path: next}), nil
		case errors.Is(err, fs.ErrPermission):
			return at, items, nil
		case err != nil:
			return "", nil, err
		case info.Mode()&fs.ModeSymlink == 0:
			at = next
			continue
		}
		if len(items) == mostLinks {
			return "", nil, errors.New("too many symbolic links are on the way")
		}
		target, err := root.Readlink(next)
		if err != nil {
			return "", nil, err
		}
		items = append(items, item{Path: next, Link: target})
		if filepath.IsAbs(target) {
			rel, err := filepath.Rel(host, target)
			if err != nil || !filepath.IsLocal(rel) {
				return "", items, nil
			}
			at, target = ".", rel
		}
		todo = append(strings.Split(filepath.ToSlash(target), "/"), todo...)
	}
	if at == "." { // a link to the workspace itself, which cannot be covered
		at = ""
	}
	return at, items, nil
}

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// found returns the path of what is in place of an item: its path, or a symbolic link on the way to
// it. It returns "" if the item is unchanged. gone reports that it existed and no longer does.
func (it item) found(root *os.Root) (p string, gone bool, err error) {
	p, gone, err = it.look(root)
	if errors.Is(err, fs.ErrPermission) {
		if err = unlock(root, path.Dir(it.Path)); err == nil {
			return it.look(root)
		}
	}
	return p, gone, err
}

func (it item) look(root *os.Root) (p string, gone bool, err error) {
	parts := strings.Split(it.Path, "/")
	for i := range parts {
		p := strings.Join(parts[:i+1], "/")
		info, err := root.Lstat(p)
		switch last := i == len(parts)-1; {
		case missing(err):
			return "", it.Link != "" || it.Node != "", nil
		case err != nil:
			return "", false, err
		case last && it.Link != "" && info.Mode()&fs.ModeSymlink != 0:
			if target, err := root.Readlink(p); err != nil || target == it.Link {
				return "", false, err
			}
			return p, false, nil
		case last && it.Node != "" && it.Node == node(filepath.Join(root.Name(), filepath.FromSlash(p))):
			return "", false, nil
		case last, info.Mode()&fs.ModeSymlink != 0:
			return p, false, nil
		}
	}
	return "", false, nil
}

// openRoot opens a workspace, even if a program made it inaccessible.
func openRoot(workspace string) (*os.Root, error) {
	root, err := os.OpenRoot(workspace)
	if !errors.Is(err, fs.ErrPermission) {
		return root, err
	}
	if info, err := os.Lstat(workspace); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder any more: %w", workspace, errors.Join(err, fs.ErrNotExist))
	} else if err := os.Chmod(workspace, info.Mode().Perm()|0o700); err != nil {
		return nil, err
	}
	return os.OpenRoot(workspace)
}

// mostTries is the maximum number of names that moveAside tries.
const mostTries = 100

// moveAside renames a path to a name in the same folder that no other tool reads. It does not follow
// a link that a program puts in the way.
func moveAside(root *os.Root, p string) (to string, err error) {
	parent := path.Dir(p)
	dir, err := rootfile.EnterPath(root, parent, nil)
	if errors.Is(err, fs.ErrPermission) {
		if err = unlock(root, parent); err == nil {
			dir, err = rootfile.EnterPath(root, parent, nil)
		}
	}
	if err != nil {
		return "", err
	}
	defer dir.Close()
	name := path.Base(p)
	to = name + ".quarantined"
	for n := int64(2); ; n++ {
		if _, err := dir.Lstat(to); missing(err) {
			break
		} else if err != nil {
			return "", err
		}
		if n == mostTries { // the names are taken
			n = time.Now().UnixNano()
		}
		to = fmt.Sprintf("%s.quarantined-%d", name, n)
	}
	err = dir.Rename(name, to)
	if errors.Is(err, fs.ErrPermission) {
		if err := unlock(root, parent); err != nil {
			return "", err
		}
		err = dir.Rename(name, to)
	}
	return path.Join(parent, to), err
}

// unlock restores the owner's access to a folder and its parents, since a program may have removed
// it.
func unlock(root *os.Root, dir string) error {
	info, err := os.Lstat(root.Name()) // a program cannot replace the workspace itself
	if err == nil && info.IsDir() && info.Mode().Perm()&0o700 != 0o700 {
		err = os.Chmod(root.Name(), info.Mode().Perm()|0o700)
	}
	if err != nil || dir == "." {
		return err
	}
	last, err := rootfile.EnterPath(root, dir, func(in *os.Root, name string) error {
		info, err := in.Lstat(name)
		if err == nil && info.IsDir() && info.Mode().Perm()&0o700 != 0o700 {
			err = in.Chmod(name, info.Mode().Perm()|0o700)
		}
		return err
	})
	if missing(err) || errors.Is(err, rootfile.ErrLink) {
		return nil
	}
	if err == nil {
		err = last.Close()
	}
	return err
}

// restore recreates the link of an item, owned by the owner of the workspace. Parent folders may be
// missing too.
func (it item) restore(root *os.Root) error {
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	dir, err := rootfile.EnterPath(root, path.Dir(it.Path), func(in *os.Root, name string) error {
		if err := in.Mkdir(name, 0o755); errors.Is(err, fs.ErrExist) {
			return nil
		} else if err != nil {
			return err
		}
		return giveTo(in, name, info)
	})
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Symlink(it.Link, path.Base(it.Path)); err != nil {
		return err
	}
	return giveTo(dir, path.Base(it.Path), info)
}
