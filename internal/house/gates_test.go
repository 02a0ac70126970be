package house_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"metier/internal/testenv"
)

// gates are the five that a change has to pass, what each of them runs, and
// what of that can fail. The tests run in a fresh clone, as README.md says.
var gates = []struct{ step, command, fails string }{
	{"format", "make fmt-check", "make fmt-check"},
	{"vet", "make vet", "make vet"},
	{"lint", "make lint", "make lint"},
	{"build", "go build ./...", "go build ./..."},
	{"test", ".ci/fresh-clone", "make test"},
}

// The real .ci/run with programs that only note that they were called: each
// gate is a step of its own name, and the one that fails ends the run.
//
// req: E-071
func TestEachGateIsAStepThatCanFail(t *testing.T) {
	t.Parallel()
	all, err := runGates(t, "")
	if err != nil {
		t.Fatalf("nothing fails, but %v:\n%s", err, all)
	}
	for _, g := range gates {
		if !strings.Contains(all, "=== "+g.step+": "+g.command+"\n") || !strings.Contains(all, "=== "+g.step+" ok") {
			t.Errorf("no step %s that runs %q in:\n%s", g.step, g.command, all)
		}
		t.Run(g.step, func(t *testing.T) {
			t.Parallel()
			out, err := runGates(t, g.fails)
			if err == nil || !strings.Contains(out, "=== "+g.step+" FAILED") {
				t.Errorf("%s failed, but the run ended with %v:\n%s", g.fails, err, out)
			}
			if steps := strings.Split(out, "=== "); !strings.HasPrefix(steps[len(steps)-1], g.step+" FAILED") {
				t.Errorf("something ran after %s failed:\n%s", g.step, out)
			}
		})
	}
}

// runGates runs .ci/run where the command fail fails and all others succeed.
func runGates(t *testing.T, fail string) (string, error) {
	t.Helper()
	bash := testenv.NeedTool(t, "bash", "bash")
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile(filepath.Join(testenv.Module(t), ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	put(".ci/run", string(script))
	readme, err := os.ReadFile(filepath.Join(testenv.Module(t), "README.md"))
	if err != nil || !strings.Contains(string(readme), "```sh ci\nmake test\n```") {
		t.Fatalf("README.md has no block that runs make test in a fresh clone: %v", err)
	}
	put(".ci/fresh-clone", "#!/bin/sh\nexec make test\n")
	for _, program := range []string{"make", "go"} {
		put("bin/"+program, "#!/bin/sh\n[ \""+program+" $*\" != \"$FAIL\" ]\n")
	}
	cmd := exec.CommandContext(t.Context(), bash, ".ci/run")
	cmd.Dir = dir
	path := filepath.Join(dir, "bin") + string(filepath.ListSeparator) + os.Getenv("PATH")
	cmd.Env = append(slices.Clone(os.Environ()), "PATH="+path, "FAIL="+fail)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// What a gate is called is one thing, what it does another: each make target
// runs the tool it is named for.
func TestGatesRunTheirTools(t *testing.T) {
	t.Parallel()
	mk := testenv.NeedTool(t, "make", "make")
	for target, want := range map[string]string{
		"fmt-check": "gofmt -l",
		"vet":       "go vet ./...",
		"lint":      "staticcheck ./...",
		"test":      "go test -race",
	} {
		cmd := exec.CommandContext(t.Context(), mk, "--dry-run", "--no-print-directory", target)
		cmd.Dir = testenv.Module(t)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("make %s does not run %q: %v\n%s", target, want, err, out)
		}
	}
}
