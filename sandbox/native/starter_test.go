//go:build linux && (amd64 || arm64)

package native_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"metier/sandbox"
	"metier/sandbox/native"
)

// launched counts the launches that were clones of the process, after each
// part.
type launched struct{ First, Large, Orphaned int64 }

// withoutStarter launches a few programs, holds memory and launches more, and
// launches again after the starter was killed.
func withoutStarter() error {
	s, err := native.New(nil)
	if err != nil {
		return err
	}
	run := func(n int) (int64, error) {
		for range n {
			r, err := s.Run(context.Background(), sandbox.Job{Argv: []string{"sh", "-c", "exit 3"}, Env: env})
			if err != nil || r.Exit != 3 {
				return 0, fmt.Errorf("%w: %+v", err, r)
			}
		}
		return native.Cloned(), nil
	}
	var l launched
	if l.First, err = run(1); err != nil {
		return err
	}
	held, err := unix.Mmap(-1, 0, 256<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	_ = unix.Madvise(held, unix.MADV_NOHUGEPAGE) // huge pages need fewer page table entries
	for i := 0; i < len(held); i += os.Getpagesize() {
		held[i] = 1
	}
	if l.Large, err = run(5); err != nil {
		return err
	}
	pid, err := child("metier-sandbox-starter")
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return err
	}
	if l.Orphaned, err = run(2); err != nil {
		return err
	}
	if _, err := child("metier-sandbox-starter"); err == nil {
		return errors.New("the starter that was killed is still there")
	}
	return errors.Join(json.NewEncoder(os.Stdout).Encode(l), s.Close())
}

// child finds the child of this process with a name.
func child(name string) (int, error) {
	all, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return 0, err
	}
	for _, path := range all {
		b, _ := os.ReadFile(path) // fails if the thread ended
		for _, pid := range bytes.Fields(b) {
			line, _ := os.ReadFile("/proc/" + string(pid) + "/cmdline")
			if bytes.HasPrefix(line, []byte(name+"\x00")) {
				return strconv.Atoi(string(pid))
			}
		}
	}
	return 0, fmt.Errorf("process %s was not found", name)
}

// A process that holds much memory is not cloned: that would copy its page tables
// at each launch. It is cloned only if there is no small process to clone.
func TestLaunch_ClonesASmallProcess(t *testing.T) {
	t.Parallel()
	out, err := actor(t.Context(), t, "starter").Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got launched
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := (launched{1, 1, 3}); got != want {
		t.Errorf("clones of the process: %+v, want %+v", got, want)
	}
}
