package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"metier"
	"metier/internal/digest"
	"metier/signature"
	"metier/source/local"
)

// Unsigned is the value of Plan.AcceptSigners that accepts a skill whose signer is gone.
const Unsigned = "none"

// signatures checks the signatures of the skill in a bundle. src is where it came from.
func (s *Store) signatures(ctx context.Context, name string, src Source, b metier.Bundle, m metier.Manifest) (*signature.Result, error) {
	r, err := s.o.Trust.Check(signature.Subject{Name: name, Source: src.Location, Known: s.lock.Skills[name].Signers, Files: signedFiles(m), Read: reader(ctx, b, m)})
	return &r, invalid(err, "do not install the skill; ask its author to sign it again")
}

// invalid returns an error about a bad signature as an error of this package.
func invalid(err error, hint string) error {
	if bad, ok := errors.AsType[*signature.BadError](err); ok {
		return &metier.Error{Path: bad.File, Kind: metier.Denied, Code: "signature_invalid", Hint: hint, Err: bad.Err}
	}
	return err
}

// signatures checks the signatures of a skill that would be given to others. Those whose keys are unknown
// are not checked.
func (p packable) signatures(ctx context.Context) (*signature.Result, error) {
	r, err := signature.Trust{}.Check(signature.Subject{Name: p.skill.Slug, Files: signedFiles(p.manifest), Read: reader(ctx, p.bundle, p.manifest)})
	return &r, invalid(err, "sign the skill again with 'metier sign FOLDER', or remove the signature")
}

// reader returns a function that reads a file of a bundle, with the bytes of the manifest.
func reader(ctx context.Context, b metier.Bundle, m metier.Manifest) func(path string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		f := m.Files[slices.IndexFunc(m.Files, func(f metier.File) bool { return f.Path == path })]
		in, err := b.Open(ctx, path)
		if err != nil {
			return nil, err
		}
		raw, err := io.ReadAll(io.LimitReader(in, f.Size+1))
		if err := errors.Join(err, in.Close()); err != nil {
			return nil, err
		}
		if digest.Bytes(raw) != string(f.Digest) {
			return nil, changing(path)
		}
		return raw, nil
	}
}

// installed checks the signatures of the skill in a folder of the store. Without an error, it has the
// signers of the lock, except those that cannot be checked.
func (s *Store) installed(ctx context.Context, name string, e Entry) (*signature.Result, error) {
	src, err := local.New(s.path(name), &local.Options{Installed: true, Entry: entryFile(s.o.Harnesses)})
	if err != nil {
		return nil, err
	}
	b, err := src.Open(ctx, ".")
	if err != nil {
		return nil, err
	}
	defer b.Close()
	m, err := b.Manifest(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.signatures(ctx, name, e.Source, b, m)
	if err != nil {
		return nil, err
	}
	return r, lacking(r, e)
}

// lacking returns an error if the skill lacks a signer that the lock has.
func lacking(r *signature.Result, e Entry) error {
	for _, id := range e.Signers {
		if !slices.Contains(r.IDs(), id) && len(r.Unknown) == 0 {
			return fmt.Errorf("the lock has the signer %s, who did not sign the files", id)
		}
	}
	return nil
}

// signedFiles returns the files of a manifest as package signature takes them.
func signedFiles(m metier.Manifest) []signature.File {
	out := make([]signature.File, 0, len(m.Files))
	for _, f := range m.Files {
		out = append(out, signature.File{Path: f.Path, Digest: string(f.Digest), Size: f.Size, Executable: f.Exec})
	}
	return out
}

// SignersWere returns the signers in the lock, if the change loses all of them.
func (c Change) SignersWere() []string {
	if c.Was == nil || c.Action == Remove || slices.ContainsFunc(c.Was.Signers, func(id string) bool { return slices.Contains(c.Entry.Signers, id) }) {
		return nil
	}
	return c.Was.Signers
}

// checkSigner returns an error if a signer that the lock has is gone, unless the new one is accepted.
func (p *Plan) checkSigner(c Change) error {
	were := c.SignersWere()
	if len(were) == 0 || c.Signature != nil && c.Signature.Trusted() {
		return nil
	}
	now, accept := "signed by "+strings.Join(c.Entry.Signers, ", "), c.Entry.Signers
	if len(accept) == 0 {
		now, accept = "not signed", []string{Unsigned}
	}
	if slices.ContainsFunc(accept, func(id string) bool { return slices.Contains(p.AcceptSigners, id) }) {
		return nil
	}
	then := fmt.Sprintf("accept the new signer with Plan.AcceptSigners '%s'", accept[0])
	if c.Signature != nil && len(c.Signature.Unknown) > 0 {
		now += " by a known key; " + strings.Join(c.Signature.Unknown, "; ")
		then = "name the new key in signers of a policy file"
	}
	return &metier.Error{Skill: c.Name, Field: "Plan.AcceptSigners", Kind: metier.Denied, Code: "signer_changed",
		Hint: "ask its author about it, over another channel; then " + then,
		Err:  fmt.Errorf("it was signed by %s, and is now %s", strings.Join(were, ", "), now)}
}

// checkRequired returns an error if the skill lacks a signer that Options.RequireSigner requires.
func (p *Plan) checkRequired(c Change) error {
	if !p.store.o.RequireSigner || c.Signature == nil || c.Signature.Trusted() {
		return nil
	}
	what := "it is not signed"
	if len(c.Signature.Signers) > 0 {
		what = "it is signed by " + strings.Join(c.Signature.IDs(), ", ") + ", and no policy file names this signer for it"
	} else if len(c.Signature.Unknown) > 0 {
		what = strings.Join(c.Signature.Unknown, "; ")
	}
	return &metier.Error{Skill: c.Name, Field: "Request.Policies", Kind: metier.Denied, Code: "signature_required",
		Hint: "name its signer in signers, or the skill in approved_skills, of a policy file of yours; the setting install_signature requires it", Err: errors.New(what)}
}
