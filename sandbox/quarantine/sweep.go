package quarantine

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"metier/internal/gitrepos"
	"metier/internal/lockfile"
	"metier/sandbox"
)

// Sweep moves aside what programs created while their metier was killed or stopped, and removes the
// entries of killed processes. It keeps what was created later. here is a workspace that may have
// been moved since.
func (j *Journal) Sweep(ctx context.Context, here string) (moved []Moved, err error) {
	if j == nil {
		return nil, nil
	}
	var left []*ended
	err = j.each(ctx, func(file string, n noted, dead *lockfile.Lock) error {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		at := n.at(here)
		if at == "" {
			if dead == nil || time.Since(info.ModTime()) < keep {
				return nil
			}
			return os.Remove(file)
		}
		last := info.ModTime().Add(slack)
		found, modesErr := restoreModes(at, n.Modes, func(p string) (bool, error) {
			t, err := changed(p)
			return dead == nil || t.Before(last), err
		})
		moved = append(moved, found...)
		found, err = moveItems(at, n.Items, func(p string) (bool, error) {
			if dead == nil { // its process may be stopped
				return true, nil
			}
			t, err := born(p)
			return t.Before(last), err
		})
		moved, err = append(moved, found...), errors.Join(modesErr, err)
		if dead != nil { // otherwise, its process checks the repositories
			left = append(left, &ended{noted: n, file: file, at: at, last: last, failed: err != nil})
		}
		if err != nil {
			moved = append(moved, Moved{Workspace: at, Err: err})
		}
		return nil
	})
	if len(left) == 0 {
		return moved, err
	}
	for _, e := range left { // this may take long, so it does not hold the lock
		found, bad := e.repositories(ctx)
		if ctx.Err() != nil { // the next command checks them
			return moved, errors.Join(err, ctx.Err())
		}
		if moved = append(moved, found...); bad != nil {
			e.failed, moved = true, append(moved, Moved{Workspace: e.at, Err: bad})
		}
	}
	return moved, errors.Join(err, j.forget(ctx, left))
}

// forget removes the entries of killed processes.
func (j *Journal) forget(ctx context.Context, list []*ended) error {
	return j.locked(ctx, func() (err error) {
		for _, e := range list {
			if e.failed {
				continue
			}
			if bad := os.Remove(e.file); !errors.Is(bad, fs.ErrNotExist) { // another process may have been faster
				err = errors.Join(err, bad)
			}
		}
		return err
	})
}

// ended is the entry of a killed process.
type ended struct {
	noted
	file   string
	at     string    // where the workspace is
	last   time.Time // until when a program may have been running
	failed bool      // the entry stays
}

// repositories checks the git repositories that programs of a killed process created.
func (e *ended) repositories(ctx context.Context) (out []Moved, err error) {
	if e.Repositories == nil {
		return nil, nil
	}
	n := e.noted
	n.Workspace = e.at
	s, err := settle(ctx, &gitrepos.Finder{}, n, func(p string) (bool, error) {
		t, err := born(p)
		return t.Before(e.last) && ctx.Err() == nil, errors.Join(err, ctx.Err())
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, q := range s.moved {
		out = append(out, Moved{Workspace: e.at, Quarantined: q})
	}
	for _, q := range s.ofUser {
		out = append(out, Moved{Workspace: e.at, Quarantined: q, Kept: true})
	}
	if !s.whole {
		out = append(out, Moved{Workspace: e.at, Unsearched: true})
	}
	return out, err
}

// at returns where the workspace is now: its path, or here if it was moved there, or "" if unknown.
func (n noted) at(here string) string {
	for _, dir := range []string{n.Workspace, here} {
		if id := folderID(dir); id != "" && (hasID(id, n.ID) || n.ID == "" && dir == n.Workspace) {
			return dir
		}
	}
	return ""
}

// restoreModes gives folders of a workspace back their permissions if a program changed them.
func restoreModes(workspace string, m modes, ofProgram func(full string) (bool, error)) (out []Moved, err error) {
	if len(m) == 0 {
		return nil, nil
	}
	at := func(dir string) string { return filepath.Join(workspace, filepath.FromSlash(dir)) }
	root, err := os.OpenRoot(workspace)
	if errors.Is(err, fs.ErrPermission) {
		if is, err := ofProgram(workspace); err != nil || !is {
			return nil, err
		}
		root, err = openRoot(workspace)
		out = append(out, Moved{Workspace: workspace, Quarantined: sandbox.Quarantined{Path: "."}, Restored: true})
	}
	if missing(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	restored, err := m.restore(root, func(dir string) (bool, error) { return ofProgram(at(dir)) })
	for _, dir := range restored {
		out = append(out, Moved{Workspace: workspace, Quarantined: sandbox.Quarantined{Path: dir}, Restored: true})
	}
	return out, errors.Join(err, root.Close())
}

// moveItems moves aside what is in place of items if a program created it.
func moveItems(workspace string, items []item, ofProgram func(full string) (bool, error)) ([]Moved, error) {
	root, err := openRoot(workspace)
	if missing(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var moved []Moved
	for _, it := range items {
		p, gone, foundErr := it.found(root)
		to := ""
		if it.Node != "" && foundErr == nil && (p == "" || it.Keep) {
			continue // the user may have removed or replaced it since
		}
		if p != "" && foundErr == nil {
			var is bool
			if is, foundErr = ofProgram(filepath.Join(workspace, filepath.FromSlash(p))); foundErr == nil && is {
				to, foundErr = moveAside(root, p)
			} else if foundErr == nil && it.Node != "" {
				continue
			} else if foundErr == nil {
				moved = append(moved, Moved{Workspace: workspace, Quarantined: sandbox.Quarantined{Path: p}, Kept: true})
				continue
			}
		}
		if foundErr == nil && it.Link != "" && (p != "" || gone) {
			foundErr = it.restore(root)
		}
		if foundErr != nil && !errors.Is(foundErr, fs.ErrNotExist) {
			err = errors.Join(err, foundErr)
		} else if to != "" || gone {
			moved = append(moved, Moved{Workspace: workspace, Quarantined: sandbox.Quarantined{Path: cmp.Or(p, it.Path), To: to}})
		}
	}
	return moved, errors.Join(err, root.Close())
}
