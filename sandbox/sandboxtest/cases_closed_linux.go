package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"metier/sandbox"
)

// primitive is one kernel feature and how a test takes it away: by a limit or a
// filter above the backend, never by an option of the backend.
type primitive struct {
	name string
	take func(s *spec) error
}

// primitives are the kernel features that are taken away, one at a time. Without
// one it needs, a backend must run nothing.
func primitives() []primitive {
	limit := func(kind string) func(*spec) error {
		return func(*spec) error { return os.WriteFile("/proc/sys/user/max_"+kind+"_namespaces", []byte("0"), 0) }
	}
	refuse := func(errno unix.Errno, calls ...uint32) func(*spec) error {
		return func(*spec) error { return refuseCalls(errno, 0, calls...) }
	}
	return []primitive{
		{"user-namespaces", limit("user")},
		{"mount-namespaces", limit("mnt")},
		{"pid-namespaces", limit("pid")},
		{"network-namespaces", limit("net")},
		{"ipc-namespaces", limit("ipc")},
		{"uts-namespaces", limit("uts")},
		{"cgroup-namespaces", limit("cgroup")},
		{"landlock", refuse(unix.ENOSYS, unix.SYS_LANDLOCK_CREATE_RULESET)},
		{"landlock-rules", refuse(unix.EPERM, unix.SYS_LANDLOCK_ADD_RULE)},
		{"landlock-restrict", refuse(unix.EPERM, unix.SYS_LANDLOCK_RESTRICT_SELF)},
		{"seccomp", func(*spec) error {
			if err := refuseCalls(unix.EPERM, unix.PR_SET_SECCOMP, unix.SYS_PRCTL); err != nil {
				return err
			}
			return refuseCalls(unix.EPERM, 0, unix.SYS_SECCOMP)
		}},
		{"no-new-privs", func(*spec) error { return refuseCalls(unix.EPERM, unix.PR_SET_NO_NEW_PRIVS, unix.SYS_PRCTL) }},
		{"bounding-set", func(*spec) error { return refuseCalls(unix.EPERM, unix.PR_CAPBSET_DROP, unix.SYS_PRCTL) }},
		{"mount", refuse(unix.EPERM, unix.SYS_MOUNT)},
		{"pivot-root", refuse(unix.EPERM, unix.SYS_PIVOT_ROOT)},
		{"umount", refuse(unix.EPERM, unix.SYS_UMOUNT2)},
		{"open-tree", refuse(unix.ENOSYS, unix.SYS_OPEN_TREE)},
		{"move-mount", refuse(unix.ENOSYS, unix.SYS_MOVE_MOUNT)},
		{"mount-setattr", refuse(unix.ENOSYS, unix.SYS_MOUNT_SETATTR)},
		{"openat2", refuse(unix.ENOSYS, unix.SYS_OPENAT2)},
		{"memfd", refuse(unix.ENOSYS, unix.SYS_MEMFD_CREATE)},
		{"close-range", refuse(unix.ENOSYS, unix.SYS_CLOSE_RANGE)},
		{"pidfd", refuse(unix.ENOSYS, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL)},
		{"rlimits", refuse(unix.EPERM, unix.SYS_PRLIMIT64, unix.SYS_SETRLIMIT)},
		{"proc", maskProc},
		{"descriptors", nil}, // the judge takes these away itself
	}
}

// refuseCalls installs a filter that answers calls with errno, either all of
// them or those with the given first argument.
func refuseCalls(errno unix.Errno, first uint32, calls ...uint32) error {
	const ld, jeq, ret, fail = 0x20, 0x15, 0x06, 0x00050000
	prog := []unix.SockFilter{{Code: ld, K: 0}}
	for _, nr := range calls {
		if first == 0 {
			prog = append(prog, unix.SockFilter{Code: jeq, Jf: 1, K: nr}, unix.SockFilter{Code: ret, K: fail | uint32(errno)})
			continue
		}
		prog = append(prog, unix.SockFilter{Code: jeq, Jf: 4, K: nr}, unix.SockFilter{Code: ld, K: 16}, unix.SockFilter{Code: jeq, Jf: 1, K: first},
			unix.SockFilter{Code: ret, K: fail | uint32(errno)}, unix.SockFilter{Code: ld, K: 0})
	}
	prog = append(prog, unix.SockFilter{Code: ret, K: allow})
	p := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, e := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p)))
	runtime.KeepAlive(prog)
	if e != 0 {
		return e
	}
	return nil
}

