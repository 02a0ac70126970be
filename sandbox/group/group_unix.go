//go:build unix

package group

import (
	"errors"
	"os/exec"
	"syscall"
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
