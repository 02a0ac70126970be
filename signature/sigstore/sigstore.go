// Package sigstore checks Sigstore signatures of skills: bundles, as cosign sign-blob writes them, with
// a certificate for an identity. It needs no network.
//
// It is a module of its own, because it needs about 60 more modules, and makes a program 10 MB larger.
// The command in cmd/metier is metier with this package.
package sigstore

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"

	"metier"
	"metier/signature"
)

// Verifiers returns the verifier for bundles that the Sigstore instances of these trusted root files
// vouch for. Without a file, all signers are unknown.
func Verifiers(roots []string) ([]signature.Verifier, error) {
	if len(roots) == 0 {
		return []signature.Verifier{verifier{}}, nil
	}
	var all root.TrustedMaterialCollection
	options := []verify.VerifierOption{verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1)}
	logged := true
	for _, file := range roots {
		r, err := root.NewTrustedRootFromPath(file)
		if err != nil {
			return nil, metier.Fieldf(metier.Invalid, "Request.Policies", "sigstore_root_invalid", "specify the trusted root of a Sigstore instance, as 'cosign trusted-root create' writes it", "%s: %v", file, err)
		}
		logged = logged && len(r.CTLogs()) > 0
		all = append(all, r)
	}
	if logged {
		options = append(options, verify.WithSignedCertificateTimestamps(1))
	}
	v, err := verify.NewVerifier(all, options...)
	if err != nil {
		return nil, err
	}
	return []signature.Verifier{verifier{v}}, nil
}

// verifier checks bundles. Without a verifier of the library, all signers are unknown.
type verifier struct{ *verify.Verifier }

// Suffix implements signature.Verifier.
func (verifier) Suffix() string { return signature.SuffixSigstore }

// Verify implements signature.Verifier.
func (v verifier) Verify(s signature.Statement, text []byte) (string, error) {
	b := &bundle.Bundle{}
	if err := b.UnmarshalJSON(text); err != nil {
		return "", fmt.Errorf("it is not a Sigstore bundle: %w", err)
	}
	if b.GetMessageSignature() == nil {
		return "", errors.New("it is an attestation, which can say anything about the statement, and not a signature of it")
	}
	if v.Verifier == nil {
		return "", fmt.Errorf("%w, because none names sigstore_roots", signature.ErrUnknown)
	}
	policy := verify.NewPolicy(verify.WithArtifact(bytes.NewReader(s.Text())), verify.WithoutIdentitiesUnsafe()) // the caller compares identities
	r, err := v.Verifier.Verify(b, policy)
	switch {
	case err != nil:
		return "", fmt.Errorf("it is not a signature of the skill %q with these files that a Sigstore instance of sigstore_roots vouches for: %w", s.Name, err)
	case r.Signature == nil || r.Signature.Certificate == nil:
		return "", errors.New("it has no certificate that names its signer")
	}
	return signature.SigstoreID(r.Signature.Certificate.Issuer, r.Signature.Certificate.SubjectAlternativeName)
}
