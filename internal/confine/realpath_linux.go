package confine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

var errLinks = errors.New("too many symbolic links, or a circle of them")

func realPath(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	for err == unix.EINTR {
		fd, err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	if err == unix.ELOOP { // elsewhere in this package, ELOOP means a link that is not allowed
		err = errLinks
	}
	if err != nil {
		return "", &fs.PathError{Op: "resolve", Path: path, Err: err}
	}
	defer unix.Close(fd)
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil || !filepath.IsAbs(real) || !leadsTo(real, fd) {
		return filepath.EvalSymlinks(path) // /proc is missing, or the file was just moved
	}
	return real, nil
}

// leadsTo reports whether a path leads to an open file. The system marks the paths of removed
// files.
func leadsTo(path string, fd int) bool {
	var open, there unix.Stat_t
	return unix.Fstat(fd, &open) == nil && unix.Lstat(path, &there) == nil && open.Dev == there.Dev && open.Ino == there.Ino
}
