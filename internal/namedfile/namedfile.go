// Package namedfile reads files that a user named on the command line or in a configuration file.
// It limits their size and never blocks on a pipe without a writer.
package namedfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrNoWriter is returned for a named pipe that no process writes to.
var ErrNoWriter = errors.New("no process writes to this pipe")

// TooLong is the error for a file longer than the limit, in bytes.
type TooLong int64

func (n TooLong) Error() string { return "larger than " + size(int64(n)) }

// size writes a number of bytes in the largest unit that divides it.
func size(n int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.bytes && n%unit.bytes == 0 {
			return fmt.Sprintf("%d %s", n/unit.bytes, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// Read returns the content of a file of at most max bytes. The file may be a
// pipe, such as a shell's <(...).
func Read(path string, max int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return read(f, path, max)
}

// ReadIn is like [Read] for a file in a folder. It follows no symbolic link that leads out of it.
func ReadIn(root *os.Root, name string, max int64) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return read(f, filepath.Join(root.Name(), name), max)
}

// read reads and closes a file.
func read(f *os.File, path string, max int64) ([]byte, error) {
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > max {
		return nil, fmt.Errorf("%s: %w", path, TooLong(max))
	}
	if info, err := f.Stat(); err == nil && len(b) == 0 && info.Mode()&fs.ModeNamedPipe != 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrNoWriter)
	}
	return b, nil
}

// Cause returns the system's error without the path, for messages that already include the path.
func Cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
