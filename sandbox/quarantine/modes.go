package quarantine

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
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
			if missing(err) || err == nil && !info.IsDir() {
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
// changed tells whether a program made a change, by the host path; nil: it did.
func (m modes) restore(root *os.Root, changed func(p string) (bool, error)) (restored []string, err error) {
	var dirs []string
	for dir := range m {
		dirs = append(dirs, dir)
	}
	slices.SortFunc(dirs, func(a, b string) int { return strings.Compare(strings.TrimPrefix(a, "."), strings.TrimPrefix(b, ".")) }) // parents first
	for _, dir := range dirs {
		info, lookErr := root.Lstat(dir)
		if missing(lookErr) || lookErr == nil && !info.IsDir() {
			continue
		}
		if lookErr != nil {
			err = errors.Join(err, lookErr)
			continue
		}
		was := m[dir].Perm()
		if !worse(was, info.Mode().Perm()) {
			continue
		}
		if changed != nil {
			if did, err2 := changed(dir); err2 != nil || !did {
				err = errors.Join(err, err2)
				continue
			}
		}
		if chmodErr := root.Chmod(dir, was); chmodErr != nil {
			err = errors.Join(err, chmodErr)
			continue
		}
		restored = append(restored, dir)
	}
	return restored, err
}
