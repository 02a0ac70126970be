package quarantine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"metier/sandbox"
)

// A guard watches the items of one job.
type guard struct {
	host  string
	root  *os.Root
	entry *entry // in the journal, or nil
	names map[string]bool

	watcher *fsnotify.Watcher
	ended   chan struct{} // closed when the watching goroutine ends

	modes modes

	items    []item // owned by the watching goroutine until it ends
	moved    []sandbox.Quarantined
	restored []string // folders whose permissions were changed
	err      error
}

// guard prepares the workspace of a job. It returns the workspace for the backend to protect.
func (j *Journal) guard(ctx context.Context, ws sandbox.Workspace) (*guard, sandbox.Workspace, error) {
	if j != nil { // the journal may be in the workspace, and must not count as created by a program
		if err := os.MkdirAll(j.dir, 0o700); err != nil {
			return nil, ws, err
		}
	}
	root, err := os.OpenRoot(ws.Host)
	if err != nil {
		return nil, ws, fmt.Errorf("the workspace: %w", err)
	}
	g := &guard{host: ws.Host, root: root, names: map[string]bool{}}
	if !ws.Writable {
		g.items, err = readable(root, ws)
	} else if ws, g.items, err = split(root, ws); err == nil {
		protected := slices.Concat(ws.ReadOnly, ws.Hidden)
		for _, it := range g.items {
			protected = append(protected, it.Path)
		}
		g.modes, err = modesAbove(root, protected)
	}
	if err == nil {
		g.entry, err = j.register(ctx, noted{Workspace: ws.Host, ID: folderID(ws.Host), Items: g.items, Modes: g.modes, Repositories: ws.Repositories, Hooks: ws.Hooks})
	}
	if err != nil {
		return nil, ws, errors.Join(err, root.Close())
	}
	for _, it := range g.items {
		for name := range strings.SplitSeq(it.Path, "/") {
			g.names[strings.ToLower(name)] = true
		}
	}
	return g, ws, nil
}

// readable returns the items of a workspace in which programs cannot write: what is hidden from
// them, and could be replaced.
func readable(root *os.Root, ws sandbox.Workspace) ([]item, error) {
	ws.ReadOnly = nil
	_, items, err := split(root, ws)
	items = slices.DeleteFunc(items, func(it item) bool { return it.Node == "" })
	for i := range items {
		items[i].Keep = true
	}
	return items, err
}

// watch calls stop as soon as something appears in place of an item.
func (g *guard) watch(stop func()) error {
	if len(g.items) == 0 {
		return nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return &sandbox.Unavailable{Backend: "quarantine", Missing: sandbox.Missing{Primitive: "inotify", Detail: err.Error(), Fix: "raise fs.inotify.max_user_instances with sysctl, or the limit of open files (ulimit -n)"}, Err: err}
	}
	g.watcher = w
	if err := g.follow(); err != nil {
		g.watcher = nil
		return errors.Join(err, w.Close())
	}
	g.ended = make(chan struct{})
	go g.look(stop)
	return nil
}

// follow watches every folder on the path to an item.
func (g *guard) follow() error {
	done := map[string]bool{}
	for _, it := range g.items {
		dir := "."
		for name := range strings.SplitSeq(it.Path, "/") {
			if done[dir] {
				dir = path.Join(dir, name)
				continue
			}
			done[dir] = true
			full := filepath.Join(g.host, filepath.FromSlash(dir))
			info, err := g.root.Lstat(dir)
			if err != nil || !info.IsDir() { // check reports other errors
				break
			}
			err = g.watcher.Add(full)
			if errors.Is(err, fs.ErrPermission) {
				err = errors.Join(unlock(g.root, dir), g.watcher.Add(full))
			}
			if errors.Is(err, fs.ErrPermission) {
				return fmt.Errorf("a program takes away the access to %s: %w", full, err)
			}
			if err != nil && !missing(err) && !errors.Is(err, fsnotify.ErrClosed) { // close checks again
				return &sandbox.Unavailable{Backend: "quarantine", Missing: sandbox.Missing{Primitive: "inotify", Detail: full + ": " + err.Error(), Fix: "raise fs.inotify.max_user_watches with sysctl"}, Err: err}
			}
			dir = path.Join(dir, name)
		}
	}
	return nil
}

