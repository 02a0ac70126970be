package step_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"metier/agent/step"
	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/record"
)

// ref returns the blob reference of a text.
func ref(s string) record.Ref {
	h := sha256.Sum256([]byte(s))
	return record.Ref{Digest: "sha256:" + hex.EncodeToString(h[:]), Size: int64(len(s)), Media: "application/json"}
}

// dump returns the state as JSON.
func dump(t testing.TB, s *step.State) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// must applies events that have to change the state.
func must(t testing.TB, s *step.State, evs ...event.Event) {
	t.Helper()
	for _, e := range evs {
		used, err := s.Apply(e)
		if err != nil || !used {
			t.Fatalf("%s %+v: used %t, error %v; state %s", e.Type(), e, used, err, dump(t, s))
		}
		pairs(t, s)
	}
}

// refuse applies events that must change nothing.
func refuse(t testing.TB, s *step.State, evs ...event.Event) {
	t.Helper()
	for _, e := range evs {
		before := dump(t, s)
		used, err := s.Apply(e)
		if err != nil || used || dump(t, s) != before {
			t.Fatalf("%s %+v: used %t, error %v; state\n%s\nafter\n%s", e.Type(), e, used, err, before, dump(t, s))
		}
	}
}

// keys returns the keys of the outstanding actions.
func keys(s *step.State) []string {
	var out []string
	for _, a := range step.Next(s) {
		out = append(out, a.Key())
	}
	return out
}

// wants fails unless exactly these keys are outstanding.
func wants(t testing.TB, s *step.State, want ...string) {
	t.Helper()
	if got := keys(s); !slices.Equal(got, want) {
		t.Fatalf("outstanding %q, want %q; state %s", got, want, dump(t, s))
	}
}

// pairs checks that each assistant call has exactly one result, in order, in
// the next message, and that every result has a call. The open turn is exempt.
func pairs(t testing.TB, s *step.State) {
	t.Helper()
	for i, m := range s.Messages {
		if len(m.Calls) > 0 {
			if i == len(s.Messages)-1 && len(s.Calls) == len(m.Calls) {
				continue
			}
			if i == len(s.Messages)-1 || len(s.Messages[i+1].Results) != len(m.Calls) {
				t.Fatalf("message %d: calls without results: %s", i, dump(t, s))
			}
			for j, c := range m.Calls {
				if r := s.Messages[i+1].Results[j]; r.Call != c.ID || r.Tool != c.Tool {
					t.Fatalf("message %d: call %s is answered by %+v", i, c.ID, r)
				}
			}
		}
		if m.Role == model.RoleTool && (i == 0 || len(s.Messages[i-1].Calls) == 0) {
			t.Fatalf("message %d: results without calls: %s", i, dump(t, s))
		}
	}
	for _, l := range s.Active {
		if l.InMessage >= len(s.Messages) || l.InMessage >= 0 && s.Messages[l.InMessage].Role != model.RoleTool {
			t.Fatalf("skill %s is said to be in message %d: %s", l.Name, l.InMessage, dump(t, s))
		}
	}
}

// fixture is the environment of the state machine: a log, a scripted model,
// tools with effects, and a driver that claims and finishes in a random order,
// crashes at any moment and resumes from the log.
type fixture struct {
	t       testing.TB
	seed    uint64
	r       *rand.Rand
	s       *step.State
	log     []event.Event // as decoded from their entries
	flight  []step.Action
	acts    map[string]int // side effects that happened, by call
	crashes int            // crashes still allowed
	stopAt  int            // event after which the turn is stopped, 0 never
}

var begun = event.RunStarted{Run: "r1", Rules: step.Rules, MaxTurns: 30, MaxCalls: 5, MaxRepeats: 4, MaxRetries: 2,
	CompactAt: 1000, KeepLast: 3, OutputTries: 2, Schema: ref("schema")}

func newFixture(t testing.TB, seed uint64, crashes int) *fixture {
	w := &fixture{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 7)), s: &step.State{}, acts: map[string]int{}, crashes: crashes}
	w.append(event.ToolsOffered{Digest: "o1", Names: []string{"read"}},
		event.SkillActivated{Call: "cli", SkillID: "s:pre", Name: "pre", Hash: "h0", Text: ref("pre")},
		begun, event.Input{ID: "i1", Content: ref("go")})
	return w
}

// append writes events to the log in one append and folds them.
func (w *fixture) append(evs ...event.Event) {
	w.t.Helper()
	for _, e := range evs {
		w.log = append(w.log, w.stored(e))
		if _, err := w.s.Apply(e); err != nil {
			w.t.Fatal(err)
		}
		pairs(w.t, w.s)
		if w.stopAt > 0 && len(w.log) == w.stopAt {
			w.append(event.RunStopped{Scope: "turn"})
		}
	}
}

