package gvisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"metier/sandbox"
	"metier/sandbox/gvisor/internal/guest"
	"metier/sandbox/internal/jobs"
	"metier/sandbox/internal/output"
	"metier/sandbox/internal/signals"
)

// settle is how long a sandbox may take to end after its first process.
const settle = 10 * time.Second

// patience is how long a sandbox may take to start.
const patience = time.Minute

// running is an active job.
type running struct {
	job    sandbox.Job
	work   *work
	bundle *bundle
	log    *slog.Logger

	cmd       *exec.Cmd
	noise     bytes.Buffer // output of runsc
	alive     *os.File     // closing it ends the sandbox
	status    *os.File
	out, errs *os.File
	mux       *os.File // or nil

	mu      sync.Mutex
	limit   string // the first limit that was exceeded
	over    bool
	kernel  *os.Process          // set once the program may start
	ending  bool                 // the kernel was told to end
	failure *sandbox.Unavailable // what the host lacks

	answers []guest.Answer
	done    chan struct{}  // closed when runsc has ended
	ready   chan time.Time // receives the time when the program may start
	started func()         // lets the next job start
	tasks   sync.WaitGroup
}

func (s *Sandbox) run(ctx context.Context, j sandbox.Job) (sandbox.Result, error) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return sandbox.Result{}, unavailable("platform", "this is "+runtime.GOARCH, nil)
	}
	s.swept.Do(func() { s.sweep(time.Now()) })
	s.tidy()
	if info, err := os.Stat(s.o.Path); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return sandbox.Result{}, unavailable("runsc", s.o.Path+" is not a program", err)
	}
	w, err := s.prepare(j.Workspace)
	if err != nil {
		return sandbox.Result{}, short(err)
	}
	defer w.thread.close()
	b, err := s.newBundle(j, w)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer s.discard(b.remove)
	// Starting uses a processor for a while. Waiting for a turn does not count toward the job's
	// time.
	select {
	case s.starting <- struct{}{}:
	case <-s.jobs.Ended():
		return sandbox.Result{}, jobs.ErrClosed
	case <-ctx.Done():
		return sandbox.Result{}, fmt.Errorf("the job did not start: %w", context.Cause(ctx))
	}
	r := &running{job: j, work: w, bundle: b, log: s.o.Log, done: make(chan struct{}), ready: make(chan time.Time, 1), started: sync.OnceFunc(func() { <-s.starting })}
	defer r.started()
	return r.run(ctx, s)
}

// short returns an error about missing descriptors if err is one; otherwise it returns err.
func short(err error) error {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return unavailable("file-descriptors", err.Error(), err)
	}
	return err
}

// run launches the job and waits until it ends.
func (r *running) run(ctx context.Context, s *Sandbox) (sandbox.Result, error) {
	begin := time.Now()
	ended, err := r.launch(s)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer r.closeFiles()
	full := func() { r.stop(sandbox.LimitOutput) }
	out := &output.Stream{Max: r.job.Limits.Output, To: r.job.Stdout, Flood: full, Log: r.log}
	errs := &output.Stream{Max: r.job.Limits.Output, To: r.job.Stderr, Flood: full, Log: r.log}
	var readers, serving sync.WaitGroup
	readers.Go(func() { out.Read(r.out) })
	readers.Go(func() { errs.Read(r.errs) })
	readers.Go(r.listen)
	if r.mux != nil {
		serving.Go(func() { serve(r.mux, r.job.Serve) })
	}
	begin = r.await(ctx, s.jobs.Ended(), ended, begin)
	close(r.done)
	for _, f := range []*os.File{r.out, r.errs, r.status} {
		_ = f.SetReadDeadline(time.Now().Add(settle)) // all processes with the other ends have ended or will
	}
	readers.Wait()
	if r.mux != nil {
		_ = r.mux.Close()
	}
	serving.Wait()
	r.tasks.Wait()
	if r.kernel != nil {
		_ = r.kernel.Release() // only a descriptor
	}
	result := sandbox.Result{Exit: -1, Stdout: out.Kept, Stderr: errs.Kept, StdoutTruncated: out.Truncated(), StderrTruncated: errs.Truncated(),
		Backend: Backend, Level: sandbox.L3, Wall: time.Since(begin), Notes: append([]string{NoteMemory}, r.work.notes...)}
	if os.Geteuid() != 0 {
		result.Notes = append(result.Notes, NoteRootless)
	}
	return r.judge(result)
}

