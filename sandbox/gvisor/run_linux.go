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
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"metier/sandbox"
	"metier/sandbox/gvisor/internal/guest"
)

// drain: a program that writes more than Limits.Output goes on, and what comes
// after is dropped; one that writes so many times as much is ended.
const drain = 8

// settle is how long a sandbox may take to vanish after its first process.
const settle = 10 * time.Second

// running is a job under way.
type running struct {
	job    sandbox.Job
	work   *work
	bundle *bundle
	log    *slog.Logger

	cmd       *exec.Cmd
	noise     bytes.Buffer // what runsc says
	alive     *os.File     // its end is the sandbox's end
	status    *os.File
	out, errs *os.File
	mux       *os.File // or nil

	mu      sync.Mutex
	limit   string // the first that was hit
	over    bool
	failure *sandbox.Unavailable // what the host turned out to lack

	answers []guest.Answer
	done    chan struct{} // closed when runsc has ended
	tasks   sync.WaitGroup
}

func (s *Sandbox) run(ctx context.Context, j sandbox.Job) (sandbox.Result, error) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return sandbox.Result{}, unavailable("platform", "this is "+runtime.GOARCH, nil)
	}
	s.swept.Do(func() { s.sweep(time.Now()) })
	if info, err := os.Stat(s.o.Path); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return sandbox.Result{}, unavailable("runsc", s.o.Path+" is no program", err)
	}
	w, err := prepare(j.Workspace)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer w.close()
	b, err := s.newBundle(j, w)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer b.remove()
	r := &running{job: j, work: w, bundle: b, log: s.o.Log, done: make(chan struct{})}
	return r.run(ctx, s)
}

// run launches the job and stays with it to its end.
func (r *running) run(ctx context.Context, s *Sandbox) (sandbox.Result, error) {
	begin := time.Now()
	ended, err := r.launch(s)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer r.closeFiles()
	out := &capture{max: r.job.Limits.Output, to: r.job.Stdout, log: r.log}
	errs := &capture{max: r.job.Limits.Output, to: r.job.Stderr, log: r.log}
	out.flood = func() { r.stop(sandbox.LimitOutput) }
	errs.flood = out.flood
	var readers, serving sync.WaitGroup
	readers.Go(func() { out.read(r.out) })
	readers.Go(func() { errs.read(r.errs) })
	readers.Go(r.listen)
	if r.mux != nil {
		serving.Go(func() { serve(r.mux, r.job.Serve) })
	}
	r.await(ctx, s.ended, ended, begin)
	close(r.done)
	for _, f := range []*os.File{r.out, r.errs, r.status} {
		_ = f.SetReadDeadline(time.Now().Add(settle)) // all that held the other ends is gone, or will be
	}
	readers.Wait()
	if r.mux != nil {
		_ = r.mux.Close()
	}
	serving.Wait()
	r.tasks.Wait()
	result := sandbox.Result{Exit: -1, Stdout: out.kept, Stderr: errs.kept, StdoutTruncated: out.total > out.max, StderrTruncated: errs.total > errs.max,
		Backend: Backend, Level: sandbox.L3, Wall: time.Since(begin), Notes: []string{NoteMemory}}
	if os.Geteuid() != 0 {
		result.Notes = append(result.Notes, NoteRootless)
	}
	return r.judge(result)
}

// await waits for the end, and brings it about where it has to come early.
func (r *running) await(ctx context.Context, closed <-chan struct{}, ended <-chan error, begin time.Time) {
	wall := time.NewTimer(r.job.Limits.Wall - time.Since(begin))
	defer wall.Stop()
	select {
	case <-ended:
		return
	case <-wall.C:
		r.stop(sandbox.LimitWall)
	case <-ctx.Done():
		r.stop(sandbox.LimitCancelled)
	case <-closed:
		r.stop(sandbox.LimitCancelled)
	}
	<-ended
}

// stop ends the job for a reason; the first one counts. Everything runsc
// started dies with runsc.
func (r *running) stop(limit string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limit == "" && !r.over {
		r.limit = limit
	}
	_ = r.cmd.Process.Kill() // it ended by itself
}

// lack ends the job before it began, for want of a primitive.
func (r *running) lack(u *sandbox.Unavailable) {
	r.mu.Lock()
	r.failure = u
	r.mu.Unlock()
	_ = r.cmd.Process.Kill() // it ended by itself
}

// listen follows what the first process says.
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
			r.tasks.Go(func() {
				late := time.NewTimer(settle)
				defer late.Stop()
				select {
				case <-r.done:
				case <-late.C:
					r.stop("")
				}
			})
		case a.Ready:
			memory, err := openMemory(r.bundle.path("pid"))
			if err != nil {
				r.lack(unavailable("memory", "the memory of the sandbox cannot be watched: "+err.Error(), err))
				return
			}
			r.tasks.Go(func() { r.watch(memory) })
			_, _ = r.alive.Write([]byte{1}) // it died, and that is noticed elsewhere
		}
	}
}

