package gvisor

import (
	"bytes"
	"strconv"
	"syscall"
)

// limited keeps the first 64 KiB.
type limited struct{ w *bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	l.w.Write(b[:min(len(b), max(0, 64<<10-l.w.Len()))])
	return len(b), nil
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
