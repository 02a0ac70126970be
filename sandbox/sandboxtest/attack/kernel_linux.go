package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Kernel interfaces that a system call filter has to block.
var _ = learn(map[string]func([]string) error{
	"io_uring":    uring,
	"bpf":         bpf,
	"userfaultfd": uffd,
	"foreign":     foreign,
	"x32":         x32,
	"tty":         tty,
	"sti":         func(a []string) error { return sti(a[0], unix.TIOCSTI) },
	"sti-high":    func(a []string) error { return sti(a[0], 1<<32|unix.TIOCSTI) },
	"tioclinux":   tioclinux,
	"memfd-exec":  memfdExec,
	"perf":        perf,
})

// held keeps a descriptor that a system call returned, and holds.
func held(fd uintptr, e syscall.Errno) error {
	if e != 0 {
		return e
	}
	hold()
	return unix.Close(int(fd))
}

func uring([]string) error {
	params := make([]byte, 120)
	fd, _, e := syscall.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params[0])), 0)
	return held(fd, e)
}

func bpf([]string) error {
	attr := struct{ kind, key, value, entries uint32 }{2, 4, 4, 1} // an array
	fd, _, e := syscall.Syscall(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	return held(fd, e)
}

func uffd([]string) error {
	const userOnly = 1
	fd, _, e := syscall.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userOnly, 0, 0)
	return held(fd, e)
}

func perf([]string) error {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Config: unix.PERF_COUNT_SW_CPU_CLOCK, Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, 0)
	if err != nil {
		return err
	}
	return held(uintptr(fd), 0)
}

// word is what foreign prints. It is in the program's data, whose addresses fit
// into 32 bits.
var word = [32]byte{}

// foreign prints its argument by a system call of another instruction set.
func foreign(a []string) error {
	n := copy(word[:], a[0]+"\n")
	if r := foreignWrite(1, uint32(uintptr(unsafe.Pointer(&word[0]))), uint32(n)); r != int32(n) {
		return fmt.Errorf("a foreign call returned %d", r)
	}
	return nil
}

// x32 prints its argument by the call numbers of x32.
func x32(a []string) error {
	b := []byte(a[0] + "\n")
	_, _, e := syscall.Syscall(0x40000000+syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if e != 0 {
		return e
	}
	return nil
}

// tty writes to the terminal that this process was started from.
func tty(a []string) error {
	f, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(a[0])
	return err
}

// sti types into that terminal, as if its user had.
func sti(text string, request uintptr) error {
	fds := []int{0, 1, 2}
	if fd, err := unix.Open("/dev/tty", unix.O_RDWR, 0); err == nil {
		fds = append(fds, fd)
	}
	var errs []error
	for _, fd := range fds {
		typed := 0
		for _, c := range []byte(text) {
			_, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&c)))
			if e != 0 {
				errs = append(errs, e)
				break
			}
			typed++
		}
		if typed == len(text) {
			return nil
		}
	}
	return errors.Join(errs...)
}

func tioclinux([]string) error {
	paste := byte(3)
	_, _, e := syscall.Syscall(syscall.SYS_IOCTL, 0, 0x541C, uintptr(unsafe.Pointer(&paste)))
	if e != 0 {
		return e
	}
	return nil
}

// memfdExec runs this program from memory, without a file: ARGS.
func memfdExec(a []string) error {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("x", unix.MFD_EXEC)
	if err != nil {
		return err
	}
	if _, err := os.NewFile(uintptr(fd), "x").Write(self); err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(append([]string{"attack"}, a...))
	if err != nil {
		return err
	}
	envv := []*byte{nil}
	none := []byte{0}
	_, _, e := syscall.Syscall6(unix.SYS_EXECVEAT, uintptr(fd), uintptr(unsafe.Pointer(&none[0])), uintptr(unsafe.Pointer(&argv[0])),
		uintptr(unsafe.Pointer(&envv[0])), unix.AT_EMPTY_PATH, 0)
	return e
}
