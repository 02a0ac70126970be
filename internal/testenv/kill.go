package testenv

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
)

// dying is the start of the line that a process prints before it kills itself.
const dying = "testenv: killing this process at "

// Die ends this process like kill -9: deferred functions do not run. It first prints where to
// standard error, for DiedAt.
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

// DiedAt reports whether a process ended in Die with this where. It returns false for a panic, an
// exit code, or a kill by another process.
func DiedAt(s *os.ProcessState, output []byte, where string) bool {
	return Killed(s) && bytes.Contains(output, []byte(dying+where+"\n"))
}

// Killed reports whether a process was ended by SIGKILL. Windows has no signals: a killed process
// exits with 1.
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

// Kills counts the processes that a test kills, so that a test that kills none fails.
type Kills struct{ Tried, Killed int }

// Count records a process that was supposed to be killed, and returns killed.
func (k *Kills) Count(killed bool) bool {
	k.Tried++
	if killed {
		k.Killed++
	}
	return killed
}

// Check fails unless at least want processes were supposed to be killed and all of them were.
func (k *Kills) Check(t testing.TB, want int) {
	t.Helper()
	t.Logf("%d of %d processes were killed", k.Killed, k.Tried)
	if k.Tried < want || k.Killed < k.Tried {
		t.Errorf("%d of %d processes were killed, want all of them and at least %d", k.Killed, k.Tried, want)
	}
}
