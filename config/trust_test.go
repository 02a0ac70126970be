package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/signature"
)

const (
	sshKey      = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	sshID       = "ssh:SHA256:"
	minisignKey = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"
)

// req: A-180
func TestReadPolicy_ReadsSourcesSignersAndApprovedSkills(t *testing.T) {
	t.Parallel()
	got, err := written(t, `version: 1
sources: [acme/skills, "https://skills.example.com/*"]
sigstore_roots: [root.json, /etc/root.json]
signers:
  - {name: acme, minisign: `+minisignKey+`, skills: [pdf], sources: ["acme/*"]}
  - {name: release, issuer: "https://issuer.example.com", identity: "https://github.com/acme/skills/.github/workflows/r.yml@refs/tags/*"}
approved_skills:
  - {name: отчёт, tree: "`+someTree+`"}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := signature.Trust{
		Sources: []string{"acme/skills", "https://skills.example.com/*"},
		Signers: []signature.Trusted{
			{Name: "acme", ID: "minisign:" + minisignKey, Skills: []string{"pdf"}, Sources: []string{"acme/*"}},
			{Name: "release", ID: "sigstore:https://issuer.example.com https://github.com/acme/skills/.github/workflows/r.yml@refs/tags/*"},
		},
		Approved: []signature.Statement{{Name: "отчёт", Tree: someTree}},
	}
	if d := cmp.Diff(want, got.Trust); d != "" {
		t.Error(d)
	}
	if len(got.SigstoreRoots) != 2 || !strings.HasSuffix(got.SigstoreRoots[0], "/root.json") || got.SigstoreRoots[0] == "/root.json" || got.SigstoreRoots[1] != "/etc/root.json" {
		t.Errorf("the roots are %v: a relative path starts at the policy file", got.SigstoreRoots)
	}
}

func TestReadPolicy_ReadsSSHKeys(t *testing.T) {
	t.Parallel()
	got, err := written(t, "version: 1\nsigners:\n  - name: acme\n    ssh: "+sshKey+" ada@example.com\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Trust.Signers) != 1 || !strings.HasPrefix(got.Trust.Signers[0].ID, sshID) {
		t.Errorf("%+v", got.Trust)
	}
}

// req: A-180
func TestReadPolicy_RefusesTrustThatIsNotClear(t *testing.T) {
	t.Parallel()
	signer := func(text string) string { return "version: 1\nsigners:\n  - " + text + "\n" }
	tests := []struct{ name, text, want string }{
		{"a wildcard in a name", "version: 1\nsources: [\"https://github.com/acme*\"]\n", "* is possible only at the end, after a slash"},
		{"a path", "version: 1\nsources: [./skills]\n", "use an address"},
		{"no name", signer("{minisign: " + minisignKey + "}"), "the signer has no name"},
		{"no key", signer("{name: acme}"), "a signer has exactly one key"},
		{"two keys", signer("{name: acme, minisign: " + minisignKey + ", ssh: " + sshKey + "}"), "a signer has exactly one key"},
		{"an identity without an issuer", signer("{name: acme, identity: ada@example.com}"), "a signer has exactly one key"},
		{"an issuer without an identity", signer("{name: acme, issuer: https://i.example.com}"), "a signer has exactly one key"},
		{"an issuer that is not https", signer("{name: acme, issuer: http://i.example.com, identity: ada@example.com}"), "is not the https address of an issuer"},
		{"an identity with a wildcard", signer(`{name: acme, issuer: "https://i.example.com", identity: "*@example.com"}`), "* is possible only in @refs/tags/*"},
		{"an identity with one tag", signer(`{name: acme, issuer: "https://i.example.com", identity: "https://a/b@refs/tags/v1"}`), "ends with @refs/tags/*"},
		{"a key that is none", signer("{name: acme, ssh: AAAA}"), "ssh: it is not one SSH public key"},
		{"a minisign key that is none", signer("{name: acme, minisign: AAAA}"), "minisign: it is not a minisign public key"},
		{"no skills", signer("{name: acme, minisign: " + minisignKey + ", skills: []}"), "skills is empty"},
		{"an unknown key", signer("{name: acme, gpg: x}"), `unknown key "gpg" in a signer`},
		{"not a map", signer("acme"), "a signer is a map"},
		{"no tree", "version: 1\napproved_skills:\n  - {name: pdf}\n", "has the keys name and tree"},
		{"a tree that is none", "version: 1\napproved_skills:\n  - {name: pdf, tree: sha256:1}\n", "is not the digest of a tree"},
		{"a path as a name", "version: 1\napproved_skills:\n  - {name: a/b, tree: \"" + someTree + "\"}\n", "is not the name of a skill"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := written(t, tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, %v, want %s", got.Trust, err, tt.want)
			}
			if d := cmp.Diff(Policy{}, got); d != "" {
				t.Errorf("a part of the file holds: %s", d)
			}
		})
	}
}
