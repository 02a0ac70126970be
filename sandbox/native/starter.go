//go:build linux && (amd64 || arm64)

package native

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"metier/sandbox/native/internal/pid1"
	"metier/sandbox/native/internal/plan"
)

// A clone copies the page tables of the process, which are large if it uses much memory. The first
// launches of a small process clone the process itself: most commands launch once or twice, and
// starting the starter takes half as long as a launch.
const (
	clones      = 2   // number of launches
	smallTables = 512 // kB
)

var (
	launches atomic.Int64 // of this process
	cloned   atomic.Int64 // launches that cloned this process
	helper   starter
)

// first starts a first process, using the starter if that is faster.
func first(who pid1.IDs, give []*os.File) (*os.Process, error) {
	n := launches.Add(1)
	// After a failed launch, only a clone of this process reports the reason and leaks nothing.
	if started.Load() && (n > clones || tables() > smallTables) {
		if p, err, served := helper.start(who, give); served {
			return p, err
		}
	}
	cloned.Add(1)
	return os.StartProcess("/proc/self/exe", []string{plan.Marker}, &os.ProcAttr{Env: pid1.Env, Files: give, Sys: who.Attributes()})
}

// tables returns the size of this process's page tables in kB, or 0 if it is unknown.
func tables() int {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(b, []byte("\nVmPTE:"))
	kB, _, _ := bytes.Cut(rest, []byte(" kB"))
	n, err := strconv.Atoi(string(bytes.TrimSpace(kB)))
	if err != nil {
		return 0
	}
	return n
}

// starter is a small process that starts first processes for this one, which remains their parent.
// It starts when it is first needed, serves all sandboxes of the process, and ends with it.
type starter struct {
	mu      sync.Mutex
	control *os.File // nil: not running
	process *os.Process
	failed  bool // could not be started
}

// start requests a first process. served is false if the starter is unavailable.
func (s *starter) start(who pid1.IDs, give []*os.File) (p *os.Process, err error, served bool) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err, true
	}
	defer r.Close()
	control, err := s.ask(who, append(append([]*os.File{}, give...), w))
	_ = w.Close() // the starter has its own
	if err != nil {
		return nil, err, false
	}
	b, err := io.ReadAll(r)
	if err != nil || len(b) == 0 { // the starter ended
		s.forget(control)
		return nil, err, false
	}
	pid, err := pid1.Started(b)
	if err != nil {
		return nil, err, true
	}
	p, err = os.FindProcess(pid)
	return p, err, true
}

// ask sends a request to the starter.
func (s *starter) ask(who pid1.IDs, give []*os.File) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.run(); err != nil {
		return nil, err
	}
	fds := make([]int, len(give))
	for i, f := range give {
		fds[i] = int(f.Fd())
	}
	for {
		err := unix.Sendmsg(int(s.control.Fd()), who.Bytes(), unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			s.end()
		}
		return s.control, err
	}
}

var errNoStarter = errors.New("there is no starter")

// run starts the starter unless it is running. The caller holds mu.
func (s *starter) run() error {
	if s.control != nil {
		return nil
	}
	if s.failed {
		return errNoStarter
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "starter"), os.NewFile(uintptr(pair[1]), "starter")
	defer theirs.Close()
	p, err := os.StartProcess("/proc/self/exe", []string{plan.Starter}, &os.ProcAttr{
		Env: []string{plan.Starter + "=", "GOMAXPROCS=1"}, Files: []*os.File{null, null, null, theirs}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		s.failed = true
		return errors.Join(err, ours.Close())
	}
	s.control, s.process = ours, p
	return nil
}

// forget ends the starter if it still uses this control socket.
func (s *starter) forget(control *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.control == control {
		s.end()
	}
}

// end abandons a starter that does not answer. No other one is started. The caller holds mu.
func (s *starter) end() {
	_ = s.control.Close() // it may be closed
	_ = s.process.Kill()
	_, _ = s.process.Wait()
	s.control, s.process, s.failed = nil, nil, true
}
