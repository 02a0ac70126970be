package signature

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"aead.dev/minisign"
)

const minisignPrefix = "minisign:"

// maxComment is the length of the longest untrusted comment that is accepted.
const maxComment = 80

// minisignVerifier checks minisign signatures. They contain only the number of a key, so that the key
// must be known.
type minisignVerifier struct{ known []string } // IDs of signers

func (minisignVerifier) Suffix() string { return SuffixMinisign }

func (v minisignVerifier) Verify(s Statement, signature []byte) (string, error) {
	sig, err := parseMinisign(signature)
	if err != nil {
		return "", err
	}
	known := false
	for _, id := range v.known {
		var key minisign.PublicKey
		text, ok := strings.CutPrefix(id, minisignPrefix)
		if !ok || key.UnmarshalText([]byte(text)) != nil || key.ID() != sig.KeyID {
			continue
		}
		if known = true; minisign.Verify(key, s.Text(), signature) {
			return id, nil
		}
	}
	if known {
		return "", differs(s)
	}
	return "", fmt.Errorf("%w, minisign key %016X", ErrUnknown, sig.KeyID)
}

// parseMinisign parses a signature. It refuses everything that is not part of the signature, and an
// untrusted comment that no program writes, so that no text can be added to a signed skill.
func parseMinisign(text []byte) (minisign.Signature, error) {
	var sig minisign.Signature
	if err := sig.UnmarshalText(bytes.TrimSuffix(text, []byte("\n"))); err != nil {
		return sig, errors.New("it is not a minisign signature")
	}
	if again, err := sig.MarshalText(); err != nil || !bytes.Equal(bytes.TrimSuffix(again, []byte("\n")), bytes.TrimSuffix(text, []byte("\n"))) {
		return sig, errors.New("it has more than a minisign signature")
	}
	c := sig.UntrustedComment
	if !strings.HasPrefix(c, "signature from ") || len(c) > maxComment || strings.ContainsFunc(c, func(r rune) bool { return r < ' ' || r > '~' }) {
		return sig, fmt.Errorf("its untrusted comment is not signed, and must be plain text of at most %d characters that begins with 'signature from'", maxComment)
	}
	return sig, nil
}

// MinisignKey returns the ID of the signer with a public key, such as "RWQf6LRC…".
func MinisignKey(text string) (string, error) {
	var key minisign.PublicKey
	if err := key.UnmarshalText([]byte(strings.TrimSpace(text))); err != nil {
		return "", errors.New("it is not a minisign public key, such as: RWQf6LRC…")
	}
	return minisignPrefix + key.String(), nil
}

// signMinisign signs with a secret key.
func signMinisign(s Statement, text []byte) ([]byte, error) {
	var key minisign.PrivateKey
	if minisign.IsEncrypted(text) {
		return nil, ErrEncrypted
	}
	if err := key.UnmarshalText(bytes.TrimSpace(text)); err != nil {
		return nil, errors.New("it is not a minisign secret key")
	}
	r := minisign.NewReader(bytes.NewReader(s.Text()))
	if _, err := io.Copy(io.Discard, r); err != nil {
		return nil, err
	}
	return r.SignWithComments(key, "skill "+s.Name, "signature from minisign secret key"), nil
}
