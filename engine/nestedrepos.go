package engine

import (
	"cmp"
	"context"
	"path/filepath"
	"sync"

	"metier/internal/gitrepos"
	"metier/sandbox"
	"metier/sandbox/quarantine"
)

// RepositoriesUnsearched is the notice that git repositories in a workspace may be unprotected.
func RepositoriesUnsearched() Notice {
	return Notice{"repositories_unsearched", Warning, "some git repositories in this workspace may be unprotected: it has too many folders to search, a folder that cannot be listed, or a git configuration that cannot be read; raise max_dirs, make the folder readable, or use a smaller workspace"}
}

// repos are the git repositories in workspaces.
type repos struct {
	finder gitrepos.Finder
	least  int // how many folders are searched although max_dirs is smaller; 0 is quarantine.MostFolders

	mu         sync.Mutex
	ofPrograms map[string]string // ID, by folder, of those that programs created, which programs may still change
}

// quarantined returns a sandbox that protects paths which the given one cannot.
func (e *Engine) quarantined(s sandbox.Sandbox) *quarantine.Sandbox {
	q := quarantine.New(s, e.journal())
	q.Finder = &e.repos.finder
	return q
}

// find returns the folders of repositories below a workspace that programs did not create, as slash
// paths. It is never nil. most is the maximum number of folders to search if it is more than least, and
// whole reports whether all were searched.
func (r *repos) find(workspace string, most int) (dirs []string, whole bool) {
	found, whole := r.finder.Find(context.Background(), workspace, max(most, cmp.Or(r.least, quarantine.MostFolders)))
	r.mu.Lock()
	defer r.mu.Unlock()
	dirs = []string{}
	for _, p := range found {
		dir := filepath.Join(workspace, filepath.FromSlash(p))
		if id, is := r.ofPrograms[dir]; !is || id != quarantine.RepositoryID(dir) { // the user may have made another one
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
			r.ofPrograms = map[string]string{}
		}
		dir := filepath.Join(workspace, filepath.FromSlash(p))
		r.ofPrograms[dir] = quarantine.RepositoryID(dir)
	}
}
