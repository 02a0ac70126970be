package runtimes

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// SearchPath is the PATH of sandboxed programs: system folders only, without folders in a home and
// without relative ones.
const SearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"

// Lookup finds programs in the folders that are visible to scripts: those of SearchPath, then the
// visible folders and their bin subfolders. It does not find programs that are links to an
// invisible folder, such as shims of version managers.
func Lookup(visible []string) func(program string) (string, bool) {
	dirs := filepath.SplitList(SearchPath)
	for _, d := range visible {
		dirs = append(dirs, d, path.Join(d, "bin"))
	}
	return func(program string) (string, bool) {
		if path.IsAbs(program) {
			return program, seen(visible, program)
		}
		if program == "" || strings.Contains(program, "/") {
			return "", false
		}
		for _, dir := range dirs {
			if p := path.Join(dir, program); seen(visible, p) {
				return p, true
			}
		}
		return "", false
	}
}

// seen reports whether a path is an executable file that is visible after resolving links.
func seen(visible []string, p string) bool {
	resolved, err := filepath.EvalSymlinks(p)
	if err != nil || !below(visible, p) || !below(visible, resolved) {
		return false
	}
	info, err := os.Stat(resolved)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// below reports whether p is in one of dirs after resolving links in dirs: /bin is often /usr/bin.
func below(dirs []string, p string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool {
		if d == "/" {
			return true
		}
		if p == d || strings.HasPrefix(p, d+"/") {
			return true
		}
		r, err := filepath.EvalSymlinks(d)
		return err == nil && strings.HasPrefix(p, r+"/")
	})
}
