package engine

import (
	"path/filepath"
	"sync"

	"metier/config"
	"metier/internal/gitrepos"
	"metier/policy"
	"metier/sandbox"
	"metier/sandbox/quarantine"
)

const unsearched = "some git repositories in this workspace may be unprotected: it has too many folders to search, or a git configuration that cannot be read; raise max_dirs, or use a smaller workspace"

// repos are the git repositories in workspaces.
type repos struct {
	finder gitrepos.Finder

	mu         sync.Mutex
	ofPrograms map[string]bool // folders of those that programs created, which stay writable for programs
}

// quarantined returns a sandbox that protects paths which the given one cannot.
func (e *Engine) quarantined(s sandbox.Sandbox) *quarantine.Sandbox {
	q := quarantine.New(s, e.journal())
	q.Finder = &e.repos.finder
	return q
}

// find returns the folders of repositories below a workspace that programs did not create, as slash
// paths. It is never nil. whole reports whether most folders were enough.
func (r *repos) find(workspace string, most int) (dirs []string, whole bool) {
	found, whole := r.finder.Find(workspace, most)
	r.mu.Lock()
	defer r.mu.Unlock()
	dirs = []string{}
	for _, p := range found {
		if !r.ofPrograms[filepath.Join(workspace, filepath.FromSlash(p))] {
			dirs = append(dirs, p)
		}
	}
	return dirs, whole
}

// created notes repositories that a program created.
func (r *repos) created(workspace string, dirs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range dirs {
		if r.ofPrograms == nil {
			r.ofPrograms = map[string]bool{}
		}
		r.ofPrograms[filepath.Join(workspace, filepath.FromSlash(p))] = true
	}
}

// nestedRepository returns the git metadata of a repository in the workspace. Its submodules are
// repositories of their own.
func nestedRepository(dir string, env config.Env) (out []string, unread bool) {
	out, unread = obeyed(dir, env)
	out = append(append(out, filepath.Join(dir, ".git")), gitFolders(dir)...)
	if isRepository(dir) {
		paths, partial := ofBareRepository(dir, env)
		out, unread = append(out, paths...), unread || partial
	}
	return out, unread
}

// changes reports whether a tool of the launch can change files.
func (l Launch) changes() bool {
	for _, t := range l.Tools {
		if effect, known := config.ToolEffect(t); !known || effect != policy.Read {
			return true
		}
	}
	return false
}
