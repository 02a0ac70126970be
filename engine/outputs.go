package engine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"metier/internal/atomicfile"
	"metier/internal/confine"
	"metier/run"
)

// CheckOutput fails for a file that WriteOutput does not write: one in the folder of a record, or in
// .metier, because that would destroy the record. It also fails for a symbolic link in one of the
// workspaces, or in another one in which metier has run, because a program may have created it. A link
// to a character device is followed.
func (e *Engine) CheckOutput(file string, workspaces ...string) error {
	_, err := e.output(file, workspaces)
	return err
}

// WriteOutput writes data to a file that the user named, see CheckOutput. Other users cannot read a new
// file, as they cannot read the record that the data is from.
func (e *Engine) WriteOutput(file string, data []byte, workspaces ...string) error {
	real, err := e.output(file, workspaces)
	if err != nil {
		return err
	}
	if real == "" {
		return atomicfile.Put(e.Env.Path(file), data, 0o600)
	}
	root, err := confine.OpenRoot(filepath.Dir(real)) // a program may replace a folder by a link now
	if err != nil {
		return err
	}
	defer root.Close()
	return atomicfile.PutIn(root, filepath.Base(real), data, 0o600)
}

// output checks a file for CheckOutput, and returns its path without links if it is in a workspace.
func (e *Engine) output(file string, workspaces []string) (real string, err error) {
	file = e.Env.Path(file)
	leads, mode, err := atomicfile.Target(file)
	if err != nil {
		return "", err
	}
	if mode&fs.ModeCharDevice != 0 { // such as /dev/null
		return "", nil
	}
	for dir := filepath.Dir(leads); ; dir = filepath.Dir(dir) {
		if filepath.Base(dir) == ".metier" {
			return "", fmt.Errorf("it is in %s, the folder for records", dir)
		}
		if _, err := os.Lstat(filepath.Join(dir, run.FileLog)); err == nil {
			return "", fmt.Errorf("it is in %s, the folder of a record", dir)
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	dir, real := e.linkedIn(file, workspaces...)
	if dir != "" {
		return "", fmt.Errorf("a symbolic link in the workspace %s leads to %s", dir, leads)
	}
	return real, nil
}
