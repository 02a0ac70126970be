//go:build linux && (amd64 || arm64)

package pid1

import (
	"syscall"
	"unsafe"

	"metier/sandbox/native/internal/plan"
)

// start runs the program and waits, as the process that inherits orphans. It
// never returns.
func start(p *plan.Plan) {
	if len(p.Argv) == 0 { // a probe: everything is there
		answer(plan.Answer{Kind: plan.Starting}, nil)
		answer(plan.Answer{Kind: plan.Ended}, nil)
		exit()
	}
	if err := syscall.Chdir(p.Dir); err != nil {
		refuse("the working folder", err, p.Dir)
	}
	path := find(p)
	address(p.Limits.Address)
	go orphaned()
	answer(plan.Answer{Kind: plan.Starting}, nil)
	pid, err := syscall.ForkExec(path, p.Argv, &syscall.ProcAttr{Env: p.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		refuse("start", err, path)
	}
	if late {
		addressOf(pid, p.Limits.Address)
	}
	for fd := range 3 { // the ends of these pipes are the program's alone
		closefd(fd)
	}
	wait(pid)
}

// orphaned ends the sandbox when the parent ended: its socket closes.
func orphaned() {
	var b [1]byte
	for {
		if n, err := syscall.Read(plan.Control, b[:]); n <= 0 && err != syscall.EINTR {
			exit()
		}
	}
}

// wait reaps until the program ended, ends the rest, and answers.
func wait(pid int) {
	var result plan.Answer
	for {
		var ws syscall.WaitStatus
		var ru syscall.Rusage
		got, err := syscall.Wait4(-1, &ws, 0, &ru)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil: // ECHILD: all ended
			var all syscall.Rusage
			if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &all) == nil {
				result.CPU, result.RSS = micros(all.Utime)+micros(all.Stime), uint64(all.Maxrss)
			}
			answer(result, nil)
			exit()
		case got == pid:
			result.Kind = plan.Ended
			if ws.Signaled() {
				result.Signal = uint64(ws.Signal())
			} else {
				result.Code = uint64(ws.ExitStatus())
			}
			_ = syscall.Kill(-1, syscall.SIGKILL) // ESRCH: nobody is left
		}
	}
}

func micros(t syscall.Timeval) uint64 { return uint64(t.Sec)*1e6 + uint64(t.Usec) }

// find looks the program up in the folders of PATH. Relative ones are not among
// them: what lies in the working folder is not a command.
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

// late says that the limit of address space is set once the program runs: this
// process has reserved more than it allows.
var late bool

// address sets the limit of address space, which the program inherits.
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
	_, errno := call(sysPrlimit64, uintptr(pid), syscall.RLIMIT_AS, uintptr(unsafe.Pointer(&l)), 0, 0, 0)
	if errno != syscall.ESRCH { // it ended already
		need("rlimits", errno, "address space")
	}
}
