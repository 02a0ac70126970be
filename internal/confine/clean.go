package confine

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxPath and MaxName are the maximum lengths in bytes of a path and a single name that Clean
// accepts.
const (
	MaxPath = 4095
	MaxName = 255
)

// Clean validates a relative path that comes from a skill, a model, or a tool call. It returns the
// slash-separated path without "." parts.
//
// It rejects, with PathInvalid: empty paths and ".", absolute paths, "..", empty parts ("a//b", a
// trailing slash), backslashes, NUL, drive letters, invalid UTF-8, and paths longer than MaxPath or
// MaxName. It decodes nothing: "%2e%2e" is an ordinary name. Control characters, quotes, and
// look-alikes are allowed in names; code that prints a path must escape it. On Windows, names with
// ":" and reserved device names are rejected as well.
func Clean(rel string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", &Error{Op: "clean", Path: rel, Code: PathInvalid, Err: errors.New(why)}
	}
	switch {
	case rel == "":
		return refuse("the path is empty")
	case len(rel) > MaxPath:
		return refuse("the path is too long")
	case rel[0] == '/':
		return refuse("the path is absolute")
	case strings.IndexByte(rel, 0) >= 0:
		return refuse("the path holds a NUL byte")
	case strings.IndexByte(rel, '\\') >= 0:
		return refuse("the path holds a back-slash; use /")
	case !utf8.ValidString(rel):
		return refuse("the path is not UTF-8")
	case len(rel) >= 2 && rel[1] == ':' && isLetter(rel[0]):
		return refuse("the path starts with a drive letter")
	}
	dots := false
	for rest, more := rel, true; more; {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		switch {
		case part == "":
			return refuse("the path has an empty part")
		case part == "..":
			return refuse(`the path holds ".."`)
		case part == ".":
			dots = true
		case len(part) > MaxName:
			return refuse("a name in the path is too long")
		}
	}
	clean := rel
	if dots {
		if clean = strings.Join(slices.DeleteFunc(strings.Split(rel, "/"), func(part string) bool { return part == "." }), "/"); clean == "" {
			return refuse("the path names the folder itself")
		}
		if len(clean) >= 2 && clean[1] == ':' && isLetter(clean[0]) {
			return refuse("the path starts with a drive letter")
		}
	}
	if runtime.GOOS == "windows" && (strings.Contains(clean, ":") || !filepath.IsLocal(filepath.FromSlash(clean))) {
		return refuse("the path has a meaning of its own on this system")
	}
	return clean, nil
}

// Private reports whether a slash path is in the .git of a repository, or in a .metier, except for
// the skills in it. These are not content. Case is ignored, because some file systems ignore it.
func Private(rel string) bool {
	names := strings.Split(strings.ToLower(rel), "/")
	for i, name := range names {
		if name == ".git" || name == ".metier" && (i+1 == len(names) || names[i+1] != "skills") {
			return true
		}
	}
	return false
}

func cleanOrSelf(rel string) (string, error) {
	if rel == "." {
		return rel, nil
	}
	return Clean(rel)
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
