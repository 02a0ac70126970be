package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"metier"
	"metier/internal/confine"
)

// anchors are the folders that can contain a target: first the root, then the allowed roots, which
// are opened when the first link is found. Each is held open, so that resolving and opening use the
// same folder.
type anchors struct {
	first   anchor
	allowed []string // as they were named; nil where links are not followed
	once    sync.Once
	more    []anchor // see reach
}

type anchor struct {
	path string // resolved
	dir  *confine.Dir
}

// anchor opens the root.
func (s *Source) anchor() (*anchors, error) {
	path, err := s.resolve()
	if err != nil {
		return nil, err
	}
	d, err := s.openRoot(path)
	if err != nil {
		return nil, err
	}
	at := &anchors{first: anchor{path, d}}
	if s.links {
		at.allowed = s.opt.AllowedRoots
	}
	return at, nil
}

// reach opens the allowed roots, once.
func (a *anchors) reach() {
	a.once.Do(func() {
		for _, r := range a.allowed {
			path, err := confine.Resolve(r)
			if err != nil || path == a.first.path {
				continue // links into one that is not there are out of bounds, and say so
			}
			if d, err := confine.OpenDir(path); err == nil {
				a.more = append(a.more, anchor{path, d})
			}
		}
	})
}

// get returns the anchor with this number. Only target returns numbers other than 0.
func (a *anchors) get(i int) anchor {
	if i == 0 {
		return a.first
	}
	return a.more[i-1]
}

func (a *anchors) close() {
	a.first.dir.Close()
	a.once.Do(func() {}) // from here on none is opened
	for _, x := range a.more {
		x.dir.Close()
	}
}

// target is the result of resolving a symlink: a path without links below an anchor.
type target struct {
	at   int
	rel  string
	real string
	dir  bool
}

var errOutside = &confine.Error{Op: "resolve", Code: confine.Outside, Err: errors.New("a symlink leaves the root")}

// errHidden is the error for a link to files that are not part of a skill, although they are below
// the root: a repository's configuration may contain a password.
var errHidden = &confine.Error{Op: "resolve", Code: confine.Outside, Err: errors.New("a symlink leads to a folder that is not part of a skill")}

// target follows the links of a host path. The result may change at any moment. Opening it through
// the anchor then fails and never escapes. For a path outside, the error reveals only whether it is
// a folder (dir is set).
func (a *anchors) target(path string) (target, error) {
	a.reach()
	real, err := confine.RealPath(path)
	if err != nil {
		code := confine.NotFound
		if errors.Is(err, fs.ErrPermission) {
			code = confine.Permission
		}
		return target{}, &confine.Error{Op: "resolve", Path: path, Code: code, Err: errors.New("the symlink leads nowhere")}
	}
	fi, err := os.Lstat(real)
	t := target{real: real, dir: err == nil && fi.IsDir()}
	for i := range 1 + len(a.more) {
		if rel, ok := inside(a.get(i).path, real); ok {
			if confine.Private(rel) {
				return target{real: t.real, dir: t.dir}, errHidden
			}
			t.at, t.rel = i, rel
			return t, nil
		}
	}
	return t, errOutside
}

// open opens a resolved file. It fails if any of its parents has become a link.
func (a *anchors) open(t target) (*confine.File, error) { return a.get(t.at).dir.Open(t.rel) }

// node is a folder: its name and its location.
type node struct {
	path string // display path below the root, "." for the root
	at   int    // anchor
	rel  string // path below the anchor without links, "." for the anchor itself
}

func (n node) child(name string) node {
	p := join(n.path, name)
	if n.path == n.rel {
		return node{p, n.at, p}
	}
	return node{p, n.at, join(n.rel, name)}
}

// location returns the host path of a node after resolving links.
func (n node) location(a *anchors) string {
	base := a.get(n.at).path
	switch {
	case n.rel == ".":
		return base
	case filepath.Separator == '/' && base != "/":
		return base + "/" + n.rel // nothing in it needs cleaning
	}
	return filepath.Join(base, filepath.FromSlash(n.rel))
}

// file returns the path of a file in the folder, relative to its anchor, and its host path.
func (n node) file(a *anchors, name string) (rel, location string) {
	base := a.get(n.at).path
	if filepath.Separator != '/' || base == "/" || n.rel == "." {
		rel = join(n.rel, name)
		return rel, filepath.Join(base, filepath.FromSlash(rel))
	}
	location = base + "/" + n.rel + "/" + name
	return location[len(base)+1:], location
}

func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// kindOf and codeOf map an error of confine to the kinds and codes of the root package.
func kindOf(err error) metier.Kind {
	switch confine.CodeOf(err) {
	case confine.NotFound:
		return metier.NotFound
	case confine.Outside, confine.Permission:
		return metier.Denied
	case confine.PathInvalid, confine.IsDir, confine.NotRegular:
		return metier.Invalid
	case confine.TooBig:
		return metier.LimitReached
	}
	return metier.Unavailable
}

func codeOf(err error) string {
	switch confine.CodeOf(err) {
	case confine.NotFound:
		return "resource_not_found"
	case confine.Outside:
		return "resource_outside_root"
	case confine.Permission:
		return "permission_denied"
	case confine.PathInvalid:
		return "resource_path_invalid"
	case confine.IsDir, confine.NotRegular:
		return "resource_not_file"
	case confine.TooBig:
		return "resource-too-large"
	}
	return "unknown"
}
