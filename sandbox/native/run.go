//go:build linux && (amd64 || arm64)

package native

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"metier/sandbox"
	"metier/sandbox/internal/filter"
	"metier/sandbox/internal/jobs"
	"metier/sandbox/internal/output"
	"metier/sandbox/internal/signals"
	"metier/sandbox/native/internal/plan"
)

// Sandbox runs jobs in separate namespaces. It is safe for concurrent use.
type Sandbox struct {
	visible []string
	log     *slog.Logger
	filter  []byte
	starts  []byte // the filter for jobs with Exec
	holders holders

	jobs *jobs.Group

	probing sync.Mutex // held by Probe

	mu     sync.Mutex      // guards the fields below
	ids    *ids            // nil: not known yet
	report *sandbox.Report // of the last successful probe
}

func (s *Sandbox) init() {
	s.jobs = jobs.New()
	if p, ok := filter.Program(runtime.GOARCH); ok {
		s.filter = filter.Bytes(p)
	}
	if p, ok := filter.Starts(runtime.GOARCH); ok {
		s.starts = filter.Bytes(p)
	}
}

// Close ends all jobs, waits for them, and releases all resources.
func (s *Sandbox) Close() error {
	s.jobs.Close()
	return s.holders.close()
}

// Run runs one job; see sandbox.Sandbox. A blocked writer of the job delays the result, since all
// kept output is written to it.
func (s *Sandbox) Run(ctx context.Context, j sandbox.Job) (sandbox.Result, error) {
	if err := j.Check(); err != nil {
		return sandbox.Result{}, err
	}
	if j.MinLevel > sandbox.L2 {
		return sandbox.Result{}, unavailable("level", fmt.Sprintf("%s is required, but this sandbox provides only %s", j.MinLevel, sandbox.L2), nil)
	}
	return s.run(ctx, j)
}

// run implements Run. The job may have no program, which makes it a probe.
func (s *Sandbox) run(ctx context.Context, j sandbox.Job) (sandbox.Result, error) {
	leave, err := s.jobs.Enter(ctx)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer leave()
	if s.filter == nil {
		return sandbox.Result{}, unavailable("platform", "there is no system call filter for "+runtime.GOARCH, nil)
	}
	j.Limits = j.Limits.Or(sandbox.DefaultLimits)
	who, err := s.who()
	if err != nil {
		return sandbox.Result{}, err
	}
	w, err := s.prepare(j, who)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer w.close()
	begin := time.Now()
	l, err := launch(s.planOf(j, w), w, j.Stdin != nil)
	if err != nil {
		return sandbox.Result{}, err
	}
	r := &running{launched: l, job: j, begin: begin, log: s.log, starts: make(chan struct{}), done: make(chan struct{})}
	r.execs = newExecs(r)
	defer l.close()
	return r.wait(ctx, s.jobs.Ended(), w.notes)
}

// who returns the IDs of programs. It does not cache a failure.
func (s *Sandbox) who() (ids, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		i, err := currentIDs()
		if err != nil {
			return ids{}, err
		}
		s.ids = &i
	}
	return *s.ids, nil
}

// running is a launched job.
type running struct {
	*launched
	job   sandbox.Job
	begin time.Time // when the program started; before that, when it was launched
	log   *slog.Logger

	starts chan struct{} // closed when the program is about to start
	done   chan struct{} // closed when the first process ended

	mu    sync.Mutex
	limit string        // the first limit that was exceeded
	cpu   time.Duration // of all processes, when last measured
	seen  seen          // used only by watch

	answers  []plan.Answer
	listener net.Listener
	serving  sync.WaitGroup
	execs    *execs // nil: programs are not checked
}

// stop ends the job; the first reason is kept.
func (r *running) stop(limit string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limit == "" {
		r.limit = limit
		_ = r.process.Kill() // it may have ended
	}
}

func (r *running) wait(ctx context.Context, closed <-chan struct{}, notes []string) (sandbox.Result, error) {
	full := func() { r.stop(sandbox.LimitOutput) }
	out := &output.Stream{Max: r.job.Limits.Output, To: r.job.Stdout, Flood: full, Log: r.log}
	errs := &output.Stream{Max: r.job.Limits.Output, To: r.job.Stderr, Flood: full, Log: r.log}
	var reading, watching sync.WaitGroup
	reading.Go(func() { out.Read(r.stdout) })
	reading.Go(func() { errs.Read(r.stderr) })
	watching.Go(func() { r.watch(ctx, closed) })
	if r.stdin != nil {
		go func() { // may block forever in the caller's reader
			_, _ = io.Copy(r.stdin, r.job.Stdin) // a program need not read its input
			_ = r.stdin.Close()
		}()
	}
	r.listen()
	state, err := r.process.Wait()
	close(r.done)
	if r.listener != nil {
		_ = r.listener.Close() // Serve may have closed it
	}
	reading.Wait()
	watching.Wait()
	r.serving.Wait()
	r.execs.close()
	wall := time.Since(r.begin)
	if err != nil {
		return sandbox.Result{}, &sandbox.Lost{Err: fmt.Errorf("wait for the sandbox: %w", err)}
	}
	result, err := r.result(ctx, state)
	if err != nil {
		return sandbox.Result{}, err
	}
	result.Stdout, result.StdoutTruncated = out.Kept, out.Truncated()
	result.Stderr, result.StderrTruncated = errs.Kept, errs.Truncated()
	result.Wall, result.Notes = wall, append(slices.Clone(notes), NoteMemory)
	return result, nil
}

