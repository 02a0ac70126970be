package main

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Each of these holds before and after, so that the judge can see what changed:
// mounts, root, namespaces.
var _ = learn(map[string]func([]string) error{
	"mount-tmpfs":   changing(func(a []string) error { return unix.Mount("metier-harm", a[0], "tmpfs", 0, "") }),
	"mount-bind":    changing(func(a []string) error { return unix.Mount(a[0], a[1], "", unix.MS_BIND|unix.MS_REC, "") }),
	"mount-remount": changing(remount),
	"mount-umount": changing(func(a []string) error {
		return anyOf(a, func(p string) error { return unix.Unmount(p, unix.MNT_DETACH) })
	}),
	"mount-new":  changing(mountNew),
	"mount-tree": changing(mountTree),
	"mount-setattr": changing(func(a []string) error {
		return anyOf(a, func(p string) error {
			return unix.MountSetattr(unix.AT_FDCWD, p, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
		})
	}),
	"pivot":   changing(pivot),
	"chroot":  changing(func(a []string) error { return unix.Chroot(a[0]) }),
	"unshare": changing(unshare),
	"clone":   clone,
	"clone3":  clone3,
	"setns":   changing(setns),
})

// changing runs an attack on one thread, between two holds. The thread is the
// first one of the process, whose /proc files the judge reads.
func changing(deed func([]string) error) func([]string) error {
	return func(a []string) error {
		hold()
		return holding(deed)(a)
	}
}

func init() { runtime.LockOSThread() }

// remount makes mounts writable and their setuid files effective. It tries both
// forms of the call on each path.
func remount(a []string) error {
	return anyOf(a, func(p string) error {
		err := unix.Mount("", p, "", unix.MS_REMOUNT|unix.MS_BIND, "")
		if err != nil && unix.Mount("", p, "", unix.MS_REMOUNT, "") == nil {
			return nil
		}
		return err
	})
}

// mountNew mounts through the newer mount API: fsopen, fsmount, move_mount.
func mountNew(a []string) error {
	fs, err := unix.Fsopen("tmpfs", 0)
	if err != nil {
		return err
	}
	if err := unix.FsconfigSetString(fs, "source", "metier-harm"); err != nil {
		return err
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return err
	}
	m, err := unix.Fsmount(fs, 0, 0)
	if err != nil {
		return err
	}
	return unix.MoveMount(m, "", unix.AT_FDCWD, a[0], unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func mountTree(a []string) error {
	t, err := unix.OpenTree(unix.AT_FDCWD, a[0], unix.OPEN_TREE_CLONE)
	if err != nil {
		return err
	}
	return unix.MoveMount(t, "", unix.AT_FDCWD, a[1], unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func pivot(a []string) error {
	if err := unix.Chdir(a[0]); err != nil {
		return err
	}
	return unix.PivotRoot(".", ".")
}

var spaces = map[string]uintptr{"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID,
	"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME}

// unshare needs a single-threaded process for a new user namespace. A Go
// program has several threads, so it uses a child of a raw clone.
func unshare(a []string) error {
	if flag := spaces[a[0]]; flag != unix.CLONE_NEWUSER {
		return unix.Unshare(int(flag))
	}
	return forked(unshareUser)
}

//go:nosplit
func unshareUser() syscall.Errno {
	_, _, e := syscall.RawSyscall(syscall.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0)
	return e
}

// forked runs f in a child of one thread that then stays. f may only do raw
// system calls, and must be marked go:nosplit: the child has no scheduler that
// could answer a request to yield, which the check at the start of a function
// finds if the parent was asked before it forked.
func forked(f func() syscall.Errno) error {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(ends[0])
	answer := [1]byte{}
	pid, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		_ = unix.Close(ends[1])
		return e
	}
	if pid == 0 {
		syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
		answer[0] = byte(f())
		syscall.RawSyscall(syscall.SYS_WRITE, uintptr(ends[1]), uintptr(unsafe.Pointer(&answer)), 1)
		for {
			stay()
		}
	}
	_ = unix.Close(ends[1])
	switch n, err := unix.Read(ends[0], answer[:]); {
	case err != nil:
		return err
	case n == 0:
		return io.ErrUnexpectedEOF // the child ended
	case answer[0] != 0:
		return syscall.Errno(answer[0])
	}
	return nil
}

// stay waits for a second in the kernel. Nothing else is safe in a child that
// was forked off a Go program.
//
//go:nosplit
func stay() {
	ts := syscall.Timespec{Sec: 1}
	syscall.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, 1, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
}

// clone starts a child in a new namespace, by clone(2), and holds.
func clone(a []string) error {
	hold()
	cmd := exec.Command("/proc/self/exe", "linger", "20")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: spaces[a[0]], Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	hold()
	return cmd.Process.Kill()
}

// clone3 passes the flags in memory, where no filter can see them.
func clone3(a []string) error {
	hold()
	type cloneArgs struct{ flags, pidfd, childTID, parentTID, exit, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64 }
	c := cloneArgs{flags: uint64(spaces[a[0]]), exit: uint64(syscall.SIGCHLD)}
	pid, _, e := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&c)), unsafe.Sizeof(c), 0)
	if e != 0 {
		return e
	}
	if pid == 0 {
		syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
		for {
			stay()
		}
	}
	hold()
	return syscall.Kill(int(pid), syscall.SIGKILL)
}

// setns enters the namespaces of another process: KIND PID…
func setns(a []string) error {
	_ = unix.Unshare(unix.CLONE_FS) // setns(2) needs an unshared root to enter a mount namespace
	return anyOf(a[1:], func(pid string) error {
		if f, err := os.Open("/proc/" + pid + "/ns/" + a[0]); err == nil {
			return unix.Setns(int(f.Fd()), int(spaces[a[0]]))
		}
		n, _ := strconv.Atoi(pid)
		fd, err := unix.PidfdOpen(n, 0)
		if err == nil {
			err = unix.Setns(fd, int(spaces[a[0]]))
		}
		return err
	})
}
