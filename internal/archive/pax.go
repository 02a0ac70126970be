package archive

import (
	"slices"
	"strconv"
	"strings"
)

// Keys of pax records that do not change what an entry is. All others are rejected: size, linkpath,
// GNU.sparse.*, and those that are unknown.
var (
	paxMetadata = []string{
		"atime", "ctime", "mtime", "uid", "gid", "uname", "gname", "comment",
		"LIBARCHIVE.creationtime", "SCHILY.dev", "SCHILY.ino", "SCHILY.nlink", "SCHILY.fflags",
	}
	paxAttributes = []string{"SCHILY.xattr.", "LIBARCHIVE.xattr.", "SCHILY.acl.", "RHT."}
)

// paxCapabilities is the attribute that gives a program the rights of other users, like setuid.
const paxCapabilities = "security.capability"

// paxPath checks the records of a pax header. It returns the path that they set, or "". A global
// header may have only a comment, as git archive writes it.
func paxPath(text string, global bool) (path string, err error) {
	seen := map[string]bool{}
	for text != "" {
		key, value, rest, ok := paxRecord(text)
		if !ok {
			return "", failf(CodeDamaged, "", "a pax header is malformed")
		}
		text = rest
		switch {
		case global && key != "comment":
			return "", failf(CodeAmbiguous, "", "a global pax header sets %q; pack the files again", key)
		case seen[key]:
			return "", failf(CodeAmbiguous, "", "a pax header sets %q twice; pack the files again", key)
		case key == "path" && (value == "" || strings.Contains(value, "\x00")):
			return "", failf(CodeName, "", "a pax header sets an empty path, or one with a NUL")
		case key == "path":
			path = value
		case strings.HasSuffix(key, paxCapabilities):
			return "", failf(CodeMode, path, "it has file capabilities; remove them with setcap -r and pack the files again")
		case strings.HasPrefix(key, "GNU.sparse."):
			return "", failf(CodeKind, path, "it is a sparse file; pack it as an ordinary file")
		case slices.Contains(paxMetadata, key), slices.ContainsFunc(paxAttributes, func(p string) bool { return strings.HasPrefix(key, p) }):
		default:
			return "", failf(CodeUnsupported, path, "a pax header sets %q, which is not supported; pack the files again", key)
		}
		seen[key] = true
	}
	return path, nil
}

// paxRecord splits the first record off: its length in decimal, a space, the key, "=", the value,
// and a line break.
func paxRecord(text string) (key, value, rest string, ok bool) {
	digits, _, ok := strings.Cut(text, " ")
	n, err := strconv.ParseUint(digits, 10, 31)
	if !ok || err != nil || digits[0] == '0' || int(n) <= len(digits)+1 || int(n) > len(text) {
		return "", "", "", false
	}
	record, ended := strings.CutSuffix(text[len(digits)+1:n], "\n")
	key, value, ok = strings.Cut(record, "=")
	return key, value, text[n:], ok && ended && key != ""
}
