//go:build !linux || !(amd64 || arm64)

package native

import (
	"context"
	"log/slog"
	"runtime"

	"metier/sandbox"
)

// Sandbox runs nothing on this system: it has no system call filter here, which is required.
type Sandbox struct {
	visible []string
	log     *slog.Logger
}

func (s *Sandbox) init() {}

func platform() *sandbox.Unavailable {
	return unavailable("platform", runtime.GOOS+"/"+runtime.GOARCH+" is not supported", nil)
}

// Probe reports that nothing can run.
func (s *Sandbox) Probe(context.Context) sandbox.Report {
	return sandbox.Report{Backend: Backend, Missing: []sandbox.Missing{platform().Missing}}
}

// Run always fails.
func (s *Sandbox) Run(context.Context, sandbox.Job) (sandbox.Result, error) {
	return sandbox.Result{}, platform()
}

// Close does nothing.
func (s *Sandbox) Close() error { return nil }
