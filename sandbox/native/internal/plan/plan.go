// Package plan defines what the parent of a sandbox sends to its first process: one flat message,
// read once. It has no imports, because it is used before the rest of the program is initialized.
package plan

// Values of argv[0]: Marker for the first process of a sandbox, Holder for the process that keeps a
// user namespace alive until it is opened, and Starter for the process that starts first processes.
// The name of Starter is also in the environment, so that other processes need not check their
// arguments.
const (
	Marker  = "metier-sandbox"
	Holder  = "metier-sandbox-ids"
	Starter = "metier-sandbox-starter"
)

// Watching is the primitive that reports programs before they start.
const Watching = "seccomp-notify"

// File descriptors of the first process, in addition to 0, 1, and 2.
const (
	Control   = 3 // a socket to the parent: sends answers; EOF ends everything
	Message   = 4 // the plan, sealed
	Workspace = 5 // the workspace as a separate mount, if the plan says FromParent
)

// Plan describes everything the first process does.
type Plan struct {
	Host       string
	Visible    []string // host paths to show read-only; missing ones are skipped
	Devices    []Device
	Files      []File // of the root, in order; parent folders are created
	Dirs       []string
	Links      []Link
	RootBytes  uint64
	RootFiles  uint64
	Scratch    uint64
	ScratchMax uint64 // inodes
	Work       Work
	Port       uint64 // port to listen on at 127.0.0.1; 0: loopback stays down
	Limits     Limits
	Filter     []byte // struct sock_filter, as encoded for the kernel
	Starts     []byte // a second filter, which reports programs that start; empty: none
	Argv, Env  []string
	Search     []string // folders to search for Argv[0] if it has no slash
	Dir        string
}

// Device is a character device of the host; Number is its st_rdev.
type Device struct {
	Path   string
	Number uint64
}

// File is a file of the root.
type File struct {
	Path string
	Exec bool
	Data []byte
}

// Link is a symbolic link of the root.
type Link struct{ Path, To string }

// Ways to access the workspace.
const (
	NoWork     = 0
	ByPath     = 1 // clone the mount at Host, which must match Device and Inode
	FromParent = 2 // the mount is descriptor Workspace
)

// Work describes the workspace.
type Work struct {
	How           uint64
	At            string // path in the sandbox
	Host          string
	Device, Inode uint64
	Writable      bool
	Guards        []Guard
}

// Guard is a workspace path that the program cannot change.
type Guard struct {
	Path   string
	Hidden bool // also looks empty
}

// Limits are resource limits in kernel units.
type Limits struct{ CPU, FileSize, Address, Processes, OpenFiles uint64 }

// Kinds of answers: the first byte of each message of the first process.
const (
	Failed   = 'E' // missing primitive of the host: errno, step, detail
	Refused  = 'J' // error in the job: errno, what, path
	Listens  = 'L' // the listener is attached to the message
	Watched  = 'W' // the listener of the filter Starts is attached to the message
	Starting = 'S' // from here on, the program may have had effects
	Ended    = 'X' // exit code, signal, µs of CPU, KiB of memory
)

// Answer is a message of the first process.
type Answer struct {
	Kind         byte
	Errno        uint64
	Step, Detail string
	Code, Signal uint64
	CPU, RSS     uint64
}

// fields encodes or decodes the fields of a plan: w writes them, r reads them.
type fields struct {
	b   []byte
	r   bool
	bad bool
}

func (f *fields) num(v *uint64) {
	if !f.r {
		for i := range 8 {
			f.b = append(f.b, byte(*v>>(8*i)))
		}
		return
	}
	if len(f.b) < 8 {
		f.bad = true
		*v = 0
		return
	}
	*v = 0
	for i := range 8 {
		*v |= uint64(f.b[i]) << (8 * i)
	}
	f.b = f.b[8:]
}

