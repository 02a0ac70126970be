package archive

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"metier/internal/nfkc"
	"metier/internal/termtext"
)

// maxPart is the maximum length in bytes of one part of a path on common file systems.
const maxPart = 255

// CheckPath validates the path of a file in an archive or another source, by the default limits: every file
// system must be able to have it.
func CheckPath(path string) error { return Limits{}.withDefaults().checkPath(path) }

// checkPath validates a path without a trailing slash.
func (l Limits) checkPath(path string) error {
	refuse := func(why string) error { return failf(CodeName, path, "%s", why) }
	switch {
	case path == "":
		return refuse("the path is empty")
	case len(path) > l.NameBytes:
		return failf(CodeTooLarge, path, "the path is longer than %d bytes; use a shorter one", l.NameBytes)
	case !utf8.ValidString(path):
		return refuse("the path is not UTF-8; pack it on a system with UTF-8 names")
	case strings.ContainsFunc(path, unicode.IsControl):
		return refuse("the path has a control character")
	case path[0] == '/':
		return refuse("the path is absolute; pack it relative to its folder")
	case strings.Contains(path, `\`):
		return refuse("the path has a backslash; use /")
	case strings.Contains(path, ":"):
		return refuse("the path has a colon, which is a drive or a stream on Windows; rename the file")
	}
	parts := strings.Split(path, "/")
	if len(parts) > l.Depth {
		return failf(CodeTooLarge, path, "the path has more than %d parts; use fewer folders", l.Depth)
	}
	for _, part := range parts {
		if why := partProblem(part); why != "" {
			return refuse(why)
		}
	}
	if plain := nfkc.String(path); plain != path && disguised(plain, len(parts)) {
		return refuse("the path has characters that some systems read as dots, slashes, or a device; rename the file")
	}
	return nil
}

// disguised reports whether the Unicode form NFKC of a path leads elsewhere than the path.
func disguised(plain string, parts int) bool {
	split := strings.Split(plain, "/")
	return len(split) != parts || strings.Contains(plain, `\`) ||
		slices.ContainsFunc(split, func(p string) bool { return p == "." || p == ".." || reserved(p) })
}

func partProblem(part string) string {
	switch {
	case part == "":
		return "the path has an empty part"
	case part == "..":
		return `the path has ".."`
	case part == ".":
		return `the path has "."`
	case len(part) > maxPart:
		return "a name in the path is longer than 255 bytes; use a shorter one"
	case strings.HasSuffix(part, "."), strings.HasSuffix(part, " "):
		return "a name ends with a dot or a space, which Windows removes; rename it"
	case reserved(part):
		return "a name is reserved on Windows; rename it"
	}
	return ""
}

// reserved reports whether a name is a device on Windows, with any extension.
func reserved(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	if slices.Contains([]string{"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}, base) {
		return true
	}
	for _, port := range []string{"COM", "LPT"} {
		if n, is := strings.CutPrefix(base, port); is && len([]rune(n)) == 1 && strings.Contains("0123456789¹²³", n) {
			return true
		}
	}
	return false
}

// ofMacOS reports whether macOS adds a path to archives for its own use: the folder __MACOSX at the
// top, .DS_Store, and names that begin with "._" (AppleDouble files).
func ofMacOS(path string) bool {
	for i, part := range strings.Split(path, "/") {
		if i == 0 && part == "__MACOSX" || part == ".DS_Store" || strings.HasPrefix(part, "._") {
			return true
		}
	}
	return false
}

// folded returns a form of a path that is the same for all paths that some file system treats as
// the same: those that differ only in case or in Unicode form.
func folded(path string) string {
	s := strings.ToLower(strings.ToUpper(nfkc.String(path)))
	return nfkc.String(strings.ReplaceAll(s, "ß", "ss"))
}

// tree is the set of paths in an archive. Each key is a folded path.
type tree map[string]*node

type node struct {
	path     string // as spelled
	folder   bool
	explicit bool // has its own entry, not only entries below it
}

// add adds a valid path and its parents.
func (t tree) add(path string, folder bool) error {
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		if n, _, err := t.at(path[:i], path); err != nil {
			return err
		} else if !n.folder {
			return failf(CodeDuplicate, path, "it is below an entry that is a file; remove one of them")
		}
	}
	n, is, err := t.at(path, path)
	switch {
	case err != nil:
		return err
	case n.explicit:
		return failf(CodeDuplicate, path, "the archive has two entries for this path; remove one of them")
	case is && !folder:
		return failf(CodeDuplicate, path, "it is a file, but other entries are below it; remove one of them")
	}
	n.folder, n.explicit = folder, true
	return nil
}

// at returns the node of a path, and whether it existed. A new one is a folder.
func (t tree) at(path, entry string) (n *node, existed bool, err error) {
	key := folded(path)
	if n = t[key]; n == nil {
		n = &node{path: path, folder: true}
		t[key] = n
		return n, false, nil
	}
	if n.path != path {
		return nil, true, failf(CodeDuplicate, entry, "%s and %s are the same on some systems; rename one of them", termtext.Quote(n.path), termtext.Quote(path))
	}
	return n, true, nil
}
