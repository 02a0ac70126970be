package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"metier"
	"metier/internal/confine"
)

// homeIn returns the user's home folder if it is the workspace or in it, or "". Programs cannot write
// in the home folder, because other programs run what they find there. Its dot-paths look empty to
// them, as the file tools close these.
func (e *Engine) homeIn(workspace string) string {
	home, err := confine.RealPath(e.Env.Home())
	if err != nil || e.Env.Home() == "" || !confine.Within(workspace, home) {
		return ""
	}
	return home
}

// dotPaths lists the entries of a home folder whose names begin with a dot. If they cannot be listed,
// it is the folder itself.
func dotPaths(home string) (out []string) {
	if home == "" {
		return nil
	}
	entries, err := os.ReadDir(home)
	if err != nil {
		return []string{home} // all of it
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			out = append(out, filepath.Join(home, e.Name()))
		}
	}
	return out
}

// notRoot fails if a workspace is the root of the file system: programs would see the whole host.
func notRoot(workspace string) error {
	if filepath.Dir(workspace) != workspace {
		return nil
	}
	return &metier.Error{Op: "workspace", Path: workspace, Kind: metier.Denied, Code: "workspace_is_root", Field: "Request.Workspace",
		Hint: "name a project folder with Request.Workspace", Err: errors.New("programs would see every file of the host")}
}
