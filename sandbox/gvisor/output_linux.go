package gvisor

import (
	"bytes"
	"io"
	"log/slog"
	"strconv"
	"syscall"
)

// limited keeps the first 64 KiB.
type limited struct{ w *bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	l.w.Write(b[:min(len(b), max(0, 64<<10-l.w.Len()))])
	return len(b), nil
}

// capture keeps the first bytes of a stream.
type capture struct {
	max   int64
	kept  []byte
	total int64
	to    io.Writer // or nil
	flood func()    // called once there is far too much
	log   *slog.Logger
}

func (c *capture) read(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if room := min(c.max-c.total, int64(n)); room > 0 {
			c.kept = append(c.kept, buf[:room]...)
			if c.to != nil {
				if _, err := c.to.Write(buf[:room]); err != nil {
					c.log.Warn("the output of a sandbox is passed on no more", "error", err)
					c.to = nil
				}
			}
		}
		c.total += int64(n)
		if c.total > drain*c.max {
			c.flood()
		}
		if err != nil {
			return
		}
	}
}

var signals = map[syscall.Signal]string{syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGQUIT: "SIGQUIT", syscall.SIGILL: "SIGILL", syscall.SIGTRAP: "SIGTRAP",
	syscall.SIGABRT: "SIGABRT", syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE", syscall.SIGKILL: "SIGKILL", syscall.SIGUSR1: "SIGUSR1", syscall.SIGSEGV: "SIGSEGV",
	syscall.SIGUSR2: "SIGUSR2", syscall.SIGPIPE: "SIGPIPE", syscall.SIGALRM: "SIGALRM", syscall.SIGTERM: "SIGTERM", syscall.SIGSYS: "SIGSYS"}

func signalName(s syscall.Signal) string {
	if name := signals[s]; name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(s))
}
