package native

import (
	"log/slog"
	"slices"

	"metier/sandbox"
	"metier/sandbox/internal/hostpaths"
)

// Backend is the name of this backend in reports, results and errors.
const Backend = "native"

// The codes of Notes.
const (
	// NoteMemory: memory is watched, not bounded by the kernel.
	NoteMemory = "memory-best-effort"
	// NoteUnmapped: the workspace's files belong to an id the program is not.
	NoteUnmapped = "workspace-not-mapped"
)

// Options adapt a sandbox to its surroundings. Nil takes the defaults.
type Options struct {
	// Visible are more host paths that programs find, read-only, at the same
	// path: absolute and without links. What is not there is left out.
	Visible []string
	Log     *slog.Logger // nil: nothing is logged
}

// New makes a sandbox. It does not look at the host: Probe and Run do.
func New(o *Options) (*Sandbox, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Sandbox{visible: slices.Clone(hostpaths.Visible), log: o.Log}
	for _, p := range o.Visible {
		if err := hostpaths.Check(p); err != nil {
			return nil, err
		}
		s.visible = append(s.visible, p)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.init()
	return s, nil
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

// unavailable says that a primitive is missing, with what can be done.
func unavailable(primitive, detail string, err error) *sandbox.Unavailable {
	return &sandbox.Unavailable{Backend: Backend, Missing: sandbox.Missing{Primitive: primitive, Detail: detail, Fix: fixes[primitive]}, Err: err}
}
