package rootfile

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// ErrLink is returned for a path in which a folder is a symbolic link, or not a folder.
var ErrLink = errors.New("the path contains a symlink, or a file in place of a folder")

// Enter opens a folder in dir by its name. It does not follow a symbolic link, even if one replaces
// the folder while it is opened.
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

// EnterPath opens the folder at a slash path, and calls [Enter] for each folder of the path. before,
// if not nil, is called first for each folder, and can create it.
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

// Mkdir creates a folder unless it exists. It can be the before function of [EnterPath].
func Mkdir(dir *os.Root, name string) error {
	if err := dir.Mkdir(name, 0o777); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
