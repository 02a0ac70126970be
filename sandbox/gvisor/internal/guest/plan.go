// Package guest runs inside a gVisor sandbox before the program. Its first process builds the rest
// of the file system, enforces the limits that gVisor does not, starts the program, and reports how
// it ended.
//
// It only needs to be imported: if the process was started as one of the two helper processes,
// package initialization never returns. It holds no secrets. A program that took over the first
// process could only misreport its own exit and talk to its own proxy.
package guest

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
)

// Values of argv[0] for the first process and for the one that becomes the program.
const (
	First  = "metier-gvisor"
	Second = "metier-gvisor-program"
)

// Hide is a folder in the root that the first process uses.
const Hide = "/.metier"

// File descriptors that both sides agree on.
const (
	ExecFD   = 3 // this executable; not in the sandbox
	PlanFD   = 4 // the plan is read from here
	AliveFD  = 5 // one byte starts the program; EOF ends the sandbox
	StatusFD = 6 // answers, one JSON object per line
	StdinFD  = 7
	StdoutFD = 8
	StderrFD = 9
	MuxFD    = 10 // to the proxy, if any
)

// Plan describes everything that is done in the sandbox.
type Plan struct {
	Argv, Env []string
	Search    []string // folders to search for Argv[0] if it has no slash
	Dir       string
	UID, GID  int
	Owner     int // of staged files, the cgroup, and the first process: never UID
	Trees     []Tree
	Guards    []Guard // paths below /workspace, sorted
	Writable  bool    // whether the workspace is
	Scratch   int64   // size of /tmp and of /dev/shm, in bytes
	Files     int     // maximum number of files in each
	Processes int
	Limits    []Limit
	Proxy     string // address to listen at, "" for none
}

// Tree is a folder of staged files.
type Tree struct {
	Path  string
	Files []File
}

// File is a staged file. The contents follow the plan, in order.
type File struct {
	Path string
	Exec bool
	Size int64
	data []byte
}

// Guard is a workspace path that the program cannot change.
type Guard struct {
	Path   string
	Hidden bool // also looks empty
}

// Limit is a resource limit, both soft and hard.
type Limit struct {
	Resource   int
	Soft, Hard uint64
}

// Answer is a message of the first process.
type Answer struct {
	Step   string `json:"step,omitempty"`  // failed step; the program did not start
	Error  string `json:"error,omitempty"` // the error of the step
	Job    bool   `json:"job,omitempty"`   // an error in the job, not the sandbox
	Ready  bool   `json:"ready,omitempty"` // everything is built; the program starts when the owner allows it
	Ended  bool   `json:"ended,omitempty"`
	Exit   int    `json:"exit,omitempty"`
	Signal int    `json:"signal,omitempty"`
	CPU    int64  `json:"cpu,omitempty"` // ns
	RSS    int64  `json:"rss,omitempty"` // KiB
}

// maxPlan is the maximum size of the plan without file contents.
const maxPlan = 32 << 20

// Write writes the plan and the contents of its files.
func (p *Plan) Write(w io.Writer, data [][]byte) error {
	var head bytes.Buffer
	if err := gob.NewEncoder(&head).Encode(p); err != nil { // arguments and paths may hold any bytes
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

// Read reads the output of Write.
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
