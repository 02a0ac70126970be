package gitrepos

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"metier/internal/confine"
	"metier/internal/gitconfig"
)

// A Check checks the repositories in a folder that programs created. All of them have one limit of
// work. Beyond it, Unsafe reports that a repository has too many files.
type Check struct {
	root    string
	hooks   []string
	entries int   // that may still be read, with a part of their paths
	indexes int64 // bytes of indexes that may still be read
	configs int64 // bytes of configurations that may still be read
}

// Limits of a Check.
const (
	mostEntriesOfGit = 200_000
	mostPlainIndexes = 128 << 20
	mostPlainConfigs = 4 << 20
	mostPlainConfig  = 16 << 10 // of one configuration; Git writes much smaller ones
)

// NewCheck returns a Check of the repositories below root. hooks are other folders, relative to each
// repository, in which git looks for hooks.
func NewCheck(root string, hooks ...string) *Check {
	return &Check{root, hooks, mostEntriesOfGit, mostPlainIndexes, mostPlainConfigs}
}

// Unsafe returns why git could run a program that the repository in a folder names, such as "it sets
// core.fsmonitor", or "". A .git file must name a folder below the root. Unsafe fails only if ctx ends.
func (c *Check) Unsafe(ctx context.Context, dir string) (why string, err error) {
	why = c.unsafe(ctx, dir)
	return why, ctx.Err()
}

func (c *Check) unsafe(ctx context.Context, dir string) string {
	for _, folder := range c.hooks {
		if why := c.unsafeHooks(Resolve(dir, folder)); why != "" {
			return why
		}
	}
	if IsBare(dir) { // git can push to it, or fetch from it
		if why := c.unsafeRepository(ctx, dir); why != "" {
			return why
		}
	}
	git := filepath.Join(dir, ".git")
	info, err := os.Lstat(git)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case err != nil:
		return "its .git cannot be read"
	case info.Mode()&os.ModeSymlink != 0:
		return "its .git is a symbolic link"
	case info.Mode().IsRegular():
		if git = Named(dir, ".git", gitdir); git == "" {
			return "its .git cannot be read"
		}
		if why := misplaced(c.root, git); why != "" {
			return "its .git leads " + why
		}
	case !info.IsDir():
		return "its .git is not a folder"
	}
	if info.Mode().Perm()&0o002 != 0 {
		return "every user can write its .git"
	}
	return c.unsafeRepository(ctx, git)
}

// unsafeRepository checks a git folder and the repository to which it belongs.
func (c *Check) unsafeRepository(ctx context.Context, git string) string {
	if why := c.unsafeFolders(ctx, git, ""); why != "" {
		return why
	}
	if _, err := os.Stat(filepath.Join(git, "commondir")); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	common := Named(git, "commondir", "")
	if why := misplaced(c.root, common); why != "" {
		return "its commondir leads " + why
	}
	return c.unsafeFolders(ctx, common, "")
}

// unsafeFolders checks a git folder, or one at a slash path in it, and the repositories in it: those of
// submodules, in which git fetches even if they have no working tree, and any to which a remote can
// lead. Git makes no links in it, and writes to where one leads: to logs, for example.
func (c *Check) unsafeFolders(ctx context.Context, git, in string) string {
	dir := filepath.Join(git, filepath.FromSlash(in))
	d, err := os.OpenFile(dir, os.O_RDONLY|confine.Direct, 0)
	if err != nil {
		return "its .git cannot be read"
	}
	defer d.Close()
	c.entries -= len(dir) / 64 // the kernel resolves it again
	var folders, indexes []string
	for err != io.EOF {
		var entries []fs.DirEntry
		entries, err = d.ReadDir(batch)
		c.entries -= len(entries)
		switch {
		case err != nil && err != io.EOF:
			return "its .git cannot be read"
		case c.entries < 0 || ctx.Err() != nil:
			return "its .git has too many files"
		}
		for _, e := range entries {
			switch name := path.Join(in, e.Name()); {
			case e.Type()&os.ModeSymlink != 0:
				return "its " + name + " is a symbolic link"
			case e.IsDir():
				folders = append(folders, e.Name())
			case isIndex(e.Name()):
				indexes = append(indexes, e.Name())
			}
		}
	}
	if in == "" || IsBare(dir) {
		if why := cmp.Or(unsafeCommon(git, in), c.unsafeFolder(dir, indexes)); why != "" {
			return why
		}
	}
	if err := d.Close(); err != nil {
		return "its .git cannot be read"
	}
	for _, name := range folders {
		if why := c.unsafeFolders(ctx, git, path.Join(in, name)); why != "" {
			return why
		}
	}
	return ""
}

