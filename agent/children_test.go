package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/agent"
	"metier/event"
	"metier/model"
	"metier/model/modeltest"
	"metier/policy"
)

// backwards is a child that ends after the child of the next call has ended.
type backwards struct{ ended []chan struct{} }

func (backwards) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	return metier.Spec{ToolSpec: model.ToolSpec{Name: "child", Schema: json.RawMessage(`{"type":"object"}`)}, Canonical: "child", Effect: policy.SideEffect}, true
}

func (backwards) Facts(context.Context, *metier.Session, json.RawMessage) (metier.Facts, error) {
	return metier.Facts{Request: policy.Request{Effect: policy.Read}}, nil
}

func (b backwards) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	n := 0
	if _, err := fmt.Sscanf(x.Call().ID, "t1.c%d", &n); err != nil {
		return metier.Result{}, err
	}
	if n+1 < len(b.ended) {
		select {
		case <-b.ended[n+1]:
		case <-ctx.Done():
			return metier.Result{}, ctx.Err()
		}
	}
	close(b.ended[n])
	return metier.Result{Parts: metier.Text("ok").Parts, Label: policy.Label{Role: policy.Context, Mediated: true}}, nil
}

// Subagents of one reply that run concurrently and end in reverse order are claimed and recorded in
// the order of their calls, and so is a read after them.
//
// req: C-006
func TestChildren_RecordedInTheOrderOfTheirCalls(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	w.file("a.txt", "one\n")
	b := backwards{make([]chan struct{}, 6)}
	var calls []modeltest.Call
	var want []string
	for i := range b.ended {
		b.ended[i] = make(chan struct{})
		calls = append(calls, modeltest.Call{Tool: "child", Args: fmt.Sprintf(`{"n":%d}`, i)})
		want = append(want, fmt.Sprintf("started t1.c%d", i))
	}
	for i := range b.ended {
		want = append(want, fmt.Sprintf("returned t1.c%d", i))
	}
	want = append(want, "started t1.c6", "returned t1.c6")
	calls = append(calls, modeltest.Call{Tool: "read_file", Args: `{"path":"a.txt"}`})
	w.more, w.grants = []metier.Tool{b}, append(slices.Clone(w.grants), "child")
	w.server.Say(modeltest.Turn{Calls: calls}, modeltest.Turn{Text: "done"})
	cfg := w.prepare("go")
	cfg.Spawns = func(tool string, _ json.RawMessage) bool { return tool == "child" }
	if out, err := agent.Run(t.Context(), cfg); err != nil || out.Status != "done" {
		t.Fatalf("outcome %+v, %v", out, err)
	}
	var got []string
	for _, e := range w.events() {
		switch e := e.(type) {
		case event.ToolCallStarted:
			got = append(got, "started "+e.ID)
		case event.ToolResult:
			got = append(got, "returned "+e.ID)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
