//go:build linux && (amd64 || arm64)

package native_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"metier/internal/testenv"
	"metier/sandbox"
)

// Root and ordinary users get their sandboxes in different ways, but with the
// same guarantees. Not parallel: a binary that is open for writing cannot be
// started, and every process that is being forked holds it open.
func TestAllOfItAsAnOrdinaryUser(t *testing.T) {
	if !testenv.OrdinaryUser(t) {
		return
	}
	for name, test := range map[string]func(*testing.T){
		"probe": TestTheProbeAnswersByDoing, "root": TestTheRootIsMadeFromNothing, "trees": TestTreesAreTheBytesThatWereGiven,
		"ends": TestEndsAreTold, "memory": TestMemoryOfAllIsBounded, "programs": TestProgramsAreFound, "network": TestTheOneWayOut,
		"early": TestEndingEarly, "workspace": TestAWorkspaceBelongsToItsOwner, "guards": TestGuardedPathsStay, "hidden": TestHiddenPathsLookEmpty,
		"links":   TestLinksAtGuardedPathsAreRefused,
		"lacking": TestWhatTheHostLacksIsNamed, "killed": TestNothingOutlivesTheParent,
	} {
		t.Run(name, test)
	}
	t.Run("leaks", TestJobsLeaveNothingBehind)
}

// The kernel takes each primitive away. The error names it, nothing runs, and a
// later probe checks again.
func TestWhatTheHostLacksIsNamed(t *testing.T) {
	t.Parallel()
	nr := func(n int, errno syscall.Errno) string {
		return "deny:" + strconv.Itoa(n) + "=" + strconv.Itoa(int(errno))
	}
	tests := []struct {
		name, role, want string
		userns           bool // as root of a user namespace
	}{
		{"landlock: ENOSYS", nr(444, unix.ENOSYS), "landlock", false},
		{"landlock: off", nr(446, unix.EOPNOTSUPP), "landlock", false},
		{"seccomp", nr(unix.SYS_SECCOMP, unix.EPERM), "seccomp", false},
		{"mount", nr(unix.SYS_MOUNT, unix.EPERM), "mount", false},
		{"pivot_root", nr(unix.SYS_PIVOT_ROOT, unix.EPERM), "pivot_root", false},
		{"openat2", nr(unix.SYS_OPENAT2, unix.ENOSYS), "openat2", false},
		{"open_tree", nr(unix.SYS_OPEN_TREE, unix.EPERM), "open_tree", false},
		{"mount_setattr", nr(unix.SYS_MOUNT_SETATTR, unix.ENOSYS), "mount_setattr", false},
		{"close_range", nr(unix.SYS_CLOSE_RANGE, unix.ENOSYS), "close_range", false},
		{"memfd", nr(unix.SYS_MEMFD_CREATE, unix.ENOSYS), "memfd", false},
		{"files", "files:6", "file-descriptors", false},
		{"user namespaces: none allowed", "userns:0", "user-namespaces", true},
		{"proc masked", "proc:", "proc", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := actor(t.Context(), t, tt.role)
			if tt.userns {
				ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
				if os.Geteuid() == 0 {
					ids = []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 100_000}}
				}
				cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: ids, GidMappings: ids}
			}
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			var l lacking
			if err := json.Unmarshal(out, &l); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if l.Available || l.Probe != tt.want || l.Run != tt.want && l.Run != "idmapped-mounts" || l.Fix == "" {
				t.Errorf("%+v", l)
			}
			if _, err := os.Stat(filepath.Join(cmd.Dir, "canary")); err == nil {
				t.Error("the program ran")
			}
			if strings.HasPrefix(tt.role, "files") || strings.HasPrefix(tt.role, "userns") {
				if !l.Again {
					t.Errorf("the failed probe was cached: %+v", l)
				}
			}
		})
	}
}

// A killed parent cannot clean up, so the kernel has to.
func TestNothingOutlivesTheParent(t *testing.T) {
	t.Parallel()
	mark := "86400." + strconv.Itoa(int(rand.Text()[0])) + strconv.Itoa(os.Getpid())
	cmd := actor(t.Context(), t, "hang:trap '' TERM HUP; setsid sleep "+mark+" & echo ready; sleep "+mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	var watched []int
	for len(watched) < 2 { // sh printed that it is ready, and starts the second
		watched = nil
		for _, pid := range named(t, mark) {
			if fd, err := unix.PidfdOpen(pid, 0); err == nil {
				watched = append(watched, fd)
				defer unix.Close(fd)
			}
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, fd := range watched {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		for errors.Is(err, unix.EINTR) {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		}
		if err != nil || n != 1 {
			t.Errorf("a program outlived its parent: %v", err)
		}
	}
	if err := cmd.Wait(); !testenv.Killed(cmd.ProcessState) {
		t.Errorf("the parent was not killed: %v", err)
	}
}

// named lists the processes that have an argument.
func named(t *testing.T, arg string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if b, err := os.ReadFile(p); err == nil && bytes.HasPrefix(b, []byte("sleep\x00"+arg+"\x00")) {
			pid, err := strconv.Atoi(strings.Split(p, "/")[2])
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// held is what this process holds on the host.
type held struct{ files, goroutines, children, mounts int }

func holds(t *testing.T) (h held) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range tasks {
		b, err := os.ReadFile(p)
		if err != nil {
			continue // a thread that ended
		}
		h.children += len(bytes.Fields(b))
	}
	h.files, h.goroutines, h.mounts = len(fds), runtime.NumGoroutine(), bytes.Count(mounts, []byte("\n"))
	return h
}

// settled returns what this process holds, once it equals before or after ten
// seconds: a goroutine that signaled its end still exists for a moment.
func settled(t *testing.T, before held) (after held) {
	for end := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		if after = holds(t); after == before || time.Now().After(end) {
			return after
		}
	}
}

// Not parallel: it counts what the whole process holds.
func TestJobsLeaveNothingBehind(t *testing.T) {
	s := open(t)
	dir := folder(t, 0, map[string]string{"a": "a"})
	job := func() {
		j := shell("sleep 100 & cat a; rmdir $(mktemp -d -p .)")
		j.Trees = []sandbox.Tree{{Path: "/skills/a", Files: []sandbox.File{{Path: "x", Data: []byte("x")}}}}
		j.Workspace = &sandbox.Workspace{Host: dir, Writable: true, ReadOnly: []string{".git/hooks"}, Hidden: []string{".metier"}}
		r, err := s.Run(t.Context(), j)
		if err != nil || r.Exit != 0 || string(r.Stdout) != "a" {
			t.Errorf("%v %+v %s", err, r, r.Stderr)
		}
	}
	for range 3 { // the namespace that maps the owner stays, and so does the starter
		job()
	}
	before := holds(t)
	for range 50 {
		job()
	}
	if after := settled(t, before); after != before {
		t.Errorf("sequential jobs: %+v, before %+v", after, before)
	}
	var all sync.WaitGroup
	for range 30 {
		all.Go(job)
	}
	all.Wait()
	if after := settled(t, before); after != before {
		t.Errorf("parallel jobs: %+v, before %+v", after, before)
	}
	if got := list(t, dir); len(got) != 1 {
		t.Errorf("left in the workspace: %v", got)
	}
}
