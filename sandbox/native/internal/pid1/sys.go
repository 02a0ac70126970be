//go:build linux && (amd64 || arm64)

package pid1

import (
	"syscall"
	"unsafe"
)

// System calls missing in package syscall. The numbers are the same on all architectures.
const (
	sysOpenTree        = 428
	sysMoveMount       = 429
	sysCloseRange      = 436
	sysOpenat2         = 437
	sysMountSetattr    = 442
	sysLandlockCreate  = 444
	sysLandlockAddRule = 445
	sysLandlockSelf    = 446
)

// Flags from the kernel headers.
const (
	atFDCWD        = -100
	atEmptyPath    = 0x1000
	atRecursive    = 0x8000
	openTreeClone  = 1
	oPath          = 0x200000
	moveFromEmpty  = 0x4
	moveToEmpty    = 0x40
	attrReadOnly   = 0x1
	attrNoSUID     = 0x2
	attrNoDev      = 0x4
	resolveNoMagic = 0x02
	resolveNoLinks = 0x04
	resolveBeneath = 0x08
	mntDetach      = 2
	statxMountRoot = 0x2000
)

// kept keeps buffers alive that the kernel has the address of.
var kept [][]byte

func str(s string) uintptr {
	b := make([]byte, len(s)+1)
	copy(b, s)
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// call makes a system call. Its arguments escape to the heap, so that they do not move.
//
//go:uintptrescapes
func call(nr, a, b, c, d, e, f uintptr) (int, syscall.Errno) {
	r, _, errno := syscall.RawSyscall6(nr, a, b, c, d, e, f)
	return int(r), errno
}

func openTree(at int, path string, flags uintptr) (int, syscall.Errno) {
	return call(sysOpenTree, uintptr(at), str(path), flags|openTreeClone|syscall.O_CLOEXEC, 0, 0, 0)
}

// moveMount attaches the mount tree to path below at. An empty path means at itself.
func moveMount(tree, at int, path string) syscall.Errno {
	flags := uintptr(moveFromEmpty)
	if path == "" {
		flags |= moveToEmpty
	}
	_, errno := call(sysMoveMount, uintptr(tree), str(""), uintptr(at), str(path), flags, 0)
	return errno
}

type mountAttr struct{ set, clear, propagation, userns uint64 }

func setattr(at int, path string, flags uintptr, attr mountAttr) syscall.Errno {
	_, errno := call(sysMountSetattr, uintptr(at), str(path), flags, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	return errno
}

// openPath opens a path without following any link. With beneath, it stays below at.
func openPath(at int, path string, beneath bool) (int, syscall.Errno) {
	how := struct{ flags, mode, resolve uint64 }{oPath | syscall.O_CLOEXEC, 0, resolveNoLinks | resolveNoMagic}
	if beneath {
		how.resolve |= resolveBeneath
	}
	for range 100 { // interrupted by a concurrent rename elsewhere in the tree
		fd, errno := call(sysOpenat2, uintptr(at), str(path), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		if errno != syscall.EAGAIN {
			return fd, errno
		}
	}
	return -1, syscall.EAGAIN
}

// mountRoot reports whether an open file is the root of a mount.
func mountRoot(fd int) bool {
	var stx [256]byte // struct statx: attributes at 8, their mask at 56
	if _, errno := call(sysStatx, uintptr(fd), str(""), atEmptyPath, 0, uintptr(unsafe.Pointer(&stx[0])), 0); errno != 0 {
		return false
	}
	return *(*uint64)(unsafe.Pointer(&stx[8]))&statxMountRoot != 0
}

func prctl(op, a, b uintptr) syscall.Errno {
	_, errno := call(syscall.SYS_PRCTL, op, a, b, 0, 0, 0)
	return errno
}

func closefd(fd int) {
	if err := syscall.Close(fd); err != nil {
		fail("close", err, "")
	}
}
