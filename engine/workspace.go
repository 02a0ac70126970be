package engine

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"

	"metier"
	"metier/config"
	"metier/internal/confine"
	"metier/sandbox"
	"metier/settings"
)

// WorkspaceDir resolves the folder of a workspace. "" means the folder of the
// environment.
func (e *Engine) WorkspaceDir(p string) (string, error) {
	dir := e.Env.Path(cmp.Or(p, e.Env.Dir))
	if dir == "" {
		return "", metier.Fieldf(metier.NotFound, "Request.Workspace", "workspace_missing", "change to a folder that exists, or specify one with Request.Workspace",
			"the working folder is unknown: it was deleted, or the environment has none")
	}
	real, err := confine.RealPath(dir)
	if err != nil {
		code := "workspace_unreadable"
		if errors.Is(err, fs.ErrNotExist) {
			code, err = "workspace_missing", errors.New("the folder does not exist")
		}
		return "", &metier.Error{Op: "workspace", Path: dir, Kind: metier.NotFound, Code: code, Field: "Request.Workspace", Hint: "specify an existing folder with Request.Workspace", Err: err}
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return "", &metier.Error{Op: "workspace", Path: dir, Kind: metier.Invalid, Code: "workspace_not_folder", Field: "Request.Workspace", Hint: "specify a folder with Request.Workspace", Err: errors.New("the path is not a folder")}
	}
	return real, nil
}

// Enter resolves the folder of a workspace in which skills and settings are read, after moving
// aside what a killed run left there.
func (e *Engine) Enter(ctx context.Context, p string) (string, error) {
	real, err := e.WorkspaceDir(p)
	if err != nil || e.o.ReadOnly {
		return real, err
	}
	return real, e.sweep(ctx, real)
}

// SandboxFolder returns a workspace as the programs of a run would see it.
func (e *Engine) SandboxFolder(ctx context.Context, dir string) (*sandbox.Workspace, error) {
	ws, err := e.Enter(ctx, dir)
	if err == nil {
		err = notRoot(ws)
	}
	if err != nil {
		return nil, err
	}
	if err := e.remember(knownProjects, ws); err != nil {
		return nil, err
	}
	op, err := config.Load(e.Env)
	if err != nil {
		return nil, err
	}
	set, _, _, err := op.Resolve(e.Env, "", "")
	if err != nil {
		return nil, err
	}
	l := Launch{Workspace: ws, Tools: []string{settings.ToolBash}}
	if l.Roots, err = e.Finder().Find(nil, nil, op.Skills, set, ws, nil); err != nil {
		return nil, err
	}
	if l.Artifacts, err = e.RunsRoot("", op, ws); err != nil {
		return nil, err
	}
	p := e.protected(l, op, set.Operator.Discover, nil)
	if p.unsearched {
		e.Notify(RepositoriesUnsearched())
	}
	return e.sandboxed(l, p, op.Secrets), nil
}
