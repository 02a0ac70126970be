//go:build linux && (amd64 || arm64)

package native

import (
	"context"
	"errors"
	"net"
	"os"

	"metier/sandbox"
)

// Probe builds a whole sandbox, listener included, with no program in it. Only
// an answer that all is there is kept.
func (s *Sandbox) Probe(ctx context.Context) sandbox.Report {
	s.mu.Lock()
	known := s.report
	s.mu.Unlock()
	if known != nil {
		return clone(*known)
	}
	report := sandbox.Report{Backend: Backend}
	_, err := s.run(ctx, sandbox.Job{Serve: func(ln net.Listener) { _ = ln.Close() }})
	if err != nil {
		missing := sandbox.Missing{Primitive: "probe", Detail: err.Error()}
		if u, ok := errors.AsType[*sandbox.Unavailable](err); ok {
			missing = u.Missing
		}
		report.Missing = []sandbox.Missing{missing}
		return report
	}
	report.Available, report.Level, report.Notes = true, sandbox.L2, []string{NoteMemory}
	report.Missing = []sandbox.Missing{unavailable("level", "L3 needs a kernel of the sandbox's own", nil).Missing}
	for _, p := range s.visible {
		if _, err := os.Stat(p); err == nil {
			report.Visible = append(report.Visible, p)
		}
	}
	s.mu.Lock()
	kept := clone(report)
	s.report = &kept
	s.mu.Unlock()
	return report
}

// clone keeps callers from changing what is remembered.
func clone(r sandbox.Report) sandbox.Report {
	r.Missing = append([]sandbox.Missing(nil), r.Missing...)
	r.Notes = append([]string(nil), r.Notes...)
	r.Visible = append([]string(nil), r.Visible...)
	return r
}
