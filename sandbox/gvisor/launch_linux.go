package gvisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"metier/sandbox"
	"metier/sandbox/gvisor/internal/guest"
)

// launch starts runsc with the job's pipes. The channel receives its result.
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
		fromR bool // read by runsc
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
	noise := &limited{w: &r.noise}
	r.cmd.Stdout, r.cmd.Stderr = noise, noise // same writer: written by one goroutine
	r.cmd.ExtraFiles = files
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	r.cmd.WaitDelay = settle
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The thread's mounts are the sandbox's. When it ends, the parent-death signal is sent.
		err := r.work.thread.do(r.cmd.Start)
		started <- err
		if err == nil {
			ended <- r.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		r.closeFiles()
		if err = short(err); errors.As(err, new(*sandbox.Unavailable)) {
			return nil, err
		}
		return nil, diagnose(err.Error())
	}
	go r.feed(plan, in)
	return ended, nil
}

// feed sends the plan, then copies the input.
func (r *running) feed(plan, in *os.File) {
	p, data := r.plan()
	if err := p.Write(plan, data); err != nil {
		r.log.Debug("the sandbox took no plan", "error", err)
	}
	_ = plan.Close()
	if r.job.Stdin != nil {
		_, _ = io.Copy(in, r.job.Stdin) // a program need not read its input
	}
	_ = in.Close()
}

// arguments returns the arguments of runsc. Without directfs, gVisor's kernel accesses the host's
// files only through a separate process and has no privileges itself. A network namespace for each
// job leaves no mount behind. Only cgroup v2 limits processes reliably; v1 charges a fork to an
// arbitrary hierarchy.
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

// plan returns the plan for the first process, and the contents of all files.
func (r *running) plan() (*guest.Plan, [][]byte) {
	j, l := r.job, r.job.Limits
	seconds := uint64((l.CPU + time.Second - 1) / time.Second)
	p := &guest.Plan{Argv: j.Argv, Env: j.Env, Search: j.Search(), Dir: j.Start(), UID: r.work.uid, GID: r.work.gid, Guards: r.work.guards,
		Writable: j.Workspace != nil && j.Workspace.Writable, Scratch: l.Scratch, Files: l.ScratchFiles, Processes: l.Processes,
		Limits: []guest.Limit{{Resource: syscall.RLIMIT_CPU, Soft: seconds, Hard: seconds + 1}, {Resource: syscall.RLIMIT_FSIZE, Soft: uint64(l.FileSize), Hard: uint64(l.FileSize)},
			{Resource: syscall.RLIMIT_NOFILE, Soft: uint64(l.OpenFiles), Hard: uint64(l.OpenFiles)}, {Resource: syscall.RLIMIT_CORE}}}
	if p.UID == 0 {
		p.Owner = 1
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
