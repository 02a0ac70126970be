//go:build linux && (amd64 || arm64)

package pid1

import (
	"syscall"
	"unsafe"

	"metier/sandbox/native/internal/plan"
)

// start runs the program and waits for it, reaping orphans. It never returns.
func start(p *plan.Plan) {
	if len(p.Argv) == 0 { // a probe: the sandbox is complete
		answer(plan.Answer{Kind: plan.Starting}, nil)
		answer(plan.Answer{Kind: plan.Ended}, nil)
		exit()
	}
	if err := syscall.Chdir(p.Dir); err != nil {
		refuse("the working folder", err, p.Dir)
	}
	path := find(p)
	address(p.Limits.Address)
	deaf()
	answer(plan.Answer{Kind: plan.Starting}, nil)
	var watch int
	pid, err := syscall.ForkExec(path, p.Argv, &syscall.ProcAttr{Env: p.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &watch}})
	if err != nil {
		refuse("start", err, path)
	}
	if late {
		addressOf(pid, p.Limits.Address)
	}
	for fd := range 3 { // only the program keeps these pipe ends
		closefd(fd)
	}
	wait(pid, watch)
}

// deaf makes all catchable signals have no effect. The kernel drops signals without a handler that
// are sent to the first process of a namespace, except while its main thread blocks the signal and
// another thread does not, as in ForkExec.
//
// The program must start with default signal handling. ForkExec resets the signals that the runtime
// handles, so those are ignored here. All others, such as signals ignored at startup, get a
// handler, which exec resets. SIGCHLD keeps its handler, since it interrupts a poll.
func deaf() {
	const perThread = 33
	ignored := [4]uintptr{1} // struct kernel_sigaction
	var handled [4]uintptr
	_, errno := call(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGTERM), 0, uintptr(unsafe.Pointer(&handled)), 8, 0, 0)
	need("signals", errno, "SIGTERM")
	handled[0] = nothingAddress() // keeps the flags that the runtime chose
	for sig := uintptr(1); sig <= 64; sig++ {
		switch syscall.Signal(sig) {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, perThread:
			continue
		}
		var now [4]uintptr
		_, errno := call(syscall.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&now)), 8, 0, 0)
		need("signals", errno, itoa(uint64(sig)))
		to := &handled
		if now[0] > 1 { // a handler, neither default nor ignored
			to = &ignored
		}
		_, errno = call(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(to)), 0, 8, 0, 0)
		need("signals", errno, itoa(uint64(sig)))
	}
}

// nothingAddress returns the address of a signal handler that only returns.
func nothingAddress() uintptr

// wait reaps processes until the program ends, ends the others, and sends the answer. It wakes up
// when the program ends (watch), when the parent does (its socket closes), and when an orphan does:
// SIGCHLD interrupts a poll, and one that arrives too early is handled in the next round. It uses
// no second goroutine, which would need a second thread.
func wait(pid, watch int) {
	result := plan.Answer{Kind: plan.Ended}
	fds := [2]pollfd{{fd: plan.Control, events: pollIn}, {fd: int32(watch), events: pollIn}}
	const round = 100e6
	var left syscall.Timespec
	for running := true; running; {
		left = syscall.Timespec{Nsec: round}
		n, errno := call(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 2, uintptr(unsafe.Pointer(&left)), 0, 0, 0)
		if errno == 0 && n > 0 && fds[0].revents != 0 {
			exit() // nothing is ever sent here: the parent has ended
		}
		running = !reap(pid, syscall.WNOHANG, &result)
	}
	_ = syscall.Kill(-1, syscall.SIGKILL) // ESRCH: no process is left
	reap(-1, 0, &result)
	var all syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &all) == nil {
		result.CPU, result.RSS = micros(all.Utime)+micros(all.Stime), uint64(all.Maxrss)
	}
	answer(result, nil)
	exit()
}

type pollfd struct {
	fd              int32
	events, revents int16
}

const pollIn = 1

// reap reaps processes that have ended or, without options, waits for all of them. It reports
// whether the program is among them.
func reap(pid, options int, result *plan.Answer) (ended bool) {
	var ws syscall.WaitStatus
	for {
		got, err := syscall.Wait4(-1, &ws, options, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil, got == 0: // ECHILD: all have ended
			return ended
		case got == pid:
			ended = true
			if ws.Signaled() {
				result.Signal = uint64(ws.Signal())
			} else {
				result.Code = uint64(ws.ExitStatus())
			}
		}
	}
}

func micros(t syscall.Timeval) uint64 { return uint64(t.Sec)*1e6 + uint64(t.Usec) }

// find looks up the program in the folders of PATH. Relative folders are left out, so that files in
// the working folder are not commands.
func find(p *plan.Plan) string {
	name := p.Argv[0]
	for i := range len(name) {
		if name[i] == '/' {
			return name
		}
	}
	for _, dir := range p.Search {
		path := dir + "/" + name
		var st syscall.Stat_t
		const execute = 1
		if syscall.Stat(path, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFREG && syscall.Access(path, execute) == nil {
			return path
		}
	}
	refuse("start", syscall.ENOENT, name)
	return ""
}

// late defers the address space limit until the program runs, because this process has reserved
// more than the limit allows.
var late bool

// address sets the limit on private writable memory, which the program inherits. Reserved memory
// does not count: V8 and the JVM reserve far more address space than they use.
func address(limit uint64) {
	fd, err := syscall.Open("/proc/self/statm", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	must("proc", err, "/proc/self/statm")
	var b [64]byte
	n, err := syscall.Read(fd, b[:])
	must("proc", err, "/proc/self/statm")
	closefd(fd)
	pages := uint64(0)
	for _, c := range b[:n] {
		if c < '0' || c > '9' {
			break
		}
		pages = pages*10 + uint64(c-'0')
	}
	if late = pages*uint64(syscall.Getpagesize()) > limit/2; !late {
		addressOf(0, limit)
	}
}

func addressOf(pid int, limit uint64) {
	l := syscall.Rlimit{Cur: limit, Max: limit}
	_, errno := call(sysPrlimit64, uintptr(pid), syscall.RLIMIT_DATA, uintptr(unsafe.Pointer(&l)), 0, 0, 0)
	if errno != syscall.ESRCH { // it has ended
		need("rlimits", errno, "private memory")
	}
}
