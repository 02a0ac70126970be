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

// newRepositories checks the git repositories that programs created, among those found in a workspace.
// Once the user adds one to the main repository, git also runs in it. It moves aside the .git of a
// repository whose configuration could make git run a program, and returns the others. known are
// repositories that programs did not create. hooks are folders of hooks. ofProgram reports whether a program created a path, or
// is nil if all are from programs.
func newRepositories(workspace string, found, known, hooks []string, ofProgram func(full string) (bool, error)) (kept []string, moved []sandbox.Quarantined, err error) {
	found = slices.DeleteFunc(slices.Clone(found), func(p string) bool { return slices.Contains(known, p) })
	if len(found) == 0 {
		return nil, nil, nil
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range found {
		full := filepath.Join(workspace, filepath.FromSlash(p))
		why := gitrepos.Unsafe(full, workspace, hooks...)
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
	return kept, moved, errors.Join(err, root.Close())
}
