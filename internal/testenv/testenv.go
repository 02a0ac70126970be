// Package testenv tells tests what the machine provides and how much to test. A test that cannot
// run on a machine must skip through this package. With METIER_NO_SKIP=1, which make test sets on
// Linux, every skip is a failure that names what is missing. Only tests import it.
package testenv

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// NoSkip is the environment variable that turns every skip into a failure.
const NoSkip = "METIER_NO_SKIP"

// NoShared is the environment variable that allows tests to skip if the folder ../shared is
// missing, even if NoSkip is set. make test sets it in a clone without that folder; CI does not.
const NoShared = "METIER_NO_SHARED"

// ModulePath is the import path of this module. A fork may have another one (make module).
var ModulePath = strings.TrimSuffix(reflect.TypeFor[Kills]().PkgPath(), "/internal/testenv")

// Count returns short if the tests run with -short, as in make test, and full otherwise, as in make
// test-all. Use it for the number of inputs, runs, or points that a test tries. Both must check the
// same facts.
func Count(short, full int) int {
	if testing.Short() {
		return short
	}
	return full
}

// Skip skips the test, or fails it if skips are forbidden. The reason names the operating system,
// privilege, or program that is missing.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if reason == "" {
		t.Fatal("a skip needs a reason")
	}
	if os.Getenv(NoSkip) == "1" {
		t.Fatalf("would be skipped, but %s=1: %s", NoSkip, reason)
	}
	t.Skip(reason)
}

// NeedTool returns the path of a program. If it is missing, NeedTool skips the test and names the
// Debian package.
func NeedTool(t testing.TB, tool, debian string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		Skip(t, "needs "+tool+" (Debian package "+debian+"): "+err.Error())
	}
	return path
}

// Corpus returns the folder of real skills next to a checkout of the project. It is data, not part
// of the module. If it is missing, the test is skipped, or fails if skips are forbidden and
// NoShared is not set.
func Corpus(t testing.TB) string {
	t.Helper()
	return beside(t, "corpus", "manifest.jsonl")
}

// Requirements returns the folder of requirement rows next to the checkout. If it is missing, it
// skips or fails the test like Corpus.
func Requirements(t testing.TB) string {
	t.Helper()
	return beside(t, "requirements", "rulings.md")
}

// beside finds shared/name next to the module. The folder must contain file.
func beside(t testing.TB, name, file string) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(Module(t)), "shared", name)
	if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
		reason := "needs " + filepath.Join(dir, file)
		if os.Getenv(NoShared) == "1" {
			t.Skip(reason)
		}
		Skip(t, reason)
	}
	return dir
}

// Module returns the folder of metier's go.mod above the test's working folder, even from a nested
// module.
func Module(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && slices.Contains(strings.Split(string(b), "\n"), "module "+ModulePath) {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod of module " + ModulePath + " above the test")
		}
		dir = parent
	}
}

// Verdicts reads the reference's verdicts for the corpus, one V per line.
func Verdicts[V any](t testing.TB, corpus string) (all []V) {
	t.Helper()
	f, err := os.Open(filepath.Join(corpus, "verdicts.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v V
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
