//go:build linux && (amd64 || arm64)

package pid1

import (
	"syscall"
	"unsafe"

	"metier/sandbox/native/internal/plan"
)

// Constants of prctl and of resource limits.
const (
	prCapBSetRead   = 23
	prCapBSetDrop   = 24
	prSetSecurebits = 28
	prSetNoNewPrivs = 38
	prCapAmbient    = 47
	ambientClearAll = 4
	// Disables the special treatment of uid 0, changes to capability sets when the uid changes,
	// keeping capabilities across that change, and raising ambient ones. Each bit is locked.
	securebits = 0x01 | 0x02 | 0x04 | 0x08 | 0x20 | 0x40 | 0x80

	rlimitNProc, rlimitMemlock, rlimitSigpending, rlimitMsgqueue, rlimitNice, rlimitRTPrio = 6, 8, 11, 12, 13, 14
)

// confine removes all privileges the program must not have. The order matters: each step may need
// privileges that a later one removes.
func confine(p *plan.Plan) {
	limits(p.Limits)
	privileges()
	landlock(p)
	// The filter comes last, because it denies most of the steps before it. It also applies to the
	// threads of the runtime.
	const tsync = 1
	if r := seccomp("seccomp", p.Filter, tsync); r != 0 {
		fail("seccomp", syscall.EBUSY, "a thread did not take the filter")
	}
	watched(p)
}

// seccomp installs a filter and returns the result of the call.
func seccomp(step string, filter []byte, flags uintptr) int {
	prog := struct {
		n      uint16
		filter *byte
	}{uint16(len(filter) / 8), &filter[0]}
	const modeFilter = 1
	r, errno := call(sysSeccomp, modeFilter, flags, uintptr(unsafe.Pointer(&prog)), 0, 0, 0)
	need(step, errno, "")
	return r
}

// watched installs the filter that reports programs that start, if the plan has one, and sends its
// listener to the parent. Only this thread needs it, because the program is started from it. Without
// the parent, the kernel fails the calls that it would report.
func watched(p *plan.Plan) {
	if len(p.Starts) == 0 {
		return
	}
	const newListener, waitKillable = 1 << 3, 1 << 5 // signals do not repeat a call that was received
	l := seccomp(plan.Watching, p.Starts, newListener|waitKillable)
	answer(plan.Answer{Kind: plan.Watched}, syscall.UnixRights(l))
	closefd(l)
}

// What a job can take of limits of the user who started metier.
const (
	mostLocked                = 8 << 20 // bytes
	mostSignals               = 1024    // pending, with timers
	leastInotify, mostInotify = 2, 32
	leastWatches, mostWatches = 1024, 16384
)

// limitWatches limits how many of the user's inotify instances the sandbox can take. It needs the
// host's /proc. Where /proc/sys is read-only, as in some containers, it does nothing.
func limitWatches() {
	limit("/proc/sys/user/max_inotify_instances", share("/proc/sys/fs/inotify/max_user_instances", leastInotify, mostInotify))
	limit("/proc/sys/user/max_inotify_watches", share("/proc/sys/fs/inotify/max_user_watches", leastWatches, mostWatches))
}

// share returns the part of a limit of the user that one job gets: half of it is enough for 32 jobs.
func share(path string, least, most uint64) string {
	var b [20]byte
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return itoa(least)
	}
	n, _ := syscall.Read(fd, b[:])
	closefd(fd)
	all := uint64(0)
	for i := 0; i < n && b[i] >= '0' && b[i] <= '9'; i++ {
		all = all*10 + uint64(b[i]-'0')
	}
	return itoa(max(least, min(most, all/64)))
}

func limit(path, value string) {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = syscall.Write(fd, []byte(value)) // as above
	closefd(fd)
}

func limits(l plan.Limits) {
	set := func(resource int, soft, hard uint64) {
		var now syscall.Rlimit
		must("rlimits", syscall.Getrlimit(resource, &now), itoa(uint64(resource)))
		hard = min(hard, now.Max) // the host may have set less
		must("rlimits", syscall.Setrlimit(resource, &syscall.Rlimit{Cur: min(soft, hard), Max: hard}), itoa(uint64(resource)))
	}
	set(syscall.RLIMIT_CORE, 1, 1) // with 0, the kernel still starts a program for core dumps, on the host
	set(syscall.RLIMIT_CPU, l.CPU, l.CPU+1)
	set(syscall.RLIMIT_FSIZE, l.FileSize, l.FileSize)
	set(syscall.RLIMIT_NOFILE, l.OpenFiles, l.OpenFiles)
	n := l.Processes + threads()
	set(rlimitNProc, n, n)
	// The kernel counts these for the user who started metier, too.
	set(rlimitMemlock, mostLocked, mostLocked)
	set(rlimitSigpending, mostSignals, mostSignals)
	set(rlimitMsgqueue, 0, 0)
	set(rlimitNice, 0, 0)
	set(rlimitRTPrio, 0, 0)
}

// threads returns the number of this process's threads, which count toward the process limit.
func threads() (n uint64) {
	fd, err := syscall.Open("/proc/self/task", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	must("proc", err, "/proc/self/task")
	var st syscall.Stat_t
	must("proc", syscall.Fstat(fd, &st), "/proc/self/task")
	closefd(fd)
	return max(uint64(st.Nlink), 2) - 2 // . and .. are links too
}

// privileges permanently drops every capability from all sets.
func privileges() {
	need("securebits", prctl(prSetSecurebits, securebits, 0), "")
	for c := uintptr(0); c < 64; c++ {
		if _, errno := call(syscall.SYS_PRCTL, prCapBSetRead, c, 0, 0, 0, 0); errno != 0 {
			break // the kernel knows no more capabilities
		}
		need("capabilities", prctl(prCapBSetDrop, c, 0), "bounding set")
	}
	need("capabilities", prctl(prCapAmbient, ambientClearAll, 0), "ambient set")
	header := struct {
		version uint32
		pid     int32
	}{0x20080522, 0}
	var none [6]uint32
	_, errno := call(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0, 0, 0, 0)
	need("capabilities", errno, "")
	need("no_new_privs", prctl(prSetNoNewPrivs, 1, 0), "")
}
