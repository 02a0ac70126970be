package testenv

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
)

// dying begins the line that a process prints before it kills itself.
const dying = "testenv: killing this process at "

// Die ends this process as kill -9 does: no deferred function runs. It first
// prints where to standard error, for DiedAt.
func Die(where string) {
	fmt.Fprintf(os.Stderr, "%s%s\n", dying, where)
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// DiedAt reports whether a process ended in Die at that place. A panic, an exit
// code, and a kill by another process are not that.
func DiedAt(s *os.ProcessState, output []byte, where string) bool {
	return Killed(s) && bytes.Contains(output, []byte(dying+where+"\n"))
}

// Killed reports whether a process ended by SIGKILL. Windows has no signals: a
// process that is killed there exits with 1.
func Killed(s *os.ProcessState) bool {
	if s == nil {
		return false
	}
	if runtime.GOOS == "windows" {
		return s.ExitCode() == 1
	}
	w, ok := s.Sys().(syscall.WaitStatus)
	return ok && w.Signaled() && w.Signal() == syscall.SIGKILL
}

// Kills counts the processes that a test kills one after the other, so that a
// test that kills nothing fails.
type Kills struct{ Tried, Killed int }

// Count adds a process that was to be killed, and returns killed.
func (k *Kills) Count(killed bool) bool {
	k.Tried++
	if killed {
		k.Killed++
	}
	return killed
}

// Check fails unless at least want processes were to be killed and every one of
// them was.
func (k *Kills) Check(t testing.TB, want int) {
	t.Helper()
	t.Logf("%d of %d processes were killed", k.Killed, k.Tried)
	if k.Tried < want || k.Killed < k.Tried {
		t.Errorf("%d of %d processes were killed, want all of them and at least %d", k.Killed, k.Tried, want)
	}
}
