package signature

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
)

// tags is the part of the identity of a workflow that a tag started.
const tags = "@refs/tags/"

// SigstoreSigner returns the ID of a signer that an operator names by issuer and identity. For a
// workflow that runs for tags, the identity ends with @refs/tags/*, because each version has another
// tag. Otherwise, it must be complete.
func SigstoreSigner(issuer, identity string) (string, error) {
	if _, tag, ok := strings.Cut(identity, tags); ok && tag != "*" {
		return "", errors.New("the identity of a workflow that runs for tags ends with " + tags + "*")
	}
	if strings.Contains(strings.TrimSuffix(identity, tags+"*"), "*") {
		return "", errors.New("* is possible only in " + tags + "*, at the end of an identity")
	}
	return SigstoreID(issuer, identity)
}

// SigstoreID returns the ID of the signer that a certificate names.
func SigstoreID(issuer, identity string) (string, error) {
	u, err := url.Parse(issuer)
	if err != nil || u.Scheme != "https" || u.Host == "" || unprintable(issuer) {
		return "", fmt.Errorf("%q is not the https address of an issuer", issuer)
	}
	if identity == "" || unprintable(identity) {
		return "", fmt.Errorf("%q is not an identity, which is an email address or the address of a workflow", identity)
	}
	if before, _, ok := strings.Cut(identity, tags); ok {
		identity = before + tags + "*"
	}
	return "sigstore:" + issuer + " " + identity, nil
}

// unprintable reports whether a text has spaces, quotes, or characters that cannot be shown.
func unprintable(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("'\"`\\", r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar
	})
}
