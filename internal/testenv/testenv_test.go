package testenv_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"metier/internal/testenv"
)

// probe is a testing.TB that records how a test ended.
type probe struct {
	testing.TB
	skipped, failed string
}

type ended struct{}

func (p *probe) Helper()                   {}
func (p *probe) Skip(a ...any)             { p.skipped = fmt.Sprint(a...); panic(ended{}) }
func (p *probe) Fatal(a ...any)            { p.failed = fmt.Sprint(a...); panic(ended{}) }
func (p *probe) Fatalf(f string, a ...any) { p.failed = fmt.Sprintf(f, a...); panic(ended{}) }

func end(t *testing.T, f func(testing.TB)) *probe {
	t.Helper()
	p := &probe{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil {
				if _, ok := v.(ended); !ok {
					panic(v)
				}
			}
		}()
		f(p)
	}()
	return p
}

func TestSkipsAreNamedAndCanBeForbidden(t *testing.T) {
	missing := func(t testing.TB) { testenv.NeedTool(t, "no-such-program-anywhere", "nothing") }
	t.Setenv(testenv.NoSkip, "")
	if p := end(t, missing); p.failed != "" || !strings.Contains(p.skipped, "no-such-program-anywhere (Debian package nothing)") {
		t.Errorf("allowed: %+v", p)
	}
	t.Setenv(testenv.NoSkip, "1")
	if p := end(t, missing); p.skipped != "" || !strings.Contains(p.failed, "no-such-program-anywhere") {
		t.Errorf("forbidden: %+v", p)
	}
	if p := end(t, func(t testing.TB) { testenv.Skip(t, "") }); p.failed != "a skip needs a reason" {
		t.Errorf("no reason: %+v", p)
	}
}

func TestNeedToolReturnsThePath(t *testing.T) {
	t.Parallel()
	got := testenv.NeedTool(t, "go", "golang")
	want, err := exec.LookPath("go")
	if err != nil || got != want {
		t.Errorf("got %s, want %s, %v", got, want, err)
	}
}

// A clone without the corpus is no reason to fail, even where skips are.
func TestCorpusMayBeAbsent(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "clone")
	if err := os.MkdirAll(filepath.Join(clone, "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(clone, "go.mod"), []byte("module metier\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(clone, "deep"))
	t.Setenv(testenv.NoSkip, "1")
	if p := end(t, func(t testing.TB) { testenv.Corpus(t) }); p.failed != "" || !strings.Contains(p.skipped, "not beside this clone") {
		t.Errorf("absent: %+v", p)
	}
	shared := filepath.Join(filepath.Dir(clone), "shared", "corpus")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shared, "manifest.jsonl"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := testenv.Corpus(t); got != shared {
		t.Errorf("got %s, want %s", got, shared)
	}
}

func TestOrdinaryUserIsStoppedByModes(t *testing.T) {
	t.Parallel()
	if !testenv.OrdinaryUser(t) {
		return
	}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(file); !os.IsPermission(err) {
		t.Errorf("a file of mode 0 was read: %v", err)
	}
}
