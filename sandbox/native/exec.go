//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"metier/sandbox"
)

// notice is struct seccomp_notif: a call that waits for an answer.
type notice struct {
	id    uint64
	tid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
	_     [128]byte // later kernels may write more
}

// reply is struct seccomp_notif_resp.
type reply struct {
	id    uint64
	value int64
	errno int32
	flags uint32
	_     [128]byte // later kernels may read more
}

const (
	continues     = 1       // SECCOMP_USER_NOTIF_FLAG_CONTINUE
	atExecveCheck = 0x10000 // nothing starts
)

// execs answers the calls of a job that start programs. Only serve uses its fields while it runs.
type execs struct {
	ask     func(sandbox.Exec) (passes bool, err error)
	program []string // of the job
	first   int      // the sandbox's first process
	stop    func()   // ends the job
	log     *slog.Logger
	files   root
	origins origins
	memory  memory

	listener *os.File
	serving  sync.WaitGroup
	closing  atomic.Bool

	began   bool  // the job's own program was seen
	refused bool  // no other program may start
	failed  error // why programs cannot be checked
}

func newExecs(r *running) *execs {
	if r.job.Exec == nil {
		return nil
	}
	return &execs{ask: r.job.Exec, program: r.job.Argv, first: r.process.Pid, stop: func() { r.stop(sandbox.LimitProgram) }, log: r.log,
		origins: newOrigins(r.process.Pid), files: root{fd: -1}}
}

// watched takes the listener from a message and answers its calls.
func (r *running) watched(oob []byte) {
	fd, err := descriptor(oob)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err == nil && (r.execs == nil || r.execs.listener != nil) {
		err = errors.New("it was not requested")
	}
	if err != nil {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		err = fmt.Errorf("the listener for programs did not arrive: %w", err)
		if r.execs != nil {
			r.execs.fail(err)
			return
		}
		r.log.Error("the sandbox cannot check programs", "error", err)
		r.stop(sandbox.LimitCancelled)
		return
	}
	r.execs.listener = os.NewFile(uintptr(fd), "programs")
	if len(r.job.Argv) == 0 {
		r.execs.probe()
	}
	// Both sides wait for each other, so they should use one CPU. Kernels before 6.6 cannot do this, and
	// need up to a third longer to start a program.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	r.execs.serving.Go(r.execs.serve)
}

// probe checks, for a job without a program, that the arguments of programs could be read: nothing is
// at the address, but another error comes first.
func (e *execs) probe() {
	e.memory.of(e.first)
	_, err := e.memory.from(0)
	if errors.Is(err, unix.EFAULT) {
		err = e.files.open(e.first)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENOENT) { // it may have ended
		e.fail(err)
	}
}

// descriptor returns the descriptor that is attached to a message.
func descriptor(oob []byte) (int, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) != 1 {
		return -1, errors.Join(err, errors.New("a message without a descriptor"))
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return -1, errors.Join(err, errors.New("a message without one descriptor"))
	}
	return fds[0], nil
}

// close ends serve, after the job has ended.
func (e *execs) close() {
	if e == nil || e.listener == nil {
		return
	}
	e.closing.Store(true)
	_ = e.listener.Close() // calls that still wait fail
	e.serving.Wait()
	e.files.close()
}

// serve answers calls until the job has ended or the listener is closed.
func (e *execs) serve() {
	raw, err := e.listener.SyscallConn()
	ended, polled := false, error(nil)
	for err == nil && !ended {
		err = raw.Read(func(fd uintptr) bool {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, errno := unix.Poll(poll, 0)
			switch {
			case errno == unix.EINTR:
				return true
			case errno != nil:
				polled, ended = errno, true
				return true
			case n == 1 && poll[0].Revents&unix.POLLIN == 0: // all processes have ended
				ended = true
				return true
			case n == 0:
				return false
			}
			e.receive(fd)
			return true
		})
	}
	if err = errors.Join(err, polled); err != nil && !e.closing.Load() {
		e.fail(fmt.Errorf("wait for calls: %w", err))
	}
}

// receive answers one call.
func (e *execs) receive(fd uintptr) {
	var n notice
	switch errno := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); errno {
	case 0:
	case unix.ENOENT, unix.EINTR, unix.EAGAIN: // the process was killed
		return
	default:
		e.fail(fmt.Errorf("receive a call: %w", errno))
		return
	}
	if !e.may(fd, &n) {
		return // the call waits until the job has ended, so that nothing can react to a failure
	}
	a := reply{id: n.id, flags: continues}
	switch errno := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)); errno {
	case 0, unix.ENOENT: // or the process was killed
	default:
		e.fail(fmt.Errorf("answer a call: %w", errno))
	}
}

