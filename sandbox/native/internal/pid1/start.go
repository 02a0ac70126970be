//go:build linux && (amd64 || arm64)

package pid1

import (
	"syscall"

	"metier/sandbox/native/internal/plan"
)

// init takes over if this process is the first of a sandbox. The main goroutine stays on the main
// thread during initialization, so the program started from it inherits the thread's restrictions.
func init() {
	if syscall.Getpid() != 1 {
		if _, named := syscall.Getenv(plan.Starter); named && name() == plan.Starter {
			serve()
		}
		return
	}
	switch name() {
	case plan.Marker:
		run()
	case plan.Holder:
		hold()
	}
}

// name returns argv[0].
func name() string {
	fd, err := syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	var b [64]byte
	n, err := syscall.Read(fd, b[:])
	_ = syscall.Close(fd) // opened read-only
	if err != nil {
		return ""
	}
	for i, c := range b[:max(n, 0)] {
		if c == 0 {
			return string(b[:i])
		}
	}
	return ""
}

// hold waits for the parent's signal to continue.
func hold() {
	var b [1]byte
	for {
		if n, err := syscall.Read(plan.Control, b[:]); n <= 0 && err != syscall.EINTR {
			exit()
		}
	}
}

// run builds the sandbox and runs the program. The parent sets GOGC=off, since this process creates
// only a few hundred small objects.
func run() {
	first := uintptr(plan.Workspace + 1)
	p := read()
	if p.Work.How != plan.FromParent {
		first = plan.Workspace
	}
	if _, errno := call(sysCloseRange, first, ^uintptr(0)>>33, 0, 0, 0, 0); errno != 0 {
		fail("close_range", errno, "")
	}
	for fd := plan.Control; uintptr(fd) < first; fd++ {
		syscall.CloseOnExec(fd)
	}
	need("dumpable", prctl(syscall.PR_SET_DUMPABLE, 0, 0), "")
	syscall.Umask(0o022)
	limitWatches()
	build(p)
	must("hostname", syscall.Sethostname([]byte(p.Host)), "")
	network(p)
	confine(p)
	start(p)
}

// read maps the plan, which the parent has sealed. It stays mapped.
func read() *plan.Plan {
	var st syscall.Stat_t
	must("plan", syscall.Fstat(plan.Message, &st), "")
	b, err := syscall.Mmap(plan.Message, 0, int(st.Size), syscall.PROT_READ, syscall.MAP_PRIVATE)
	must("plan", err, "")
	p, ok := plan.Parse(b)
	if !ok || len(p.Argv) > 0 && p.Argv[0] == "" {
		fail("plan", syscall.EBADMSG, "")
	}
	return p
}
