package install_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/install"
	"metier/settings"
	"metier/signature"
)

// author is a signer with a key of minisign.
type author struct{ id, key string } // key is the file of the secret key

func newAuthor(t *testing.T) author {
	t.Helper()
	public, private, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := private.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	a := author{"minisign:" + public.String(), filepath.Join(t.TempDir(), "key")}
	if err := os.WriteFile(a.key, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign signs a skill in the folder of sources.
func (a author) sign(p place, name string) {
	p.t.Helper()
	if _, err := install.Sign(p.t.Context(), filepath.Join(p.in, name), a.key, p.settings()); err != nil {
		p.t.Fatal(err)
	}
}

func (p place) settings() settings.Settings {
	p.t.Helper()
	layer, err := settings.Profile(settings.DefaultProfile)
	if err != nil {
		p.t.Fatal(err)
	}
	set, _, err := settings.Resolve(layer)
	if err != nil {
		p.t.Fatal(err)
	}
	return set
}

// trusting opens the store of a user who trusts signers.
func (p place) trusting(authors ...author) *install.Store {
	p.t.Helper()
	var tr signature.Trust
	for _, a := range authors {
		tr.Signers = append(tr.Signers, signature.Trusted{Name: "author", ID: a.id})
	}
	s, err := install.Open(p.t.Context(), install.Options{Dir: p.dir, Lock: p.lock, Base: filepath.Dir(p.dir), Trust: tr})
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// update updates all skills, and returns the code of the error.
func (p place) update(s *install.Store) string {
	p.t.Helper()
	plan, err := s.Update(p.t.Context(), nil, false, p.settings())
	if err == nil {
		err = plan.Apply(p.t.Context())
	}
	if err == nil {
		return ""
	}
	return metier.CodeOf(err)
}

func (p place) signersOf(name string) []string {
	p.t.Helper()
	lock, err := install.ReadLock(p.lock)
	if err != nil {
		p.t.Fatal(err)
	}
	return lock.Skills[name].Signers
}

func closeStore(t *testing.T, s *install.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// The lock has the key of a signer, so that users whose policy does not name it notice another one.
func TestUpdate_ComparesTheSignerWithTheLock(t *testing.T) {
	t.Parallel()
	p, ada, eve := newPlace(t), newAuthor(t), newAuthor(t)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "one")})
	ada.sign(p, "pdf")
	s := p.trusting(ada)
	p.add(s)
	closeStore(t, s)
	if d := cmp.Diff([]string{ada.id}, p.signersOf("pdf")); d != "" {
		t.Fatal(d)
	}

	s = p.trusting()
	defer s.Close()
	p.write(map[string]string{"pdf/notes.md": "two"})
	ada.sign(p, "pdf")
	if d := cmp.Diff("", p.update(s)); d != "" {
		t.Errorf("the same signer: %s", d)
	}
	p.write(map[string]string{"pdf/notes.md": "three"})
	eve.sign(p, "pdf")
	if d := cmp.Diff("signer_changed", p.update(s)); d != "" {
		t.Errorf("another signer: %s", d)
	}
	if err := os.Remove(filepath.Join(p.in, "pdf", "SKILL.minisig")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("signer_changed", p.update(s)); d != "" {
		t.Errorf("no signer: %s", d)
	}
	if d := cmp.Diff([]string{ada.id}, p.signersOf("pdf")); d != "" {
		t.Error(d)
	}
}

// A user who knows fewer keys does not remove a signer from the lock.
func TestPrepare_KeepsSignersThatCannotBeChecked(t *testing.T) {
	t.Parallel()
	p, ada, bob := newPlace(t), newAuthor(t), newAuthor(t)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "one")})
	bob.sign(p, "pdf")
	if err := os.Rename(filepath.Join(p.in, "pdf", "SKILL.minisig"), filepath.Join(p.in, "pdf", "SKILL.bob.minisig")); err != nil {
		t.Fatal(err)
	}
	ada.sign(p, "pdf")
	s := p.trusting(ada, bob)
	p.add(s)
	closeStore(t, s)
	both := p.signersOf("pdf")
	if len(both) != 2 {
		t.Fatalf("the signers are %v", both)
	}
	s = p.trusting()
	defer s.Close()
	p.add(s)
	if d := cmp.Diff(both, p.signersOf("pdf")); d != "" {
		t.Error(d)
	}
	list, err := s.Verify(t.Context(), nil)
	if err != nil || len(list) != 1 || list[0].State != install.Intact || len(list[0].Signature.Signers) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A signed older version is a change that update shows; its signature is still valid.
func TestUpdate_ShowsAnOlderSignedVersion(t *testing.T) {
	t.Parallel()
	p, ada := newPlace(t), newAuthor(t)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "one")})
	ada.sign(p, "pdf")
	old, err := os.ReadFile(filepath.Join(p.in, "pdf", "SKILL.minisig"))
	if err != nil {
		t.Fatal(err)
	}
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "two")})
	ada.sign(p, "pdf")
	s := p.trusting(ada)
	defer s.Close()
	p.add(s)
	p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "one"), "pdf/SKILL.minisig": string(old)})
	plan, err := s.Update(t.Context(), nil, false, p.settings())
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Discard()
	d, err := plan.Diff(plan.Changes[0])
	if err != nil || !strings.Contains(d.Files[0].Text, "-two\n+one\n") {
		t.Errorf("%+v, %v", d, err)
	}
	if err := plan.Check(); err != nil {
		t.Error(err)
	}
}

func TestPrepare_RefusesBadSignatures(t *testing.T) {
	t.Parallel()
	ada := newAuthor(t)
	tests := []struct {
		name  string
		spoil func(t *testing.T, dir string) error
	}{
		{"a changed file", func(_ *testing.T, dir string) error {
			return os.WriteFile(filepath.Join(dir, "run.sh"), []byte("evil"), 0o644)
		}},
		{"a changed mode", func(_ *testing.T, dir string) error { return os.Chmod(filepath.Join(dir, "run.sh"), 0o755) }},
		{"an executable signature", func(_ *testing.T, dir string) error { return os.Chmod(filepath.Join(dir, "SKILL.minisig"), 0o755) }},
		{"a huge signature", func(_ *testing.T, dir string) error { return os.Truncate(filepath.Join(dir, "SKILL.minisig"), 64<<20) }},
		{"an empty signature", func(_ *testing.T, dir string) error { return os.Truncate(filepath.Join(dir, "SKILL.minisig"), 0) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write(map[string]string{"pdf/SKILL.md": skill("pdf", "one"), "pdf/run.sh": "#!/bin/sh\n"})
			ada.sign(p, "pdf")
			if err := tt.spoil(t, filepath.Join(p.in, "pdf")); err != nil {
				t.Fatal(err)
			}
			s := p.trusting(ada)
			defer s.Close()
			r := p.request()
			r.Force = true
			if _, err := p.prepare(s, r); metier.CodeOf(err) != "signature_invalid" || metier.KindOf(err) != metier.Denied {
				t.Errorf("%v, want signature_invalid", err)
			}
		})
	}
}
