//go:build linux

package native_test

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"metier/sandbox"
)

// A signal with the default action can kill the first process while it starts
// the program. Signals that metier was started to ignore, as under nohup, must
// not kill it, and the program must not inherit that they are ignored.
//
// The test runs in its own process: children inherit which signals are ignored,
// including the children of the starter.
func TestSignals_IgnoredByTheParent(t *testing.T) {
	const alone = "METIER_NATIVE_ALONE"
	if os.Getenv(alone) == "" {
		cmd := actor(t.Context(), t, "")
		cmd.Args = append(cmd.Args, "-test.run=^"+t.Name()+"$")
		cmd.Env = append(cmd.Env, alone+"=1")
		if out, err := cmd.Output(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	const sig = syscall.SIGHUP
	signal.Ignore(sig)
	t.Cleanup(func() { signal.Reset(sig) })
	s := open(t)
	dir := t.TempDir()
	for _, pipe := range []string{"began", "go"} {
		if err := syscall.Mkfifo(filepath.Join(dir, pipe), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	j := shell("echo >began; read x <go; grep SigIgn /proc/self/status")
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true}
	said := make(chan string)
	go func() {
		r, err := s.Run(t.Context(), j)
		said <- fmt.Sprint(string(r.Stdout), err)
	}()
	began, err := os.Open(filepath.Join(dir, "began")) // waits for the program
	if err != nil {
		t.Fatal(err)
	}
	defer began.Close()
	if caught := caughtBy(t, firstProcess(t)); caught&(1<<(sig-1)) == 0 {
		t.Errorf("the first process catches %x, not signal %d", caught, sig)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	if got, want := <-said, "SigIgn:\t0000000000000000\n<nil>"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// firstProcess finds the child of this process that is the first of a namespace.
func firstProcess(t *testing.T) string {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range list {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it ended
		}
		status := string(b)
		ids := strings.Fields(field(status, "NSpid"))
		if field(status, "PPid") == strconv.Itoa(os.Getpid()) && len(ids) > 1 && ids[len(ids)-1] == "1" {
			return status
		}
	}
	t.Fatal("the first process was not found")
	return ""
}

func caughtBy(t *testing.T, status string) uint64 {
	t.Helper()
	mask, err := strconv.ParseUint(field(status, "SigCgt"), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask
}

// field returns a value of /proc/PID/status.
func field(status, name string) string {
	_, rest, _ := strings.Cut("\n"+status, "\n"+name+":\t")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}