func ioctl(fd, request uintptr, p unsafe.Pointer) syscall.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(p))
	return errno
}

// fail ends a job whose programs cannot be checked.
func (e *execs) fail(err error) {
	e.log.Error("the sandbox cannot check programs", "error", err)
	if e.failed == nil {
		e.failed = err
	}
	e.refused = true
	e.stop()
}

// may decides whether a program may start. If it may not, the job ends. Everything about the process is read before its call is
// checked to be pending still: otherwise, it could be another process.
func (e *execs) may(fd uintptr, n *notice) bool {
	if e.refused {
		return false
	}
	c, check := callOf(n)
	if check {
		return true
	}
	x, err := e.read(c)
	origin := e.origins.of(c.tid)
	if ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.id)) != 0 {
		return false
	}
	if !e.began {
		return e.begin(x, err, origin)
	}
	if err != nil {
		x = sandbox.Exec{}
	}
	x.Direct = origin.direct
	passes, err := e.ask(x)
	if err != nil {
		e.refused = true
		e.stop()
		return false
	}
	e.origins.starts(origin, passes && origin.direct)
	return true
}

// begin allows the job's own program. If its arguments can be read, so can those of all others.
func (e *execs) begin(x sandbox.Exec, err error, o origin) bool {
	if err == nil && (len(x.Lines) == 0 || !slices.Equal(x.Lines[0], e.program) && !x.Cut) {
		err = errors.New("the arguments of the first program differ")
	}
	if err != nil {
		e.fail(err)
		return false
	}
	e.began = true
	e.origins.starts(o, true)
	return true
}

// call is what a process asks to start.
type call struct {
	tid        int
	at         int32 // descriptor of a folder, or of the file if path is empty
	path, argv uint64
	empty      bool // path may be empty
}

// callOf returns the call of a notice. check reports that the kernel only checks the file.
func callOf(n *notice) (c call, check bool) {
	c = call{tid: int(n.tid), at: unix.AT_FDCWD, path: n.args[0], argv: n.args[1]}
	if n.nr == unix.SYS_EXECVEAT {
		c.at, c.path, c.argv = int32(n.args[0]), n.args[1], n.args[2]
		c.empty, check = n.args[4]&unix.AT_EMPTY_PATH != 0, n.args[4]&atExecveCheck != 0
	}
	return c, check
}

// read returns the command lines of a program.
func (e *execs) read(c call) (x sandbox.Exec, err error) {
	e.memory.of(c.tid)
	path, cut, err := e.memory.text(c.path, unix.PathMax)
	if err != nil {
		return x, err
	}
	if cut {
		return x, unix.ENAMETOOLONG
	}
	var argv []string
	if argv, x.Cut, err = e.memory.list(c.argv); err != nil {
		return x, err
	}
	if len(argv) == 0 {
		argv = []string{""} // as the kernel does
	}
	x.Lines = [][]string{argv}
	add := func(first string) {
		if first != "" && !slices.ContainsFunc(x.Lines, func(l []string) bool { return l[0] == first }) {
			x.Lines = append(x.Lines, append([]string{first}, argv[1:]...))
		}
	}
	add(path)
	if err := e.files.open(e.first); err != nil {
		return x, err
	}
	x.Files = func(name string) ([]string, error) {
		f, err := e.files.find(call{tid: c.tid, at: unix.AT_FDCWD}, name)
		f.close()
		return f.names, err
	}
	f, err := e.files.find(c, path)
	if err != nil {
		return x, err
	}
	for _, name := range f.names {
		add(name)
	}
	if path == "" {
		path = "/dev/fd/" + strconv.Itoa(int(c.at))
	}
	words := append([]string{path}, argv[1:]...)
	for range 5 { // as many as the kernel allows
		interpreter, argument := f.interpreter, f.argument
		f.close()
		if f.loader != "" && err == nil {
			x.Loader, err = x.Files(f.loader)
		}
		if interpreter == "" || err != nil {
			return x, err
		}
		head := []string{interpreter}
		if argument != "" {
			head = append(head, argument)
		}
		words = append(head, words...)
		x.Interpreters = append(x.Interpreters, words)
		f, err = e.files.find(call{tid: c.tid, at: unix.AT_FDCWD}, interpreter)
		for _, name := range f.names {
			if name != interpreter {
				x.Interpreters = append(x.Interpreters, append([]string{name}, words[1:]...))
			}
		}
	}
	f.close()
	return x, err
}
