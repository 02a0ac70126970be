//go:build !unix

package group

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// Head does nothing here: there are no groups.
func Head(*exec.Cmd) {}

// End kills the program; what it started may go on.
func End(cmd *exec.Cmd) error {
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Gone reports true: what there was to wait for was the program.
func Gone(*exec.Cmd, time.Duration) bool { return true }