func (f *fields) flag(v *bool) {
	var n uint64
	if *v {
		n = 1
	}
	f.num(&n)
	if f.r {
		*v = n == 1
	}
}

func (f *fields) bytes(v *[]byte) {
	n := uint64(len(*v))
	f.num(&n)
	if !f.r {
		f.b = append(f.b, *v...)
		return
	}
	if n > uint64(len(f.b)) {
		f.bad = true
		*v = nil
		return
	}
	*v = f.b[:n:n]
	f.b = f.b[n:]
}

func (f *fields) str(v *string) {
	b := []byte(*v)
	f.bytes(&b)
	if f.r { // several jobs may be encoded from the same strings at once
		*v = string(b)
	}
}

func list[T any](f *fields, v *[]T, each func(*T)) {
	n := uint64(len(*v))
	f.num(&n)
	if f.r {
		if n > uint64(len(f.b)) { // an element takes at least one byte
			f.bad = true
			return
		}
		*v = make([]T, n)
	}
	for i := range *v {
		each(&(*v)[i])
	}
}

func (f *fields) plan(p *Plan) {
	f.str(&p.Host)
	list(f, &p.Visible, f.str)
	list(f, &p.Devices, func(x *Device) { f.str(&x.Path); f.num(&x.Number) })
	list(f, &p.Files, func(x *File) { f.str(&x.Path); f.flag(&x.Exec); f.bytes(&x.Data) })
	list(f, &p.Dirs, f.str)
	list(f, &p.Links, func(x *Link) { f.str(&x.Path); f.str(&x.To) })
	f.num(&p.RootBytes)
	f.num(&p.RootFiles)
	f.num(&p.Scratch)
	f.num(&p.ScratchMax)
	f.num(&p.Work.How)
	f.str(&p.Work.At)
	f.str(&p.Work.Host)
	f.num(&p.Work.Device)
	f.num(&p.Work.Inode)
	f.flag(&p.Work.Writable)
	list(f, &p.Work.Guards, func(x *Guard) { f.str(&x.Path); f.flag(&x.Hidden) })
	f.num(&p.Port)
	f.num(&p.Limits.CPU)
	f.num(&p.Limits.FileSize)
	f.num(&p.Limits.Address)
	f.num(&p.Limits.Processes)
	f.num(&p.Limits.OpenFiles)
	f.bytes(&p.Filter)
	f.bytes(&p.Starts)
	list(f, &p.Argv, f.str)
	list(f, &p.Env, f.str)
	list(f, &p.Search, f.str)
	f.str(&p.Dir)
}

// Bytes encodes the plan as a message.
func (p *Plan) Bytes() []byte {
	n := 1 << 12
	for _, x := range p.Files {
		n += len(x.Data) + len(x.Path) + 32
	}
	f := fields{b: make([]byte, 0, n)}
	f.plan(p)
	return f.b
}

// Parse decodes a message. File contents share memory with b. It returns false for an invalid
// message.
func Parse(b []byte) (*Plan, bool) {
	f := fields{b: b, r: true}
	p := &Plan{}
	f.plan(p)
	return p, !f.bad && len(f.b) == 0
}

func (f *fields) answer(a *Answer) {
	f.num(&a.Errno)
	f.str(&a.Step)
	f.str(&a.Detail)
	f.num(&a.Code)
	f.num(&a.Signal)
	f.num(&a.CPU)
	f.num(&a.RSS)
}

// Bytes encodes the answer as a message.
func (a *Answer) Bytes() []byte {
	f := fields{b: append(make([]byte, 0, 256), a.Kind)}
	f.answer(a)
	return f.b
}

// ParseAnswer decodes a message. It returns false for an invalid message.
func ParseAnswer(b []byte) (a Answer, ok bool) {
	if len(b) == 0 {
		return a, false
	}
	f := fields{b: b[1:], r: true}
	a.Kind = b[0]
	f.answer(&a)
	return a, !f.bad && len(f.b) == 0
}
