//go:build linux && (amd64 || arm64)

package native

import (
	"context"
	"errors"
	"net"
	"slices"

	"metier/sandbox"
	"metier/sandbox/internal/hostpaths"
	"metier/sandbox/native/internal/plan"
)

// Probe builds a complete sandbox, including the listener, without a program in it. It caches only
// a successful result. Concurrent calls wait for the first one.
func (s *Sandbox) Probe(ctx context.Context) sandbox.Report {
	s.probing.Lock()
	defer s.probing.Unlock()
	s.mu.Lock()
	known := s.report
	s.mu.Unlock()
	if known != nil {
		return clone(*known)
	}
	report := sandbox.Report{Backend: Backend}
	j := sandbox.Job{Serve: func(ln net.Listener) { _ = ln.Close() }, Exec: func(sandbox.Exec) (bool, error) { return false, nil }}
	_, err := s.run(ctx, j)
	var lacks *sandbox.Missing
	if u, is := errors.AsType[*sandbox.Unavailable](err); is && u.Missing.Primitive == plan.Watching { // only jobs with Exec need it
		j.Exec, lacks = nil, &u.Missing
		_, err = s.run(ctx, j)
	}
	if err != nil {
		report.Missing = []sandbox.Missing{sandbox.MissingOf(err)}
		return report
	}
	report.Available, report.Level, report.Notes, report.Visible = true, sandbox.L2, []string{NoteMemory}, hostpaths.Existing(s.visible)
	report.Missing = []sandbox.Missing{unavailable("level", "L3 requires a sandbox with its own kernel", nil).Missing}
	if lacks != nil {
		report.Notes, report.Missing = append(report.Notes, sandbox.NoteUnwatched), append(report.Missing, *lacks)
	}
	s.mu.Lock()
	kept := clone(report)
	s.report = &kept
	s.mu.Unlock()
	return report
}

// clone copies a report, so that callers cannot change the cached one.
func clone(r sandbox.Report) sandbox.Report {
	r.Missing, r.Notes, r.Visible = slices.Clone(r.Missing), slices.Clone(r.Notes), slices.Clone(r.Visible)
	return r
}
