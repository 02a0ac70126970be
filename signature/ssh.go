package signature

import (
	"bytes"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// minRSA is the length of the shortest RSA key that is accepted, in bits.
const minRSA = 2048

// sshVerifier checks SSH signatures, as ssh-keygen -Y sign makes them. They contain the public key.
type sshVerifier struct{}

func (sshVerifier) Suffix() string { return SuffixSSH }

func (sshVerifier) Verify(s Statement, signature []byte) (string, error) {
	sig, err := parseSSH(signature)
	if err != nil {
		return "", err
	}
	if sig.Namespace != Namespace {
		return "", fmt.Errorf("the namespace of the signature is %q, not %q", sig.Namespace, Namespace)
	}
	if err := sshsig.Verify(bytes.NewReader(s.Text()), sig, sig.PublicKey, sig.HashAlgorithm, Namespace); err != nil {
		return "", differs(s)
	}
	return sshID(sig.PublicKey)
}

// differs is the error for a signature of something else.
func differs(s Statement) error {
	return fmt.Errorf("it is not a signature of the skill %q with these files", s.Name)
}

// parseSSH parses an armored signature. Unlike other readers, it refuses everything that is not part of
// the signature, so that nothing can be added to a signed skill.
func parseSSH(text []byte) (*sshsig.Signature, error) {
	const begin, end = "-----BEGIN " + sshsig.PEMType + "-----\n", "\n-----END " + sshsig.PEMType + "-----\n"
	body, ok := strings.CutPrefix(string(text), begin)
	if ok {
		body, ok = strings.CutSuffix(body, end)
	}
	if !ok {
		return nil, errors.New("it is not an SSH signature, or has more than one")
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(body)
	if err != nil {
		return nil, errors.New("it is damaged")
	}
	sig, err := sshsig.ParseSignature(raw)
	if err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	if !bytes.Equal(sig.Marshal(), raw) {
		return nil, errors.New("it has unknown fields")
	}
	return sig, nil
}

// SSHKey returns the ID of the signer with a public key, such as "ssh-ed25519 AAAA…".
func SSHKey(text string) (string, error) {
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil || len(options) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return "", errors.New("it is not one SSH public key, such as: ssh-ed25519 AAAA…")
	}
	return sshID(key)
}

// sshID returns the ID of a key.
func sshID(key ssh.PublicKey) (string, error) {
	if _, ok := key.(*ssh.Certificate); ok {
		return "", errors.New("SSH certificates are not supported; sign with a key")
	}
	if c, ok := key.(ssh.CryptoPublicKey); ok {
		if k, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok && k.N.BitLen() < minRSA {
			return "", fmt.Errorf("the RSA key has less than %d bits", minRSA)
		}
	}
	if strings.HasPrefix(key.Type(), "ssh-dss") {
		return "", errors.New("DSA keys are not supported")
	}
	return "ssh:" + ssh.FingerprintSHA256(key), nil
}

// signSSH signs with a private key.
func signSSH(s Statement, key []byte) ([]byte, error) {
	signer, err := ssh.ParsePrivateKey(key)
	if _, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		return nil, ErrEncrypted
	}
	if err != nil {
		return nil, errors.New("it is not an SSH private key")
	}
	if _, err := sshID(signer.PublicKey()); err != nil {
		return nil, err
	}
	sig, err := sshsig.Sign(bytes.NewReader(s.Text()), signer, sshsig.HashSHA512, Namespace)
	if err != nil {
		return nil, err
	}
	return sshsig.Armor(sig), nil
}
