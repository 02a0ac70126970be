package cli_test

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"metier/internal/digest"
)

// stored is a line of a log as it is in the file.
type stored struct {
	V    int             `json:"v"`
	Seq  int             `json:"seq"`
	Prev string          `json:"prev"`
	ID   string          `json:"id"`
	At   string          `json:"at"`
	By   string          `json:"by,omitempty"`
	Type string          `json:"type"`
	Must bool            `json:"must,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
	Refs json.RawMessage `json:"refs,omitempty"`
}

func storedLines(ts *testscript.TestScript, path string) (raw [][]byte, lines []stored) {
	b, err := os.ReadFile(path)
	ts.Check(err)
	raw = bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	for _, r := range raw {
		var l stored
		ts.Check(json.Unmarshal(r, &l))
		lines = append(lines, l)
	}
	return raw, lines
}

// forge appends an entry that continues the chain, as a program can that may
// write the log but not its heads: forge PATTERN TYPE [DATA]. An
// approval.answered without DATA answers yes to the newest question.
func forge(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: forge PATTERN TYPE [DATA]")
	}
	path := only(ts, args[0])
	raw, lines := storedLines(ts, path)
	last := lines[len(lines)-1]
	e := stored{V: 1, Seq: last.Seq + 1, Prev: digest.Bytes(raw[len(raw)-1]), ID: args[1] + "@forged", At: last.At, By: "ada", Type: args[1], Must: true, Data: json.RawMessage("{}")}
	switch {
	case len(args) > 2:
		e.Data = json.RawMessage(args[2])
	case e.Type == "approval.answered":
		for _, l := range lines {
			if l.Type == "approval.asked" {
				var q map[string]any
				ts.Check(json.Unmarshal(l.Data, &q))
				e.ID = "answered:" + q["call"].(string) + ":" + q["id"].(string)
				b, err := json.Marshal(map[string]any{"id": q["id"], "call": q["call"], "binds": q["binds"], "allow": true, "scope": "once", "by": "ada"})
				ts.Check(err)
				e.Data = b
			}
		}
	}
	b, err := json.Marshal(e)
	ts.Check(err)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	ts.Check(err)
	_, err = f.Write(append(b, '\n'))
	ts.Check(err)
	ts.Check(f.Close())
}

// rechain rewrites a log without the entries of a type, with a valid chain:
// rechain PATTERN TYPE.
func rechain(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: rechain PATTERN TYPE")
	}
	path := only(ts, args[0])
	_, lines := storedLines(ts, path)
	var out bytes.Buffer
	prev, seq := "", 0
	for _, l := range lines {
		if l.Type == args[1] {
			continue
		}
		seq++
		l.Seq, l.Prev = seq, prev
		b, err := json.Marshal(l)
		ts.Check(err)
		prev = digest.Bytes(b)
		out.Write(append(b, '\n'))
	}
	ts.Check(os.WriteFile(path, out.Bytes(), 0o600))
}

// empty removes the content of a file: empty PATTERN.
func empty(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(os.Truncate(only(ts, args[0]), 0))
}
