// Package confinetest attacks what reads files of a folder it does not trust:
// with exchanges of names as fast as the system can make them, with devices,
// and with mounts in a namespace of the test's own. Only tests import it.
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

// NaiveRead is the usual mistake, which every attack has to win against: it
// resolves the links of rel, compares the prefix, and then opens by path.
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

// Swap exchanges what the names a and b mean there and back, on and on, until
// it is stopped; stop returns how often. The names mean what they meant for
// most of the time, as whoever wants a check to pass would have it, so a reader
// that holds is right more often than it has to refuse.
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
				if there { // at home again: that is where the attacker waits
					_, _ = os.Lstat(a)
				}
			}
		}
	})
	return sync.OnceValue(func() int { ended.Store(true); wg.Wait(); return times })
}

// caged names the test that runs in a cage in this process.
const caged = "METIER_TEST_CAGED"

// Cage says whether the test may go on: it runs the same test again in a
// process with a mount namespace of its own, where Bind works, fails if that
// fails, and returns false; there it returns true.
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

// Bind puts what is at from over to, which is there, for the time of the test.
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

// Zero makes a device at path that has zeros without end, as only root can; for
// others it returns an error.
func Zero(path string) error { return zero(path) }
