package signature_test

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"aead.dev/minisign"

	"metier/signature"
)

// A signature file is accepted only if it is one that the signer made, apart from line breaks and the
// untrusted comment of minisign.
func FuzzCheck(f *testing.F) {
	key, _ := sshText(f, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	public, private, err := minisign.GenerateKey(strings.NewReader(strings.Repeat("seed", 100)))
	if err != nil {
		f.Fatal(err)
	}
	secret, err := private.MarshalText()
	if err != nil {
		f.Fatal(err)
	}
	id, err := signature.MinisignKey(public.String())
	if err != nil {
		f.Fatal(err)
	}
	trust := signature.Trust{Signers: []signature.Trusted{{Name: "a", ID: id}}}
	signed := fixture().sign(f, key).sign(f, secret)
	made := func(ssh bool, text string) string {
		if !ssh {
			_, text, _ = strings.Cut(text, "\n") // the untrusted comment is not signed
		}
		return strings.NewReplacer("\r", "", "\n", "").Replace(text)
	}
	for _, file := range []string{"SKILL.sig", "SKILL.minisig"} {
		f.Add(file == "SKILL.sig", signed[file])
		f.Add(file == "SKILL.sig", strings.Replace(signed[file], "A", "B", 1))
	}
	f.Fuzz(func(t *testing.T, ssh bool, text string) {
		file := "SKILL.minisig"
		if ssh {
			file = "SKILL.sig"
		}
		r, err := trust.Check(fixture().with(file, text).subject("pdf"))
		if err == nil && len(r.Signers) > 0 && made(ssh, text) != made(ssh, signed[file]) {
			t.Errorf("accepted:\n%s", text)
		}
	})
}
