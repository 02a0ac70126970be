package reference

import (
	"path/filepath"
	"strings"
)

// pure is a path as Python's pathlib keeps it: no empty parts, no single dots, no slash at the end; ".." stays.
func pure(path string) string {
	sep := string(filepath.Separator)
	volume := filepath.VolumeName(path)
	rest := filepath.FromSlash(path[len(volume):])
	root := ""
	switch {
	case strings.HasPrefix(rest, sep+sep) && !strings.HasPrefix(rest, sep+sep+sep) && volume == "":
		root = sep + sep // two slashes may mean something else to POSIX
	case strings.HasPrefix(rest, sep):
		root = sep
	}
	var parts []string
	for part := range strings.SplitSeq(rest, sep) {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	if p := volume + root + strings.Join(parts, sep); p != "" {
		return p
	}
	return "."
}

// parent drops the last part of a pure path.
func parent(path string) string {
	i := strings.LastIndexByte(path, filepath.Separator)
	switch {
	case i < 0:
		return "."
	case i == 0:
		return path[:1]
	}
	return path[:i]
}

// Dir is the folder as the operating system finds it, absolute.
func (s Skill) Dir() (string, error) { return filepath.Abs(s.place()) }
