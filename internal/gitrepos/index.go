package gitrepos

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// mostIndex is the maximum size of an index, in bytes.
const mostIndex = 256 << 20

// mostName is the maximum length of a name in an index, in bytes: that of a path.
const mostName = 4096

// An indexEntry is an entry of an index.
type indexEntry struct {
	mode uint32
	name string
}

// isIndex reports whether a file in a git folder contains entries of its index, which can be split.
func isIndex(name string) bool { return name == "index" || strings.HasPrefix(name, "sharedindex.") }

// Submodules lists the submodules in the index of a repository, as slash-separated paths. whole
// reports whether that is all of them.
func Submodules(gitDir string) (out []string, whole bool) {
	files, err := os.ReadDir(gitDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	whole = true
	for _, file := range files {
		if !isIndex(file.Name()) {
			continue
		}
		b, err := ReadFile(filepath.Join(gitDir, file.Name()), mostIndex)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		parsed := false
		for _, hash := range []int{sha1.Size, sha256.Size} { // an index does not say which hash it has
			var links []string
			if _, parsed = parseIndex(b, hash, func(e indexEntry) bool {
				if e.mode>>12 == 0o16 && filepath.IsLocal(filepath.FromSlash(e.name)) {
					links = append(links, e.name)
				}
				return true
			}); parsed || err == nil {
				out = append(out, links...)
			}
			if parsed {
				break
			}
		}
		whole = whole && parsed && err == nil
	}
	return out, whole
}

// parseIndex parses a git index of version 2 to 4 (gitformat-index). It calls entry for each entry
// until entry returns false, and returns the signatures of the extensions. whole reports whether it
// parsed the index to its end, and the index is as git writes it.
func parseIndex(b []byte, hash int, entry func(indexEntry) bool) (extensions []string, whole bool) {
	if len(b) < 12 || string(b[:4]) != "DIRC" {
		return nil, false
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	b = b[12:]
	name, exact := "", 2 <= version && version <= 4
	for range count {
		size := 42 + hash
		if len(b) < size+2 {
			return nil, false
		}
		length := int(binary.BigEndian.Uint16(b[size-2:]) & 0xfff)
		if version >= 3 && b[size-2]&0x40 != 0 { // extended flags
			size += 2
		}
		rest := b[size:]
		keep := 0
		if version == 4 { // the name without what it shares with the one before
			cut, n := offset(rest)
			if n == 0 || cut > len(name) {
				return nil, false
			}
			rest, keep = rest[n:], len(name)-cut
		}
		end := bytes.IndexByte(rest, 0)
		if end < 0 || keep+end > mostName { // version 4 could take time that grows with the square
			return nil, false
		}
		name = name[:keep] + string(rest[:end])
		exact = exact && length == min(len(name), 0xfff) // git believes it
		if !entry(indexEntry{binary.BigEndian.Uint32(b[24:]), name}) {
			return nil, false
		}
		if version == 4 {
			b = rest[end+1:]
			continue
		}
		if size = (size + end + 8) &^ 7; size > len(b) {
			return nil, false
		}
		b = b[size:]
	}
	extensions, whole = ends(b, hash)
	return extensions, whole && exact
}

// ends reports whether the rest of an index is its extensions and its checksum.
func ends(b []byte, hash int) (extensions []string, whole bool) {
	for len(b) > hash {
		if len(b) < 8 {
			return nil, false
		}
		size := uint64(binary.BigEndian.Uint32(b[4:]))
		if size > uint64(len(b)-8) {
			return nil, false
		}
		extensions = append(extensions, string(b[:4]))
		b = b[8+size:]
	}
	return extensions, len(b) == hash
}

// offset reads a number in git's pack encoding. n is 0 if it is truncated or too large.
func offset(b []byte) (v, n int) {
	for n < min(len(b), 4) {
		c := b[n]
		n++
		v = v<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return v, n
		}
		v++
	}
	return 0, 0
}

// unsafeIndex checks the names in an index, which git checks only when it adds an entry. hash is the
// size of the repository's hashes.
func unsafeIndex(file string, b []byte, hash int) (why string) {
	unnamed := false
	extensions, whole := parseIndex(b, hash, func(e indexEntry) bool {
		unnamed = unnamed || e.name == ""
		if e.name != "" && !isIndexName(e.name) {
			why = "its " + file + " contains a path that git does not add"
		}
		return why == ""
	})
	switch {
	case why != "":
		return why
	case !whole || slices.ContainsFunc(extensions, func(s string) bool { return !slices.Contains(known, s) }),
		unnamed && !slices.Contains(extensions, "link"): // which replaces entries of the shared index
		return "its " + file + " is not as git writes it"
	}
	return ""
}

// known are the extensions of an index after which git reads the entries in their order. It does not
// write others unless it is configured to.
var known = []string{"TREE", "REUC", "link", "UNTR", "FSMN"}

// isIndexName reports whether git would add a path to an index on every system.
func isIndexName(name string) bool {
	for part := range strings.SplitSeq(strings.ReplaceAll(name, `\`, "/"), "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsFunc(part, unicode.IsControl) || isDotGit(part) {
			return false
		}
	}
	return true
}

// isDotGit reports whether a file system could take a name for .git: HFS+ ignores some characters, and
// NTFS what follows, and has a short name.
func isDotGit(name string) bool {
	name = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, name)
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, " .")
	return strings.EqualFold(name, ".git") || strings.EqualFold(name, "git~1")
}
