// Package quarantine prevents programs from creating files that other commands would trust, such as
// a folder of skills or a .git.
//
// A backend protects existing paths by mounting them read-only. A missing path cannot be mounted
// over, and a placeholder would be visible in the host's folder and remain there after a kill. So
// missing paths are watched from outside the sandbox. What appears at one of them is moved aside at
// once, under a name that no tool reads, and the program is ended. The same applies to protected
// paths that are symbolic links, which no backend can mount over, and to existing paths that a
// program on the host replaces, because the kernel then removes what was mounted there.
package quarantine

import (
	"context"
	"errors"
	"syscall"

	"metier/internal/gitrepos"
	"metier/sandbox"
)

// Sandbox runs jobs in another sandbox. It watches the protected workspace paths that the other
// sandbox cannot cover.
type Sandbox struct {
	sandbox.Sandbox
	// Finder finds the git repositories in workspaces.
	Finder  *gitrepos.Finder
	journal *Journal
}

// New returns a Sandbox around inner. j may be nil. Then files that a program creates after this
// process is killed are not moved aside.
func New(inner sandbox.Sandbox, j *Journal) *Sandbox { return &Sandbox{inner, &gitrepos.Finder{}, j} }

// Run runs a job. If something appeared at a protected path meanwhile, or the program created a git
// repository that could make git run a program, Result.Quarantined lists it, and Result.Limit is
// sandbox.LimitProtectedPath. If that cannot be checked after a program ran, the error is
// *sandbox.Lost, and the Result has what was found.
func (s *Sandbox) Run(ctx context.Context, j sandbox.Job) (sandbox.Result, error) {
	if j.Workspace == nil || !j.Workspace.Writable && len(j.Workspace.Hidden) == 0 {
		return s.Sandbox.Run(ctx, j)
	}
	if err := j.Check(); err != nil {
		return sandbox.Result{}, err
	}
	g, ws, err := s.journal.guard(ctx, *j.Workspace)
	if err != nil {
		return sandbox.Result{}, lacking(err)
	}
	j.Workspace = &ws
	after, done := afterward(ctx)
	defer done()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := g.watch(stop); err != nil {
		_, endErr := g.end()
		return sandbox.Result{}, lacking(errors.Join(err, endErr, g.close(true)))
	}
	res, err := s.Sandbox.Run(ctx, j)
	moved, bad := g.end()
	if ws.Repositories != nil && ws.Writable {
		r, repoErr := settle(after, s.Finder, noted{Workspace: ws.Host, Repositories: ws.Repositories, Hooks: ws.Hooks}, nil)
		moved, res.Repositories, res.Unsearched, bad = append(moved, r.moved...), r.kept, !r.whole, errors.Join(bad, repoErr)
	}
	bad = errors.Join(bad, g.close(bad == nil)) // otherwise, Sweep checks again
	res.Restored = g.restored
	if len(moved) > 0 {
		res.Quarantined = moved
		res.Exit, res.Signal, res.Limit = -1, "", sandbox.LimitProtectedPath
	}
	switch {
	case bad == nil:
		return res, err
	case err == nil:
		return res, &sandbox.Lost{Err: bad}
	}
	return res, errors.Join(err, bad)
}

// lacking returns the host primitive that an error is about.
func lacking(err error) error {
	if u := (*sandbox.Unavailable)(nil); errors.As(err, &u) {
		return err
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return &sandbox.Unavailable{Backend: "quarantine", Missing: sandbox.Missing{Primitive: "file-descriptors", Detail: err.Error(), Fix: "raise the limit of open files (ulimit -n)"}, Err: err}
	}
	return err
}
