package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Attacks on other processes.
var _ = learn(map[string]func([]string) error{
	"ptrace":  ptrace,
	"traceme": traceme,
	"vmread":  vmread,
	"vmwrite": vmwrite,
	"procmem": memory,
	"fdget":   fdget,
	"root":    root,
	"exe":     exe,
	"kill":    kill,
	"who":     func([]string) error { hold(); return nil },
	"victim":  victim,
	"keyctl":  keyctl,
})

var treasure = make([]byte, 64)

// victim keeps a secret in its memory and in a file without a name, and prints
// where. It echoes each line of stdin, and exits at end of file.
func victim(a []string) error {
	fd := uintptr(0)
	if len(a) > 0 { // read from a file that is then removed
		f, err := os.Open(a[0])
		if err != nil {
			return err
		}
		if _, err := f.Read(treasure); err != nil {
			return err
		}
		fd = f.Fd()
	}
	fmt.Println(uintptr(unsafe.Pointer(&treasure[0])), fd)
	for {
		line, err := stdin.ReadString('\n')
		if err != nil {
			return nil
		}
		fmt.Print(line)
	}
}

func each(pids []string, f func(pid int) error) error {
	var errs []error
	for _, p := range append(pids, strconv.Itoa(os.Getppid()), "1") {
		n, err := strconv.Atoi(p)
		if err != nil {
			return err
		}
		if n == 0 {
			continue // a parent outside of our namespace
		}
		if err := f(n); err != nil {
			errs = append(errs, fmt.Errorf("pid %d: %w", n, err))
		}
	}
	return errors.Join(errs...)
}

func ptrace(a []string) error { return holdingAny(a, unix.PtraceSeize) }

// holdingAny applies an attack to each process, and holds if it worked for one.
func holdingAny(pids []string, f func(pid int) error) error {
	done := false
	err := each(pids, func(pid int) error {
		err := f(pid)
		done = done || err == nil
		return err
	})
	if done {
		hold()
	}
	return err
}

func traceme([]string) error {
	cmd := exec.Command("/proc/self/exe", "linger", "20")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	hold()
	return cmd.Process.Kill()
}

// readAt prints what read finds in each process: ADDRESS or FD, PID…
func readAt(a []string, read func(pid int, at uintptr, b []byte) (int, error)) error {
	at, err := strconv.ParseUint(a[0], 10, 64)
	if err != nil {
		return err
	}
	return each(a[1:], func(pid int) error {
		b := make([]byte, 64)
		n, err := read(pid, uintptr(at), b)
		fmt.Printf("%q\n", b[:max(n, 0)])
		return err
	})
}

// vmread reads the memory of processes: ADDRESS PID…
func vmread(a []string) error {
	return readAt(a, func(pid int, at uintptr, b []byte) (int, error) {
		return unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}, []unix.RemoteIovec{{Base: at, Len: len(b)}}, 0)
	})
}

func vmwrite(a []string) error {
	return readAt(a, func(pid int, at uintptr, _ []byte) (int, error) {
		b := []byte("harmed")
		_, err := unix.ProcessVMWritev(pid, []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}, []unix.RemoteIovec{{Base: at, Len: len(b)}}, 0)
		return 0, err
	})
}

func memory(a []string) error {
	return readAt(a, func(pid int, at uintptr, b []byte) (int, error) {
		f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if err != nil {
			return 0, err
		}
		defer f.Close()
		return f.ReadAt(b, int64(at))
	})
}

// fdget duplicates a descriptor of another process: FD PID…
func fdget(a []string) error {
	return readAt(a, func(pid int, fd uintptr, b []byte) (int, error) {
		p, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return 0, err
		}
		got, err := unix.PidfdGetfd(p, int(fd), 0)
		if err != nil {
			return 0, err
		}
		return unix.Pread(got, b, 0)
	})
}

// root reads files through the root and working folder of other processes: PATH
// PID…
func root(a []string) error {
	return each(a[1:], func(pid int) error {
		return errors.Join(cat([]string{fmt.Sprintf("/proc/%d/root%s", pid, a[0])}), cat([]string{fmt.Sprintf("/proc/%d/cwd%s", pid, a[0])}))
	})
}

// exe opens the executables of other processes.
func exe(a []string) error {
	return holdingAny(a, func(pid int) error {
		_, err := unix.Open(fmt.Sprintf("/proc/%d/exe", pid), unix.O_RDONLY, 0)
		return err
	})
}

// kill sends a signal to each process: SIGNAL PID…
func kill(a []string) error {
	sig, err := strconv.Atoi(a[0])
	if err != nil {
		return err
	}
	return each(a[1:], func(pid int) error { return syscall.Kill(pid, syscall.Signal(sig)) })
}

// keyctl reads a key of its session keyring: NAME.
func keyctl(a []string) error {
	id, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", a[0], 0)
	if err != nil {
		return err
	}
	b := make([]byte, 256)
	n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, b, 0)
	fmt.Printf("%q\n", b[:max(n, 0)])
	return err
}
