// Package subject is what the programs under measure have in common: they take
// a case and a folder, do the work once, and print one line of JSON.
package subject

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Result is what one process found out about itself.
type Result struct {
	Nanos int64              `json:"nanos"`           // the work alone, without the start of the process
	Count int                `json:"count"`           // what it found: skills, files or answers
	Error string             `json:"error,omitempty"` // the loader gave up
	Extra map[string]float64 `json:"extra,omitempty"` // figures of a case in ms, such as p99
}

// Case does the work on a folder. What it does before begin is called is not
// measured; one that never calls it is measured whole.
type Case func(dir string, begin func()) (count int, extra map[string]float64, err error)

// Main runs the case that the first argument names on the folder that the
// second names.
func Main(cases map[string]Case) {
	if len(os.Args) != 3 || cases[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: subject CASE DIR")
		os.Exit(2)
	}
	start := time.Now()
	count, extra, err := cases[os.Args[1]](os.Args[2], func() { start = time.Now() })
	r := Result{Nanos: time.Since(start).Nanoseconds(), Count: count, Extra: extra}
	if err != nil {
		r.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Timing is how long one contestant took, round by round. Contestants of one
// group did the same work, one after the other in each round.
type Timing struct {
	Group, Name string
	Nanos       []int64
	CPU         []int64 // nanoseconds of processors, ours and of what was started and ended
	Error       string  // why it has none
}

// Load is what became of a server under load.
type Load struct {
	Name        string // who its clients are
	Clients     int
	Seconds     float64
	Calls, Lost int64  // lost: without an answer, or with a wrong one
	Error       string // of the first that was lost
	Early, Late int64  // memory of the process after five seconds and at the end, in bytes
	Folders     int    // records it left
	Disk        int64  // their bytes
}
