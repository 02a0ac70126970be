package signature

import (
	"bytes"
	"errors"
)

// ErrEncrypted is returned by [Sign] for a private key with a password.
var ErrEncrypted = errors.New("the key is encrypted")

// Sign signs a statement with a private key of SSH or minisign. It returns the name of the signature
// file, and its content.
func Sign(s Statement, key []byte) (file string, signature []byte, err error) {
	if err := s.check(); err != nil {
		return "", nil, err
	}
	if bytes.HasPrefix(key, []byte("untrusted comment:")) {
		signature, err = signMinisign(s, key)
		return "SKILL" + SuffixMinisign, signature, err
	}
	signature, err = signSSH(s, key)
	return "SKILL" + SuffixSSH, signature, err
}
