//go:build linux && (amd64 || arm64)

package native

import (
	"errors"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"metier/sandbox"
	"metier/sandbox/native/internal/plan"
)

// launched is a first process with the parent's ends of its pipes and sockets.
type launched struct {
	process        *os.Process
	control        *os.File
	stdin          *os.File // nil: the job has none
	stdout, stderr *os.File
}

func (l *launched) close() {
	for _, f := range []*os.File{l.control, l.stdin, l.stdout, l.stderr} {
		if f != nil {
			_ = f.Close() // may be closed already
		}
	}
}

// files are opened together and closed together.
type files []*os.File

func (f *files) close() {
	for _, x := range *f {
		_ = x.Close() // ends of pipes, and files that were only read
	}
	*f = nil
}

// launch starts the first process. The plan is sealed before any other process can access it.
func launch(p *plan.Plan, w *work, stdin bool) (_ *launched, err error) {
	l := &launched{}
	var child files
	defer func() {
		child.close()
		if err != nil {
			l.close()
		}
	}()
	in, err := os.Open(os.DevNull)
	if err != nil {
		return nil, primitive("file-descriptors", err)
	}
	child = append(child, in)
	if stdin {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, primitive("file-descriptors", err)
		}
		child, in, l.stdin = append(child, r), r, w
	}
	out, err := pipe(&l.stdout, &child)
	if err != nil {
		return nil, err
	}
	errs, err := pipe(&l.stderr, &child)
	if err != nil {
		return nil, err
	}
	theirs, err := controls(l)
	if err != nil {
		return nil, err
	}
	child = append(child, theirs)
	message, err := seal(p.Bytes())
	if err != nil {
		return nil, err
	}
	child = append(child, message)
	give := []*os.File{in, out, errs, theirs, message}
	if w.tree != nil {
		give = append(give, w.tree)
	}
	if err := room(in); err != nil {
		return nil, primitive("file-descriptors", err)
	}
	who := w.who.first()
	if err := spaces(who.Attributes().Cloneflags); err != nil {
		return nil, notStarted(err)
	}
	l.process, err = first(who, give)
	started.Store(err == nil)
	if err != nil {
		return nil, notStarted(err)
	}
	return l, nil
}

// room reports whether enough file descriptors are left to start a process. If the last of them is
// missing, package syscall leaks the others (see spaces).
func room(f *os.File) error {
	var taken []int
	defer func() {
		for _, fd := range taken {
			_ = unix.Close(fd) // a copy
		}
	}()
	for range 5 { // two pipes, for the error and the IDs, and the process itself
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		taken = append(taken, fd)
	}
	return nil
}

// started reports whether the last launch could create its namespaces.
var started atomic.Bool

// spaces tries to create namespaces, unless the last launch could. If a clone with IDs fails,
// package syscall leaks two descriptors (syscall.forkAndExecInChild, the pipe for the IDs). Without
// this check, a host without namespaces would leak two with each job.
func spaces(flags uintptr) error {
	if started.Load() {
		return nil
	}
	_, err := os.StartProcess("/proc/self/exe/none", []string{"none"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: flags}})
	if errors.Is(err, syscall.ENOTDIR) {
		return nil // the clone worked: only the program, which does not exist, failed
	}
	return err
}

func pipe(ours **os.File, child *files) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, primitive("file-descriptors", err)
	}
	*ours, *child = r, append(*child, w)
	return w, nil
}

// controls creates the socket that carries status messages. Closing it ends the sandbox.
func controls(l *launched) (theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, primitive("file-descriptors", err)
	}
	theirs = os.NewFile(uintptr(pair[1]), "control")
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return nil, errors.Join(err, theirs.Close(), unix.Close(pair[0]))
	}
	l.control = os.NewFile(uintptr(pair[0]), "control")
	return theirs, nil
}

// seal writes a message to memory that can no longer be changed.
func seal(b []byte) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("metier-sandbox", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("metier-sandbox", flags)
	}
	if err != nil {
		return nil, primitive("memfd", err)
	}
	f := os.NewFile(uintptr(fd), "plan")
	if _, err := f.Write(b); err != nil {
		return nil, errors.Join(primitive("memfd", err), f.Close())
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return nil, errors.Join(primitive("memfd", err), f.Close())
	}
	return f, nil
}

// primitive returns the primitive that is missing after a failed call of the parent.
func primitive(name string, err error) *sandbox.Unavailable {
	if descriptors(err) {
		name = "file-descriptors"
	}
	return unavailable(name, err.Error(), err)
}

// notStarted returns what kept the first process from starting: the namespaces or its executable.
func notStarted(err error) *sandbox.Unavailable {
	errno, _ := errors.AsType[syscall.Errno](err)
	switch {
	case descriptors(err):
		return unavailable("file-descriptors", err.Error(), err)
	case errno == unix.EAGAIN, errno == unix.ENOMEM:
		return unavailable("processes", err.Error(), err)
	case errno == unix.EACCES:
		return unavailable("executable", err.Error(), err)
	case errors.Is(err, fs.ErrNotExist):
		return unavailable("proc", err.Error(), err)
	}
	return unavailable("user-namespaces", err.Error(), err)
}
