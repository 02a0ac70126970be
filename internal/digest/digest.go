// Package digest formats SHA-256 digests as "sha256:" and 64 lowercase hex digits, and combines
// the digests of a skill's files into the digest of its tree.
package digest

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
	"strings"
)

const prefix = "sha256:"

// Size is the length in bytes of every digest string.
const Size = len(prefix) + 2*sha256.Size

// Modes of a file in a tree.
const (
	ModeFile = "file" // a plain file
	ModeExec = "exec" // a file with an execute bit
)

// Bytes returns the digest of b.
func Bytes(b []byte) string {
	sum := sha256.Sum256(b)
	return format(sum[:])
}

// Valid reports whether s has the exact form of a digest: the prefix and 64 lowercase hex digits.
func Valid(s string) bool {
	if len(s) != Size || !strings.HasPrefix(s, prefix) {
		return false
	}
	for _, c := range []byte(s[len(prefix):]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Hasher digests a stream. Use New to create one.
type Hasher struct{ h hash.Hash }

// New returns an empty Hasher.
func New() *Hasher { return &Hasher{sha256.New()} }

// Write adds p. It never fails.
func (h *Hasher) Write(p []byte) (int, error) { return h.h.Write(p) }

// Sum returns the digest of all bytes written so far. More bytes can be written afterwards.
func (h *Hasher) Sum() string {
	var buf [sha256.Size]byte
	return format(h.h.Sum(buf[:0]))
}

func format(sum []byte) string {
	var buf [Size]byte
	copy(buf[:], prefix)
	hex.Encode(buf[len(prefix):], sum)
	return string(buf[:])
}

// Entry is one file of a tree.
type Entry struct {
	Path   string // relative, slash separated
	Mode   string // ModeFile or ModeExec
	Digest string // of the file's bytes
}

// Tree returns the digest of a set of files. It changes if a file is added, removed, or renamed, or
// if its bytes or its execute bit change. The order of files does not matter; they are sorted by
// the bytes of Path.
//
// Every field is preceded by its length, so two different sets cannot have the same encoding.
func Tree(files []Entry) string {
	sorted := slices.Clone(files)
	slices.SortFunc(sorted, func(a, b Entry) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Mode, b.Mode), strings.Compare(a.Digest, b.Digest))
	})
	buf := field(make([]byte, 0, 64+160*len(sorted)), "metier.tree.v1")
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(sorted)))
	for _, f := range sorted {
		buf = field(field(field(buf, f.Path), f.Mode), f.Digest)
	}
	return Bytes(buf)
}

func field(buf []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint64(buf, uint64(len(s))), s...)
}
