//go:build linux && (amd64 || arm64)

package pid1

import (
	"syscall"
	"unsafe"

	"metier/sandbox/native/internal/plan"
)

// Landlock's file access rights, with the ABI version that introduced them.
const (
	llExecute   = 1 << 0
	llWrite     = 1 << 1
	llRead      = 1 << 2
	llReadDir   = 1 << 3
	llMakeChar  = 1 << 6
	llMakeBlock = 1 << 11
	llAll1      = 1<<13 - 1
	llRefer     = 1 << 13 // ABI 2
	llTruncate  = 1 << 14 // ABI 3
	llIoctlDev  = 1 << 15 // ABI 5

	llScopes  = 3 // ABI 6: abstract sockets, signals
	llMinimum = 2 // without refer, no file could be moved to another folder
)

// landlock is the second line of defense for files. It denies access to host files by means other
// than a path of the new root, such as a descriptor or a link in /proc. ABI version 2 is required;
// later versions are used if available. Without them, read-only mounts prevent truncation, the
// network namespace isolates abstract sockets, and the process namespace isolates signals.
func landlock(p *plan.Plan) {
	abi, errno := call(sysLandlockCreate, 0, 0, 1, 0, 0, 0)
	need("landlock", errno, "")
	if abi < llMinimum {
		fail("landlock", syscall.EOPNOTSUPP, "version "+itoa(uint64(abi))+", needs "+itoa(llMinimum))
	}
	attr := struct{ fs, net, scoped uint64 }{fs: llAll1 | llRefer}
	if abi >= 3 {
		attr.fs |= llTruncate
	}
	if abi >= 5 {
		attr.fs |= llIoctlDev
	}
	if abi >= 6 {
		attr.scoped = llScopes
	}
	rules, errno := call(sysLandlockCreate, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0, 0, 0, 0)
	need("landlock", errno, "")
	syscall.CloseOnExec(rules)
	const look = llRead | llReadDir
	every := attr.fs &^ (llMakeChar | llMakeBlock)
	allow(rules, "/", llReadDir)
	for _, path := range p.Visible {
		allow(rules, path, look|llExecute)
	}
	allow(rules, "/etc", look)
	allow(rules, "/proc", look)
	allow(rules, "/dev", look)
	for _, d := range p.Devices {
		if d.Path != "/dev/zero" { // write access would allow mapping it as shared memory without a file
			allow(rules, d.Path, attr.fs&(look|llWrite|llTruncate|llIoctlDev))
		}
	}
	allow(rules, "/skills", look|llExecute)
	allow(rules, "/tmp", every)
	if p.Work.How != plan.NoWork {
		if p.Work.Writable {
			allow(rules, p.Work.At, every)
		} else {
			allow(rules, p.Work.At, look|llExecute)
		}
	}
	_, errno = call(sysLandlockSelf, uintptr(rules), 0, 0, 0, 0, 0)
	need("landlock", errno, "")
	closefd(rules)
}

// allow grants rights to a folder of the root and everything below it, or to a file.
func allow(rules int, path string, rights uint64) {
	fd, err := syscall.Open(path, oPath|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
	if err == syscall.ENOENT {
		return // a host path that this host does not have
	}
	must("landlock", err, path)
	var st syscall.Stat_t
	must("landlock", syscall.Fstat(fd, &st), path)
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
	case syscall.S_IFLNK: // leads to another path of the list
		closefd(fd)
		return
	default:
		rights &= llExecute | llWrite | llRead | llTruncate | llIoctlDev
	}
	var rule [12]byte // struct landlock_path_beneath_attr is packed
	*(*uint64)(unsafe.Pointer(&rule[0])) = rights
	*(*int32)(unsafe.Pointer(&rule[8])) = int32(fd)
	_, errno := call(sysLandlockAddRule, uintptr(rules), 1, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	need("landlock", errno, path)
	closefd(fd)
}
