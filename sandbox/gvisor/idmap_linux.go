package gvisor

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"metier/sandbox/gvisor/internal/guest"
)

// By convention, IDs from unused on are unassigned. The program has this one if the workspace can be
// mapped. Only gVisor's kernel sees it: no process of the host has it.
const unused = 2_000_000_000

// highest is the highest ID.
const highest = 1<<32 - 2

// thread runs functions on one thread of the system, which ends with it.
type thread struct {
	calls chan func()
	ended chan struct{}
}

func newThread() *thread {
	t := &thread{make(chan func()), make(chan struct{})}
	begun := make(chan struct{})
	go t.serve(begun)
	<-begun
	return t
}

// serve never runs on the first thread: it cannot end, and /proc/self shows its mounts.
func (t *thread) serve(begun chan struct{}) {
	runtime.LockOSThread() // and never unlocked, which ends the thread
	if syscall.Gettid() == syscall.Getpid() {
		go t.serve(begun)
		<-begun
		runtime.UnlockOSThread()
		return
	}
	close(begun)
	for f := range t.calls {
		f()
	}
	close(t.ended)
}

func (t *thread) do(f func() error) error {
	err := make(chan error, 1)
	t.calls <- func() { err <- f() }
	return <-err
}

func (t *thread) close() {
	close(t.calls)
	<-t.ended
}

// remap mounts dir over itself, for processes that this thread starts, with its owner and the unused
// ID exchanged. Files of the owner belong to the unused ID there, and the reverse. It must run on a
// thread of its own.
func remap(dir string, uid, gid int) error {
	space, err := exchange(uid, gid)
	if err != nil {
		return err
	}
	defer func() { _ = space.Close() }() // only read from
	tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer func() { _ = unix.Close(tree) }() // a descriptor of a mount
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(space.Fd())}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// exchange returns a user namespace in which the IDs and the unused ID are exchanged. All others map
// to themselves, because gVisor's file process creates files as root. A process creates the namespace
// and ends; the open file keeps it alive.
func exchange(uid, gid int) (*os.File, error) {
	if err := creates(0); err != nil {
		return nil, err
	}
	for _, name := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if got := strings.Fields(string(b)); !slices.Equal(got, []string{"0", "0", strconv.Itoa(highest + 1)}) {
			return nil, fmt.Errorf("this process does not have all IDs: %s is %q", name, got)
		}
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args[0] = guest.Hold
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: exchanged(uid), GidMappings: exchanged(gid), GidMappingsEnableSetgroups: true}
	hold, err := cmd.StdinPipe() // Start closes it if it fails
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	f, err := os.Open("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/ns/user")
	_ = hold.Close() // ends the process
	_ = cmd.Wait()   // it has no result
	return f, err
}

// exchanged returns the map that exchanges an ID and the unused one.
func exchanged(id int) []syscall.SysProcIDMap {
	var all []syscall.SysProcIDMap
	next := 0
	for _, pair := range [][2]int{{min(id, unused), max(id, unused)}, {max(id, unused), min(id, unused)}, {highest + 1, 0}} {
		if pair[0] < next { // id is the unused one
			continue
		}
		if n := pair[0] - next; n > 0 {
			all = append(all, syscall.SysProcIDMap{ContainerID: next, HostID: next, Size: n})
		}
		if pair[0] <= highest {
			all = append(all, syscall.SysProcIDMap{ContainerID: pair[0], HostID: pair[1], Size: 1})
		}
		next = pair[0] + 1
	}
	return all
}
