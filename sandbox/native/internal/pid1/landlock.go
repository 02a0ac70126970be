//go:build linux && (amd64 || arm64)

package pid1

import (
	"syscall"
	"unsafe"

	"metier/sandbox/native/internal/plan"
)

// Landlock's rights over files, with the version that brought them.
const (
	llExecute   = 1 << 0
	llWrite     = 1 << 1
	llRead      = 1 << 2
	llReadDir   = 1 << 3
	llMakeChar  = 1 << 6
	llMakeBlock = 1 << 11
	llAll1      = 1<<13 - 1
	llRefer     = 1 << 13 // 2
	llTruncate  = 1 << 14 // 3
	llIoctlDev  = 1 << 15 // 5

	llScopes  = 3 // 6: abstract sockets, signals
	llMinimum = 2 // without refer, no file could be moved to another folder
)

// landlock is the second lock on files: what is reached in another way than by
// a path of the new root, such as a descriptor or a link of /proc to a file of
// the host, is refused by it. Version 2 is needed. What later versions bring is
// used where it is there: truncation is held by read-only mounts as well,
// abstract sockets by the network namespace, signals by the one of processes.
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
		if d.Path != "/dev/zero" { // who may write it can map it, as shared memory without a file
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

// allow gives rights below a folder of the root, or over a file.
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