// maskProc covers files in /proc, as containers do. No namespace below can then
// mount its own /proc.
func maskProc(*spec) error {
	if err := unix.Mount("/dev/null", "/proc/kallsyms", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("mask", "/proc/tty", "tmpfs", unix.MS_RDONLY, "")
}

// Cases 123 to 126: a backend that lacks what it needs runs nothing, and
// invalid jobs do not run. Malformed grant files (124) are tested where they
// are read, builds for other architectures (125) next to the backend.
func closedWays() []way {
	list := []way{
		{number: 124, name: "invalid jobs", careless: true, do: (*cell).nonsense},
		{number: 125, name: "architectures without a table", kernel: "one machine has one", golden: refusesArchitectures, do: func(c *cell) { c.run(c.attack("ok", "here")) }},
		{number: 126, name: "a failed probe is not cached", by: "too little time", careless: true, do: (*cell).probeTime},
		{number: 126, name: "a failed probe is not cached", by: "too few descriptors", careless: true, do: (*cell).probeAgain},
	}
	for _, p := range primitives() {
		w := way{number: 123, name: "without", by: p.name, careless: true, nested: true, prepare: p.take, do: func(c *cell) { c.without(p.name) }}
		if p.name == "descriptors" {
			w.do = (*cell).fewDescriptors
		}
		list = append(list, w)
	}
	return list
}

// places are the folders where a failed start might leave something.
var places = []string{"/tmp", "/dev/shm", "/run"}

// effect returns a job that leaves a mark in the workspace and on stdout.
func (c *cell) effect() (j sandbox.Job, happened func(r sandbox.Result) bool) {
	j, written := c.writes()
	return j, func(r sandbox.Result) bool { return written() || len(r.Stdout) > 0 }
}

func (c *cell) without(name string) {
	j, happened := c.effect()
	report := c.box.Probe(context.Background())
	r, err := c.try(context.Background(), j)
	var u *sandbox.Unavailable
	errors.As(err, &u)
	if !c.spec.Control && !slices.Contains(c.options.Needs, name) {
		if err != nil || r.Exit != 0 || !happened(r) || r.Level < c.level() {
			c.broken("%s is not required, but without it: exit %d, level %v, %v, %q", name, r.Exit, r.Level, err, short(r.Stderr))
		}
		return
	}
	if happened(r) {
		c.harm("the job ran, at %v", r.Level)
	}
	switch {
	case u == nil:
		c.broken("got error %v, exit %d; want *sandbox.Unavailable", err, r.Exit)
	case u.Missing.Primitive == "" || u.Missing.Detail == "":
		c.broken("the error names no primitive: %+v", u)
	case report.Available:
		c.broken("the probe reports that it can run")
	case !slices.ContainsFunc(report.Missing, func(m sandbox.Missing) bool { return m.Primitive == u.Missing.Primitive }):
		c.broken("the probe reports %v as missing, the job %s", report.Missing, u.Missing.Primitive)
	default:
		c.log("refused: %v", u)
		if !related(name, u.Missing.Primitive) {
			c.broken("%s was taken away, but the error names %s", name, u.Missing.Primitive)
		}
	}
}

// failedStarts starts a job repeatedly while no namespace can be created.
func (c *cell) failedStarts() {
	before := holdingsNow(places)
	for range 10 {
		j := c.attack("ok", "here")
		j.MinLevel = c.level()
		if _, err := c.box.Run(context.Background(), j); err == nil {
			c.broken("the job started")
		}
	}
	for _, l := range leaked(before, places, c.patience()) {
		c.harm("left behind by failed starts: %s", l)
	}
}

// related reports whether the name of a missing primitive matches what was
// taken away: one has to contain the other.
func related(took, named string) bool {
	key := func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(s), "-", ""), "_", "")
	}
	a, b := key(took), key(named)
	if strings.Contains(a, b) || strings.Contains(b, a) {
		return true
	}
	// The kernel gives one answer for all namespaces, and many calls create mounts.
	groups := [][]string{{"namespaces"}, {"mount", "umount", "pivotroot", "opentree", "movemount", "mountsetattr"}, {"landlock"},
		{"privileges", "boundingset", "nonewprivs", "capabilities"}, {"limits", "rlimits"}}
	for _, g := range groups {
		in := func(s string) bool {
			return slices.ContainsFunc(g, func(w string) bool { return strings.Contains(s, w) })
		}
		if in(a) && in(b) {
			return true
		}
	}
	return false
}

// fewDescriptors lowers the descriptor limit step by step, so that each place
// that opens a descriptor fails once.
func (c *cell) fewDescriptors() {
	var old unix.Rlimit
	c.must(unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	ran, refused := 0, 0
	last := ""
	before := holdingsNow(places)
	for more := range 60 {
		j, happened := c.effect()
		open, err := os.ReadDir("/proc/self/fd")
		c.must(err)
		n := uint64(len(open) + more - 8)
		c.must(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: old.Max}))
		j.MinLevel = c.level()
		r, err := c.box.Run(context.Background(), j)
		c.must(unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
		var u *sandbox.Unavailable
		switch {
		case err == nil && r.Exit == 0 && happened(r) && r.Level >= c.level():
			ran++
		case err != nil && happened(r):
			c.harm("with %d descriptors the job failed but had an effect: %v", n, err)
		case err == nil:
			c.broken("with %d descriptors: exit %d %s %s, %q", n, r.Exit, r.Signal, r.Limit, short(r.Stderr))
		case !errors.As(err, &u):
			c.broken("with %d descriptors: got error %v; want *sandbox.Unavailable", n, err)
		default:
			refused++
			last = u.Error()
		}
	}
	c.log("ran %d times, refused %d times, last: %s", ran, refused, last)
	if !c.spec.Control {
		for _, l := range leaked(before, places, c.patience()) {
			c.broken("left behind by failed starts: %s", l)
		}
	}
	if ran == 0 || refused == 0 {
		c.broken("ran %d times, refused %d times: want both more than once", ran, refused)
	}
}

