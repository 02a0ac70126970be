package unconfined

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"metier/sandbox"
)

// folder opens the folder that a job starts in, where that is in the workspace:
// links are followed as long as they stay there, and what the workspace hides is
// refused. The program starts in what was opened, whatever stands in its place
// by then. Nil: it starts elsewhere.
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
	f, err := root.Open(filepath.FromSlash("./" + rel)) // it ends in a slash: a pipe is no folder, and not waited for
	if err != nil {
		return nil, err
	}
	if err = shown(f, j.Workspace); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// shown reports what keeps a job from starting in a folder.
func shown(f *os.File, w *sandbox.Workspace) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no folder", f.Name())
	}
	real, err := filepath.EvalSymlinks(held(f))
	if err != nil {
		return err
	}
	for _, h := range w.Hidden {
		hidden, err := filepath.EvalSymlinks(filepath.Join(w.Host, filepath.FromSlash(h)))
		if err != nil {
			continue // it is not there
		}
		if rel, err := filepath.Rel(hidden, real); err == nil && filepath.IsLocal(rel) {
			return fmt.Errorf("%s is hidden from programs", f.Name())
		}
	}
	return nil
}
