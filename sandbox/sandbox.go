// Package sandbox is the port by which metier runs a program it does not
// trust. A backend starts from nothing: what a Job does not name is not there.
//
// Paths of a Job are the sandbox's own: /skills/NAME for staged trees,
// /workspace for the workspace, /tmp for scratch. Backends live below this
// package; sandboxtest holds the attacks each of them has to withstand.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Level is how much stands between a program and the host. Each level holds
// what the ones below it hold.
type Level int

// The levels. The zero value is no isolation at all, so a Job's MinLevel has to
// be set.
const (
	L0 Level = iota // none: the host itself
	L1              // system calls and files are filtered, namespaces are the host's
	L2              // own namespaces, a fresh root of what is allowed, no network, no privileges
	L3              // a kernel of its own
)

func (l Level) String() string {
	if l < L0 || l > L3 {
		return fmt.Sprintf("Level(%d)", int(l))
	}
	return fmt.Sprintf("L%d", int(l))
}

// ParseLevel reads L0 to L3; the error names the choices.
func ParseLevel(s string) (Level, error) {
	for l := L0; l <= L3; l++ {
		if s == l.String() {
			return l, nil
		}
	}
	return 0, fmt.Errorf("%q is no level of isolation: L0, L1, L2 or L3", s)
}

// The folders a program finds in every backend.
const (
	WorkspaceDir = "/workspace"
	SkillsDir    = "/skills"
	ScratchDir   = "/tmp"
)

// ProxyAddr is where a job with a Serve function finds its proxy.
const ProxyAddr = "127.0.0.1:3128"

// Sandbox runs jobs. It is safe for concurrent use.
type Sandbox interface {
	// Probe says what this host gives, found out by doing it. A failed probe is
	// not kept: the next one tries again.
	Probe(ctx context.Context) Report
	// Run runs one job to its end. A program that fails is a Result; so is one
	// that ran into a limit, or that ctx ended (Limit "cancelled"). An error
	// means that the program did not start: *Unavailable where the host lacks
	// what the job asks for.
	Run(ctx context.Context, j Job) (Result, error)
	// Close ends what still runs and gives everything back.
	Close() error
}

// Report is what a backend can do here.
type Report struct {
	Backend   string
	Available bool      // jobs can run at Level
	Level     Level     // reached when Available
	Missing   []Missing // why not, or what a higher level would need
	Notes     []string  // codes of what is best effort here, such as memory-best-effort
	Visible   []string  // host folders a program finds, read-only, at the same path
}

// Missing is one primitive of the host that is not there.
type Missing struct {
	Primitive string `json:"primitive"` // user-namespaces, mount, proc, landlock, seccomp …
	Detail    string `json:"detail"`    // what the host answered
	Fix       string `json:"fix"`       // how to get it, or ""
}

// Unavailable says that a job did not start because the host lacks a
// primitive. Nothing of the job happened.
type Unavailable struct {
	Backend string
	Missing Missing
	Err     error // or nil
}

func (u *Unavailable) Error() string {
	if u.Missing.Fix == "" {
		return u.Reason()
	}
	return u.Reason() + "; " + u.Missing.Fix
}

// Reason is the error without the way out.
func (u *Unavailable) Reason() string {
	return fmt.Sprintf("the sandbox %s cannot run here: %s: %s", u.Backend, u.Missing.Primitive, u.Missing.Detail)
}

func (u *Unavailable) Unwrap() error { return u.Err }

// MissingOf returns what an error of a probe says is missing.
func MissingOf(err error) Missing {
	if u, ok := errors.AsType[*Unavailable](err); ok {
		return u.Missing
	}
	return Missing{Primitive: "probe", Detail: err.Error()}
}

