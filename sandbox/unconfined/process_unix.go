//go:build unix

package unconfined

import (
	"os"
	"os/exec"
	"syscall"

	"metier/sandbox/internal/signals"
)

// ownGroup makes the program the leader of a process group.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// ended returns how a program ended by itself.
func ended(s *os.ProcessState) (exit int, signal string) {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return -1, signals.Name(w.Signal())
	}
	return s.ExitCode(), ""
}
