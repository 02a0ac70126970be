package engine

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"metier/internal/gitrepos"
)

// mostIndex is the maximum size of an index, in bytes.
const mostIndex = 256 << 20

// submodules lists the submodules in the index of a repository, as slash-separated paths. whole
// reports whether that is all of them.
func submodules(gitDir string) (out []string, whole bool) {
	whole = true
	files := []string{"index"}
	entries, err := os.ReadDir(gitDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "sharedindex.") { // entries of a split index
			files = append(files, e.Name())
		}
	}
	for _, name := range files {
		b, err := gitrepos.ReadFile(filepath.Join(gitDir, name), mostIndex)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		parsed := false
		for _, hash := range []int{sha1.Size, sha256.Size} { // an index does not say which hash it has
			var links []string
			if links, parsed = gitlinks(b, hash); parsed || err == nil {
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

// gitlinks lists the submodules in a git index of version 2 to 4, as far as it can be parsed
// (gitformat-index). whole reports whether that is to the end.
func gitlinks(b []byte, hash int) (out []string, whole bool) {
	if len(b) < 12 || string(b[:4]) != "DIRC" {
		return nil, false
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	b = b[12:]
	name := ""
	for range count {
		size := 42 + hash
		if len(b) < size+2 {
			return out, false
		}
		if version >= 3 && b[size-2]&0x40 != 0 { // extended flags
			size += 2
		}
		rest := b[size:]
		keep := 0
		if version == 4 { // the name without what it shares with the one before
			cut, n := offset(rest)
			if n == 0 || cut > len(name) {
				return out, false
			}
			rest, keep = rest[n:], len(name)-cut
		}
		end := bytes.IndexByte(rest, 0)
		if end < 0 {
			return out, false
		}
		name = name[:keep] + string(rest[:end])
		if binary.BigEndian.Uint32(b[24:])>>12 == 0o16 && filepath.IsLocal(filepath.FromSlash(name)) {
			out = append(out, name)
		}
		if version == 4 {
			b = rest[end+1:]
			continue
		}
		if size = (size + end + 8) &^ 7; size > len(b) {
			return out, false
		}
		b = b[size:]
	}
	return out, ends(b, hash)
}

// ends reports whether the rest of an index is its extensions and its checksum.
func ends(b []byte, hash int) bool {
	for len(b) > hash {
		if len(b) < 8 {
			return false
		}
		size := uint64(binary.BigEndian.Uint32(b[4:]))
		if size > uint64(len(b)-8) {
			return false
		}
		b = b[8+size:]
	}
	return len(b) == hash
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
