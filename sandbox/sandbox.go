// Package sandbox is the interface through which metier runs untrusted programs. A backend starts
// with an empty environment: only what a Job lists exists in it.
//
// Paths of a Job are paths in the sandbox: /skills/NAME for staged trees, /workspace for the
// workspace, /tmp for scratch files. The backends are subpackages. Package sandboxtest has the
// attacks that each of them must withstand.
package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Level is the strength of isolation between a program and the host. Each level includes the
// protections of the levels below it.
type Level int

// Isolation levels. The zero value is no isolation at all, so a Job must set MinLevel.
const (
	L0 Level = iota // none: runs on the host
	L1              // filtered system calls and files, in the host's namespaces
	L2              // own namespaces, a new root with only allowed files, no network, no privileges
	L3              // a separate kernel
)

// Levels lists the isolation levels, weakest first.
func Levels() []Level { return []Level{L0, L1, L2, L3} }

func (l Level) String() string {
	if l < L0 || l > L3 {
		return fmt.Sprintf("Level(%d)", int(l))
	}
	return fmt.Sprintf("L%d", int(l))
}

// Meaning describes a level in a few words, or returns "" for one that does not exist.
func (l Level) Meaning() string {
	switch l {
	case L0:
		return "none"
	case L1:
		return "filtered"
	case L2:
		return "separated from the host"
	case L3:
		return "with its own kernel"
	}
	return ""
}

// ParseLevel parses L0 to L3. The error lists the choices.
func ParseLevel(s string) (Level, error) {
	names := make([]string, len(Levels()))
	for i, l := range Levels() {
		if names[i] = l.String(); s == names[i] {
			return l, nil
		}
	}
	return 0, fmt.Errorf("%q is not an isolation level: levels: %s", s, strings.Join(names, ", "))
}

// Folders that exist in every backend.
const (
	WorkspaceDir = "/workspace"
	SkillsDir    = "/skills"
	ScratchDir   = "/tmp"
)

// SystemPaths lists the host paths of programs and their libraries. Backends that show host paths
// show these, read-only and at the same path.
func SystemPaths() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ld.so.cache",
		"/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted"}
}

// ProxyAddr is the address of the proxy in a job with a Serve function.
const ProxyAddr = "127.0.0.1:3128"

// Sandbox runs jobs. It is safe for concurrent use.
type Sandbox interface {
	// Probe reports what the backend can do on this host, by trying it. A failed probe is not
	// cached: the next one tries again.
	Probe(ctx context.Context) Report
	// Run runs one job to completion. If the program fails, exceeds a limit, or is ended by ctx
	// (Limit "cancelled"), Run returns a Result. An error means that the program did not start,
	// unless it is *Lost. It is *Unavailable if the host lacks what the job needs.
	Run(ctx context.Context, j Job) (Result, error)
	// Close ends all running jobs and releases all resources.
	Close() error
}

// Report is what a backend can do on this host.
type Report struct {
	Backend   string
	Available bool      // jobs can run at Level
	Level     Level     // valid if Available
	Missing   []Missing // why jobs cannot run, or what a higher level needs
	Notes     []string  // codes of best-effort protections, such as memory-best-effort
	Visible   []string  // host folders that programs see, read-only, at the same path
}

// MarshalJSON implements [json.Marshaler]. Lists are never null, and the visible folders are
// omitted.
func (r Report) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the caller's encoder decides
	err := e.Encode(struct {
		Name      string    `json:"name"`
		Available bool      `json:"available"`
		Level     string    `json:"level"`
		Missing   []Missing `json:"missing"`
		Notes     []string  `json:"notes"`
	}{r.Backend, r.Available, r.Level.String(), append([]Missing{}, r.Missing...), append([]string{}, r.Notes...)})
	return b.Bytes(), err
}

// Missing is a primitive that the host lacks.
type Missing struct {
	Primitive string `json:"primitive"` // user-namespaces, mount, proc, landlock, seccomp …
	Detail    string `json:"detail"`    // the host's error
	Fix       string `json:"fix"`       // how to get it, or ""
}

// Unavailable is the error for a job that did not start because the host lacks a primitive. The job
// had no effects.
type Unavailable struct {
	Backend string
	Missing Missing
	Err     error // may be nil
}

func (u *Unavailable) Error() string {
	if u.Missing.Fix == "" {
		return u.Reason()
	}
	return u.Reason() + "; " + u.Missing.Fix
}

// Reason returns the error without the suggested fix.
func (u *Unavailable) Reason() string {
	return fmt.Sprintf("the sandbox %s cannot run here: %s: %s", u.Backend, u.Missing.Primitive, u.Missing.Detail)
}

func (u *Unavailable) Unwrap() error { return u.Err }

// Lost is the error for a job whose program started, and may have had effects, but whose end could
// not be determined or checked. It does not unwrap, because its cause does not describe the start.
type Lost struct{ Err error }

func (l *Lost) Error() string {
	return "the program started, but its outcome is unknown: " + l.Err.Error()
}

