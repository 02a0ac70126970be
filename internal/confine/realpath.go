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

// Paths resolves many paths at about the same time, and each of them only once. It does not notice
// later changes, so use one for a single operation. The zero value is ready to use, by one goroutine.
type Paths struct{ real map[string]resolution }

type resolution struct {
	path string
	err  error
}

// RealPath is [RealPath] at the time of the first call for that path.
func (p *Paths) RealPath(path string) (string, error) {
	r, known := p.real[path]
	if !known {
		r.path, r.err = RealPath(path)
		if p.real == nil {
			p.real = map[string]resolution{}
		}
		p.real[path] = r
	}
	return r.path, r.err
}

// RealPathOfExisting is [RealPathOfExisting] at the time of the first call for the path and the
// folders above it.
func (p *Paths) RealPathOfExisting(path string) string {
	path = filepath.Clean(path)
	for dir, rest := path, ""; ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		if real, err := p.RealPath(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
	}
}

// Within is [Within] at the time of the first calls for the two paths.
func (p *Paths) Within(dir, path string) bool {
	if dir == "" {
		return false
	}
	rel, err := filepath.Rel(p.RealPathOfExisting(dir), p.RealPathOfExisting(path))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// RealPathOfExisting resolves the symbolic links in the existing part of an absolute path and keeps
// the rest unchanged.
func RealPathOfExisting(path string) string { return new(Paths).RealPathOfExisting(path) }

// Within reports whether a path is a folder or below it, after resolving links. No path is within
// "".
func Within(dir, path string) bool { return new(Paths).Within(dir, path) }

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
