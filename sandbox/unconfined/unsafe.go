// Package unconfined is a backend without isolation: it runs a job on the host, with the rights of
// this process, its network, and its files. It is for operators who request it by a flag, and for
// the attacks of sandboxtest, which need a place where they succeed. Every result says unsafe-host.
//
// The environment contains only the job's variables, trees are copied to a new folder, wall time
// and output are limited, and the process group is killed at the end. Nothing else is enforced. A
// process that leaves the group survives.
package unconfined

import (
	"context"
	"fmt"
	"os"

	"metier/sandbox"
	"metier/sandbox/internal/jobs"
)

// Name is the name of this backend in reports and results.
const Name = "unsafe-host"

// Codes of notes in reports and results.
const (
	NoteUnconfined = "unconfined"              // files, network, and processes of the host are accessible
	NoteLimits     = "limits-wall-output-only" // no other limits are enforced
)

func notes() []string { return []string{NoteUnconfined, NoteLimits} }

// Options configure a Host. Nil selects the defaults.
type Options struct {
	Temp string // where folders of jobs are made, created if it is missing; "": the system's
}

// Host runs jobs directly on this machine.
type Host struct {
	temp string
	jobs *jobs.Group
}

var _ sandbox.Sandbox = (*Host)(nil)

// New returns a Host.
func New(o *Options) *Host {
	h := &Host{temp: os.TempDir(), jobs: jobs.New()}
	if o != nil && o.Temp != "" {
		h.temp = o.Temp
	}
	return h
}

// Probe reports that every job can run, without isolation.
func (h *Host) Probe(context.Context) sandbox.Report {
	return sandbox.Report{Backend: Name, Available: true, Level: sandbox.L0, Visible: []string{"/"}, Notes: append(notes(), sandbox.NoteUnwatched),
		Missing: []sandbox.Missing{isolation("it runs programs on the host itself")}}
}

func isolation(detail string) sandbox.Missing {
	return sandbox.Missing{Primitive: "isolation", Detail: detail, Fix: "choose another backend"}
}

// Run runs j on the host. Arguments and variable values that are a path below a tree, /workspace,
// or /tmp are converted to the path on the host. Nothing else is changed.
func (h *Host) Run(ctx context.Context, j sandbox.Job) (sandbox.Result, error) {
	if err := j.Check(); err != nil {
		return sandbox.Result{}, err
	}
	if m, bad := unfit(j); bad {
		return sandbox.Result{}, &sandbox.Unavailable{Backend: Name, Missing: m}
	}
	leave, err := h.jobs.Enter(ctx)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer leave()
	p, err := h.stage(j)
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("stage the files of a job: %w", err)
	}
	defer p.remove()
	return h.run(ctx, j, p)
}

// unfit returns what a job needs that this backend cannot provide.
func unfit(j sandbox.Job) (sandbox.Missing, bool) {
	switch {
	case j.MinLevel > sandbox.L0:
		return isolation(fmt.Sprintf("%v is required, but this sandbox provides only L0", j.MinLevel)), true
	case j.Serve != nil:
		return sandbox.Missing{Primitive: "network", Detail: "nothing on the host keeps a program to a proxy", Fix: "choose another backend"}, true
	}
	return sandbox.Missing{}, false
}

// Close ends all running jobs and waits for them.
func (h *Host) Close() error {
	h.jobs.Close()
	return nil
}
