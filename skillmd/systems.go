package skillmd

import (
	"slices"
	"strings"
)

// systems maps names of operating systems in skills to Go's names. An empty
// list matches every system.
var systems = map[string][]string{
	"linux": {"linux"}, "ubuntu": {"linux"}, "debian": {"linux"}, "wsl": {"linux"}, "wsl2": {"linux"},
	"darwin": {"darwin"}, "macos": {"darwin"}, "mac": {"darwin"}, "osx": {"darwin"},
	"windows": {"windows"}, "win": {"windows"}, "win32": {"windows"}, "win64": {"windows"},
	"freebsd": {"freebsd"}, "openbsd": {"openbsd"}, "netbsd": {"netbsd"}, "android": {"android"}, "ios": {"ios"},
	"unix": {"linux", "darwin", "freebsd", "openbsd", "netbsd"}, "posix": {"linux", "darwin", "freebsd", "openbsd", "netbsd"},
	"any": {}, "all": {}, "*": {},
}

// Fits reports whether the skill supports an operating system, given as a GOOS
// value, and returns the systems that the skill names. A skill that names no
// known system supports all.
func (f Front) Fits(goos string) (fits bool, said []string) {
	said = f.systems()
	named := false
	for _, s := range said {
		list, known := systems[strings.ToLower(strings.TrimSpace(s))]
		if known && (len(list) == 0 || slices.Contains(list, goos)) {
			return true, said
		}
		named = named || known
	}
	return !named, said
}

// systems returns the systems that a skill names: in platforms or os, of the
// frontmatter, of its metadata, or of one client's map in the metadata.
func (f Front) systems() []string {
	if len(f.Platforms) > 0 {
		return f.Platforms
	}
	if said := systemsOf(f.Fields); said != nil {
		return said
	}
	if said := systemsOf(f.Metadata); said != nil {
		return said
	}
	for _, client := range f.Metadata {
		if said := systemsOf(client.Value.Map); said != nil {
			return said
		}
	}
	return nil
}

func systemsOf(fields []Field) (said []string) {
	for _, f := range fields {
		if f.Key != "platforms" && f.Key != "os" {
			continue
		}
		if f.Value.Kind != List {
			said = append(said, strings.FieldsFunc(f.Value.Text, func(r rune) bool { return r == ',' || r == ' ' })...)
		}
		for _, v := range f.Value.List {
			said = append(said, v.Text)
		}
	}
	return said
}
