package confine

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// RealPath returns an absolute path of the same file without symbolic links, like
// filepath.EvalSymlinks. If possible, the system resolves the links: at most 40, so that chains of
// links cannot take long.
func RealPath(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", &fs.PathError{Op: "resolve", Path: path, Err: syscall.EINVAL}
	}
	return realPath(path)
}

// RealPathOfExisting resolves the symbolic links in the existing part of an absolute path and keeps
// the rest unchanged.
func RealPathOfExisting(path string) string {
	path = filepath.Clean(path)
	for dir, rest := path, ""; ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		if real, err := RealPath(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
	}
}

// Within reports whether a path is a folder or below it, after resolving links. No path is within
// "".
func Within(dir, path string) bool {
	if dir == "" {
		return false
	}
	rel, err := filepath.Rel(RealPathOfExisting(dir), RealPathOfExisting(path))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// OnlyOwn reports whether only this user and root can write or replace a file.
func OnlyOwn(path string) bool {
	for _, p := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(p); err != nil || OthersWrite(info) {
			return false
		}
	}
	return true
}

// ReadBeneath reads the first max bytes of a regular file in an untrusted folder. It does not
// follow links out of the folder and never blocks. more reports whether the file is longer.
func ReadBeneath(dir, name string, max int) (b []byte, more bool, err error) {
	d, err := OpenDir(dir)
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	b, info, err := d.ReadHead(name, max)
	return b, info.Size > int64(max), err
}
