//go:build !unix

package group

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// Head does nothing on this system: it has no process groups.
func Head(*exec.Cmd) {}

// Session does nothing on this system: it has no sessions.
func Session(*exec.Cmd) {}

// End kills the program. Its child processes may continue.
func End(cmd *exec.Cmd) error {
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Gone reports true: only the program itself could be waited for.
func Gone(*exec.Cmd, time.Duration) bool { return true }
