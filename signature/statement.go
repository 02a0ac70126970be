package signature

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"metier/internal/digest"
)

// Namespace is the namespace of SSH signatures: ssh-keygen -Y sign -n metier-skill.
const Namespace = "metier-skill"

// Suffixes of the names of signature files, which begin with "SKILL.", such as SKILL.sig.
const (
	SuffixSSH      = ".sig"
	SuffixMinisign = ".minisig"
	SuffixSigstore = ".sigstore.json"
)

// MaxBytes is the size of the largest signature file that is accepted.
const MaxBytes = 128 << 10

// maxFiles limits the signatures of a skill.
const maxFiles = 8

// Statement is what a signature of a skill is about.
type Statement struct {
	Name string `json:"name"` // of the skill's folder
	Tree string `json:"tree"` // digest of its files without signatures
}

// Text returns the bytes that are signed.
func (s Statement) Text() []byte {
	return fmt.Appendf(nil, "skill statement 1\nname: %s\ntree: %s\n", s.Name, s.Tree)
}

// check reports a statement whose text could be read as another one.
func (s Statement) check() error {
	if s.Name == "" || strings.ContainsFunc(s.Name, unicode.IsControl) {
		return fmt.Errorf("%q is not the name of a skill's folder", s.Name)
	}
	if !digest.Valid(s.Tree) {
		return fmt.Errorf("%q is not the digest of a tree, which is sha256: and 64 digits", s.Tree)
	}
	return nil
}

// File is a file of a skill.
type File struct {
	Path       string // in the skill
	Digest     string
	Size       int64
	Executable bool
}

// split separates the signatures, by path, from the files that are signed.
func split(files []File, suffixes []string) (signatures, signed []File) {
	for _, f := range files {
		if isSignature(f.Path, suffixes) {
			signatures = append(signatures, f)
		} else {
			signed = append(signed, f)
		}
	}
	slices.SortFunc(signatures, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return signatures, signed
}

// IsFile reports whether a file of a skill is a signature of a kind that this package knows.
func IsFile(path string) bool {
	return isSignature(path, []string{SuffixSSH, SuffixMinisign, SuffixSigstore})
}

// isSignature reports whether a file is a signature: SKILL.sig, or SKILL.NAME.sig, at the top. Case does
// not matter, because it does not on some file systems.
func isSignature(path string, suffixes []string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(path), "skill.")
	return ok && !strings.Contains(rest, "/") && suffixOf("."+rest, suffixes) != ""
}

// suffixOf returns the suffix that a name ends with, or "".
func suffixOf(name string, suffixes []string) string {
	name = strings.ToLower(name)
	for _, s := range suffixes {
		if s != "" && strings.HasSuffix(name, s) {
			return s
		}
	}
	return ""
}

// statement returns the statement about a skill with these files, without signatures.
func statement(name string, signed []File) (Statement, error) {
	entries := make([]digest.Entry, 0, len(signed))
	for _, f := range signed {
		mode := digest.ModeFile
		if f.Executable {
			mode = digest.ModeExec
		}
		entries = append(entries, digest.Entry{Path: f.Path, Mode: mode, Digest: f.Digest})
	}
	s := Statement{Name: name, Tree: digest.Tree(entries)}
	if len(entries) == 0 {
		return s, errors.New("the skill has no files")
	}
	return s, s.check()
}
