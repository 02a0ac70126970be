//go:build !unix

package group

import (
	"errors"
	"os"
	"os/exec"
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
