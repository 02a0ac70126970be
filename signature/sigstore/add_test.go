package sigstore_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"metier/cli"
	"metier/signature"
	"metier/signature/sigstore"
)

// project is a folder in which a test runs metier.
type project struct {
	t   *testing.T
	dir string
}

// metier runs a command, and returns its exit code and what it prints.
func (p project) metier(args ...string) (int, string) {
	p.t.Helper()
	var out bytes.Buffer
	std := cli.IO{In: strings.NewReader(""), Out: &out, Err: &out, Dir: p.dir, Verifiers: sigstore.Verifiers}
	code := cli.Main(context.Background(), args, []string{"HOME=" + filepath.Join(p.dir, "home")}, std)
	return code, out.String()
}

// runs runs a command that must print a text.
func (p project) runs(code int, want string, args ...string) string {
	p.t.Helper()
	got, out := p.metier(args...)
	if got != code || !strings.Contains(out, want) {
		p.t.Fatalf("metier %v: exit code %d, want %d and %q:\n%s", args, got, code, want, out)
	}
	return out
}

func (p project) write(name, text string) {
	p.t.Helper()
	file := filepath.Join(p.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// req: C-094
func TestAdd_AcceptsTheIdentityThatAPolicyNames(t *testing.T) {
	t.Parallel()
	i := newInstance(t, false)
	p := project{t, t.TempDir()}
	policy := func(identity string) {
		p.write("policy.yaml", "version: 1\nsigstore_roots: ["+i.root+"]\nsigners:\n  - {name: acme, issuer: \""+issuer+"\", identity: \""+identity+"\"}\n")
	}
	sign := func(tag string) {
		_, tree, _ := strings.Cut(p.runs(0, "tree: ", "sign", "pdf"), "tree: ")
		s := signature.Statement{Name: "pdf", Tree: strings.TrimSpace(tree)}
		p.write("pdf/SKILL.sigstore.json", string(text(t, i.sign(t, workflow+tag, s))))
	}
	p.write("ws/.keep", "")
	p.write("pdf/SKILL.md", "---\nname: pdf\ndescription: Reads PDF files. Use when a PDF is given.\n---\n")
	sign("v1")
	add := []string{"add", "pdf", "--workspace", "ws", "--yes", "--policy", "policy.yaml", "--set", "install_signature=required"}
	policy("eve@example.com")
	p.runs(3, "[signature_required]", add...)
	policy(workflow + "v1")
	p.runs(2, "ends with @refs/tags/*", add...)
	policy(workflow + "*")
	p.runs(0, "signed by acme (sigstore:"+issuer+" "+workflow+"*)", add...)

	// The next version has another tag, and the same signer.
	p.write("pdf/notes.md", "more")
	p.runs(3, "[signature_invalid]", "update", "--workspace", "ws", "--yes", "--policy", "policy.yaml")
	sign("v2")
	p.runs(0, "replace", "update", "--workspace", "ws", "--yes", "--policy", "policy.yaml")
	p.runs(0, "intact", "verify", "--workspace", "ws", "--policy", "policy.yaml")

	// Without a root, the signer is unknown. The same files keep the signer of the lock, and others are refused.
	p.runs(0, "keep", "add", "pdf", "--workspace", "ws", "--yes")
	if lock, err := os.ReadFile(filepath.Join(p.dir, "ws", "metier.lock")); err != nil || !strings.Contains(string(lock), `"sigstore:`+issuer) {
		t.Errorf("the lock is %s, %v", lock, err)
	}
	p.write("pdf/notes.md", "even more")
	sign("v3")
	p.runs(3, "[signer_changed]", "update", "--workspace", "ws", "--yes")
	p.runs(0, "intact", "verify", "--workspace", "ws")
}
