//go:build !unix

package unconfined

import (
	"os"
	"os/exec"
)

// This system has no process groups: only the program itself is killed.

func ownGroup(*exec.Cmd) {}

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

func ended(s *os.ProcessState) (exit int, signal string) { return s.ExitCode(), "" }