// unsafeCommon checks the repository to which a git folder in another one belongs: as git writes it,
// one around it.
func unsafeCommon(git, in string) string {
	dir := filepath.Join(git, filepath.FromSlash(in))
	if _, err := os.Lstat(filepath.Join(dir, "commondir")); in == "" || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	common, _ := os.Stat(Named(dir, "commondir", ""))
	for in != "." {
		in = path.Dir(in)
		at := filepath.Join(git, filepath.FromSlash(in))
		if info, err := os.Stat(at); err == nil && common != nil && os.SameFile(info, common) && (in == "." || IsBare(at)) {
			return ""
		}
	}
	return "its .git contains a worktree of another repository"
}

// unsafeFolder checks the configuration, the index, and the hooks in a git folder.
func (c *Check) unsafeFolder(git string, indexes []string) string {
	for _, name := range []string{"rebase-merge", "rebase-apply", "sequencer"} { // can name programs that git runs to continue
		if _, err := os.Lstat(filepath.Join(git, name)); !errors.Is(err, fs.ErrNotExist) {
			return "its " + name + " is not finished"
		}
	}
	for _, name := range []string{"config", "config.worktree"} {
		b, err := ReadFile(filepath.Join(git, name), min(mostPlainConfig, c.configs))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "its " + name + " cannot be read"
		}
		c.configs -= int64(len(b))
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
			if name != "core.worktree" {
				continue
			}
			if why := unsafeWorktree(git, value); why != "" {
				return why
			}
		}
	}
	if why := c.unsafeIndexes(git, indexes); why != "" {
		return why
	}
	return c.unsafeHooks(filepath.Join(git, "hooks"))
}

// unsafeIndexes checks the index of a git folder.
func (c *Check) unsafeIndexes(git string, files []string) string {
	for _, name := range files {
		b, err := ReadFile(filepath.Join(git, name), c.indexes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "its " + name + " cannot be read"
		}
		c.indexes -= int64(len(b))
		if why := unsafeIndex(name, b, hashSize(git)); why != "" {
			return why
		}
	}
	return ""
}

// hashSize returns the size of the hashes of a repository, which is in the configuration of the
// repository to which the git folder of a worktree belongs.
func hashSize(git string) int {
	if common := Named(git, "commondir", ""); common != "" {
		git = common
	}
	b, err := ReadFile(filepath.Join(git, "config"), mostPlainConfig)
	size := sha1.Size
	for name, value := range gitconfig.Variables(string(b)) {
		if name == "extensions.objectformat" && err == nil {
			size = map[bool]int{true: sha256.Size, false: sha1.Size}[value == "sha256"]
		}
	}
	return size
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
func (c *Check) unsafeHooks(folder string) string {
	d, err := os.OpenFile(folder, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return "its hooks cannot be read"
	}
	defer d.Close()
	hooks, err := d.ReadDir(batch)
	if c.entries -= len(hooks); err != nil && err != io.EOF || len(hooks) == batch || c.entries < 0 {
		return "its hooks cannot be read"
	}
	slices.SortFunc(hooks, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range hooks {
		if !strings.HasSuffix(e.Name(), ".sample") {
			return "it has the hook " + e.Name()
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
