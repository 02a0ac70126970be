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
	repositories := j.search(ctx, here)
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
		found, modesErr := restoreModes(at, n.Modes, func(p string) (bool, error) {
			t, err := changed(p)
			return dead == nil || t.Before(info.ModTime().Add(slack)), err
		})
		moved = append(moved, found...)
		found, err = moveItems(at, n.Items, func(p string) (bool, error) {
			if dead == nil { // its process may be stopped
				return true, nil
			}
			t, err := born(p)
			return t.Before(info.ModTime().Add(slack)), err
		})
		moved, err = append(moved, found...), errors.Join(modesErr, err)
		present, searched := repositories[file]
		if dead != nil { // otherwise, its process checks them
			_, unsafe, repoErr := newRepositories(at, present, n.Repositories, n.Hooks, func(p string) (bool, error) {
				t, err := born(p)
				return t.Before(info.ModTime().Add(slack)), err
			})
			for _, q := range unsafe {
				moved = append(moved, Moved{Workspace: at, Quarantined: q})
			}
			err = errors.Join(err, repoErr)
		}
		if err != nil {
			moved = append(moved, Moved{Workspace: at, Err: err})
		}
		if dead == nil || err != nil || !searched { // a process that was just killed is next
			return nil
		}
		return os.Remove(file)
	})
	return moved, err
}

// search returns the git repositories in the workspaces of killed processes, by entry. It takes long
// in a large workspace, so it does not hold the lock of the journal meanwhile. Errors occur again in
// Sweep.
func (j *Journal) search(ctx context.Context, here string) map[string][]string {
	found, left := map[string][]string{}, map[string]string{}
	_ = j.each(ctx, func(file string, n noted, dead *lockfile.Lock) error {
		if dead == nil {
			return nil
		}
		found[file] = nil
		if at := n.at(here); at != "" && n.Repositories != nil {
			left[file] = at
		}
		return nil
	})
	var f gitrepos.Finder
	for file, at := range left {
		found[file], _ = f.Find(at, mostFolders)
	}
	return found
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