// judge says how the job ended.
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
	if failure != nil {
		return sandbox.Result{}, failure
	}
	if last.Ended {
		result.CPU, result.MaxRSS = time.Duration(last.CPU), last.RSS<<10
	}
	switch {
	case limit != "":
		result.Limit = limit
	case !ready:
		return sandbox.Result{}, unavailable("runsc", r.complaint(), nil)
	case !last.Ended:
		result.Signal = "SIGKILL" // the sandbox itself was ended, by nobody we know
	case last.Signal == int(syscall.SIGXCPU), last.Signal == int(syscall.SIGKILL) && result.CPU >= r.job.Limits.CPU:
		result.Limit = sandbox.LimitCPU
	case last.Signal == int(syscall.SIGXFSZ):
		result.Limit = sandbox.LimitFileSize
	case last.Signal != 0:
		result.Signal = signalName(syscall.Signal(last.Signal))
	default:
		result.Exit = last.Exit
	}
	return result, nil
}

// complaint is the first thing runsc said, on one line.
func (r *running) complaint() string {
	first, _, _ := strings.Cut(strings.TrimSpace(r.noise.String()), "\n")
	if first == "" {
		first = "runsc ended without a word"
	}
	return first[:min(len(first), 500)]
}

// launch starts runsc with the job's pipes. The channel tells when it ended.
func (r *running) launch(s *Sandbox) (<-chan error, error) {
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, unavailable("self", err.Error(), err)
	}
	files := []*os.File{exe} // descriptors 3 and up of runsc
	defer func() {
		for _, f := range files {
			_ = f.Close() // runsc has its own
		}
	}()
	var in, plan *os.File
	for _, p := range []struct {
		ours  **os.File
		fromR bool // runsc reads
	}{{&plan, true}, {&r.alive, true}, {&r.status, false}, {&in, true}, {&r.out, false}, {&r.errs, false}} {
		rd, wr, err := os.Pipe()
		if err != nil {
			r.closeFiles()
			return nil, unavailable("file-descriptors", err.Error(), err)
		}
		if p.fromR {
			rd, wr = wr, rd
		}
		*p.ours, files = rd, append(files, wr)
	}
	if r.job.Serve != nil {
		pair, err := socketPair()
		if err != nil {
			r.closeFiles()
			return nil, unavailable("file-descriptors", err.Error(), err)
		}
		r.mux, files = pair[0], append(files, pair[1])
	}
	r.cmd = exec.Command(s.o.Path, r.arguments(s, len(files))...)
	r.cmd.Dir = r.bundle.dir
	r.cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + r.bundle.dir, "TMPDIR=" + r.bundle.dir, "XDG_RUNTIME_DIR=" + r.bundle.dir}
	r.cmd.Stdout, r.cmd.Stderr = &limited{w: &r.noise}, &limited{w: &r.noise}
	r.cmd.Stderr = r.cmd.Stdout
	r.cmd.ExtraFiles = files
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	r.cmd.WaitDelay = settle
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The signal at the parent's death is one at the death of this thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := r.cmd.Start()
		started <- err
		if err == nil {
			ended <- r.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		r.closeFiles()
		return nil, unavailable("runsc", err.Error(), err)
	}
	go r.feed(plan, in)
	return ended, nil
}

// feed tells the plan, then passes on the input.
func (r *running) feed(plan, in *os.File) {
	p, data := r.plan()
	if err := p.Write(plan, data); err != nil {
		r.log.Debug("the sandbox took no plan", "error", err)
	}
	_ = plan.Close()
	if r.job.Stdin != nil {
		_, _ = io.Copy(in, r.job.Stdin) // a program need not read it
	}
	_ = in.Close()
}

// arguments are runsc's. Without directfs, all that gVisor's kernel does to the
// host's files goes through another process, and it has no privilege itself; a
// network namespace for each job leaves no mount behind; and only the second
// version of control groups bounds processes (the first charges a fork to one
// of its hierarchies by chance).
func (r *running) arguments(s *Sandbox, files int) []string {
	args := []string{"--root", r.bundle.path("state"), "--platform", s.o.Platform, "--network", "none", "--ignore-cgroups", "--overlay2", "none",
		"--gofer-network-namespace", "new", "--host-uds", "none", "--host-fifo", "none", "--directfs=false", "--in-sandbox-cgroup", "v2", "--log", r.bundle.path("log")}
	if os.Geteuid() != 0 {
		args = append(args, "--rootless")
	}
	args = append(args, "run", "--bundle", r.bundle.dir, "--pid-file", r.bundle.path("pid"), "--exec-fd", strconv.Itoa(guest.ExecFD))
	for fd := guest.PlanFD; fd < guest.ExecFD+files; fd++ {
		args = append(args, "--pass-fd", fmt.Sprintf("%d:%d", fd, fd))
	}
	return append(args, "job")
}

