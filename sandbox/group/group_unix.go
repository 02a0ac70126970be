//go:build unix

package group

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// Head makes a program that was not started yet the head of a group.
func Head(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// End kills everything in the group. Call it before Wait: until then nobody
// else can have the group's number.
func End(cmd *exec.Cmd) error {
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// Gone waits after Wait until nothing of the group is left, at most so long, and
// reports whether that is so. What was killed takes a moment to end.
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
