package repocheck_test

import (
	"go/ast"
	"go/build/constraint"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/repocheck"
	"metier/internal/testenv"
)

// gates are the five checks that a change has to pass, what each of them runs,
// and the command in it that can fail. The tests run in a fresh clone.
var gates = []struct{ step, command, fails string }{
	{"format", "make fmt-check", "make fmt-check"},
	{"vet", "make vet", "make vet"},
	{"lint", "make lint", "make lint"},
	{"build", "go build ./...", "go build ./..."},
	{"test", ".ci/fresh-clone", "make test"},
}

// The real .ci/run with programs that only record their calls: each gate is a
// separate step with its own name, and the one that fails ends the run.
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

// The format gate fails if a file is not formatted.
//
// req: E-071
func TestFormatGate_FailsForUnformattedFiles(t *testing.T) {
	t.Parallel()
	mk, git := testenv.NeedTool(t, "make", "make"), testenv.NeedTool(t, "git", "git")
	rules, err := os.ReadFile(filepath.Join(testenv.Module(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for text, fails := range map[string]bool{"package a\n": false, "package  a\n": true} {
		dir := t.TempDir()
		for name, b := range map[string][]byte{"Makefile": rules, "a.go": []byte(text)} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := exec.CommandContext(t.Context(), git, "init", "-q", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		check := exec.CommandContext(t.Context(), mk, "fmt-check")
		check.Dir = dir
		if out, err := check.CombinedOutput(); (err != nil) != fails {
			t.Errorf("%q: %v\n%s", text, err, out)
		}
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
		testenv.WriteProgram(t, file, []byte(text))
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

// Each make target runs the tool it is named for.
//
// req: E-071
func TestGatesRunTheirTools(t *testing.T) {
	t.Parallel()
	mk := testenv.NeedTool(t, "make", "make")
	for target, want := range map[string]string{
		"fmt-check": "gofmt -l",
		"vet":       "go vet ./...",
		"lint":      "staticcheck ./...",
		"test":      "go test -short -vet=off -timeout 40m ./...",
		"test-all":  "go test -vet=off -race -timeout 40m ./...",
		"attacks":   "tools/attacks",
	} {
		cmd := exec.CommandContext(t.Context(), mk, "--dry-run", "--no-print-directory", target)
		// CI runs this test itself with METIER_TESTS=all.
		cmd.Dir, cmd.Env = testenv.Module(t), append(os.Environ(), "METIER_TESTS=short", "TIMEOUT=40m")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("make %s does not run %q: %v\n%s", target, want, err, out)
		}
	}
}

// CI types README.md's commands in a fresh clone and selects the long form of
// the tests, so that it runs every test once.
//
// req: E-071
func TestGates_FreshCloneRunsEveryTest(t *testing.T) {
	t.Parallel()
	mk := testenv.NeedTool(t, "make", "make")
	script, err := os.ReadFile(filepath.Join(testenv.Module(t), ".ci", "fresh-clone"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(script), "\ntype_in \"$tests\" METIER_TESTS=all </dev/null\n") {
		t.Error(".ci/fresh-clone does not set METIER_TESTS=all")
	}
	dry := func(env string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), mk, append([]string{"--dry-run", "--no-print-directory"}, args...)...)
		cmd.Dir, cmd.Env = testenv.Module(t), append(os.Environ(), env)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("make %s: %v\n%s", args, err, out)
		}
		return string(out)
	}
	all := dry("METIER_TESTS=", "test-all")
	if _, all, ok := strings.Cut(all, "\n"); !ok || all != dry("METIER_TESTS=all", "test") {
		t.Errorf("make test with METIER_TESTS=all does not run what make test-all runs:\n%s", all)
	}
}

// tools/attacks runs exactly the tests that only the tag attacks builds.
func TestGates_EveryAttackTestIsRun(t *testing.T) {
	t.Parallel()
	bash := testenv.NeedTool(t, "bash", "bash")
	cmd := exec.CommandContext(t.Context(), bash, "tools/attacks", "--list")
	cmd.Dir = testenv.Module(t)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var want []string
	for _, f := range repository(t).Go(repocheck.IsTest) {
		if !strings.Contains(strings.Join(constraints(f.File), " "), "attacks") {
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain" {
				want = append(want, "./"+path.Dir(f.Path)+" "+fn.Name.Name)
			}
		}
	}
	slices.Sort(want)
	if len(want) == 0 {
		t.Error("no test is built with the tag attacks")
	}
	if d := cmp.Diff(want, strings.Split(strings.TrimSpace(string(out)), "\n")); d != "" {
		t.Errorf("declared and run (-want +got):\n%s", d)
	}
}

// constraints returns the build constraints of a file.
func constraints(f *ast.File) (lines []string) {
	for _, g := range f.Comments {
		for _, c := range g.List {
			if constraint.IsGoBuild(c.Text) {
				lines = append(lines, c.Text)
			}
		}
	}
	return lines
}
