package engine

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"metier"
	"metier/internal/confine"
	"metier/internal/distinct"
)

// homes returns the home folder of the environment, and those that the system knows: of this user, of
// the one who called sudo, and of the owner of the workspace. Services may have no HOME.
func (e *Engine) homes(workspace string) []string {
	ids := []string{strconv.Itoa(os.Geteuid()), e.Env.Get("SUDO_UID")}
	if info, err := os.Stat(workspace); err == nil {
		ids = append(ids, confine.Owner(info))
	}
	homes := []string{e.Env.Home()}
	for _, id := range distinct.Of(ids) {
		if u, err := user.LookupId(id); err == nil { // a user without an entry has no other home
			homes = append(homes, u.HomeDir)
		}
	}
	var out []string
	for _, home := range homes {
		if real, err := confine.RealPath(home); err == nil {
			out = append(out, real)
		}
	}
	return distinct.Of(out)
}

// homesIn returns the home folders that are the workspace or in it. Programs cannot write in a home
// folder, because other programs run what they find there. Its dot-paths look empty to them, as the
// file tools close these.
func (e *Engine) homesIn(workspace string) []string {
	return slices.DeleteFunc(e.homes(workspace), func(home string) bool { return !confine.Within(workspace, home) })
}

// dotPaths lists the entries of a home folder whose names begin with a dot. If they cannot be listed,
// it is the folder itself.
func dotPaths(home string) (out []string) {
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
		Hint: "specify a project folder with Request.Workspace", Err: errors.New("programs would see every file on the host")}
}
