package engine

import (
	"os"
	"path/filepath"

	"metier/internal/gitrepos"
)

// Limits for reading submodules. Beyond them, programs cannot write to the workspace.
const (
	mostLinked    = 1000 // submodules, with those in them
	deepestLinked = 8
)

// repositories returns the git metadata that git uses in the repository of a folder: the folders
// that a .git file names, and the .git of each submodule, whether it exists or not, and of each
// linked worktree. git started in the top folder also runs in these. If the folder itself is a
// repository, its configuration and hooks count. So do those that a configuration names, including
// the user's. partial reports that there are more.
func repositories(dir string, user *gitConfig) (out []string, partial bool) {
	out, partial = append(gitrepos.Folders(dir), user.obeyed(dir)...), user.partial
	if gitrepos.IsBare(dir) {
		paths, unread := ofBareRepository(dir, user)
		out, partial = append(out, paths...), partial || unread
	}
	top := dir
	for {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			break
		}
		if top = filepath.Dir(top); top == filepath.Dir(top) {
			return out, partial
		}
	}
	left, seen := mostLinked, map[string]bool{}
	var visit func(top string, depth int)
	visit = func(top string, depth int) {
		if seen[top] {
			return
		}
		seen[top] = true
		paths, unread := ofWorkingTree(top, user)
		out = append(out, paths...)
		names, whole := gitrepos.Submodules(gitDir(top))
		partial = partial || !whole || unread
		for _, name := range names {
			if left--; left < 0 || depth >= deepestLinked {
				partial = true
				return
			}
			sub := filepath.Join(top, filepath.FromSlash(name))
			out = append(append(out, filepath.Join(sub, ".git")), gitrepos.Folders(sub)...)
			visit(sub, depth+1)
		}
		for _, tree := range worktrees(top) {
			out = append(append(out, filepath.Join(tree, ".git")), gitrepos.Folders(tree)...)
			visit(tree, depth+1)
		}
	}
	visit(top, 0)
	return out, partial
}

// ofBareRepository returns what git obeys in a folder that is a repository itself.
func ofBareRepository(dir string, user *gitConfig) (out []string, partial bool) {
	g := user.with(filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree"))
	out = append(g.obeyed(dir), linksIn(filepath.Join(dir, "hooks"), 3)...)
	for _, name := range []string{"HEAD", "config", "config.worktree", "commondir", "hooks", "info", "index", "worktrees", "modules", "rebase-merge", "rebase-apply", "sequencer"} {
		out = append(out, filepath.Join(dir, name))
	}
	return out, g.partial
}

// worktrees returns the linked worktrees of a repository.
func worktrees(top string) (out []string) {
	for _, dir := range append(gitrepos.Folders(top), filepath.Join(top, ".git")) {
		entries, _ := os.ReadDir(filepath.Join(dir, "worktrees")) // none: there are no worktrees
		for _, e := range entries {
			at := filepath.Join(dir, "worktrees", e.Name())
			if p := gitrepos.Named(at, "gitdir", ""); p != "" {
				out = append(out, filepath.Dir(p))
			}
		}
	}
	return out
}

// gitDir returns the repository folder of a working tree.
func gitDir(dir string) string {
	if named := gitrepos.Folders(dir); len(named) > 0 {
		return named[0]
	}
	return filepath.Join(dir, ".git")
}

// nestedRepository returns the git metadata of a repository in the workspace. Its submodules are
// repositories of their own.
func nestedRepository(dir string, user *gitConfig) (out []string, unread bool) {
	out, unread = ofWorkingTree(dir, user)
	out = append(append(out, filepath.Join(dir, ".git")), gitrepos.Folders(dir)...)
	if gitrepos.IsBare(dir) {
		paths, partial := ofBareRepository(dir, user)
		out, unread = append(out, paths...), unread || partial
	}
	return out, unread
}

// ofWorkingTree returns the files that git obeys in the repository of a working tree and that may be
// elsewhere: those that are links, and those that configurations name. partial reports that a
// configuration could not be read.
func ofWorkingTree(top string, user *gitConfig) (out []string, partial bool) {
	dirs := gitrepos.Folders(top)
	if len(dirs) == 0 {
		dirs = []string{filepath.Join(top, ".git")}
	}
	g := user
	for _, dir := range dirs {
		g = g.with(filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree"))
		out = append(out, linksIn(filepath.Join(dir, "hooks"), 3)...)
		for _, folder := range []string{dir, filepath.Join(dir, "info")} {
			out = append(out, linksIn(folder, 1)...)
		}
	}
	return append(out, g.obeyed(top)...), g.partial
}
