package atomicfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrNoReader is returned for a named pipe that no process reads.
var ErrNoReader = errors.New("no process reads this pipe")

// mostLinks is how many symbolic links are followed at the end of a path.
const mostLinks = 40

// Put writes data to a file that a user named. It replaces a regular file as [Write] does, and
// creates a missing one. A symbolic link stays, and the file that it leads to is replaced. Data for
// a device or a named pipe is written to it. It fails for a folder, for a socket, and for a named
// pipe that no process reads.
func Put(path string, data []byte, perm fs.FileMode) error {
	real, mode, err := Target(path)
	if err != nil {
		return err
	}
	if mode.IsRegular() {
		return Write(real, data, perm)
	}
	f, err := os.OpenFile(real, os.O_WRONLY|waiting(mode), 0)
	return pour(f, err, path, mode, data)
}

// PutIn is like [Put] for a file in a folder. A symbolic link is replaced, not followed.
func PutIn(root *os.Root, name string, data []byte, perm fs.FileMode) error {
	path := filepath.Join(root.Name(), name)
	info, err := root.Lstat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || info.Mode().IsRegular() || info.Mode()&fs.ModeSymlink != 0 {
		return In(root, name, rand.Text()[:12], data, perm, true)
	}
	if err := writable(info.Mode(), path); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|waiting(info.Mode()), 0)
	return pour(f, err, path, info.Mode(), data)
}

// waiting returns the flag without which opening a pipe that has no reader blocks.
func waiting(mode fs.FileMode) int {
	if mode&fs.ModeNamedPipe != 0 {
		return syscall.O_NONBLOCK
	}
	return 0
}

// pour writes data to a device or pipe that was just opened.
func pour(f *os.File, err error, path string, mode fs.FileMode, data []byte) error {
	if errors.Is(err, syscall.ENXIO) && mode&fs.ModeNamedPipe != 0 {
		return fmt.Errorf("write %s: %w", path, ErrNoReader)
	}
	if err != nil {
		return err
	}
	return fill(f, false, data)
}

func writable(mode fs.FileMode, path string) error {
	switch {
	case mode.IsDir():
		return fmt.Errorf("write %s: it is a folder", path)
	case mode&fs.ModeSocket != 0:
		return fmt.Errorf("write %s: it is a socket", path)
	}
	return nil
}

// Target returns the file that [Put] writes for a path, and its type, which is 0 for a missing
// file. It follows symbolic links. It fails for a folder, a socket, and a missing folder.
func Target(path string) (real string, mode fs.FileMode, err error) {
	at := path
	for range mostLinks {
		info, err := os.Stat(at)
		if err == nil {
			err = writable(info.Mode(), path)
		}
		switch {
		case err == nil && !info.Mode().IsRegular():
			return at, info.Mode().Type(), nil
		case err == nil:
			real, err := filepath.EvalSymlinks(at)
			return real, 0, err
		case !errors.Is(err, fs.ErrNotExist):
			return "", 0, err
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(at))
		if err != nil {
			return "", 0, err
		}
		at = filepath.Join(dir, filepath.Base(at))
		to, err := os.Readlink(at)
		if err != nil {
			return at, 0, nil
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(dir, to)
		}
		at = to
	}
	return "", 0, &fs.PathError{Op: "write", Path: path, Err: syscall.ELOOP}
}
