package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/agent"
	"metier/event"
	"metier/model"
	"metier/model/modeltest"
	"metier/policy"
	"metier/record"
)

// returned lists the results in the log: call, code and text.
func (w *fixture) returned() (out []string) {
	w.t.Helper()
	for _, e := range w.events() {
		if e, is := e.(event.ToolResult); is {
			b, err := w.log.Open(w.t.Context(), e.Content)
			var parts []model.Part
			if err != nil || json.Unmarshal(b, &parts) != nil || len(parts) != 1 {
				w.t.Fatalf("content of %s: %s, %v", e.ID, b, err)
			}
			code, _, _ := strings.Cut(parts[0].Text, ":")
			out = append(out, strings.Join([]string{e.ID, e.Tool, e.Code, code}, " "))
		}
	}
	return out
}

// write appends events as an earlier process did.
func (w *fixture) write(evs ...event.Event) {
	w.t.Helper()
	for _, e := range evs {
		head, err := w.log.Head(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		en, err := event.New(e, fmt.Sprintf("test@%d", head.Seq), "test", w.log.Now())
		if err == nil {
			_, err = w.log.Append(w.t.Context(), head, en)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// claimed writes a run whose model asked for one call, which was claimed.
func (w *fixture) claimed(tool string, e policy.Effect) {
	w.t.Helper()
	put := func(v any) record.Ref {
		b, err := json.Marshal(v)
		if err != nil {
			w.t.Fatal(err)
		}
		r, err := w.log.Put(w.t.Context(), "application/json", b)
		if err != nil {
			w.t.Fatal(err)
		}
		return r
	}
	args := json.RawMessage(`{"path":"a.txt"}`)
	w.write(event.RunStarted{Run: "r", Rules: 1, MaxTurns: 9, Results: true, Spec: put(agent.Spec{Run: "r"})}, event.ModelStarted{ID: "t1.m"},
		event.ModelReplied{ID: "t1.m", Calls: []event.CallRef{{ID: "t1.c0", Tool: tool, Args: put(args)}},
			Message: put(model.Message{Role: model.RoleAssistant, Parts: []model.Part{{Kind: model.PartCall, Call: "t1.c0", WireID: "w", Tool: tool, Args: args}}})},
		event.ToolCallStarted{ID: "t1.c0", Tool: tool, Effect: e, Args: put(args)})
}

// Each call of a model has one result in the log, in the order of the calls, regardless of what
// ended it.
//
// req
func TestCalls_EachHasOneResultWhoeverEndsIt(t *testing.T) {
	t.Parallel()
	read := modeltest.Call{Tool: "read_file", Args: `{"path":"a.txt"}`}
	for name, c := range map[string]struct {
		prepare func(w *fixture, cfg *agent.Config)
		want    []string
	}{
		"call_limit": {func(w *fixture, cfg *agent.Config) {
			cfg.Spec.MaxCalls = 1
			w.server.Say(modeltest.Turn{Calls: []modeltest.Call{read, read, read}}, modeltest.Turn{Text: "done"})
		}, []string{"t1.c0 read_file  one\n", "t1.c1 read_file call_limit call_limit", "t1.c2 read_file call_limit call_limit"}},
		"loop_detected": {func(w *fixture, cfg *agent.Config) {
			cfg.Spec.MaxRepeats = 2
			w.server.Say(modeltest.Turn{Calls: []modeltest.Call{read}}, modeltest.Turn{Calls: []modeltest.Call{read}})
		}, []string{"t1.c0 read_file  one\n", "t2.c0 read_file loop_detected loop_detected"}},
		"cancelled": {func(w *fixture, cfg *agent.Config) {
			outside := modeltest.Call{Tool: "list_files", Args: fmt.Sprintf(`{"path":%q}`, w.t.TempDir())}
			w.server.Say(modeltest.Turn{Calls: []modeltest.Call{outside, outside, read}}, modeltest.Turn{Text: "done"})
			cfg.Ask = func(context.Context, agent.Question) (policy.Answer, error) {
				return policy.Answer{}, errors.New("closed")
			}
		}, []string{"t1.c0 list_files cancelled cancelled", "t1.c1 list_files cancelled cancelled"}},
		"outcome_unknown": {func(w *fixture, cfg *agent.Config) {
			w.claimed("bash", policy.SideEffect)
			w.server.Say(modeltest.Turn{Text: "done"})
		}, []string{"t1.c0 bash outcome_unknown outcome_unknown"}},
		"lost_too_often": {func(w *fixture, cfg *agent.Config) {
			w.claimed("read_file", policy.Read)
			for try := range 19 {
				w.write(event.ToolCallLost{ID: "t1.c0", Try: try}, event.ToolCallStarted{ID: "t1.c0", Try: try + 1, Tool: "read_file", Effect: policy.Read})
			}
			w.server.Say(modeltest.Turn{Text: "done"})
		}, []string{"t1.c0 read_file lost_too_often lost_too_often"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, "default", nil)
			w.file("a.txt", "one\n")
			cfg := w.prepare("go")
			c.prepare(w, &cfg)
			if _, err := agent.Run(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(w.returned(), func(r string) bool { return name == "cancelled" && strings.HasPrefix(r, "t1.c2") })
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			last := w.events()[len(w.events())-1].Type()
			if d := cmp.Diff(event.RunEnded{}.Type(), last); d != "" {
				t.Error(d)
			}
		})
	}
}

// Results that the run returns instead of a tool name the active skills, too.
//
// req: C-088
func TestCalls_ResultsOfTheRunNameTheActiveSkills(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	w.file("a.txt", "one\n")
	w.skill("guide", "Use when asked.", "Text.\n")
	cfg := w.prepare("go", "guide")
	cfg.Spec.MaxCalls = 1
	read := modeltest.Call{Tool: "read_file", Args: `{"path":"a.txt"}`}
	w.server.Say(modeltest.Turn{Calls: []modeltest.Call{read, read}}, modeltest.Turn{Text: "done"})
	if _, err := agent.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	hash, got := "", map[string][]string{}
	for _, e := range w.events() {
		switch e := e.(type) {
		case event.SkillActivated:
			hash = e.Hash
		case event.ToolResult:
			for _, a := range e.Active {
				got[e.ID+" "+e.Code] = append(got[e.ID+" "+e.Code], a.Digest)
			}
		}
	}
	if d := cmp.Diff(map[string][]string{"t1.c0 ": {hash}, "t1.c1 call_limit": {hash}}, got); d != "" {
		t.Error(d)
	}
}

// Each event of a call lists all active skills, in the order of their activation.
//
// req: C-088
func TestCalls_EachEventNamesAllActiveSkills(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", map[string]string{"enforcement_mode": string(policy.EnforceExplicit)})
	w.skill("tone", "Use when writing.", "Be brief.\n")
	w.skill("guide", "Use when asked.", "Text.\n")
	w.more, w.grants = []metier.Tool{sensor{name: "careless"}}, []string{"careless"} // its result is withheld, and that decision is recorded
	w.server.Say(call("careless", `{}`), modeltest.Turn{Text: "done"})
	w.run("measure", "tone", "guide")
	var hashes []string
	got := map[string][]string{}
	for _, e := range w.events() {
		call, name, active := "", "", []event.SkillRef(nil)
		switch e := e.(type) {
		case event.SkillActivated:
			hashes = append(hashes, e.Hash)
		case event.PolicyDecided:
			call, name, active = e.Call, "decided: "+e.Stage, e.Active
		case event.ToolCallStarted:
			call, name, active = e.ID, "started", e.Active
		case event.ToolResult:
			call, name, active = e.ID, "returned", e.Active
		}
		if call != "t1.c0" { // an activation is a call as well
			continue
		}
		for _, a := range active {
			got[name] = append(got[name], a.Digest)
		}
	}
	if d := cmp.Diff(map[string][]string{"decided: call": hashes, "started": hashes, "decided: release": hashes, "returned": hashes}, got); d != "" || len(hashes) != 2 {
		t.Errorf("of %d skills: %s", len(hashes), d)
	}
}
