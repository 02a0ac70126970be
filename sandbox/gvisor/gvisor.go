// Package gvisor runs jobs under gVisor's user-space kernel: system calls of a job never reach the
// host's kernel directly. It is level L3 and used only if the operator configures it. No other
// backend falls back to it, and it does not fall back to another.
//
// It needs runsc, which is not part of metier, and runs it as root or, with --rootless, as any
// user. A job sees the host's programs and libraries read-only, a generated /etc, and memory of the
// sandbox for everything else. The contents of its trees are passed through a pipe and never
// written to a folder of the host.
//
// Two things are best effort. Memory is checked every 50 ms and not limited in between. A workspace
// is a folder of the host, which other programs of the same user can change meanwhile. A job with
// network access gets it through runsc over one connection to metier, never directly from the
// host's network.
package gvisor

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"metier/sandbox"
	"metier/sandbox/gvisor/internal/guest"
	"metier/sandbox/internal/hostpaths"
	"metier/sandbox/internal/jobs"
)

// Backend is the name of this backend in reports, results and errors.
const Backend = "gvisor"

// Codes of Notes.
const (
	// NoteMemory means that memory is monitored, not limited by the kernel.
	NoteMemory = "memory-best-effort"
	// NoteRootless means that runsc runs as the current user, not as root.
	NoteRootless = "rootless"
	// NoteOwner means that the program has the IDs of the workspace's owner, because the host cannot
	// map them to an unused ID. It can read what only the owner may read.
	NoteOwner = "workspace-owner"
)

// Options select runsc and adapt it to the host.
type Options struct {
	Path     string   // of runsc, absolute; required
	Platform string   // systrap (""), ptrace or kvm
	Temp     string   // where a job's folder is made; "": the system's
	Visible  []string // additional host paths that programs see, read-only; as for native
	Log      *slog.Logger
}

// New creates a sandbox. It does not check the host: Probe and Run do.
func New(o Options) (*Sandbox, error) {
	if !filepath.IsAbs(o.Path) {
		return nil, fmt.Errorf("runsc is named by an absolute path, not %q", o.Path)
	}
	if o.Platform == "" {
		o.Platform = "systrap"
	}
	if !slices.Contains([]string{"systrap", "ptrace", "kvm"}, o.Platform) {
		return nil, fmt.Errorf("%q is not a gVisor platform: use systrap, ptrace, or kvm", o.Platform)
	}
	if o.Temp == "" {
		o.Temp = os.TempDir()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, p := range o.Visible {
		if err := hostpaths.Check(p, guest.Hide); err != nil {
			return nil, err
		}
	}
	o.Visible = append(sandbox.SystemPaths(), o.Visible...)
	return &Sandbox{o: o, jobs: jobs.New(), starting: make(chan struct{}, max(2, runtime.NumCPU()))}, nil
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

const privileges = "let this process keep its privileges over itself, as containers do by default"

var fixes = map[string]string{
	"runsc":            "install gVisor's runsc and name its path",
	"platform":         "gVisor runs on Linux, on amd64 and arm64",
	"user-namespaces":  "allow user namespaces: sysctl user.max_user_namespaces above 0, and kernel.apparmor_restrict_unprivileged_userns=0 where there is one",
	"mount-namespaces": "raise sysctl user.max_mnt_namespaces", "pid-namespaces": "raise sysctl user.max_pid_namespaces",
	"network-namespaces": "raise sysctl user.max_net_namespaces", "ipc-namespaces": "raise sysctl user.max_ipc_namespaces",
	"uts-namespaces": "raise sysctl user.max_uts_namespaces",
	"mount":          "in a container, allow mounts: --security-opt seccomp=unconfined, or a profile that has them",
	"pivot-root":     "in a container, allow pivot_root in its seccomp profile", "umount": "in a container, allow umount2 in its seccomp profile",
	"bounding-set": privileges, "capset": privileges, "no-new-privs": privileges, "seccomp": "allow seccomp filters",
	"file-descriptors": "raise the limit of open files (ulimit -n)", "temporary-folder": "make the folder for temporary files writable, and free space in it",
}

func unavailable(primitive, detail string, err error) *sandbox.Unavailable {
	return &sandbox.Unavailable{Backend: Backend, Missing: sandbox.Missing{Primitive: primitive, Detail: detail, Fix: fixes[primitive]}, Err: err}
}

// Sandbox runs jobs under gVisor. It is safe for concurrent use.
type Sandbox struct {
	o        Options
	swept    sync.Once
	starting chan struct{} // held while a sandbox starts

	jobs *jobs.Group

	mu   sync.Mutex
	left []func() bool // retries for removing the folders of ended jobs
}

// Probe runs an empty program to completion. It does not cache the result.
func (s *Sandbox) Probe(ctx context.Context) sandbox.Report {
	report := sandbox.Report{Backend: Backend}
	r, err := s.Run(ctx, sandbox.Job{Argv: []string{"true"}, Env: []string{"PATH=/usr/bin:/bin"}, Serve: func(l net.Listener) { _ = l.Close() }})
	if err == nil && r.Exit != 0 {
		err = unavailable("runsc", fmt.Sprintf("a program that does nothing ended with %d %s%s", r.Exit, r.Signal, r.Limit), nil)
	}
	if err != nil {
		report.Missing = []sandbox.Missing{sandbox.MissingOf(err)}
		return report
	}
	report.Available, report.Level, report.Notes, report.Visible = true, sandbox.L3, append(r.Notes, sandbox.NoteUnwatched), hostpaths.Existing(s.o.Visible)
	return report
}

// Run runs one job; see sandbox.Sandbox.
func (s *Sandbox) Run(ctx context.Context, j sandbox.Job) (sandbox.Result, error) {
	if err := j.Check(); err != nil {
		return sandbox.Result{}, err
	}
	leave, err := s.jobs.Enter(ctx)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer leave()
	j.Limits = j.Limits.Or(sandbox.DefaultLimits)
	return s.run(ctx, j)
}

// Close ends all jobs and waits for them.
func (s *Sandbox) Close() error {
	s.jobs.Close()
	s.tidy()
	return nil
}

// discard removes the folder of a job that ended. If that fails, for example for lack of a file
// descriptor, the next job and Close try again.
func (s *Sandbox) discard(remove func() bool) {
	if remove() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = append(s.left, remove)
}

// tidy retries the removals that failed in discard.
func (s *Sandbox) tidy() {
	s.mu.Lock()
	left := s.left
	s.left = nil
	s.mu.Unlock()
	for _, remove := range left {
		s.discard(remove)
	}
}
