package quarantine

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"

	"metier/internal/gitrepos"
	"metier/sandbox"
)

// mostFolders is how many folders of a workspace are searched for repositories.
const mostFolders = 200_000

// newRepositories checks the git repositories in a workspace that programs created. Once the user
// adds one to the main repository, git also runs in it. It moves aside the .git of a repository
// whose configuration could make git run a program, and returns the others. whole reports whether all
// folders were searched. ofProgram reports whether a program created a path, or is nil if all are
// from programs.
func newRepositories(f *gitrepos.Finder, ws sandbox.Workspace, ofProgram func(full string) (bool, error)) (kept []string, moved []sandbox.Quarantined, whole bool, err error) {
	if ws.Repositories == nil || !ws.Writable {
		return nil, nil, true, nil
	}
	root, err := os.OpenRoot(ws.Host)
	if err != nil {
		return nil, nil, false, err
	}
	found, whole := f.Find(ws.Host, mostFolders)
	for _, p := range found {
		if slices.Contains(ws.Repositories, p) {
			continue
		}
		full := filepath.Join(ws.Host, filepath.FromSlash(p))
		why := gitrepos.Unsafe(full, ws.Host)
		is := true
		if why != "" && ofProgram != nil {
			var bad error
			if is, bad = ofProgram(filepath.Join(full, ".git")); bad != nil {
				err = errors.Join(err, bad)
				continue
			}
		}
		if why == "" || !is {
			kept = append(kept, p)
			continue
		}
		at := path.Join(p, ".git")
		to, bad := moveAside(root, at)
		if missing(bad) {
			continue // another process was faster
		}
		if err = errors.Join(err, bad); bad == nil {
			moved = append(moved, sandbox.Quarantined{Path: at, To: to, Unsafe: why})
		}
	}
	return kept, moved, whole, errors.Join(err, root.Close())
}