// await waits for the end of the job and ends it early if needed. The job's time begins when the
// program may start; until then, patience applies. await returns the start time.
func (r *running) await(ctx context.Context, closed <-chan struct{}, ended <-chan error, begin time.Time) time.Time {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	begun := false
	for {
		select {
		case <-ended:
			return begin
		case begin = <-r.ready:
			begun = true
			timer.Reset(r.job.Limits.Wall)
			continue
		case <-timer.C:
			if begun {
				r.stop(sandbox.LimitWall)
			} else {
				r.lack(unavailable("runsc", fmt.Sprintf("it did not start within %v", patience), nil))
			}
		case <-ctx.Done():
			r.stop(sandbox.LimitCancelled)
		case <-closed:
			r.stop(sandbox.LimitCancelled)
		}
		<-ended
		return begin
	}
}

// stop ends the job; the first reason is kept. It kills gVisor's kernel, and runsc cleans up. If
// runsc does not, or has not started the kernel yet, it is killed with everything it started.
func (r *running) stop(limit string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limit == "" && !r.over {
		r.limit = limit
	}
	if r.kernel == nil || r.ending || r.kernel.Kill() != nil {
		_ = r.cmd.Process.Kill() // it may have ended
		return
	}
	r.ending = true
	r.tasks.Go(r.hurry)
}

// lack ends the job before the program starts because the host lacks a primitive.
func (r *running) lack(u *sandbox.Unavailable) {
	r.mu.Lock()
	r.failure = u
	r.mu.Unlock()
	_ = r.cmd.Process.Kill() // it may have ended
}

// listen reads the answers of the first process.
func (r *running) listen() {
	dec := json.NewDecoder(io.LimitReader(r.status, 64<<10))
	for {
		var a guest.Answer
		if dec.Decode(&a) != nil {
			return
		}
		r.answers = append(r.answers, a)
		switch {
		case a.Ended:
			r.mu.Lock()
			r.over = true
			r.mu.Unlock()
			r.tasks.Go(r.hurry)
		case a.Ready && r.kernel == nil:
			kernel, memory, err := openKernel(r.bundle.path("pid"))
			if err != nil {
				r.lack(unavailable("memory", "the memory of the sandbox cannot be watched: "+err.Error(), err))
				return
			}
			r.mu.Lock()
			r.kernel = kernel
			r.mu.Unlock()
			r.tasks.Go(func() { r.watch(memory) })
			r.started()
			r.ready <- time.Now()
			_, _ = r.alive.Write([]byte{1}) // if it has died, that is noticed elsewhere
		}
	}
}

// hurry makes sure that the sandbox ends soon after its first process.
func (r *running) hurry() {
	late := time.NewTimer(settle)
	defer late.Stop()
	select {
	case <-r.done:
	case <-late.C:
		_ = r.cmd.Process.Kill() // it may have ended
	}
}

// judge determines how the job ended.
func (r *running) judge(result sandbox.Result) (sandbox.Result, error) {
	r.mu.Lock()
	limit, failure := r.limit, r.failure
	r.mu.Unlock()
	ready := false
	var last guest.Answer
	for _, a := range r.answers {
		if a.Step != "" {
			err := fmt.Errorf("%s: %s", a.Step, a.Error)
			if a.Job {
				return sandbox.Result{}, fmt.Errorf("the job did not start: %w", err)
			}
			return sandbox.Result{}, unavailable(a.Step, a.Error, err)
		}
		ready = ready || a.Ready
		last = a
	}
	if failure != nil && limit == "" {
		return sandbox.Result{}, failure
	}
	if last.Ended {
		result.CPU, result.MaxRSS = time.Duration(last.CPU), last.RSS<<10
	}
	switch {
	case limit != "":
		result.Limit = limit
	case !ready:
		return sandbox.Result{}, diagnose(r.complaint())
	case !last.Ended:
		result.Signal = "SIGKILL" // the sandbox was killed for an unknown reason
	case last.Signal == int(syscall.SIGXCPU), last.Signal == int(syscall.SIGKILL) && result.CPU >= r.job.Limits.CPU:
		result.Limit = sandbox.LimitCPU
	case last.Signal == int(syscall.SIGXFSZ):
		result.Limit = sandbox.LimitFileSize
	case last.Signal != 0:
		result.Signal = signals.Name(syscall.Signal(last.Signal))
	default:
		result.Exit = last.Exit
	}
	return result, nil
}

// complaint returns the first line of runsc's output.
func (r *running) complaint() string {
	first, _, _ := strings.Cut(strings.TrimSpace(r.noise.String()), "\n")
	if first == "" {
		first = "runsc ended without a word"
	}
	return first[:min(len(first), 500)]
}
