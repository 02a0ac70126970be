package guest

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Check is the argv[0] of a process that tries what runsc needs, in namespaces of its own on the
// host, and prints the first failure. runsc itself reports little when it cannot start.
const Check = "metier-gvisor-check"

// Hold is the argv[0] of a process that keeps its namespaces until its standard input ends.
const Hold = "metier-gvisor-hold"

const (
	prSetSeccomp = 22
	filterMode   = 2
	allowAll     = 0x7fff0000
	lazily       = 2 // MNT_DETACH
)

// check exits the process. It prints "primitive: reason", or nothing on success.
func check() {
	runtime.LockOSThread()
	for _, s := range []struct {
		primitive string
		try       func() error
	}{
		{"setsid", func() error { _, err := syscall.Setsid(); return err }},
		{"memfd", memfd},
		{"mount", func() error {
			if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
				return err
			}
			return syscall.Mount("tmpfs", "/proc", "tmpfs", 0, "size=65536") // exists on every host
		}},
		{"pivot-root", func() error {
			if err := syscall.Chdir("/proc"); err != nil {
				return err
			}
			return syscall.PivotRoot(".", ".")
		}},
		{"umount", func() error { return syscall.Unmount(".", lazily) }},
		{"bounding-set", func() error { return prctl(prCapBSetDrop, 0, 0) }},
		{"capset", capset},
		{"no-new-privs", func() error { return prctl(prSetNoNewPrivs, 1, 0) }},
		{"seccomp", func() error {
			ret := syscall.SockFilter{Code: 6, K: allowAll}
			prog := syscall.SockFprog{Len: 1, Filter: &ret}
			err := prctl(prSetSeccomp, filterMode, uintptr(unsafe.Pointer(&prog)))
			runtime.KeepAlive(prog)
			return err
		}},
	} {
		if err := s.try(); err != nil {
			fmt.Printf("%s: %v\n", s.primitive, err)
			os.Exit(1)
		}
	}
	os.Exit(0)
}

func memfd() error {
	nr, name := map[string]uintptr{"amd64": 319, "arm64": 279}[runtime.GOARCH], [2]byte{'x'}
	fd, _, errno := syscall.RawSyscall(nr, uintptr(unsafe.Pointer(&name)), 0, 0)
	if errno != 0 {
		return errno
	}
	return syscall.Close(int(fd))
}

// capset drops all capabilities.
func capset() error {
	head := struct {
		version uint32
		pid     int32
	}{version: capVersion3}
	var none [6]uint32
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&none)), 0); errno != 0 {
		return errno
	}
	return nil
}
