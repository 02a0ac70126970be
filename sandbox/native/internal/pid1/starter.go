//go:build linux && (amd64 || arm64)

package pid1

import (
	"syscall"

	"metier/sandbox/native/internal/plan"
)

// IDs are the IDs of a first process on the host.
type IDs struct {
	UID, GID int
	Other    bool // differs from its parent
	Groups   bool // supplementary groups can be dropped
}

// Inside is the program's uid and gid in the sandbox.
const Inside = 1000

// namespaces are the new namespaces of every sandbox.
const namespaces = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
	syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP

// Attributes returns the attributes for starting a first process with these IDs and the
// capabilities it needs.
func (i IDs) Attributes() *syscall.SysProcAttr {
	const setPCap, netAdmin, sysAdmin, sysResource = 8, 12, 21, 24
	a := &syscall.SysProcAttr{
		Cloneflags:  namespaces,
		Setsid:      true,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: Inside, HostID: i.UID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: Inside, HostID: i.GID, Size: 1}},
		AmbientCaps: []uintptr{setPCap, netAdmin, sysAdmin, sysResource},
	}
	if i.Other {
		a.GidMappingsEnableSetgroups = i.Groups
		a.Credential = &syscall.Credential{Uid: Inside, Gid: Inside, NoSetGroups: !i.Groups}
	}
	return a
}

// Env is the environment of a first process.
var Env = []string{"GOGC=off", "GOMAXPROCS=1"}

// Bytes encodes a request to the starter.
func (i IDs) Bytes() []byte {
	bit := map[bool]uint64{true: 1}
	return words(uint64(i.UID), uint64(i.GID), bit[i.Other], bit[i.Groups])
}

// Started decodes the starter's answer: the first process, which is a child of the starter's
// parent, or an error.
func Started(b []byte) (pid int, err error) {
	if len(b) != 2*word {
		return 0, syscall.ECHILD
	}
	if errno := number(b, 1); errno != 0 {
		return 0, syscall.Errno(errno)
	}
	return int(number(b, 0)), nil
}

const word = 8 // size of a number in bytes

func words(all ...uint64) (b []byte) {
	for _, n := range all {
		for i := range word {
			b = append(b, byte(n>>(8*i)))
		}
	}
	return b
}

func number(b []byte, at int) (n uint64) {
	for i := range word {
		n |= uint64(b[at*word+i]) << (8 * i)
	}
	return n
}

// serve starts first processes for the parent until the parent closes its socket. This process
// stays small regardless of the parent's size, because a clone copies page tables.
func serve() {
	request, rights := make([]byte, 4*word), make([]byte, syscall.CmsgSpace(4*16))
	for {
		n, m, _, _, err := syscall.Recvmsg(plan.Control, request, rights, syscall.MSG_CMSG_CLOEXEC)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			exit()
		}
		fds := descriptors(rights[:m])
		if n != len(request) || len(fds) < 2 {
			exit() // not sent by the parent
		}
		reply(IDs{int(number(request, 0)), int(number(request, 1)), number(request, 2) == 1, number(request, 3) == 1}, fds)
		for _, fd := range fds {
			_ = syscall.Close(fd) // copies
		}
	}
}

// reply starts a first process with the given descriptors except for the last one, which receives
// the answer. The process becomes a child of the parent.
func reply(i IDs, fds []int) {
	last := len(fds) - 1
	attr := &syscall.ProcAttr{Env: Env, Sys: i.Attributes()}
	attr.Sys.Cloneflags |= syscall.CLONE_PARENT
	for _, fd := range fds[:last] {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{plan.Marker}, attr)
	var errno uint64
	if err != nil {
		errno = uint64(syscall.ECHILD)
		if e, is := err.(syscall.Errno); is {
			errno = uint64(e)
		}
	}
	_, _ = syscall.Write(fds[last], words(uint64(pid), errno)) // if the parent is gone, the next read ends serve
}

func descriptors(rights []byte) (fds []int) {
	msgs, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	for i := range msgs {
		got, err := syscall.ParseUnixRights(&msgs[i])
		if err != nil {
			return nil
		}
		fds = append(fds, got...)
	}
	return fds
}