// nonsense runs invalid jobs, which every backend has to refuse before it does
// anything.
func (c *cell) nonsense() {
	edits := map[string]func(*sandbox.Job){
		"no program":                  func(j *sandbox.Job) { j.Argv = nil },
		"a program that is not there": func(j *sandbox.Job) { j.Argv = []string{"/no/such/program"} },
		"a file that is no program":   func(j *sandbox.Job) { j.Argv = []string{attackTree + "/data"} },
		"a tree outside":              func(j *sandbox.Job) { j.Trees[0].Path = "/usr/lib/x" },
		"a tree that climbs":          func(j *sandbox.Job) { j.Trees[0].Path = "/skills/../tmp" },
		"a file that climbs":          func(j *sandbox.Job) { j.Trees[0].Files[1].Path = "../../../home/victim/.bashrc" },
		"a file twice":                func(j *sandbox.Job) { j.Trees[0].Files = append(j.Trees[0].Files, j.Trees[0].Files[1]) },
		"a folder that is not there":  func(j *sandbox.Job) { j.Dir = "/no/such/folder" },
		"a folder of the host":        func(j *sandbox.Job) { j.Dir = "/home/victim" },
		"a variable without a value":  func(j *sandbox.Job) { j.Env = append(j.Env, "NOVALUE") },
		"a workspace that is absent":  func(j *sandbox.Job) { j.Workspace.Host = "/no/such/workspace" },
		"a workspace that is a file":  func(j *sandbox.Job) { j.Workspace.Host = guarded[0] },
		"a workspace that is a link": func(j *sandbox.Job) {
			c.must(os.Symlink("/home/victim", "/home/victim/link"))
			j.Workspace.Host = "/home/victim/link"
		},
		"protection that climbs": func(j *sandbox.Job) { j.Workspace.ReadOnly = []string{"../x"} },
		"hiding that climbs":     func(j *sandbox.Job) { j.Workspace.Hidden = []string{"/etc"} },
		"a negative limit":       func(j *sandbox.Job) { j.Limits.Wall = -1 },
	}
	for name, edit := range edits {
		j, happened := c.effect()
		edit(&j)
		if j.Limits.Wall == 0 {
			j.Limits.Wall = sandbox.DefaultLimits.Wall
		}
		r, err := c.try(context.Background(), j)
		if happened(r) {
			c.harm("%s: the job ran", name)
		}
		if err == nil {
			c.broken("%s: no error, exit %d %q", name, r.Exit, short(r.Stderr))
		}
	}
	if !same("/home/victim/.bashrc", "# as it was\n") {
		c.harm("a host file changed")
	}
}

func (c *cell) probeTime() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r := c.box.Probe(ctx); r.Available {
		c.broken("a probe with a canceled context reports that it can run: %+v", r)
	}
	c.probed(true)
}

func (c *cell) probed(want bool) {
	r := c.box.Probe(context.Background())
	c.log("%+v", r)
	if r.Available != want {
		c.broken("the probe reports %v: %+v", r.Available, r)
	}
	if !want && (len(r.Missing) == 0 || r.Missing[0].Primitive == "") {
		c.broken("the probe does not name what is missing: %+v", r)
	}
}

// probeAgain takes descriptors away and gives them back.
func (c *cell) probeAgain() {
	var old unix.Rlimit
	c.must(unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	few := &unix.Rlimit{Cur: 6, Max: old.Max}
	for i := range 2 {
		j, happened := c.effect()
		j.MinLevel = c.level()
		c.must(unix.Setrlimit(unix.RLIMIT_NOFILE, few))
		if i == 0 { // a successful probe may be cached
			c.probed(false)
		}
		r, err := c.box.Run(context.Background(), j)
		c.must(unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
		if err == nil || happened(r) {
			c.harm("the job ran without descriptors: %v", err)
		}
		c.probed(true)
		j, happened = c.effect()
		if r, err := c.try(context.Background(), j); err != nil || !happened(r) || !bytes.Contains(r.Stdout, []byte("WROTE")) {
			c.broken("the job does not run with descriptors: %v, %+v", err, r)
		}
	}
}