// messages is more than a first process ever sends.
const messages = 16

// listen receives the first process's messages until it ends.
func (r *running) listen() {
	raw, err := r.control.SyscallConn()
	if err != nil {
		r.log.Error("the sandbox's first process cannot be heard", "error", err)
		r.stop(sandbox.LimitCancelled)
		return
	}
	buf, oob := make([]byte, 8<<10), make([]byte, 64)
	started := false
	for {
		var n, oobn int
		var err error
		wait := raw.Read(func(fd uintptr) bool {
			n, oobn, _, _, err = unix.Recvmsg(int(fd), buf, oob, unix.MSG_CMSG_CLOEXEC)
			return err != unix.EAGAIN && err != unix.EINTR
		})
		if wait != nil || err != nil || n == 0 || len(r.answers) == messages {
			return
		}
		a, ok := plan.ParseAnswer(buf[:n])
		if !ok {
			continue
		}
		r.answers = append(r.answers, a)
		switch {
		case a.Kind == plan.Listens:
			r.serve(oob[:oobn])
		case a.Kind == plan.Watched:
			r.watched(oob[:oobn])
		case a.Kind == plan.Starting && !started:
			started, r.begin = true, time.Now()
			close(r.starts)
		}
	}
}

// serve passes the listener to the job's Serve.
func (r *running) serve(oob []byte) {
	var ln net.Listener
	fd, err := descriptor(oob)
	if err == nil {
		f := os.NewFile(uintptr(fd), "listener")
		if r.job.Serve != nil {
			ln, err = net.FileListener(f)
		}
		_ = f.Close() // the listener has its own
	}
	if ln == nil {
		r.log.Error("the sandbox's listener did not arrive", "error", err)
		r.stop(sandbox.LimitCancelled)
		return
	}
	r.listener = ln
	r.serving.Go(func() { r.job.Serve(ln) })
}

// result determines how the job ended.
func (r *running) result(ctx context.Context, state *os.ProcessState) (sandbox.Result, error) {
	result := sandbox.Result{Exit: -1, Backend: Backend, Level: sandbox.L2}
	var end *plan.Answer
	started := false
	for i, a := range r.answers {
		switch a.Kind {
		case plan.Failed:
			return sandbox.Result{}, failed(a)
		case plan.Refused:
			return sandbox.Result{}, refused(a)
		case plan.Starting:
			started = true
		case plan.Ended:
			end = &r.answers[i]
		}
	}
	switch {
	case r.execs != nil && r.execs.failed != nil && r.execs.began:
		return sandbox.Result{}, &sandbox.Lost{Err: r.execs.failed}
	case r.execs != nil && r.execs.failed != nil:
		return sandbox.Result{}, unavailable(plan.Watching, r.execs.failed.Error(), r.execs.failed)
	case end != nil && r.limit == sandbox.LimitProgram:
		result.CPU, result.MaxRSS, result.Limit = time.Duration(end.CPU)*time.Microsecond, int64(end.RSS)<<10, r.limit
	case end != nil:
		result.CPU, result.MaxRSS = time.Duration(end.CPU)*time.Microsecond, int64(end.RSS)<<10
		r.ended(&result, end)
	case !started && r.limit == sandbox.LimitCancelled && ctx.Err() != nil:
		return sandbox.Result{}, fmt.Errorf("the job did not start: %w", context.Cause(ctx))
	case !started && r.limit == sandbox.LimitWall:
		return sandbox.Result{}, unavailable("first-process", "it was not there after "+patience.String(), nil)
	case !started:
		return sandbox.Result{}, unavailable("first-process", "it ended before the program began: "+state.String(), nil)
	case r.limit != "":
		result.Limit = r.limit
		result.CPU = max(r.cpu, state.UserTime()+state.SystemTime())
	default:
		result.Signal = signals.Name(killer(state))
		result.CPU = max(r.cpu, state.UserTime()+state.SystemTime())
	}
	return result, nil
}

// ended fills in how the program ended by itself or by a kernel limit.
func (r *running) ended(result *sandbox.Result, end *plan.Answer) {
	signal := syscall.Signal(end.Signal)
	switch {
	case signal == 0:
		result.Exit = int(end.Code)
	case signal == unix.SIGXCPU, signal == unix.SIGKILL && result.CPU >= r.job.Limits.CPU:
		result.Limit = sandbox.LimitCPU
	case signal == unix.SIGXFSZ:
		result.Limit = sandbox.LimitFileSize
	default:
		result.Signal = signals.Name(signal)
	}
}

// killer returns the signal that ended the first process.
func killer(state *os.ProcessState) syscall.Signal {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return ws.Signal()
	}
	return syscall.SIGKILL
}

func failed(a plan.Answer) error {
	errno := syscall.Errno(a.Errno)
	detail := errno.Error() + " (" + unix.ErrnoName(errno) + ")"
	if a.Detail != "" {
		detail = a.Detail + ": " + detail
	}
	name := a.Step
	if descriptors(errno) {
		name, detail = "file-descriptors", a.Step+": "+detail
	}
	return unavailable(name, detail, errno)
}

func refused(a plan.Answer) error {
	return fmt.Errorf("%s: %s: %w", a.Step, a.Detail, syscall.Errno(a.Errno))
}