// MissingOf returns the missing primitive that an error of a probe is about.
func MissingOf(err error) Missing {
	if u, ok := errors.AsType[*Unavailable](err); ok {
		return u.Missing
	}
	return Missing{Primitive: "probe", Detail: err.Error()}
}

// Job is one program and its complete environment. Argv, Env, and files are used unchanged: no
// shell, no expansion, and no variables besides Env.
type Job struct {
	Argv      []string // Argv[0] is a path in the sandbox, or a name to look up in the PATH of Env
	Env       []string // KEY=VALUE
	Dir       string   // working folder; "": /workspace if there is one, else /tmp
	Stdin     io.Reader
	Trees     []Tree
	Workspace *Workspace // nil: none
	Limits    Limits
	// Serve, if set, receives a listener. It is all the network that the program has, at ProxyAddr.
	// Serve must return when the listener is closed. If nil, there is no network, not even
	// loopback.
	Serve    func(net.Listener)
	MinLevel Level
	// Exec, if set, is called before a process of the job starts a program, except for the job's own.
	// If it returns an error, the program does not start and the job ends (LimitProgram). passes reports that the program
	// starts only what its arguments tell it to, as env does; see Exec.Direct. Calls do not overlap.
	// A program with several threads can change its arguments after the call. Where the report of the
	// backend has NoteUnwatched, a job with Exec does not start, or the backend has no such calls and
	// ignores it.
	Exec func(Exec) (passes bool, err error)
	// Stdout and Stderr, if set, receive the output as it arrives, up to the limit, in addition to
	// Result. They are not used after Run returns.
	Stdout, Stderr io.Writer
}

// Tree is a folder of verified files, read-only in the sandbox.
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

// Workspace is the host folder mounted at /workspace.
type Workspace struct {
	Host     string // absolute, without links
	Writable bool
	// ReadOnly and Hidden are slash paths in the workspace that programs cannot change. Hidden ones
	// also look empty. A backend protects those that exist and rejects links. Package quarantine
	// handles the rest.
	ReadOnly, Hidden []string
	// Repositories are the folders of the git repositories that programs did not create, as slash
	// paths. Package quarantine checks others after a program. nil: it does not.
	Repositories []string
	// Hooks are the folders, below each working tree, in which git looks for hooks because of the
	// user's configuration.
	Hooks []string
}

// Limits are the resource limits of a job. Zero fields are taken from DefaultLimits.
type Limits struct {
	Wall, CPU    time.Duration
	Output       int64 // bytes of stdout and of stderr
	Memory       int64 // bytes of all processes together
	Processes    int
	FileSize     int64 // bytes of one file
	Scratch      int64 // bytes of /tmp
	ScratchFiles int
	OpenFiles    int // per process
}

// DefaultLimits are the default limits of a job.
var DefaultLimits = Limits{Wall: time.Minute, CPU: time.Minute, Output: 1 << 20, Memory: 512 << 20, Processes: 64,
	FileSize: 64 << 20, Scratch: 64 << 20, ScratchFiles: 4096, OpenFiles: 256}

// Or returns l with its zero fields taken from d.
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

// Values of Result.Limit.
const (
	LimitWall      = "wall"
	LimitCPU       = "cpu"
	LimitOutput    = "output"
	LimitMemory    = "memory"
	LimitFileSize  = "file-size"
	LimitCancelled = "cancelled" // the caller canceled
	// LimitProtectedPath means that something appeared at a protected path of the workspace, or that
	// the program created a git repository that could make git run a program.
	LimitProtectedPath = "protected-path"
	// LimitProgram means that Job.Exec refused a program.
	LimitProgram = "program"
)

// Result is how a program ended. Exactly one of Exit, Signal, and Limit is set. Exit is -1 if it is
// not.
type Result struct {
	Exit           int
	Signal         string // such as SIGKILL, if a signal ended the program that no limit sent
	Limit          string // the limit that ended it, or ""
	Stdout, Stderr []byte // at most Limits.Output each
	// Output beyond Limits.Output is dropped.
	StdoutTruncated, StderrTruncated bool
	Backend                          string
	Level                            Level
	Wall, CPU                        time.Duration
	MaxRSS                           int64    // bytes of the largest process; 0: unknown
	Notes                            []string // codes, as in Report
	Quarantined                      []Quarantined
	Repositories                     []string // git repositories that programs created and that were kept, as slash paths
	Unsearched                       bool     // there may be more of them
	// Restored are folders of the workspace, above protected paths, whose permissions the program
	// changed. They have them again.
	Restored []string
}

// Quarantined is something that appeared at a protected path of the workspace while a program ran,
// or took the place of what was there.
type Quarantined struct {
	Path string // slash path in the workspace
	// To is the path it was moved to. It is empty if another process moved it, or if it was a link
	// that was removed and is restored, or if something on the host replaced or removed what the
	// program could not reach before.
	To       string
	Replaced bool // something was there when the program started
	// Unsafe is why git could run a program that a created repository names. It is empty for
	// protected paths.
	Unsafe string
	More   int // how many other repositories were moved in the same way
}
