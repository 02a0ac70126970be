package native

import (
	"fmt"
	"log/slog"
	"path"
	"strings"

	"metier/sandbox"
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

// visible is what programs are built from, and nothing that is somebody's.
var visible = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ld.so.cache",
	"/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted"}

// taken are folders of the sandbox's own, or whole lives of people and hosts.
var taken = []string{"/", "/proc", "/sys", "/dev", "/tmp", "/etc", "/home", "/root", "/var", "/run", sandbox.WorkspaceDir, sandbox.SkillsDir}

func checkVisible(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%q is no clean absolute path to show in the sandbox", p)
	}
	for _, t := range taken {
		if p == t {
			return fmt.Errorf("%s cannot be shown in the sandbox; name a folder in it", p)
		}
	}
	for _, t := range []string{"/proc/", "/sys/", "/dev/", "/tmp/", sandbox.WorkspaceDir + "/", sandbox.SkillsDir + "/"} {
		if strings.HasPrefix(p, t) {
			return fmt.Errorf("%s cannot be shown in the sandbox, which has a %s of its own", p, strings.TrimSuffix(t, "/"))
		}
	}
	return nil
}

// New makes a sandbox. It does not look at the host: Probe and Run do.
func New(o *Options) (*Sandbox, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Sandbox{visible: append([]string(nil), visible...), log: o.Log}
	for _, p := range o.Visible {
		if err := checkVisible(p); err != nil {
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