// stored returns the event as another process reads it. The codec is slow: one
// fixture in eight uses it.
func (w *fixture) stored(e event.Event) event.Event {
	w.t.Helper()
	if w.seed%8 != 0 {
		return e
	}
	en, err := event.New(e, fmt.Sprint("e", len(w.log)), "", time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	decoded, err := event.Decode(en)
	if err != nil {
		w.t.Fatal(err)
	}
	return decoded
}

// refold returns the state that another process folds from the log.
func (w *fixture) refold() *step.State {
	w.t.Helper()
	s := &step.State{}
	for i, e := range w.log {
		if _, err := s.Apply(e); err != nil {
			w.t.Fatal(err)
		}
		if i%20 == 3 { // a checkpoint on the way changes nothing
			var c step.State
			if err := json.Unmarshal([]byte(dump(w.t, s)), &c); err != nil {
				w.t.Fatal(err)
			}
			s = &c
		}
	}
	return s
}

// crash forgets everything except the log.
func (w *fixture) crash() {
	w.t.Helper()
	w.crashes--
	for _, a := range w.flight { // some effects happened, but were not recorded
		if c, ok := a.(step.CallTool); ok && w.r.IntN(2) == 0 {
			w.act(c)
		}
	}
	s := w.refold()
	if got, want := dump(w.t, s), dump(w.t, w.s); got != want {
		w.t.Fatalf("the log gives\n%s\nthe process had\n%s", got, want)
	}
	w.s, w.flight = s, nil
	for _, l := range step.Interrupted(s) {
		w.append(l)
	}
}

func (w *fixture) act(c step.CallTool) {
	if c.Tool == "exec" {
		w.acts[c.ID]++
	}
}

// claim claims an action, if it is of a kind that is claimed.
func (w *fixture) claim(a step.Action) {
	w.t.Helper()
	effect := map[string]policy.Effect{"read": policy.Read, "load_skill": policy.Read, "write": policy.Write, "exec": policy.SideEffect}
	switch a := a.(type) {
	case step.CallModel:
		w.append(event.ModelStarted{ID: a.ID, Try: a.Try})
	case step.Compact:
		w.append(event.ModelStarted{ID: a.ID, Try: a.Try})
	case step.Spawn:
		w.append(event.ToolCallStarted{ID: a.ID, Try: a.Try, Tool: a.Tool})
	case step.CallTool:
		if a.Tool == "exec" && a.Try == 0 { // requires an approval
			w.append(event.ApprovalRequested{Call: a.ID, ID: "q-" + a.ID, Binds: "b"})
			return
		}
		w.append(event.ToolCallStarted{ID: a.ID, Try: a.Try, Tool: a.Tool, Effect: effect[a.Tool]})
	}
	w.flight = append(w.flight, a)
}

// reply is the script: six turns of calls, an answer that does not fit the
// schema, one that does.
func (w *fixture) reply(id string) event.Event {
	turn := 0
	if _, err := fmt.Sscanf(id, "t%d.m", &turn); err != nil {
		w.t.Fatal(err)
	}
	e := event.ModelReplied{ID: id, Message: ref(id), Stop: "end", Usage: event.Usage{Input: 300, CacheRead: int64(turn) * 100, Output: 10}}
	if turn > 8 {
		return e
	}
	tools := []string{"read", "exec", "write"}
	switch {
	case turn == 2:
		tools = append(tools, "load_skill")
	case turn == 4:
		tools = append(tools, "read", "exec", "read") // one more than allowed
	case turn%2 == 0:
		tools = append(tools, "child")
	}
	e.Stop = "tools"
	for i, n := range tools {
		e.Calls = append(e.Calls, event.CallRef{ID: fmt.Sprintf("t%d.c%d", turn, i), Tool: n, Args: ref(fmt.Sprint(turn, i)), Child: n == "child"})
	}
	return e
}

// finish ends an action that is in flight.
func (w *fixture) finish(a step.Action) {
	w.t.Helper()
	switch a := a.(type) {
	case step.CallModel:
		switch {
		case a.ID == "t5.m" && w.fails(a.ID, "model_rate_limited") < 2:
			w.append(event.ModelFailed{ID: a.ID, Try: a.Try, Code: "model_rate_limited", Retry: true})
		case a.ID == "t4.m" && w.fails(a.ID, "model_context_overflow") == 0:
			w.append(event.ModelFailed{ID: a.ID, Try: a.Try, Code: "model_context_overflow"})
		default:
			w.append(w.reply(a.ID))
		}
	case step.Compact:
		w.append(event.ContextCompacted{ID: a.ID, Upto: a.Upto, Summary: ref("summary " + a.ID), Usage: event.Usage{Input: 5}})
	case step.Check:
		if a.ID == "t9.o" {
			w.append(event.OutputChecked{ID: a.ID, Code: "schema", Errors: ref("wrong")})
		} else {
			w.append(event.OutputChecked{ID: a.ID, Output: ref("output")})
		}
	case step.Spawn:
		w.append(event.ChildEnded{ID: a.ID, Run: "child-" + a.ID}, event.ToolResult{ID: a.ID, Content: ref("child " + a.ID)})
	case step.CallTool:
		w.act(a)
		evs := []event.Event{event.ToolResult{ID: a.ID, Tool: a.Tool, Content: ref("result " + a.ID)}}
		if a.Tool == "load_skill" {
			evs = append(evs, event.SkillActivated{Call: a.ID, SkillID: "s:dyn", Name: "dyn", Hash: "h1", Text: ref("dyn")})
			evs = append(evs, event.ToolsOffered{Digest: "o2", Names: []string{"read", "exec"}})
		}
		w.append(evs...)
	case step.Await:
		w.append(event.ApprovalAnswered{ID: a.Question.ID, Call: a.ID, Binds: "b", Allow: true, Scope: "once"})
	case step.Cancel:
		i := slices.IndexFunc(w.flight, func(f step.Action) bool { return f.Key()+"!" == a.Key() })
		if strings.HasSuffix(a.ID, ".m") || strings.HasSuffix(a.ID, ".k") {
			w.append(event.ModelFailed{ID: a.ID, Try: a.Try, Code: "model_canceled"})
		} else {
			w.append(event.ToolResult{ID: a.ID, Code: step.CodeCancelled})
		}
		if i >= 0 {
			w.flight = slices.Delete(w.flight, i, i+1)
		}
	case step.End:
		w.append(event.RunEnded{Run: a.Run, Status: a.Status, Code: a.Code, Answer: a.Answer, Output: a.Output})
	}
}

// fails counts in the log, because the fixture forgets in a crash too.
func (w *fixture) fails(id, code string) int {
	n := 0
	for _, e := range w.log {
		if f, ok := e.(event.ModelFailed); ok && f.ID == id && f.Code == code {
			n++
		}
	}
	return n
}

// run drives until the run ended or waits for input.
func (w *fixture) run() *step.State {
	w.t.Helper()
	for range 5000 {
		next := step.Next(w.s)
		if len(next)+len(w.flight) == 0 {
			return w.s
		}
		if w.crashes > 0 && w.r.IntN(6) == 0 {
			w.crash()
			continue
		}
		pick := w.r.IntN(len(next) + len(w.flight))
		if pick >= len(next) {
			pick -= len(next)
			a := w.flight[pick]
			w.flight = slices.Delete(w.flight, pick, pick+1)
			w.finish(a)
			continue
		}
		switch a := next[pick].(type) {
		case step.Await, step.Check, step.Cancel, step.End:
			w.finish(a)
		default:
			w.claim(a)
		}
	}
	w.t.Fatalf("the run does not end: %s", dump(w.t, w.s))
	return nil
}

// transcript returns the final conversation. An outcome that a crash left
// unknown is written as if it had been recorded.
func (w *fixture) transcript() string {
	s := *w.s
	s.Messages = slices.Clone(s.Messages)
	for i := range s.Messages {
		s.Messages[i].Results = slices.Clone(s.Messages[i].Results)
		for j := range s.Messages[i].Results {
			r := &s.Messages[i].Results[j]
			if r.Code == step.CodeOutcomeUnknown {
				r.Code, r.Content = "", ref("result "+r.Call)
			}
		}
	}
	b, _ := json.MarshalIndent([]any{s.Turn, s.Phase, s.Status, s.Code, s.Output, s.Offered, s.Active, s.Usage, s.Messages}, "", " ")
	return string(b)
}

// firstDiff returns the first position at which two texts differ.
func firstDiff(a, b string) string {
	la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(la), len(lb)) {
		if la[i] != lb[i] {
			return fmt.Sprintf("line %d:\n%s\n%s", i, strings.Join(la[max(0, i-8):i+1], "\n"), lb[i])
		}
	}
	return fmt.Sprint("lengths ", cmp.Compare(len(la), len(lb)))
}
