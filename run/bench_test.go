package run_test

import (
	"fmt"
	"testing"

	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/record"
	"metier/run"
)

// BenchmarkProject writes all artifacts of a run of 500 turns, with about 2,500 entries and 500
// tool outputs.
func BenchmarkProject(b *testing.B) {
	f, err := run.Create(b.TempDir(), "bench", &run.Options{Now: clock()})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	now := clock()
	put := func(s string) record.Ref {
		r, err := f.Blobs().Put(b.Context(), "application/json", []byte(s))
		if err != nil {
			b.Fatal(err)
		}
		return r
	}
	add := func(e event.Event, id string) {
		head, err := f.Log().Head(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		en, err := event.New(e, id, "bench", now())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := f.Log().Append(b.Context(), head, en); err != nil {
			b.Fatal(err)
		}
	}
	add(event.SessionOpened{Session: "bench"}, "opened")
	for i := range 500 {
		call := fmt.Sprintf("t%d.c1", i)
		args := put(fmt.Sprintf(`{"path":"/workspace/%d"}`, i))
		add(event.ModelStarted{ID: call + "m"}, "m"+call)
		add(event.ModelReplied{ID: call + "m", Message: put(fmt.Sprintf(`{"role":"assistant","parts":[{"kind":"text","text":"turn %d"}]}`, i))}, "r"+call)
		add(event.PolicyDecided{Call: call, Tool: "read_file", Outcome: policy.Allow, Code: "allowed", Args: args, Stage: "call"}, "d"+call)
		add(event.ToolCallStarted{ID: call, Tool: "read_file", Effect: policy.Read, Args: args}, "s"+call)
		add(event.ToolResult{ID: call, Tool: "read_file", Content: put(fmt.Sprintf(`[{"kind":"%s","text":"%d"}]`, model.PartResult, i))}, "e"+call)
	}
	for b.Loop() {
		if err := f.Project(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
