package engine

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/config"
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
type closedPath struct {
	path  string
	what  string // it, with its path
	field string // that sets it, or ""
	hint  string
}

// closedPaths lists the paths that no tool may read or write, as closed describes them.
func (e *Engine) closedPaths(l Launch, secrets []config.Secret) (out []closedPath) {
	const move = "move it to a folder that programs cannot see, such as ~/.config/metier, and change "
	for _, p := range append([]string{l.Artifacts}, e.records(l.Workspace)...) {
		out = append(out, recordsAt(p))
	}
	index, _ := e.Env.IndexDir()
	out = append(out,
		closedPath{e.Env.StateDir(), "the state folder " + e.Env.StateDir(), "", "set XDG_STATE_HOME to a folder that programs cannot see"},
		closedPath{index, "the index of skills " + index, "", "set METIER_INDEX to a folder that programs cannot see"})
	for _, p := range l.Closed {
		out = append(out, closedPath{p, "the file " + p, "Request.Closed", move + "Request.Closed"})
	}
	for _, s := range secrets {
		out = append(out, closedPath{s.File, "the file " + s.File + " of the secret " + s.Name, "", move + "secrets in the configuration"})
	}
	return slices.DeleteFunc(out, func(c closedPath) bool { return c.path == "" })
}

func recordsAt(folder string) closedPath {
	return closedPath{folder, "the folder of records " + folder, "Request.Artifacts", "move it to a folder that programs cannot see, and specify it with Request.Artifacts"}
}

// checkSkills fails if a skill's folder, or a harness, contains a file that no tool may read: models
// and clients can read the files of skills.
func (r *Run) checkSkills(snap *metier.Snapshot) error {
	above := map[string]closedPath{} // the folders that contain such files
	closed := r.e.closedPaths(r.launch, r.op.Secrets)
	inside := make([]string, len(closed)) // what the paths of files in them begin with
	for i, c := range closed {
		real := confine.RealPathOfExisting(c.path)
		closed[i].path, inside[i] = real, real+string(filepath.Separator)
		for dir := real; ; dir = filepath.Dir(dir) {
			rel, _ := filepath.Rel(dir, real)
			if _, known := above[dir]; !known && !confine.Private(filepath.ToSlash(rel)) {
				above[dir] = c
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	check := func(dir, what, name string) error {
		c, bad := above[dir]
		if !bad || dir == "" {
			return nil
		}
		return metier.Fieldf(metier.Denied, c.field, "closed_path_visible", c.hint,
			"%s is in the folder of %s %s, whose files models can read: %s", termtext.Line(c.what), what, termtext.Line(name), termtext.Line(dir))
	}
	for sk := range snap.Each() {
		if sk.State == metier.Refused {
			continue
		}
		if err := check(sk.Dir(), "the skill", sk.Name); err != nil {
			return err
		}
		for i, c := range closed { // SKILL.md can be a link to it
			if at := sk.Head.Location; at == c.path || strings.HasPrefix(at, inside[i]) {
				return metier.Fieldf(metier.Denied, c.field, "closed_path_visible", c.hint, "the SKILL.md of the skill %s leads to %s", termtext.Line(sk.Name), termtext.Line(c.what))
			}
		}
	}
	for _, m := range snap.Mounts() {
		if !m.ByPath {
			continue
		}
		if err := check(m.Root, "the harness", m.Label); err != nil {
			return err
		}
	}
	return nil
}

// checkShown fails if the sandbox shows a path that programs must not read, or other records of the
// workspace. Such a path is hidden in the workspace, but only there.
func (r *Run) checkShown(ctx context.Context) error {
	list := r.e.closedPaths(r.launch, r.op.Secrets)
	_, hidden := r.e.guarded(r.launch.Workspace, r.launch.Cwd)
	for _, p := range hidden {
		if _, err := os.Lstat(p); err == nil {
			list = append(list, recordsAt(p))
		}
	}
	shown := r.shown(ctx)
	var real confine.Paths
	for _, c := range list {
		for _, dir := range shown {
			if real.Within(dir, c.path) {
				return metier.Fieldf(metier.Denied, c.field, "closed_path_visible", c.hint,
					"%s is in %s, which programs in the sandbox can read", termtext.Line(c.what), termtext.Line(dir))
			}
		}
	}
	return nil
}
