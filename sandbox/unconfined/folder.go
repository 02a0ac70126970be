package unconfined

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"metier/sandbox"
)

// folder opens the folder in which a job starts, if it is in the workspace. It follows links that
// stay there and rejects hidden paths. The program starts in the opened folder even if its path is
// replaced meanwhile. If the job starts elsewhere, folder returns nil.
func folder(j sandbox.Job) (*os.File, error) {
	rel, below := strings.CutPrefix(j.Start()+"/", sandbox.WorkspaceDir+"/")
	if !below || j.Workspace == nil {
		return nil, nil
	}
	root, err := os.OpenRoot(j.Workspace.Host)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(filepath.FromSlash("./" + rel)) // the trailing slash rejects a pipe without blocking
	if err != nil {
		return nil, err
	}
	if err = shown(f, j.Workspace); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// shown returns an error if a job must not start in a folder.
func shown(f *os.File, w *sandbox.Workspace) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", f.Name())
	}
	real, err := filepath.EvalSymlinks(held(f))
	if err != nil {
		return err
	}
	for _, h := range w.Hidden {
		hidden, err := filepath.EvalSymlinks(filepath.Join(w.Host, filepath.FromSlash(h)))
		if err != nil {
			continue // it does not exist
		}
		if rel, err := filepath.Rel(hidden, real); err == nil && filepath.IsLocal(rel) {
			return fmt.Errorf("%s is hidden from programs", f.Name())
		}
	}
	return nil
}
