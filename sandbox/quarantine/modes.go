package quarantine

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"metier/internal/rootfile"
)

// modes are the permissions of the folders above protected paths, by slash path. A program cannot
// change what is mounted read-only, but it could take the user's access to a folder above it, or
// let others write there: either hides the skills in it from later commands.
type modes map[string]fs.FileMode

// modesAbove returns the permissions of the folders above paths, with the workspace itself.
func modesAbove(root *os.Root, paths []string) (modes, error) {
	out := modes{}
	for _, p := range append(slices.Clone(paths), ".") {
		for dir := path.Dir(path.Clean(p)); out[dir] == 0; dir = path.Dir(dir) {
			info, err := root.Lstat(dir)
			if dir != "." && (missing(err) || err == nil && !info.IsDir()) {
				continue
			}
			if errors.Is(err, fs.ErrPermission) {
				break // nothing below it can be used
			}
			if err != nil {
				return nil, err
			}
			if out[dir] = info.Mode().Perm() | fs.ModeDir; dir == "." {
				break
			}
		}
	}
	return out, nil
}

// worse reports whether the user lost access, or others got the right to write.
func worse(was, is fs.FileMode) bool { return was&0o700&^is != 0 || is&0o022&^was != 0 }

// restore gives folders back the permissions that a program took or added. It returns their paths.
// byProgram reports whether a program changed the folder at a slash path. nil means that it did.
func (m modes) restore(root *os.Root, byProgram func(dir string) (bool, error)) (restored []string, err error) {
	var dirs []string
	for dir := range m {
		dirs = append(dirs, dir)
	}
	slices.SortFunc(dirs, func(a, b string) int { return strings.Compare(strings.TrimPrefix(a, "."), strings.TrimPrefix(b, ".")) }) // parents first
	for _, dir := range dirs {
		did, bad := restoreMode(root, dir, m[dir].Perm(), byProgram)
		if err = errors.Join(err, bad); did {
			restored = append(restored, dir)
		}
	}
	return restored, err
}

// restoreMode gives one folder back its permissions if they are worse than they were. It does not
// follow links.
func restoreMode(root *os.Root, dir string, was fs.FileMode, byProgram func(dir string) (bool, error)) (bool, error) {
	in, err := rootfile.EnterPath(root, path.Dir(dir), nil)
	if missing(err) || errors.Is(err, rootfile.ErrLink) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer in.Close()
	name := path.Base(dir)
	info, err := in.Lstat(name)
	if missing(err) || err == nil && !info.IsDir() {
		return false, nil
	}
	if err != nil || !worse(was, info.Mode().Perm()) {
		return false, err
	}
	if byProgram != nil {
		if did, err := byProgram(dir); err != nil || !did {
			return false, err
		}
	}
	err = in.Chmod(name, was)
	return err == nil, err
}
