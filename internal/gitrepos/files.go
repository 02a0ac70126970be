package gitrepos

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	mostPath = 4 << 10 // bytes of a file with a path
	gitdir   = "gitdir: "
)

// ReadFile reads a regular file of at most most bytes. It follows links, as git does, and never
// blocks.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", path, most)
	}
	b := make([]byte, info.Size())
	n, err := io.ReadFull(f, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil // it became shorter
	}
	return b[:n], err
}

// Named returns the path that a file of git in dir contains after a prefix. It is relative to dir.
// Named returns "" if the file cannot be read or contains no path.
func Named(dir, file, prefix string) string {
	b, err := ReadFile(filepath.Join(dir, file), mostPath)
	p, is := strings.CutPrefix(strings.TrimRight(string(b), "\r\n"), prefix)
	if err != nil || !is || p == "" {
		return ""
	}
	return Resolve(dir, p)
}

// Resolve returns the path that git opens for a slash-separated path in one of its files. A relative
// one is below dir. As for the kernel, a/.. is not always the folder of a, which can be a link.
func Resolve(dir, p string) string {
	at, rest := dir, filepath.FromSlash(p)
	if filepath.IsAbs(rest) {
		at = filepath.VolumeName(rest) + string(filepath.Separator)
		rest = rest[len(filepath.VolumeName(rest)):]
	}
	for _, name := range strings.Split(rest, string(filepath.Separator)) {
		if name != ".." {
			at = filepath.Join(at, name)
			continue
		}
		if real, err := filepath.EvalSymlinks(at); err == nil {
			at = real
		}
		at = filepath.Dir(at)
	}
	return at
}

// Folders returns the folders that a folder's .git file names: the git folder of the working tree,
// and that of its repository if it is another one.
func Folders(dir string) []string {
	own := Named(dir, ".git", gitdir)
	if own == "" {
		return nil
	}
	if common := Named(own, "commondir", ""); common != "" {
		return []string{own, common}
	}
	return []string{own}
}

// IsBare reports whether git takes the folder itself for a repository.
func IsBare(dir string) bool {
	return isBare(func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	})
}

func isBare(has func(name string) bool) bool {
	return has("HEAD") && (has("objects") || has("commondir"))
}
