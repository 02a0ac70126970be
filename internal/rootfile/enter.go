package rootfile

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// ErrLink is returned for a path in which a folder is a symbolic link, or not a folder.
var ErrLink = errors.New("a symlink or no folder is in the path")

// Enter opens a folder in dir by its name. It does not follow a symbolic link, also if one takes
// the place of the folder meanwhile.
func Enter(dir *os.Root, name string) (*os.Root, error) {
	seen, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !seen.IsDir() {
		return nil, ErrLink
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if is, err := next.Stat("."); err != nil || !os.SameFile(seen, is) {
		next.Close()
		return nil, ErrLink
	}
	return next, nil
}

// EnterPath is Enter for each folder of a slash path. before, if not nil, is called for each folder
// first, and can create it.
func EnterPath(root *os.Root, p string, before func(dir *os.Root, name string) error) (*os.Root, error) {
	dir, err := root.OpenRoot(".")
	if err != nil || p == "." {
		return dir, err
	}
	for name := range strings.SplitSeq(p, "/") {
		if before != nil {
			err = before(dir, name)
		}
		var next *os.Root
		if err == nil {
			next, err = Enter(dir, name)
		}
		dir.Close()
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

// Create creates a missing folder. See EnterPath.
func Create(dir *os.Root, name string) error {
	if err := dir.Mkdir(name, 0o777); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
