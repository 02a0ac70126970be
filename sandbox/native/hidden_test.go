//go:build linux && (amd64 || arm64)

package native_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"metier/sandbox"
)

// attack returns this test binary as a job, in a role.
func attack(t *testing.T, role string, l sandbox.Limits) sandbox.Job {
	t.Helper()
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.Job{Argv: []string{"/skills/a/attack"}, Env: append([]string{roleVar + "=" + role}, env...), MinLevel: sandbox.L2, Limits: l,
		Trees: []sandbox.Tree{{Path: "/skills/a", Files: []sandbox.File{{Path: "attack", Exec: true, Data: exe}}}}}
}

// Memory that does not belong to the pages of any process counts too. Each
// attack takes at most four times its limit, and then waits to be killed.
func TestHiddenMemoryIsMemory(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, role := range []string{"page-tables", "sockets"} {
		r := run(t, s, attack(t, role, sandbox.Limits{Memory: 64 << 20, OpenFiles: 4096, Wall: 30 * time.Second}))
		if r.Limit != sandbox.LimitMemory {
			t.Errorf("%s: exit %d, signal %q, limit %q: %s%s", role, r.Exit, r.Signal, r.Limit, r.Stdout, r.Stderr)
		}
	}
	s2 := attack(t, "shared-without-file", sandbox.Limits{})
	if got := says(t, s, s2); got != "refused\nrefused\nas before\n" {
		t.Errorf("%q", got)
	}
}

// The kernel does not add the time of children that are reaped automatically.
func TestTimeOfForgottenChildrenCounts(t *testing.T) {
	t.Parallel()
	r := run(t, open(t), attack(t, "forgotten-children", sandbox.Limits{CPU: time.Second, Wall: 30 * time.Second}))
	if r.Limit != sandbox.LimitCPU {
		t.Errorf("exit %d, signal %q, limit %q: %s%s", r.Exit, r.Signal, r.Limit, r.Stdout, r.Stderr)
	}
}

// hide runs the attack of a role; false means that the role does not exist.
func hide(role string) (bool, error) {
	switch role {
	case "page-tables": // a 4 KiB table for each 2 MiB that are read
		const size, step = 1 << 37, 2 << 20
		b, err := unix.Mmap(-1, 0, size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		if err != nil {
			return true, err
		}
		sum := byte(0)
		for i := 0; i < len(b); i += step {
			sum += b[i]
		}
		_, err = unix.Poll(nil, 60_000+int(sum))
		return true, err
	case "sockets":
		full := make([]byte, 64<<10)
		for range 1024 {
			p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				return true, err
			}
			// The kernel accepts the option, but it has no effect.
			if err := unix.SetsockoptInt(p[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 16<<10); err != nil {
				return true, err
			}
			for err == nil {
				_, err = unix.Write(p[0], full)
			}
		}
		_, err := unix.Poll(nil, 60_000)
		return true, err
	case "shared-without-file":
		_, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
		said(err, unix.EPERM)
		_, err = unix.Open("/dev/zero", unix.O_RDWR, 0)
		said(err, unix.EACCES)
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return true, err
		}
		was, _ := unix.GetsockoptInt(p[0], unix.SOL_SOCKET, unix.SO_SNDBUF)
		err = unix.SetsockoptInt(p[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 8*was)
		if is, _ := unix.GetsockoptInt(p[0], unix.SOL_SOCKET, unix.SO_SNDBUF); err == nil && is == was {
			fmt.Println("as before")
		}
	case "forgotten-children":
		signal.Ignore(syscall.SIGCHLD)
		for range 20 {
			var fd int
			if _, err := syscall.ForkExec(os.Args[0], []string{"child"}, &syscall.ProcAttr{Env: []string{roleVar + "=burn"}, Sys: &syscall.SysProcAttr{PidFD: &fd}}); err != nil {
				return true, err
			}
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); err != nil {
				return true, err
			}
		}
	case "burn":
		for use := (syscall.Rusage{}); use.Utime.Nano()+use.Stime.Nano() < 2e8; _ = syscall.Getrusage(syscall.RUSAGE_SELF, &use) {
		}
	default:
		return false, nil
	}
	return true, nil
}

func said(err, want error) {
	if errors.Is(err, want) {
		fmt.Println("refused")
	} else {
		fmt.Println(strings.TrimSpace(fmt.Sprint(err)))
	}
}
