package gvisor

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"metier/sandbox"
	"metier/sandbox/gvisor/internal/guest"
)

// work holds the program's IDs and what it cannot change in its workspace.
type work struct {
	uid, gid int // in the sandbox
	guards   []guest.Guard
	thread   *thread // starts runsc
	notes    []string
}

// prepare chooses the program's IDs and lists what it cannot change. If metier is root, the program
// runs as an unused ID to which the workspace's owner is mapped, or if the host cannot map it, as
// the owner; otherwise as the current user, whom runsc shows as 0. Without a workspace it runs as an
// unprivileged ID.
func (s *Sandbox) prepare(ws *sandbox.Workspace) (*work, error) {
	w := &work{uid: 1000, gid: 1000, thread: newThread()}
	if err := w.use(ws, s.o.Log); err != nil {
		w.thread.close()
		return nil, err
	}
	return w, nil
}

func (w *work) use(ws *sandbox.Workspace, log *slog.Logger) error {
	if ws == nil {
		return nil
	}
	info, err := os.Lstat(ws.Host)
	switch {
	case err != nil:
		return fmt.Errorf("the workspace: %w", err)
	case !info.IsDir():
		return fmt.Errorf("the workspace %s is not a folder", ws.Host)
	}
	if real, err := filepath.EvalSymlinks(ws.Host); err != nil || real != ws.Host {
		return fmt.Errorf("the path of the workspace %s has links in it; it is %s", ws.Host, real)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("the workspace %s has no owner", ws.Host)
	}
	w.uid, w.gid = 0, 0
	if os.Geteuid() == 0 {
		w.uid, w.gid = unused, unused
		err := short(w.thread.do(func() error { return remap(ws.Host, int(st.Uid), int(st.Gid)) }))
		if errors.As(err, new(*sandbox.Unavailable)) {
			return err
		}
		if err != nil {
			log.Debug("the owner of the workspace cannot be mapped", "workspace", ws.Host, "error", err)
			w.uid, w.gid, w.notes = int(st.Uid), int(st.Gid), []string{NoteOwner}
		}
	}
	return w.guard(ws)
}

// guard lists the protected paths that exist. A hidden path hides everything below it.
func (w *work) guard(ws *sandbox.Workspace) error {
	root, err := os.OpenRoot(ws.Host)
	if err != nil {
		return fmt.Errorf("the workspace: %w", err)
	}
	defer func() { _ = root.Close() }() // opened read-only
	found := map[string]bool{}          // path → hidden
	if ws.Writable {
		for _, p := range ws.ReadOnly {
			found[p] = false
		}
	}
	for _, p := range ws.Hidden {
		found[p] = true
	}
	for p, hidden := range found {
		there, err := exists(root, p)
		if err != nil {
			return fmt.Errorf("the workspace's %s: %w", p, err)
		}
		if there {
			w.guards = append(w.guards, guest.Guard{Path: p, Hidden: hidden})
		}
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

// exists reports whether a path exists. It rejects links, which cannot be guarded.
func exists(root *os.Root, p string) (bool, error) {
	name := ""
	for part := range strings.SplitSeq(p, "/") {
		name = path.Join(name, part)
		info, err := root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			return false, nil
		case err != nil:
			return false, err
		case info.Mode()&fs.ModeSymlink != 0:
			return false, errors.New("a link cannot be guarded; name what it leads to")
		}
	}
	return true, nil
}
