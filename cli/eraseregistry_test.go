package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"metier/event"
	"metier/record"
)

// eraseRegistry erases the list of skills from the only record below the
// current folder, and removes the artifacts printed from it.
func eraseRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: eraseregistry")
	}
	dirs, err := filepath.Glob(ts.MkAbs(".metier/runs/*"))
	if err != nil || len(dirs) != 1 {
		ts.Fatalf("%d records: %v", len(dirs), err)
	}
	blobs, err := record.OpenBlobs(filepath.Join(dirs[0], "blobs"), nil)
	ts.Check(err)
	defer blobs.Close()
	for line, err := range record.File(filepath.Join(dirs[0], "events.jsonl")).Lines(context.Background()) {
		ts.Check(err)
		var en record.Entry
		ts.Check(json.Unmarshal(line, &en))
		e, err := event.Decode(en)
		ts.Check(err)
		if e, is := e.(event.SkillsDiscovered); is {
			ts.Check(blobs.Erase(context.Background(), e.Registry))
		}
	}
	printed, err := filepath.Glob(filepath.Join(dirs[0], "*.json"))
	ts.Check(err)
	outputs, err := filepath.Glob(filepath.Join(dirs[0], "tool-outputs", "*.json")) // these name files of the list
	ts.Check(err)
	for _, f := range append(printed, outputs...) {
		ts.Check(os.Remove(f))
	}
}
