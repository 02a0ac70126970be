package gitrepos

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"metier/internal/gitconfig"
)

// plain matches the variables that clone, init, commit, and similar commands set. They name no
// program, no folder of hooks, and no server from which git gets missing objects on its own, even for
// git status.
var plain = regexp.MustCompile(`^(core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol|safecrlf|sparsecheckout|sparsecheckoutcone|worktree|quotepath|longpaths|untrackedcache)` +
	`|extensions\.(objectformat|compatobjectformat|refstorage|worktreeconfig|relativeworktrees|preciousobjects|noop)|remote\.[^\n]*\.(url|fetch|pushurl|push|tagopt|prune|mirror|skipdefaultupdate)` +
	`|branch\.[^\n]*\.(remote|merge|rebase|pushremote|description)|submodule\.(active|[^\n]*\.(url|active|branch|ignore|path))` +
	`|user\.(name|email|signingkey)|init\.defaultbranch|pull\.rebase|push\.default|commit\.gpgsign|index\.[a-z]+|lfs\.repositoryformatversion)$`)

// Unsafe returns why git could run a program that the repository in a folder names, such as "it sets
// core.fsmonitor", or "". A .git file must name a folder below root. hooks are other folders, relative
// to dir, in which git looks for hooks.
func Unsafe(dir, root string, hooks ...string) string {
	for _, folder := range hooks {
		if why := unsafeHooks(Resolve(dir, folder)); why != "" {
			return why
		}
	}
	git := filepath.Join(dir, ".git")
	info, err := os.Lstat(git)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "" // a bare repository, which git uses only if it is started there
	case err != nil:
		return "its .git cannot be read"
	case info.Mode()&os.ModeSymlink != 0:
		return "its .git is a symbolic link"
	case info.Mode().IsRegular():
		if git = Named(dir, ".git", gitdir); git == "" {
			return "its .git cannot be read"
		}
		if why := misplaced(root, git); why != "" {
			return "its .git leads " + why
		}
	case !info.IsDir():
		return "its .git is not a folder"
	}
	if why := unsafeFolder(git, root); why != "" {
		return why
	}
	if why := unsafeModules(filepath.Join(git, "modules"), root, new(int)); why != "" {
		return why
	}
	if _, err := os.Stat(filepath.Join(git, "commondir")); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	common := Named(git, "commondir", "")
	if why := misplaced(root, common); why != "" {
		return "its commondir leads " + why
	}
	return unsafeFolder(common, root)
}

// unsafeFolder checks the configuration, the hooks, and the links in a git folder.
func unsafeFolder(git, root string) string {
	if why := linked(git); why != "" {
		return why
	}
	if b, err := ReadFile(filepath.Join(git, "rebase-merge", "git-rebase-todo"), mostConfig); err == nil && runs.Match(b) {
		return "its rebase runs a command"
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "its rebase cannot be read"
	}
	for _, name := range []string{"config", "config.worktree"} {
		b, err := ReadFile(filepath.Join(git, name), mostConfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "its " + name + " cannot be read"
		}
		names, ok := gitconfig.Names(string(b))
		if !ok {
			return "its " + name + " is not as git writes it"
		}
		for _, name := range names {
			if !plain.MatchString(name) {
				return "it sets " + name
			}
		}
		for name, value := range gitconfig.Variables(string(b)) {
			if why := unsafeWorktree(git, value); name == "core.worktree" && why != "" {
				return why
			}
		}
	}
	return unsafeHooks(filepath.Join(git, "hooks"))
}

// runs matches a line of a rebase that runs a command.
var runs = regexp.MustCompile(`(?m)^[ \t]*(exec|x)([ \t]|$)`)

// mostEntriesOfGit is how many entries of a git folder are looked at.
const mostEntriesOfGit = 1 << 20

// linked returns which entry of a git folder is a link, or "". Git makes none, and writes to where one
// leads: to logs, for example.
func linked(git string) (why string) {
	n := 0
	err := filepath.WalkDir(git, func(p string, e fs.DirEntry, err error) error {
		switch n++; {
		case err != nil || n > mostEntriesOfGit:
			return errors.Join(err, fs.ErrInvalid)
		case e.Type()&os.ModeSymlink != 0:
			rel, _ := filepath.Rel(git, p) // p begins with git
			why = "its " + filepath.ToSlash(rel) + " is a symbolic link"
			return filepath.SkipAll
		}
		return nil
	})
	if err != nil {
		return "its .git cannot be read"
	}
	return why
}

// unsafeWorktree checks a value of core.worktree. Git sets it for submodules, whose git folders are in
// the modules of the repository that contains them, and which are in this repository's folder.
func unsafeWorktree(git, value string) string {
	const why = "its core.worktree is not the folder of a submodule"
	real, err := filepath.EvalSymlinks(git)
	of, _, is := strings.Cut(filepath.ToSlash(real), "/.git/modules/")
	if err != nil || !is || filepath.IsAbs(filepath.FromSlash(value)) {
		return why
	}
	rel, err := filepath.Rel(filepath.FromSlash(of), filepath.Join(real, filepath.FromSlash(value)))
	parts := strings.Split(rel, string(filepath.Separator))
	if err != nil || !filepath.IsLocal(rel) || rel == "." || slices.ContainsFunc(parts, func(p string) bool { return strings.EqualFold(p, ".git") }) {
		return why
	}
	at := filepath.FromSlash(of)
	for _, part := range parts {
		at = filepath.Join(at, part)
		switch info, err := os.Lstat(at); {
		case errors.Is(err, fs.ErrNotExist):
			return "" // as after git submodule deinit
		case err != nil || !info.IsDir():
			return why
		}
	}
	return ""
}

// unsafeHooks checks a folder of hooks.
func unsafeHooks(folder string) string {
	hooks, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "its hooks cannot be read"
	}
	for _, e := range hooks {
		if !strings.HasSuffix(e.Name(), ".sample") {
			return "it has the hook " + e.Name()
		}
	}
	return ""
}

// mostModules is how many folders of submodules are checked.
const mostModules = 10_000

// unsafeModules checks the repositories of submodules in a folder. Git fetches in them even if they
// have no working tree.
func unsafeModules(folder, root string, n *int) string {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if *n++; err != nil || *n > mostModules {
		return "its modules cannot be read"
	}
	if IsBare(folder) {
		if why := unsafeFolder(folder, root); why != "" {
			return why
		}
		return unsafeModules(filepath.Join(folder, "modules"), root, n)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if why := unsafeModules(filepath.Join(folder, e.Name()), root, n); why != "" {
			return why
		}
	}
	return ""
}

// misplaced returns where a git folder is if it is not in a .git below root, or "". Only in a .git is
// it closed to tools that are no programs.
func misplaced(root, folder string) string {
	real, err := filepath.EvalSymlinks(folder)
	top, bad := filepath.EvalSymlinks(root)
	rel, outside := filepath.Rel(top, real)
	switch {
	case err != nil || bad != nil || outside != nil || !filepath.IsLocal(rel):
		return "out of the workspace"
	case !slices.Contains(strings.Split(filepath.ToSlash(rel), "/"), ".git"):
		return "to a folder that is not in a .git"
	}
	return ""
}