// plan is what the first process is told, and the bytes of all files.
func (r *running) plan() (*guest.Plan, [][]byte) {
	j, l := r.job, r.job.Limits
	seconds := uint64((l.CPU + time.Second - 1) / time.Second)
	p := &guest.Plan{Argv: j.Argv, Env: j.Env, Dir: j.Dir, UID: r.work.uid, GID: r.work.gid, Guards: r.work.guards,
		Writable: j.Workspace != nil && j.Workspace.Writable, Scratch: l.Scratch, Files: l.ScratchFiles, Processes: l.Processes,
		Limits: []guest.Limit{{Resource: syscall.RLIMIT_CPU, Soft: seconds, Hard: seconds + 1}, {Resource: syscall.RLIMIT_FSIZE, Soft: uint64(l.FileSize), Hard: uint64(l.FileSize)},
			{Resource: syscall.RLIMIT_NOFILE, Soft: uint64(l.OpenFiles), Hard: uint64(l.OpenFiles)}, {Resource: syscall.RLIMIT_CORE}}}
	if p.UID == 0 {
		p.Owner = 1
	}
	for _, kv := range slices.Backward(j.Env) {
		if list, ok := strings.CutPrefix(kv, "PATH="); ok {
			p.Search = strings.Split(list, ":")
		}
	}
	switch {
	case p.Dir != "":
	case j.Workspace != nil:
		p.Dir = sandbox.WorkspaceDir
	default:
		p.Dir = sandbox.ScratchDir
	}
	if j.Serve != nil {
		p.Proxy = sandbox.ProxyAddr
	}
	var data [][]byte
	for _, t := range j.Trees {
		g := guest.Tree{Path: t.Path}
		for _, f := range t.Files {
			g.Files = append(g.Files, guest.File{Path: f.Path, Exec: f.Exec, Size: int64(len(f.Data))})
			data = append(data, f.Data)
		}
		p.Trees = append(p.Trees, g)
	}
	return p, data
}

func (r *running) closeFiles() {
	for _, f := range []*os.File{r.alive, r.status, r.out, r.errs, r.mux} {
		if f != nil {
			_ = f.Close() // pipes
		}
	}
}

// limited keeps the first 64 KiB.
type limited struct{ w *bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	l.w.Write(b[:min(len(b), max(0, 64<<10-l.w.Len()))])
	return len(b), nil
}

// capture keeps the first bytes of a stream.
type capture struct {
	max   int64
	kept  []byte
	total int64
	to    io.Writer // or nil
	flood func()    // called once there is far too much
	log   *slog.Logger
}

func (c *capture) read(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if room := min(c.max-c.total, int64(n)); room > 0 {
			c.kept = append(c.kept, buf[:room]...)
			if c.to != nil {
				if _, err := c.to.Write(buf[:room]); err != nil {
					c.log.Warn("the output of a sandbox is passed on no more", "error", err)
					c.to = nil
				}
			}
		}
		c.total += int64(n)
		if c.total > drain*c.max {
			c.flood()
		}
		if err != nil {
			return
		}
	}
}

var signals = map[syscall.Signal]string{syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGQUIT: "SIGQUIT", syscall.SIGILL: "SIGILL", syscall.SIGTRAP: "SIGTRAP",
	syscall.SIGABRT: "SIGABRT", syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE", syscall.SIGKILL: "SIGKILL", syscall.SIGUSR1: "SIGUSR1", syscall.SIGSEGV: "SIGSEGV",
	syscall.SIGUSR2: "SIGUSR2", syscall.SIGPIPE: "SIGPIPE", syscall.SIGALRM: "SIGALRM", syscall.SIGTERM: "SIGTERM", syscall.SIGSYS: "SIGSYS"}

func signalName(s syscall.Signal) string {
	if name := signals[s]; name != "" {
		return name
	}
	return "signal " + strconv.Itoa(int(s))
}

var errNoMemory = errors.New("runsc keeps no memory of that name")

// openMemory finds the file that is all memory of the sandbox.
func openMemory(pidFile string) (string, error) {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return "", err
	}
	dir := "/proc/" + strings.TrimSpace(string(text)) + "/fd"
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range list {
		name := dir + "/" + e.Name()
		if to, err := os.Readlink(name); err == nil && strings.HasPrefix(to, "/memfd:runsc-memory") {
			return name, nil
		}
	}
	return "", errNoMemory
}

// watch ends the job when it has too much memory, or none that can be seen.
func (r *running) watch(memory string) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-r.done:
			return
		case <-tick.C:
		}
		var st syscall.Stat_t
		if syscall.Stat(memory, &st) != nil {
			return // it ended
		}
		if st.Blocks*512 > r.job.Limits.Memory+base {
			r.stop(sandbox.LimitMemory)
			return
		}
	}
}

// base is what a sandbox has of memory before its program does anything.
const base = 12 << 20
