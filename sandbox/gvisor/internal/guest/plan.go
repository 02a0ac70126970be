// Package guest is what runs inside a gVisor sandbox before the program does:
// its first process builds the rest of the file system, keeps the limits that
// gVisor leaves to it, starts the program and says how it ended.
//
// Importing it is enough: where the process was started as one of the two, its
// initialisation never returns. Nothing it holds is a secret: a program that
// got hold of the first process could lie about its own end and talk to its own
// proxy, no more.
package guest

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
)

// The arguments zero of the first process and of the one that becomes the
// program.
const (
	First  = "metier-gvisor"
	Second = "metier-gvisor-program"
)

// Hide is a folder of the root that the first process needs.
const Hide = "/.metier"

// The descriptors both sides agree on.
const (
	ExecFD   = 3 // this executable; not in the sandbox
	PlanFD   = 4 // the plan comes here
	AliveFD  = 5 // one byte lets the program begin; its end ends the sandbox
	StatusFD = 6 // answers, one JSON object a line
	StdinFD  = 7
	StdoutFD = 8
	StderrFD = 9
	MuxFD    = 10 // to the proxy, if there is one
)

// Plan is everything that is done in the sandbox.
type Plan struct {
	Argv, Env []string
	Search    []string // folders Argv[0] is looked for in, if it has no slash
	Dir       string
	UID, GID  int
	Owner     int // of staged files: never UID
	Trees     []Tree
	Guards    []Guard // paths below /workspace, sorted
	Writable  bool    // the workspace is
	Scratch   int64   // bytes of /tmp, and of /dev/shm
	Files     int     // files in each
	Processes int
	Limits    []Limit
	Proxy     string // address to listen at, "" for none
}

// Tree is a folder of staged files.
type Tree struct {
	Path  string
	Files []File
}

// File is a staged file; its bytes follow the plan, in order.
type File struct {
	Path string
	Exec bool
	Size int64
	data []byte
}

// Guard is a path of the workspace that cannot be changed.
type Guard struct {
	Path   string
	Hidden bool // it looks empty too
}

// Limit is a resource limit; soft and hard.
type Limit struct {
	Resource   int
	Soft, Hard uint64
}

// Answer is what the first process says.
type Answer struct {
	Step   string `json:"step,omitempty"`  // it failed; the program did not start
	Error  string `json:"error,omitempty"` // why
	Job    bool   `json:"job,omitempty"`   // for a fault of the job, not of the sandbox
	Ready  bool   `json:"ready,omitempty"` // all is built; the program begins when the owner says so
	Ended  bool   `json:"ended,omitempty"`
	Exit   int    `json:"exit,omitempty"`
	Signal int    `json:"signal,omitempty"`
	CPU    int64  `json:"cpu,omitempty"` // ns
	RSS    int64  `json:"rss,omitempty"` // KiB
}

// maxPlan bounds the plan without the files' bytes.
const maxPlan = 32 << 20

// Write writes the plan and the bytes of its files.
func (p *Plan) Write(w io.Writer, data [][]byte) error {
	var head bytes.Buffer
	if err := gob.NewEncoder(&head).Encode(p); err != nil { // arguments and paths are any bytes
		return err
	}
	if head.Len() > maxPlan {
		return fmt.Errorf("the job is %d bytes long without its files, of at most %d", head.Len(), maxPlan)
	}
	if _, err := w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(head.Len())), head.Bytes()...)); err != nil {
		return err
	}
	for _, b := range data {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// Read reads what Write wrote.
func Read(r io.Reader) (*Plan, error) {
	var n [8]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint64(n[:])
	if size > maxPlan {
		return nil, errors.New("the plan is too long")
	}
	head := make([]byte, size)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	p := &Plan{}
	if err := gob.NewDecoder(bytes.NewReader(head)).Decode(p); err != nil {
		return nil, err
	}
	for i := range p.Trees {
		for j := range p.Trees[i].Files {
			f := &p.Trees[i].Files[j]
			f.data = make([]byte, f.Size)
			if _, err := io.ReadFull(r, f.data); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}
