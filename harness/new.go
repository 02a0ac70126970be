package harness

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed all:new
var newFiles embed.FS

// ErrThere reports that Create would overwrite a file.
var ErrThere = errors.New("the file already exists")

// Create writes a valid harness to the folder dir, which may exist: HARNESS.md
// and, unless empty, a skill and a reference in groups. It never overwrites a
// file: if one of them exists, Create writes nothing and returns [ErrThere]. It
// returns the paths of the new files, with slashes.
func Create(dir, name string, l Layout, empty bool) ([]string, error) {
	if l != V1 && l != V2 {
		l = V1
	}
	base := path.Join("new", string(l))
	var files []string
	err := fs.WalkDir(newFiles, base, func(p string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(p, base+"/")
		if err == nil && !d.IsDir() && (!empty || !strings.Contains(rel, "/")) {
			files = append(files, rel)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, f := range append(slices.Clone(files), File) {
		if _, err := root.Lstat(filepath.FromSlash(f)); err == nil {
			return nil, fmt.Errorf("%s: %w", f, ErrThere)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	for i, f := range files {
		text, err := newFiles.ReadFile(path.Join(base, f))
		if err == nil {
			err = write(root, f, strings.ReplaceAll(string(text), "{{name}}", fmt.Sprintf("%q", name)))
		}
		if err != nil {
			for _, made := range files[:i] {
				err = errors.Join(err, root.Remove(filepath.FromSlash(made)))
			}
			return nil, err
		}
	}
	return files, nil
}

func write(root *os.Root, name, text string) error {
	at := filepath.FromSlash(name)
	if err := root.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	f, err := root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		return errors.Join(err, f.Close(), root.Remove(at))
	}
	return f.Close()
}
