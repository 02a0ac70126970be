package native

import (
	"log/slog"

	"metier/sandbox"
	"metier/sandbox/internal/hostpaths"
)

// Backend is the name of this backend in reports, results and errors.
const Backend = "native"

// Codes of Notes.
const (
	// NoteMemory means that memory is monitored, not limited by the kernel.
	NoteMemory = "memory-best-effort"
	// NoteUnmapped means that the program does not have the ID that owns the workspace's files.
	NoteUnmapped = "workspace-not-mapped"
)

// Options adapt a sandbox to the host. Nil selects the defaults.
type Options struct {
	// Visible lists additional host paths that programs see, read-only, at the same path. Paths
	// must be absolute and free of links. Missing paths are skipped.
	Visible []string
	Log     *slog.Logger // nil: no logging
}

// New creates a sandbox. It does not check the host: Probe and Run do.
func New(o *Options) (*Sandbox, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Sandbox{visible: sandbox.SystemPaths(), log: o.Log}
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

// unavailable returns an error about a missing primitive, with a suggested fix.
func unavailable(primitive, detail string, err error) *sandbox.Unavailable {
	return &sandbox.Unavailable{Backend: Backend, Missing: sandbox.Missing{Primitive: primitive, Detail: detail, Fix: fixes[primitive]}, Err: err}
}
