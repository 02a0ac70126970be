package signature

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Verifier checks signatures of one kind.
type Verifier interface {
	// Suffix ends the names of its signature files. It is lower case and starts with a dot. "": it
	// decides about statements without a file, as a list of approved skills does.
	Suffix() string
	// Verify returns the ID of the signer of a statement: the same for all signatures of one signer,
	// printable, and without spaces at its ends. [ErrUnknown] means that the signature cannot be checked,
	// or that the statement is not in the list. Any other error means that the signature is bad.
	Verify(s Statement, signature []byte) (id string, err error)
}

// ErrUnknown is returned by a [Verifier] that does not know the key of a signature.
var ErrUnknown = errors.New("no policy file has the key of its signer")

// BadError is a signature file that is not a valid signature of the skill.
type BadError struct {
	File string
	Err  error
}

// Error returns the file and the reason.
func (e *BadError) Error() string { return e.File + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *BadError) Unwrap() error { return e.Err }

// Trust is what an operator decided about the sources and signers of skills. The zero value decides
// nothing. Trusts are combined with [Trust.Add].
type Trust struct {
	Sources  []string    // patterns of sources, as [CheckSource] accepts them
	Signers  []Trusted   // who may sign
	Approved []Statement // skills that need no signature
	// Verifiers check further kinds of signatures, or replace those for SSH and minisign.
	Verifiers []Verifier
}

// Trusted is a signer that an operator trusts.
type Trusted struct {
	Name    string
	ID      string   // as a [Verifier] returns it
	Skills  []string // names that it may sign; none: all
	Sources []string // patterns of sources from which it is accepted; none: all
}

// Add adds the decisions of another trust.
func (t *Trust) Add(more Trust) {
	t.Sources = slices.Concat(t.Sources, more.Sources)
	t.Signers = slices.Concat(t.Signers, more.Signers)
	t.Approved = slices.Concat(t.Approved, more.Approved)
	t.Verifiers = slices.Concat(t.Verifiers, more.Verifiers)
}

// Signer is who made a valid signature.
type Signer struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"` // that the operator gave it; "": the operator does not trust it
}

// Result is what is known about the signers of a skill.
type Result struct {
	Statement Statement `json:"statement"`
	Signers   []Signer  `json:"signers"`  // by ID
	Approved  bool      `json:"approved"` // a list of the operator has the skill
	Unknown   []string  `json:"unknown"`  // signature files that cannot be checked, with the reason
}

// Trusted reports whether the operator trusts a signer of the skill, or approved the skill.
func (r Result) Trusted() bool {
	return r.Approved || slices.ContainsFunc(r.Signers, func(s Signer) bool { return s.Name != "" })
}

// IDs returns the IDs of the signers.
func (r Result) IDs() []string {
	var out []string
	for _, s := range r.Signers {
		out = append(out, s.ID)
	}
	return out
}

// Subject is a skill whose signatures are checked.
type Subject struct {
	Name   string   // of its folder
	Source string   // address that it came from
	Known  []string // IDs of signers whose keys can be used, though the operator does not trust them
	Files  []File
	Read   func(path string) ([]byte, error) // reads a signature file; its digest was compared
}

// verifiers returns the verifiers to use. known are IDs of signers, beside the trusted ones.
func (t Trust) verifiers(known []string) []Verifier {
	known = slices.Clone(known)
	for _, s := range t.Signers {
		known = append(known, s.ID)
	}
	out := slices.Clone(t.Verifiers)
	for _, own := range []Verifier{sshVerifier{}, minisignVerifier{known}, sigstoreVerifier{}} {
		if !slices.ContainsFunc(out, func(v Verifier) bool { return v.Suffix() == own.Suffix() }) {
			out = append(out, own)
		}
	}
	return append(out, approvedVerifier(t.Approved))
}

func suffixes(list []Verifier) []string {
	var out []string
	for _, v := range list {
		out = append(out, v.Suffix())
	}
	// The longer of two suffixes that a name ends with is the right one.
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return out
}

// Statement returns the statement about a skill.
func (t Trust) Statement(name string, files []File) (Statement, error) {
	_, signed := split(files, suffixes(t.verifiers(nil)))
	return statement(name, signed)
}

// Check checks all signatures of a skill. The error is a [BadError] if one of them is not valid.
func (t Trust) Check(sub Subject) (Result, error) {
	verifiers := t.verifiers(sub.Known)
	known := suffixes(verifiers)
	files, signed := split(sub.Files, known)
	s, err := statement(sub.Name, signed)
	if err != nil {
		return Result{}, err
	}
	r := Result{Statement: s, Signers: []Signer{}, Unknown: []string{}}
	if len(files) > maxFiles {
		return r, &BadError{files[maxFiles].Path, fmt.Errorf("the skill has more than %d signatures", maxFiles)}
	}
	for _, f := range files {
		if err := r.file(f, sub, suffixOf(f.Path, known), verifiers, t.Signers); err != nil {
			return r, &BadError{f.Path, err}
		}
	}
	for _, v := range verifiers {
		if v.Suffix() != "" {
			continue
		}
		switch _, err := v.Verify(s, nil); {
		case err == nil:
			r.Approved = true
		case !errors.Is(err, ErrUnknown):
			return r, err
		}
	}
	slices.SortFunc(r.Signers, func(a, b Signer) int { return strings.Compare(a.ID, b.ID) })
	r.Signers = slices.CompactFunc(r.Signers, func(a, b Signer) bool { return a.ID == b.ID })
	return r, nil
}

// file checks one signature file.
func (r *Result) file(f File, sub Subject, suffix string, verifiers []Verifier, trusted []Trusted) error {
	switch {
	case f.Executable:
		return errors.New("a signature must not be executable")
	case f.Size > MaxBytes:
		return fmt.Errorf("a signature has at most %d bytes", MaxBytes)
	}
	raw, err := sub.Read(f.Path)
	if err != nil {
		return err
	}
	v := verifiers[slices.IndexFunc(verifiers, func(v Verifier) bool { return v.Suffix() == suffix })]
	id, err := v.Verify(r.Statement, raw)
	switch {
	case errors.Is(err, ErrUnknown):
		r.Unknown = append(r.Unknown, f.Path+": "+err.Error())
		return nil
	case err != nil:
		return err
	}
	r.Signers = append(r.Signers, Signer{ID: id, Name: nameOf(id, sub, trusted)})
	return nil
}

// nameOf returns the name of a signer that is trusted for a skill, or "".
func nameOf(id string, sub Subject, trusted []Trusted) string {
	for _, t := range trusted {
		if t.ID == id && (len(t.Skills) == 0 || slices.Contains(t.Skills, sub.Name)) && (len(t.Sources) == 0 || Listed(t.Sources, sub.Source)) {
			return t.Name
		}
	}
	return ""
}

// approvedVerifier is the list of approved skills.
type approvedVerifier []Statement

func (approvedVerifier) Suffix() string { return "" }

func (l approvedVerifier) Verify(s Statement, _ []byte) (string, error) {
	if slices.Contains(l, s) {
		return "approved", nil
	}
	return "", ErrUnknown
}

// sigstoreVerifier knows no signer. Package sigstore, in a module of its own, has one that does.
type sigstoreVerifier struct{}

func (sigstoreVerifier) Suffix() string { return SuffixSigstore }

func (sigstoreVerifier) Verify(Statement, []byte) (string, error) {
	return "", fmt.Errorf("%w: this program does not check Sigstore signatures, the one in signature/sigstore does", ErrUnknown)
}
