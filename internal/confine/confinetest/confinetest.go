// Package confinetest attacks code that reads files in an untrusted folder: with rapid exchanges of
// names, with devices, and with mounts in a namespace of the test's own. Only tests import it.
package confinetest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"metier/internal/testenv"
)

// NaiveRead is the typical vulnerable implementation, which every attack must beat: it resolves the
// links of rel, compares the prefix, and then opens by path.
func NaiveRead(root, rel string) ([]byte, error) {
	path := filepath.Join(root, filepath.FromSlash(rel))
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(real, root+string(filepath.Separator)) {
		return nil, errors.New("outside")
	}
	return os.ReadFile(path)
}

// Swap keeps exchanging the names a and b until stop is called, which returns the number of
// exchanges. Most of the time the names have their original meaning, as an attacker who wants a
// check to pass would arrange it. So a correct reader succeeds more often than it has to fail.
func Swap(t testing.TB, a, b string) (stop func() (times int)) {
	t.Helper()
	if err := exchange(a, b); err != nil {
		testenv.Skip(t, "two names cannot be exchanged in one step here: "+err.Error())
	}
	var ended atomic.Bool
	var wg sync.WaitGroup
	times := 1
	wg.Go(func() {
		for there := true; there || !ended.Load(); there = !there {
			if err := exchange(a, b); err != nil {
				t.Errorf("exchange %d: %v", times, err)
				return
			}
			times++
			for range 6 {
				if there { // in the original state: that is where an attacker waits
					_, _ = os.Lstat(a)
				}
			}
		}
	})
	return sync.OnceValue(func() int { ended.Store(true); wg.Wait(); return times })
}

// caged is the environment variable that holds the name of the test to run in this process.
const caged = "METIER_TEST_CAGED"

// Cage reruns the test in a process with its own mount namespace, in which Bind works. It fails if
// the rerun fails, and returns false. In that process, it returns true.
func Cage(t *testing.T) bool {
	t.Helper()
	if os.Getenv(caged) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run="+testenv.Pattern(t))
	cmd.Env = append(os.Environ(), caged+"="+t.Name())
	if why := ownMounts(cmd); why != "" {
		testenv.Skip(t, why)
	}
	out, err := cmd.CombinedOutput()
	switch {
	case forbidden(err):
		testenv.Skip(t, "no mount namespace can be made here: "+err.Error())
	case err != nil:
		t.Errorf("in a cage: %v\n%s", err, out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Errorf("in a cage the test did not run:\n%s", out)
	}
	return false
}

// Bind mounts from over the existing path to for the duration of the test.
func Bind(t *testing.T, from, to string) {
	t.Helper()
	if os.Getenv(caged) != t.Name() {
		t.Fatal("a mount outside of a cage")
	}
	undo, err := bind(from, to)
	if err != nil {
		t.Fatalf("bind %s over %s: %v", from, to, err)
	}
	t.Cleanup(undo)
}

// Zero creates a device at path that returns endless zeros. Only root can do that; for others, it
// returns an error.
func Zero(path string) error { return zero(path) }
