package confine

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// RealPath returns an absolute path of the same file without symbolic links, as
// filepath.EvalSymlinks does. Where the system can, it follows the links itself:
// at most 40, in a time that no chain of links makes long.
func RealPath(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", &fs.PathError{Op: "resolve", Path: path, Err: syscall.EINVAL}
	}
	return realPath(path)
}

// RealPathOfExisting resolves the symbolic links of what exists of an absolute
// path and keeps the rest as it is written.
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

// Within reports whether a path is a folder or is below it, after links. No path
// is within "".
func Within(dir, path string) bool {
	if dir == "" {
		return false
	}
	rel, err := filepath.Rel(RealPathOfExisting(dir), RealPathOfExisting(path))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// OnlyOwn reports whether only this user and root can write a file or replace it.
func OnlyOwn(path string) bool {
	for _, p := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(p); err != nil || OthersWrite(info) {
			return false
		}
	}
	return true
}

// ReadBeneath reads the first max bytes of a regular file of an untrusted folder:
// no link leads out of it, and nothing blocks. more reports that the file is
// longer.
func ReadBeneath(dir, name string, max int) (b []byte, more bool, err error) {
	d, err := OpenDir(dir)
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	b, info, err := d.ReadHead(name, max)
	return b, info.Size > int64(max), err
}
