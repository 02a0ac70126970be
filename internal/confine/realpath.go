package confine

import (
	"io/fs"
	"path/filepath"
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