// look reads events until the watcher is closed.
func (g *guard) look(stop func()) {
	defer close(g.ended)
	pulse := time.NewTicker(heartbeat)
	defer pulse.Stop()
	for {
		at := ""
		select {
		case e, ok := <-g.watcher.Events:
			if !ok {
				return
			}
			if e.Has(fsnotify.Chmod) {
				g.restore(e.Name)
				continue
			}
			if !g.names[strings.ToLower(filepath.Base(e.Name))] {
				continue
			}
			if e.Has(fsnotify.Create) {
				at = e.Name
			} else if !e.Has(fsnotify.Remove) && !e.Has(fsnotify.Rename) {
				continue
			}
		case _, ok := <-g.watcher.Errors: // events were lost
			if !ok {
				return
			}
		case <-pulse.C:
			g.entry.beat()
			continue
		}
		if g.react(at) {
			stop()
		}
	}
}

// restore gives folders back their permissions: the one at a host path, or all for "". It must be
// fast for one path: a program can cause an event for each change of a file, ahead of others.
func (g *guard) restore(at string) {
	changed := g.modes
	if at != "" {
		dir, err := filepath.Rel(g.host, at)
		mode, is := g.modes[filepath.ToSlash(dir)]
		if err != nil || !is {
			return
		}
		changed = modes{filepath.ToSlash(dir): mode}
	}
	restored, err := changed.restore(g.root, nil)
	g.err = errors.Join(g.err, err)
	for _, dir := range restored {
		if !slices.Contains(g.restored, dir) {
			g.restored = append(g.restored, dir)
		}
	}
}

// react moves aside what appeared. It reports whether the program must end. at is the path that was
// created, or "".
func (g *guard) react(at string) bool {
	err := errors.Join(g.follow(), g.check()) // includes folders that just appeared
	if err != nil {                           // close checks again
		g.err = errors.Join(g.err, err)
		return true
	}
	for _, it := range g.items { // the guard of another job may have been faster
		if at == filepath.Join(g.host, filepath.FromSlash(it.Path)) && !slices.ContainsFunc(g.moved, func(q sandbox.Quarantined) bool { return q.Path == it.Path }) {
			_, err := g.entry.apply(it, func() error {
				g.moved = append(g.moved, sandbox.Quarantined{Path: it.Path, Replaced: it.Node != ""})
				return nil
			})
			g.err = errors.Join(g.err, err)
		}
	}
	return g.err != nil || len(g.moved) > 0
}

// check moves aside what is in place of an item, unless another process of this user claimed the
// path.
func (g *guard) check() error {
	var all error
	var left []item
	for _, it := range g.items {
		p, gone, err := it.found(g.root)
		claimed := false
		if err == nil && (p != "" || gone) {
			claimed, err = g.entry.apply(it, func() error { return g.moveAside(it, p) })
			if it.Node != "" && !it.Keep { // nothing is there now, and nothing may appear
				it.Node = ""
			} else {
				claimed = claimed || it.Node != ""
			}
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("the workspace's %s: %w", it.Path, err))
		}
		if !claimed {
			left = append(left, it)
		}
	}
	g.items = left
	return all
}

// moveAside moves aside p, which is in place of an item, and restores the item's link.
func (g *guard) moveAside(it item, p string) error {
	to := ""
	if p != "" && !it.Keep {
		var err error
		if to, err = moveAside(g.root, p); missing(err) && it.Node == "" {
			return nil // another guard was faster, or the program removed it
		} else if err != nil {
			return fmt.Errorf("a program created %s, and it cannot be moved aside: %w", filepath.Join(g.host, p), err)
		}
	}
	if it.Link != "" {
		if err := it.restore(g.root); err != nil {
			return fmt.Errorf("a program removed a link, and it cannot be made again: %w", err)
		}
	}
	now := sandbox.Quarantined{Path: cmp.Or(p, it.Path), To: to, Replaced: it.Node != ""}
	if i := slices.IndexFunc(g.moved, func(q sandbox.Quarantined) bool { return q.Path == now.Path && q.To == "" && q.Replaced }); i >= 0 {
		g.moved[i].To = to // it was gone before
		return nil
	}
	g.moved = append(g.moved, now)
	return nil
}

// end stops watching after the program has ended, and checks a last time.
func (g *guard) end() ([]sandbox.Quarantined, error) {
	if g.watcher != nil {
		err := g.watcher.Close()
		<-g.ended
		g.err = errors.Join(g.err, err)
	}
	g.restore("")
	err := g.check()
	if err != nil || len(g.moved) == 0 {
		err = errors.Join(g.err, err)
	}
	return g.moved, err
}

// close removes the entry in the journal if the workspace is in order. Otherwise, it leaves the entry
// to Sweep.
func (g *guard) close(ordered bool) error {
	if ordered {
		return errors.Join(g.entry.remove(), g.root.Close())
	}
	return errors.Join(g.entry.release(), g.root.Close())
}
