package gvisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"metier/sandbox"
	"metier/sandbox/gvisor/internal/guest"
)

// work is who a program is, and what it cannot change in its workspace.
type work struct {
	uid, gid int // in the sandbox
	guards   []guest.Guard
	held     []string
}

// prepare decides who the program is, and sees to it that every guarded path is
// there. As root, a program is the workspace's owner; else the caller, whom
// runsc shows as 0. Without a workspace it is nobody.
func prepare(ws *sandbox.Workspace) (*work, error) {
	w := &work{uid: 1000, gid: 1000}
	if ws == nil {
		return w, nil
	}
	info, err := os.Lstat(ws.Host)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the workspace: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("the workspace %s is no folder", ws.Host)
	}
	if real, err := filepath.EvalSymlinks(ws.Host); err != nil || real != ws.Host {
		return nil, fmt.Errorf("the path of the workspace %s has links in it; it is %s", ws.Host, real)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, fmt.Errorf("the workspace %s has no owner", ws.Host)
	}
	w.uid, w.gid = 0, 0
	if os.Geteuid() == 0 {
		w.uid, w.gid = int(st.Uid), int(st.Gid)
	}
	if err := w.guard(ws, int(st.Uid), int(st.Gid)); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// guard lists what is guarded. What is hidden hides all below it; what is
// missing is held by an empty folder where its path begins to be missing.
func (w *work) guard(ws *sandbox.Workspace, uid, gid int) error {
	root, err := os.OpenRoot(ws.Host)
	if err != nil {
		return fmt.Errorf("the workspace: %w", err)
	}
	defer func() { _ = root.Close() }() // read only
	all := map[string]bool{}            // path → hidden
	if ws.Writable {
		for _, p := range ws.ReadOnly {
			all[p] = false
		}
	}
	for _, p := range ws.Hidden {
		all[p] = true
	}
	found := map[string]bool{}
	for p, hidden := range all {
		there, err := w.hold(root, ws, p, uid, gid)
		if err != nil {
			return fmt.Errorf("the workspace's %s: %w", p, err)
		}
		if there != "" {
			found[there] = found[there] || hidden && there == p
		}
	}
	for p, hidden := range found {
		w.guards = append(w.guards, guest.Guard{Path: p, Hidden: hidden})
	}
	slices.SortFunc(w.guards, func(a, b guest.Guard) int { return strings.Compare(a.Path+"/", b.Path+"/") })
	above := ""
	w.guards = slices.DeleteFunc(w.guards, func(g guest.Guard) bool {
		if above != "" && strings.HasPrefix(g.Path, above) {
			return true
		}
		if g.Hidden {
			above = g.Path + "/"
		}
		return false
	})
	return nil
}

// places are the empty folders that hold missing paths, and how many jobs need
// each.
var places = struct {
	sync.Mutex
	jobs map[string]int
}{jobs: map[string]int{}}

// hold finds p, or makes the first part of it that is missing; it returns what
// is to be guarded, "" for nothing. Links cannot be guarded.
func (w *work) hold(root *os.Root, ws *sandbox.Workspace, p string, uid, gid int) (string, error) {
	places.Lock()
	defer places.Unlock()
	name := ""
	for part := range strings.SplitSeq(p, "/") {
		name = path.Join(name, part)
		full := filepath.Join(ws.Host, filepath.FromSlash(name))
		info, err := root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !ws.Writable:
			return "", nil // nobody can make it
		case errors.Is(err, fs.ErrNotExist):
			if err := root.Mkdir(name, 0o755); err != nil {
				return "", err
			}
			places.jobs[full] = 0
			if os.Geteuid() == 0 {
				if err := root.Lchown(name, uid, gid); err != nil {
					return "", err
				}
			}
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink != 0:
			return "", errors.New("a link cannot be guarded; name what it leads to")
		}
		if _, ours := places.jobs[full]; ours {
			places.jobs[full]++
			w.held = append(w.held, full)
			return name, nil
		}
	}
	return p, nil
}

// close takes away the empty folders that no job needs any more.
func (w *work) close() {
	places.Lock()
	defer places.Unlock()
	for _, full := range w.held {
		if places.jobs[full]--; places.jobs[full] <= 0 {
			delete(places.jobs, full)
			_ = syscall.Rmdir(full) // somebody else may have put something there
		}
	}
}
