package engine

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"metier/internal/confine"
)

// staging returns the folder where scripts are copied to run on the host, or "" for the system's
// temporary folder. Interpreters search the folders above a script for packages, so no other user,
// and no file tool of the run, may write to them if there is such a folder.
func (e *Engine) staging(workspace string) string {
	for _, dir := range []string{e.Env.Get("XDG_RUNTIME_DIR"), e.Env.StateDir()} {
		if filepath.IsAbs(dir) && (workspace == "" || !strings.HasPrefix(dir, filepath.Clean(workspace)+string(filepath.Separator))) && held(dir) {
			return filepath.Join(dir, "metier-host")
		}
	}
	return ""
}

// held reports whether only this user and root can write to a folder and to those above it. A
// missing folder depends on those above it.
func held(dir string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		missing := err != nil && os.IsNotExist(err)
		if !missing && (err != nil || info.Mode()&fs.ModeSymlink != 0 || !confine.HeldLike(info, nil)) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}
