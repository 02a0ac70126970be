package engine

import (
	"context"
	"os"

	"metier"
	"metier/internal/confine"
	"metier/internal/termtext"
	"metier/sandbox"
)

// shown lists the host paths that programs of the run can read at the same path. Without a sandbox,
// programs can read everything.
func (r *Run) shown(ctx context.Context) []string {
	switch r.launch.Sandbox {
	case BackendUnsafe:
		return nil
	case customSandbox:
		return r.sandbox.Probe(ctx).Visible
	}
	return append(sandbox.SystemPaths(), r.op.Sandbox.Visible...)
}

// closedPath is a path that programs must not read.
type closedPath struct{ path, what, field, hint string }

// closedPaths lists what e.closed does, and the other records of the workspace.
func (r *Run) closedPaths() (out []closedPath) {
	const move = "move it to a folder that programs cannot see, such as ~/.config/metier, and change "
	for _, p := range r.launch.Closed {
		out = append(out, closedPath{p, "the file", "Request.Closed", move + "Request.Closed"})
	}
	for _, s := range r.op.Secrets {
		out = append(out, closedPath{s.File, "the file of the secret " + s.Name + ",", "", move + "secrets in the configuration"})
	}
	index, _ := r.e.Env.IndexDir()
	out = append(out,
		closedPath{index, "the index of skills", "", "set METIER_INDEX to a folder that programs cannot see"},
		closedPath{r.e.Env.StateDir(), "the state folder", "", "set XDG_STATE_HOME to a folder that programs cannot see"})
	records := func(p string) {
		out = append(out, closedPath{p, "the folder of records", "Request.Artifacts", "move it to a folder that programs cannot see, and specify it with Request.Artifacts"})
	}
	records(r.launch.Artifacts)
	_, hidden := r.e.guarded(r.launch.Workspace, r.launch.Cwd)
	for _, p := range append(hidden, r.e.records(r.launch.Workspace)...) {
		if _, err := os.Lstat(p); err == nil {
			records(p)
		}
	}
	return out
}

// checkShown fails if the sandbox shows a path that programs must not read. Such a path is hidden
// in the workspace, but only there.
func (r *Run) checkShown(ctx context.Context) error {
	shown := r.shown(ctx)
	for _, c := range r.closedPaths() {
		for _, dir := range shown {
			if c.path != "" && confine.Within(confine.RealPathOfExisting(dir), confine.RealPathOfExisting(c.path)) {
				return metier.Fieldf(metier.Denied, c.field, "closed_path_visible", c.hint,
					"%s %s is in %s, which programs in the sandbox can read", termtext.Line(c.what), termtext.Line(c.path), termtext.Line(dir))
			}
		}
	}
	return nil
}
