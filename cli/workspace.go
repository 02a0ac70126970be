package cli

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"metier"
	"metier/internal/confine"
	"metier/skillroots"
	"metier/tool"
	"metier/userstate"
)

// parseMount reads --mount name=,source=,target=,mode=.
func (a *app) parseMount(v string) (tool.Mount, error) {
	var m tool.Mount
	for _, part := range strings.Split(v, ",") {
		k, val, ok := strings.Cut(part, "=")
		if !ok {
			return m, wrong("usage", "write it as --mount name=NAME,source=DIR,target=/PATH,mode=ro", "--mount: %q has no value", part)
		}
		switch k {
		case "name":
			m.Name = val
		case "source":
			m.Source = a.env.Path(val)
		case "target":
			m.Target = val
		case "mode":
			m.Mode = val
		default:
			return m, wrong("usage", "the keys are name, source, target and mode", "--mount: unknown key %q", k)
		}
	}
	if m.Name == "" || m.Source == "" || !strings.HasPrefix(m.Target, "/") || !slices.Contains([]string{"", "ro", "rw"}, m.Mode) {
		return m, wrong("usage", "write it as --mount name=NAME,source=DIR,target=/PATH,mode=ro", "--mount %q needs a name, a source, an absolute target and the mode ro or rw", v)
	}
	return m, nil
}

// workspaceDir resolves the workspace folder.
func (a *app) workspaceDir(p string) (string, error) {
	dir := a.env.Path(cmp.Or(p, a.Dir))
	real, err := confine.RealPath(dir)
	if err != nil {
		code := "workspace_unreadable"
		if errors.Is(err, fs.ErrNotExist) {
			code, err = "workspace_missing", errors.New("there is no such folder")
		}
		return "", &metier.Error{Op: "workspace", Path: dir, Kind: metier.NotFound, Code: code, Hint: "give a folder that exists with --workspace", Err: err}
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return "", &metier.Error{Op: "workspace", Path: dir, Kind: metier.Invalid, Code: "workspace_not_folder", Hint: "give a folder with --workspace", Err: errors.New("it is not a folder")}
	}
	return real, nil
}

// enter resolves the folder of a workspace in which skills and settings are
// read, once what a killed run left there is moved aside.
func (a *app) enter(ctx context.Context, p string) (string, error) {
	real, err := a.workspaceDir(p)
	if err != nil {
		return "", err
	}
	return real, a.sweep(ctx, real)
}

// finder finds the roots of skills of this invocation.
func (a *app) finder() skillroots.Finder { return skillroots.Finder{Env: a.env, Org: a.org} }

// state is what the user of this invocation decided.
func (a *app) state() userstate.Store { return userstate.New(a.env) }
