//go:build linux && (amd64 || arm64)

package native

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A sandbox that lost its lock on a placeholder does not remove the one that
// another made after it.
func TestAPlaceholderIsRemovedByThoseWhoHoldIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(at)
	var slow, quick, next places // of three sandboxes over one workspace
	hold := func(pl *places) held {
		t.Helper()
		_, h, err := pl.hold(at, ".agents/skills", true, os.Getuid(), os.Getgid())
		if err != nil || !h.made {
			t.Fatalf("%+v, %v", h, err)
		}
		return h
	}
	is := func(there bool) {
		t.Helper()
		if _, err := os.Lstat(filepath.Join(dir, ".agents")); (err == nil) != there {
			t.Fatalf("there: %v, want %v", err == nil, there)
		}
	}
	a, b := hold(&slow), hold(&quick)
	if err := unix.Flock(a.fd, unix.LOCK_EX|unix.LOCK_NB); err == nil { // the first try of its release
		t.Fatal("it is held twice, and one of them locks it alone")
	}
	quick.release(b)
	is(false)
	c := hold(&next)
	slow.release(a)
	is(true)
	next.release(c)
	is(false)
}
