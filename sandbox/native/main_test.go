//go:build linux && (amd64 || arm64)

package native_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"metier/sandbox"
	"metier/sandbox/native"
)

// roleVar makes this binary play a role in a test instead of running tests.
const roleVar = "METIER_NATIVE_ROLE"

func TestMain(m *testing.M) {
	role, arg, _ := strings.Cut(os.Getenv(roleVar), ":")
	if role == "" {
		os.Exit(m.Run())
	}
	if err := play(role, arg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// lacking is what a backend answered on a host that lacks something.
type lacking struct {
	Probe, Run, Detail, Fix string // primitives
	Available               bool
	Again                   bool // the second probe, after the missing primitive was restored
	Exit                    int
}

func play(role, arg string) error {
	switch role {
	case "hang":
		return hang(arg)
	case "deny": // nr=errno
		nr, errno, _ := strings.Cut(arg, "=")
		return lack(func() (func(), error) { return nil, deny(nr, errno) })
	case "files":
		n, err := strconv.ParseUint(arg, 10, 64)
		if err != nil {
			return err
		}
		return lack(func() (func(), error) {
			var old syscall.Rlimit
			if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
				return nil, err
			}
			back := func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) }
			return back, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: old.Max})
		})
	case "userns":
		const file = "/proc/sys/user/max_user_namespaces"
		return lack(func() (func(), error) {
			back := func() { _ = os.WriteFile(file, []byte("100"), 0) }
			return back, os.WriteFile(file, []byte(arg), 0)
		})
	case "proc":
		return lack(func() (func(), error) { return nil, syscall.Mount("tmpfs", "/proc/sys", "tmpfs", 0, "") })
	case "ask":
		return ask(arg)
	case "unwatched":
		return unwatched(arg)
	case "starter":
		return withoutStarter()
	}
	if known, err := hide(role); known {
		return err
	}
	return errors.New("no such role: " + role)
}

// lack takes something away, probes and runs, gives it back and probes again.
func lack(take func() (func(), error)) error {
	s, err := native.New(nil)
	if err != nil {
		return err
	}
	// The Go runtime's poller needs a descriptor, and crashes without one.
	if r, w, err := os.Pipe(); err != nil || errors.Join(r.Close(), w.Close()) != nil {
		return fmt.Errorf("create a pipe: %w", err)
	}
	back, err := take()
	if err != nil {
		return fmt.Errorf("take the primitive away: %w", err)
	}
	var l lacking
	report := s.Probe(context.Background())
	l.Available = report.Available
	if len(report.Missing) > 0 {
		l.Probe = report.Missing[0].Primitive
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	r, err := s.Run(context.Background(), sandbox.Job{Argv: []string{"sh", "-c", "echo done > canary"}, Env: env,
		Workspace: &sandbox.Workspace{Host: dir, Writable: true}})
	l.Exit = r.Exit
	if u, ok := errors.AsType[*sandbox.Unavailable](err); ok {
		l.Run, l.Detail, l.Fix = u.Missing.Primitive, u.Missing.Detail, u.Missing.Fix
	} else if err != nil {
		l.Run = err.Error()
	}
	if back != nil {
		back()
		l.Again = s.Probe(context.Background()).Available
	}
	return errors.Join(json.NewEncoder(os.Stdout).Encode(l), s.Close())
}

// deny makes the kernel answer a system call with an error, for this process
// and the processes it starts.
func deny(nr, errno string) error {
	n, err := strconv.Atoi(nr)
	if err != nil {
		return err
	}
	e, err := strconv.Atoi(errno)
	if err != nil {
		return err
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(n)},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x50000 | uint32(e)},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000},
	}
	return install(filter, unix.SECCOMP_FILTER_FLAG_TSYNC)
}

// install installs a system call filter.
func install(filter []unix.SockFilter, flags uintptr) error {
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, 1, flags, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return errno
	}
	return nil
}

// hang runs a program that never ends and prints a line when it runs.
func hang(script string) error {
	s, err := native.New(nil)
	if err != nil {
		return err
	}
	_, err = s.Run(context.Background(), sandbox.Job{Argv: []string{"sh", "-c", script}, Env: env, Stdout: os.Stdout})
	return err
}

// actor is a command that runs this binary in a role.
func actor(ctx context.Context, t *testing.T, role string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	cmd.Dir = t.TempDir()
	cmd.Stderr = os.Stderr
	return cmd
}
