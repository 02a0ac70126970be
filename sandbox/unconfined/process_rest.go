//go:build !linux

package unconfined

import (
	"os"
	"os/exec"
)

// wait waits until the program has ended and then immediately calls over, before its process ID is
// likely to be reused.
func wait(cmd *exec.Cmd, over func()) error {
	err := cmd.Wait()
	over()
	return err
}

func maxRSS(*os.ProcessState) int64 { return 0 }

// held returns the path of an open folder. On this system, that is its name.
func held(f *os.File) string { return f.Name() }
