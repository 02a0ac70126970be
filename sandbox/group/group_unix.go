//go:build unix

package group

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// Head makes a program that has not started yet the leader of a process group.
func Head(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Session makes a program that has not started yet the leader of a session without a terminal, and so
// of a process group. Neither it nor its child processes can ask the user on a terminal.
func Session(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// End kills all processes of the group. Call it before Wait: until then, the group ID cannot be
// reused.
func End(cmd *exec.Cmd) error {
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// Gone waits, after Wait, until no process of the group is left, up to a time limit. It reports
// whether that is the case. Killed processes take a moment to end.
func Gone(cmd *exec.Cmd, most time.Duration) bool {
	const step = 2 * time.Millisecond
	for ; ; most -= step {
		if errors.Is(syscall.Kill(-cmd.Process.Pid, 0), syscall.ESRCH) {
			return true
		}
		if most <= 0 {
			return false
		}
		time.Sleep(step)
	}
}
