package unconfined

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// wait waits until the program has ended and calls over before it reaps it. Until then, its process
// and group ID cannot be reused.
func wait(cmd *exec.Cmd, over func()) error {
	for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	over()
	return cmd.Wait()
}

func maxRSS(s *os.ProcessState) int64 {
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss << 10
	}
	return 0
}

// held returns a path of an open folder that stays valid while it is open, even if it is renamed.
func held(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
