package engine

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"metier/config"
)

// Limits for reading submodules. Beyond them, programs cannot write to the workspace.
const (
	mostIndex     = 256 << 20 // bytes of an index
	mostLinked    = 1000      // submodules, with those in them
	deepestLinked = 8
)

// repositories returns the git metadata that git uses in the repository of a folder: the folders
// that a .git file names, and the .git of each submodule, whether it exists or not, and of each
// linked worktree. git started in the top folder also runs in these. If the folder itself is a repository, its configuration and
// hooks count; so do those that a configuration names, including the user's. partial reports that
// there are more.
func repositories(dir string, env config.Env) (out []string, partial bool) {
	user := userGitConfig(env)
	out, partial = append(gitFolders(dir), user.obeyed(dir)...), user.partial
	if isRepository(dir) {
		paths, unread := ofBareRepository(dir, env)
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
		paths, unread := obeyed(top, env)
		out = append(out, paths...)
		names, whole := submodules(gitDir(top))
		partial = partial || !whole || unread
		for _, name := range names {
			if left--; left < 0 || depth == deepestLinked {
				partial = true
				return
			}
			sub := filepath.Join(top, filepath.FromSlash(name))
			out = append(append(out, filepath.Join(sub, ".git")), gitFolders(sub)...)
			visit(sub, depth+1)
		}
		for _, tree := range worktrees(top) {
			out = append(append(out, filepath.Join(tree, ".git")), gitFolders(tree)...)
			visit(tree, depth+1)
		}
	}
	visit(top, 0)
	return out, partial
}

// ofBareRepository returns what git obeys in a folder that is a repository itself.
func ofBareRepository(dir string, env config.Env) (out []string, partial bool) {
	g := userGitConfig(env)
	g.read(filepath.Join(dir, "config"), 0)
	out = g.obeyed(dir)
	for _, name := range []string{"HEAD", "config", "config.worktree", "commondir", "hooks", "info"} {
		out = append(out, filepath.Join(dir, name))
	}
	return out, g.partial
}

// worktrees returns the linked worktrees of a repository.
func worktrees(top string) (out []string) {
	for _, dir := range append(gitFolders(top), filepath.Join(top, ".git")) {
		entries, _ := os.ReadDir(filepath.Join(dir, "worktrees")) // none: there are no worktrees
		for _, e := range entries {
			at := filepath.Join(dir, "worktrees", e.Name())
			b, err := readGit(filepath.Join(at, "gitdir"), 4<<10)
			p := filepath.FromSlash(strings.TrimRight(string(b), "\r\n"))
			if err != nil || p == "" {
				continue
			}
			if !filepath.IsAbs(p) {
				p = filepath.Join(at, p)
			}
			out = append(out, filepath.Dir(p))
		}
	}
	return out
}

// isRepository reports whether git takes the folder itself for a repository.
func isRepository(dir string) bool {
	has := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	return has("HEAD") && (has("objects") || has("commondir"))
}

// gitDir returns the repository folder of a working tree.
func gitDir(dir string) string {
	if named := gitFolders(dir); len(named) > 0 {
		return named[0]
	}
	return filepath.Join(dir, ".git")
}

// submodules lists the submodules in the index of a repository, as slash-separated paths. whole
// reports whether that is all of them.
func submodules(gitDir string) (out []string, whole bool) {
	whole = true
	files := []string{"index"}
	entries, err := os.ReadDir(gitDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "sharedindex.") { // entries of a split index
			files = append(files, e.Name())
		}
	}
	for _, name := range files {
		b, err := readGit(filepath.Join(gitDir, name), mostIndex)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		parsed := false
		for _, hash := range []int{sha1.Size, sha256.Size} { // an index does not say which hash it has
			var links []string
			if links, parsed = gitlinks(b, hash); parsed || err == nil {
				out = append(out, links...)
			}
			if parsed {
				break
			}
		}
		whole = whole && parsed && err == nil
	}
	return out, whole
}

// readGit reads a file of git's, also through links, as git does.
func readGit(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", path, most)
	}
	return os.ReadFile(path)
}

// gitlinks lists the submodules in a git index of version 2 to 4, as far as it can be parsed
// (gitformat-index). whole reports whether that is to the end.
func gitlinks(b []byte, hash int) (out []string, whole bool) {
	if len(b) < 12 || string(b[:4]) != "DIRC" {
		return nil, false
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	b = b[12:]
	name := ""
	for range count {
		size := 42 + hash
		if len(b) < size+2 {
			return out, false
		}
		if version >= 3 && b[size-2]&0x40 != 0 { // extended flags
			size += 2
		}
		rest := b[size:]
		keep := 0
		if version == 4 { // the name without what it shares with the one before
			cut, n := offset(rest)
			if n == 0 || cut > len(name) {
				return out, false
			}
			rest, keep = rest[n:], len(name)-cut
		}
		end := bytes.IndexByte(rest, 0)
		if end < 0 {
			return out, false
		}
		name = name[:keep] + string(rest[:end])
		if binary.BigEndian.Uint32(b[24:])>>12 == 0o16 && filepath.IsLocal(filepath.FromSlash(name)) {
			out = append(out, name)
		}
		if version == 4 {
			b = rest[end+1:]
			continue
		}
		if size = (size + end + 8) &^ 7; size > len(b) {
			return out, false
		}
		b = b[size:]
	}
	return out, ends(b, hash)
}

// ends reports whether the rest of an index is its extensions and its checksum.
func ends(b []byte, hash int) bool {
	for len(b) > hash {
		if len(b) < 8 {
			return false
		}
		size := uint64(binary.BigEndian.Uint32(b[4:]))
		if size > uint64(len(b)-8) {
			return false
		}
		b = b[8+size:]
	}
	return len(b) == hash
}

// offset reads a number in git's pack encoding. n is 0 if it is truncated or too large.
func offset(b []byte) (v, n int) {
	for n < min(len(b), 4) {
		c := b[n]
		n++
		v = v<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return v, n
		}
		v++
	}
	return 0, 0
}
