package unconfined

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"metier/sandbox"
	"metier/sandbox/internal/output"
)

// grace is how long output is read after the program has ended. A process that left the group may
// hold the pipe open indefinitely.
const grace = 200 * time.Millisecond

// run starts the program, waits for it or for a limit, and kills its process group.
func (h *Host) run(ctx context.Context, j sandbox.Job, p *location) (sandbox.Result, error) {
	limits := j.Limits.Or(sandbox.DefaultLimits)
	cmd, begun, err := p.command(j)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer begun()
	s := &streams{}
	defer s.close()
	if err := s.open(cmd, j.Stdin != nil); err != nil {
		return sandbox.Result{}, err
	}
	ownGroup(cmd)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return sandbox.Result{}, fmt.Errorf("start %s: %w", j.Argv[0], err)
	}
	s.started()
	e := &ending{kill: func() { killGroup(cmd) }}
	wall := time.AfterFunc(limits.Wall, func() { e.by(sandbox.LimitWall) })
	defer wall.Stop()
	defer context.AfterFunc(ctx, func() { e.by(sandbox.LimitCancelled) })()
	gone := make(chan struct{})
	go func() {
		select {
		case <-h.jobs.Ended():
			e.by(sandbox.LimitCancelled)
		case <-gone:
		}
	}()
	full, log := func() { e.by(sandbox.LimitOutput) }, slog.New(slog.DiscardHandler)
	out, errs := &output.Stream{Max: limits.Output, To: j.Stdout, Flood: full, Log: log}, &output.Stream{Max: limits.Output, To: j.Stderr, Flood: full, Log: log}
	var readers sync.WaitGroup
	readers.Go(func() { out.Read(s.out) })
	readers.Go(func() { errs.Read(s.errs) })
	if j.Stdin != nil {
		go func() { // not waited for: the caller's reader may block forever
			_, _ = io.Copy(s.in, j.Stdin)
			_ = s.in.Close()
		}()
	}
	err = wait(cmd, e.over)
	close(gone)
	late := time.Now().Add(grace)
	_, _ = s.out.SetReadDeadline(late), s.errs.SetReadDeadline(late)
	readers.Wait()
	if err != nil {
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			return sandbox.Result{}, &sandbox.Lost{Err: fmt.Errorf("wait for %s: %w", j.Argv[0], err)}
		}
	}
	r := sandbox.Result{Exit: -1, Limit: e.limit(), Stdout: out.Kept, Stderr: errs.Kept, StdoutTruncated: out.Truncated(), StderrTruncated: errs.Truncated(),
		Backend: Name, Level: sandbox.L0, Wall: time.Since(began), Notes: notes(),
		CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), MaxRSS: maxRSS(cmd.ProcessState)}
	exit, signal := ended(cmd.ProcessState)
	if r.Limit == "" || r.Limit == sandbox.LimitOutput && signal == "" { // it ended before the limit took effect
		r.Limit, r.Exit, r.Signal = "", exit, signal
	}
	return r, nil
}

// ending ends a program and keeps the first reason.
type ending struct {
	mu   sync.Mutex
	why  string
	done bool // the program has ended by itself
	kill func()
}

func (e *ending) by(why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done || e.why != "" {
		return
	}
	e.why = why
	e.kill()
}

// over kills the rest of the group. After it, the program cannot be ended again.
func (e *ending) over() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done = true
	e.kill()
}

func (e *ending) limit() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.why
}

// streams are the pipes between this process and the program: our ends, and the program's ends
// until it has started.
type streams struct {
	in, out, errs *os.File
	theirs        []*os.File
}

func (s *streams) open(cmd *exec.Cmd, stdin bool) (err error) {
	pipe := func(ours **os.File, write bool) (*os.File, error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		if write {
			*ours = w
			s.theirs = append(s.theirs, r)
			return r, nil
		}
		*ours = r
		s.theirs = append(s.theirs, w)
		return w, nil
	}
	out, err := pipe(&s.out, false)
	if err != nil {
		return err
	}
	errs, err := pipe(&s.errs, false)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = out, errs
	if !stdin {
		return nil
	}
	in, err := pipe(&s.in, true)
	cmd.Stdin = in
	return err
}

func (s *streams) started() {
	for _, f := range s.theirs {
		_ = f.Close()
	}
	s.theirs = nil
}

func (s *streams) close() {
	s.started()
	for _, f := range []*os.File{s.in, s.out, s.errs} {
		if f != nil {
			_ = f.Close()
		}
	}
}
