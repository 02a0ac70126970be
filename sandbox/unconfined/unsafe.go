// Package unconfined is the sandbox that is none: it runs a job on the host, with
// the rights of this process, its network and its files. It is there for
// operators who ask for it by a flag, and for the attacks of sandboxtest, which
// have to do their harm somewhere to prove that they can. Every result says
// unsafe-host.
//
// What holds: the environment is the job's alone, trees are its bytes in a
// folder of its own, wall time and output are bounded, and the process group is
// killed at the end. What does not: everything else. A process that leaves the
// group lives on.
package unconfined

import (
	"context"
	"fmt"
	"os"

	"metier/sandbox"
	"metier/sandbox/internal/jobs"
)

// Name is what this backend is called in every report and result.
const Name = "unsafe-host"

// The codes in the notes of a report and a result.
const (
	NoteUnconfined = "unconfined"              // files, network and processes of the host are open
	NoteLimits     = "limits-wall-output-only" // no other limit is enforced
)

func notes() []string { return []string{NoteUnconfined, NoteLimits} }

// Options of a Host. Nil is all defaults.
type Options struct {
	Temp string // where folders of jobs are made; "": the system's
}

// Host runs jobs on this machine as they are.
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

// Probe says that everything runs and nothing is kept apart.
func (h *Host) Probe(context.Context) sandbox.Report {
	return sandbox.Report{Backend: Name, Available: true, Level: sandbox.L0, Visible: []string{"/"}, Notes: notes(),
		Missing: []sandbox.Missing{isolation("it runs programs on the host itself")}}
}

func isolation(detail string) sandbox.Missing {
	return sandbox.Missing{Primitive: "isolation", Detail: detail, Fix: "choose another backend"}
}

// Run runs j on the host. Whole arguments and values of variables that are a
// path below a tree, /workspace or /tmp are turned into where that is on the
// host; nothing else is changed.
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

// unfit says what a job asks for that a host cannot give.
func unfit(j sandbox.Job) (sandbox.Missing, bool) {
	switch {
	case j.MinLevel > sandbox.L0:
		return isolation(fmt.Sprintf("the job asks for %v, this is L0", j.MinLevel)), true
	case j.Serve != nil:
		return sandbox.Missing{Primitive: "network", Detail: "nothing on the host keeps a program to a proxy", Fix: "choose another backend"}, true
	}
	return sandbox.Missing{}, false
}

// Close ends what runs and waits until it is gone.
func (h *Host) Close() error {
	h.jobs.Close()
	return nil
}
