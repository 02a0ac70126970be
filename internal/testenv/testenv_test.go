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

func TestCorpus_AbsentIsASkipOrAFailure(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "clone")
	if err := os.MkdirAll(filepath.Join(clone, "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(clone, "go.mod"), []byte("module "+testenv.ModulePath+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(clone, "deep"))
	needs := "needs " + filepath.Join(filepath.Dir(clone), "shared", "corpus", "manifest.jsonl")
	for _, c := range []struct {
		name, noSkip, noShared string
		want                   probe
	}{
		{"skips are allowed", "", "", probe{skipped: needs}},
		{"skips are forbidden", "1", "", probe{failed: "would be skipped, but METIER_NO_SKIP=1: " + needs}},
		{"this skip is allowed", "1", "1", probe{skipped: needs}},
	} {
		t.Setenv(testenv.NoSkip, c.noSkip)
		t.Setenv(testenv.NoShared, c.noShared)
		got := end(t, func(t testing.TB) { testenv.Corpus(t) })
		if got.TB = nil; *got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, *got, c.want)
		}
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

func TestCount_FollowsShort(t *testing.T) {
	t.Parallel()
	want := 2
	if testing.Short() {
		want = 1
	}
	if got := testenv.Count(1, 2); got != want {
		t.Errorf("got %d, want %d", got, want)
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