// Job is one program and all it gets. Argv, Env and files are used as they are:
// no shell, no expansion, no variable that is not in Env.
type Job struct {
	Argv      []string // Argv[0] is a path in the sandbox, or a name looked for in PATH of Env
	Env       []string // KEY=VALUE
	Dir       string   // working folder; "": /workspace if there is one, else /tmp
	Stdin     io.Reader
	Trees     []Tree
	Workspace *Workspace // nil: none
	Limits    Limits
	// Serve, if set, is given a listener that the program reaches at ProxyAddr
	// and nothing else; it returns when the listener is closed. Nil: no network
	// at all, not even loopback.
	Serve    func(net.Listener)
	MinLevel Level
	// Stdout and Stderr, if set, get the output as it comes, up to the limit,
	// beside Result. They are not called after Run returned.
	Stdout, Stderr io.Writer
}

// Tree is a folder of verified bytes, read-only in the sandbox.
type Tree struct {
	Path  string // below /skills
	Files []File
}

// File is one file of a Tree.
type File struct {
	Path string // slash path in the tree
	Exec bool
	Data []byte
}

// Workspace is the host folder at /workspace.
type Workspace struct {
	Host     string // absolute, links resolved
	Writable bool
	// ReadOnly and Hidden are slash paths in it that programs cannot change;
	// hidden ones look empty too. A backend protects those that exist, and
	// refuses links. Package quarantine takes care of the rest.
	ReadOnly, Hidden []string
}

// Limits bound a job. Zero takes the value of DefaultLimits.
type Limits struct {
	Wall, CPU    time.Duration
	Output       int64 // bytes of each of stdout and stderr
	Memory       int64 // bytes of all processes together
	Processes    int
	FileSize     int64 // bytes of one file
	Scratch      int64 // bytes of /tmp
	ScratchFiles int
	OpenFiles    int // per process
}

// DefaultLimits are the limits of a job that names none.
var DefaultLimits = Limits{Wall: time.Minute, CPU: time.Minute, Output: 1 << 20, Memory: 512 << 20, Processes: 64,
	FileSize: 64 << 20, Scratch: 64 << 20, ScratchFiles: 4096, OpenFiles: 256}

// Or fills what is zero from d.
func (l Limits) Or(d Limits) Limits {
	pick(&l.Wall, d.Wall)
	pick(&l.CPU, d.CPU)
	pick(&l.Output, d.Output)
	pick(&l.Memory, d.Memory)
	pick(&l.Processes, d.Processes)
	pick(&l.FileSize, d.FileSize)
	pick(&l.Scratch, d.Scratch)
	pick(&l.ScratchFiles, d.ScratchFiles)
	pick(&l.OpenFiles, d.OpenFiles)
	return l
}

func pick[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// The limits a Result may name.
const (
	LimitWall      = "wall"
	LimitCPU       = "cpu"
	LimitOutput    = "output"
	LimitMemory    = "memory"
	LimitFileSize  = "file-size"
	LimitCancelled = "cancelled" // the caller gave up
	// LimitProtectedPath ends a program when something appears at a protected
	// path of its workspace.
	LimitProtectedPath = "protected-path"
)

// Result is how a program ended. Exactly one of Exit, Signal and Limit says it:
// Exit is -1 when one of the others is set.
type Result struct {
	Exit           int
	Signal         string // SIGKILL …, when a signal ended it that no limit sent
	Limit          string // the limit that ended it, or ""
	Stdout, Stderr []byte // at most Limits.Output each
	// What the program wrote beyond Output is counted until it is ended.
	StdoutTruncated, StderrTruncated bool
	Backend                          string
	Level                            Level
	Wall, CPU                        time.Duration
	MaxRSS                           int64    // bytes of the largest process; 0: not known
	Notes                            []string // codes, as in Report
	Quarantined                      []Quarantined
}

// Quarantined is something that appeared at a protected path of the workspace
// while a program ran.
type Quarantined struct {
	Path string // slash path in the workspace
	// To is the path that it was moved to. It is empty if somebody else moved
	// it, or if it was a link that was removed and has been made again.
	To string
}
