package guest

import (
	"errors"
	"runtime"
	"syscall"
	"unsafe"

	"metier/sandbox/internal/filter"
)

// Constants that package syscall does not define.
const (
	prCapBSetDrop   = 24
	prSetNoNewPrivs = 38
	prCapAmbient    = 47
	ambientClear    = 4
	capVersion3     = 0x20080522
	cloexecRange    = 4
	sysCloseRange   = 436 // on every architecture
)

func prctl(option, a, b uintptr) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, option, a, b, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// confine restricts the program to its user, its limits, three descriptors, and the system calls
// that it needs. It stays on one thread, because the restrictions apply to the thread that calls
// exec.
func confine(p *Plan) {
	runtime.LockOSThread()
	if _, _, errno := syscall.RawSyscall(sysCloseRange, 3, 1<<31-1, cloexecRange); errno != 0 {
		fail("close_range", errno)
	}
	for _, l := range p.Limits {
		must("rlimit", syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: l.Soft, Max: l.Hard}))
	}
	for c := uintptr(0); ; c++ {
		if err := prctl(prCapBSetDrop, c, 0); err == syscall.EINVAL && c > 0 {
			break
		} else if err != nil {
			fail("capabilities", err)
		}
	}
	if err := prctl(prCapAmbient, ambientClear, 0); err != nil && err != syscall.EINVAL { // gVisor may not support the ambient set
		fail("capabilities", err)
	}
	must("user", syscall.Setgroups(nil))
	must("user", syscall.Setresgid(p.GID, p.GID, p.GID))
	must("user", syscall.Setresuid(p.UID, p.UID, p.UID))
	must("capabilities", capset())
	must("no_new_privs", prctl(prSetNoNewPrivs, 1, 0))
	must("filter", filtered())
	if err := syscall.Chdir(p.Dir); err != nil {
		refuse("working folder "+p.Dir, err)
	}
}

// filtered filters this thread's system calls. gVisor's kernel would allow the program namespaces
// with all capabilities, and passes file modes to the host unchanged.
func filtered() error {
	p, ok := filter.OwnKernel(runtime.GOARCH)
	if !ok {
		return errors.New("no table for " + runtime.GOARCH)
	}
	code := filter.Bytes(p)
	prog := struct {
		n      uint16
		filter *byte
	}{uint16(len(p)), &code[0]}
	err := prctl(prSetSeccomp, filterMode, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(prog)
	return err
}
