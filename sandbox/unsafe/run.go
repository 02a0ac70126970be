package unsafe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"metier/sandbox"
)

// grace is how long output is still read once the program is gone. A process
// that left the group may hold the pipe for ever.
const grace = 200 * time.Millisecond

// run starts the program, waits for it or for a limit, and kills its group.
func (h *Host) run(ctx context.Context, j sandbox.Job, p *place) (sandbox.Result, error) {
	limits := j.Limits.Or(sandbox.DefaultLimits)
	cmd, err := p.command(j)
	if err != nil {
		return sandbox.Result{}, err
	}
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
		case <-h.end:
			e.by(sandbox.LimitCancelled)
		case <-gone:
		}
	}()
	full := func() { e.by(sandbox.LimitOutput) }
	out, errs := &capped{max: limits.Output, live: j.Stdout, full: full}, &capped{max: limits.Output, live: j.Stderr, full: full}
	var readers sync.WaitGroup
	readers.Go(func() { _, _ = io.Copy(out, s.out) })
	readers.Go(func() { _, _ = io.Copy(errs, s.errs) })
	if j.Stdin != nil {
		go func() { // not waited for: the caller's reader may never answer
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
			return sandbox.Result{}, fmt.Errorf("wait for %s: %w", j.Argv[0], err)
		}
	}
	r := sandbox.Result{Exit: -1, Limit: e.limit(), Stdout: out.buf, Stderr: errs.buf, StdoutTruncated: out.cut, StderrTruncated: errs.cut,
		Backend: Name, Level: sandbox.L0, Wall: time.Since(began), Notes: notes(),
		CPU: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), MaxRSS: maxRSS(cmd.ProcessState)}
	exit, signal := ended(cmd.ProcessState)
	if r.Limit == "" || r.Limit == sandbox.LimitOutput && signal == "" { // it ended before it was
		r.Limit, r.Exit, r.Signal = "", exit, signal
	}
	return r, nil
}

// ending is the first reason to end a program, and ends it.
type ending struct {
	mu   sync.Mutex
	why  string
	done bool // the program is gone by itself
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

// over kills what is left of the group, and nothing later ends it again.
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

// slack is how much more than a stream's limit is read, and dropped, before the
// program is ended: one that says a little too much ends by itself.
const slack = 64 << 10

// capped keeps the first max bytes of a stream and says when there are far more.
type capped struct {
	max  int64
	over int64
	buf  []byte
	cut  bool
	live io.Writer
	full func()
}

func (c *capped) Write(b []byte) (int, error) {
	keep := b
	if room := c.max - int64(len(c.buf)); int64(len(b)) > room {
		keep = b[:room]
	}
	c.buf = append(c.buf, keep...)
	if c.live != nil && len(keep) > 0 {
		_, _ = c.live.Write(keep)
	}
	c.over += int64(len(b) - len(keep))
	c.cut = c.over > 0
	if c.over > slack {
		c.full()
	}
	return len(b), nil // go on reading, so that the program is not stopped by a full pipe
}

// streams are the pipes between us and the program: our ends, and its ends
// until it has them.
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
