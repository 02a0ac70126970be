package step_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"metier/agent/step"
	"metier/event"
	"metier/policy"
)

// started is a run that was started.
func started(t testing.TB, b event.RunStarted) *step.State {
	t.Helper()
	b.Run, b.Rules = "r1", step.Rules
	s := &step.State{}
	must(t, s, b, event.Input{ID: "i1", Content: ref("go")})
	return s
}

// reply claims the outstanding model call and answers it with calls of tools.
func reply(t testing.TB, s *step.State, tools ...string) {
	t.Helper()
	e := event.ModelReplied{ID: s.Pending.ID, Message: ref(s.Pending.ID), Usage: event.Usage{Input: 100, Output: 20}}
	for i, n := range tools {
		e.Calls = append(e.Calls, event.CallRef{ID: fmt.Sprintf("t%d.c%d", s.Turn, i), Tool: n, Args: ref(fmt.Sprint(s.Turn, n)), Child: n == "child"})
	}
	must(t, s, event.ModelStarted{ID: s.Pending.ID, Try: s.Pending.Try}, e)
}

// turn is a complete turn with one read-only call.
func turn(t testing.TB, s *step.State) {
	t.Helper()
	reply(t, s, "read")
	must(t, s, event.ToolResult{ID: s.Calls[0].ID, Content: ref("r")})
}

// ends fails unless the run is about to end with this outcome.
func ends(t testing.TB, s *step.State, status, code string) {
	t.Helper()
	next := step.Next(s)
	if len(next) != 1 {
		t.Fatalf("outstanding %v; state %s", next, dump(t, s))
	}
	end, ok := next[0].(step.End)
	if !ok || end.Status != status || end.Code != code || end.Run != "r1" {
		t.Fatalf("got %+v, want the end %s %s; state %s", next[0], status, code, dump(t, s))
	}
	must(t, s, event.RunEnded{Run: end.Run, Status: end.Status, Code: end.Code})
	wants(t, s)
}

// results returns the codes of the last tool message.
func results(s *step.State) string {
	var out []string
	for i := len(s.Messages) - 1; i >= 0; i-- {
		if m := s.Messages[i]; len(m.Results) > 0 {
			for _, r := range m.Results {
				out = append(out, r.Code)
			}
			break
		}
	}
	return strings.Join(out, " ")
}

func TestFinalReplyEndsTheRun(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{})
	wants(t, s, "t1.m#0")
	reply(t, s, "read", "child")
	wants(t, s, "t1.c0#0", "t1.c1#0")
	if _, ok := step.Next(s)[1].(step.Spawn); !ok {
		t.Fatalf("a child is a tool: %v", step.Next(s))
	}
	must(t, s, event.ChildEnded{ID: "t1.c1", Usage: event.Usage{Input: 3}}, event.ToolResult{ID: "t1.c1", Content: ref("b")})
	refuse(t, s, event.ChildEnded{ID: "t1.c0"}, event.ChildEnded{ID: "t1.c1"})
	must(t, s, event.ToolResult{ID: "t1.c0", Content: ref("a")})
	if r := s.Messages[2].Results; r[0].Content != ref("a") || r[1].Content != ref("b") {
		t.Fatalf("results are not in the model's order: %+v", r)
	}
	reply(t, s)
	if end := step.Next(s)[0].(step.End); end.Answer != ref("t2.m") {
		t.Fatalf("end %+v", end)
	}
	ends(t, s, "done", "")
	if s.Usage.Input != 203 || s.Usage.Output != 40 {
		t.Fatalf("usage %+v", s.Usage)
	}
}

func TestInputSaidWhileBusyOpensTheNextTurn(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{})
	reply(t, s, "read")
	must(t, s, event.Input{ID: "i2", Slot: policy.Slot{Role: policy.Quote}, Content: ref("more")})
	refuse(t, s, event.Input{ID: "i2"}, event.Input{ID: "i1"})
	must(t, s, event.ToolResult{ID: "t1.c0"})
	if m := s.Messages[3]; m.Input != "i2" || m.Slot.Role != policy.Quote {
		t.Fatalf("message %+v", m)
	}
	must(t, s, event.ModelStarted{ID: "t2.m"}, event.Input{ID: "i3"}, event.ModelReplied{ID: "t2.m"})
	wants(t, s, "t3.m#0") // not the last answer: an input arrived meanwhile
	reply(t, s)
	must(t, s, event.Input{ID: "i4"}) // before the end was written
	wants(t, s, "t4.m#0")
	reply(t, s)
	ends(t, s, "done", "")
}

func TestSecondRunGoesOnWithTheConversation(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{MaxTurns: 1})
	reply(t, s)
	b := event.RunStarted{Run: "r2", Rules: step.Rules, MaxTurns: 1}
	refuse(t, s, b)
	ends(t, s, "done", "")
	must(t, s, event.Input{ID: "i2"})
	wants(t, s)
	refuse(t, s, event.RunStarted{Run: "r1", Rules: step.Rules})
	must(t, s, b)
	wants(t, s, "t2.m#0") // turns continue to count, and the limit is the new run's own
	if len(s.Messages) != 3 || s.Usage.Input != 0 || s.Run != "r2" {
		t.Fatalf("state %s", dump(t, s))
	}
}

func TestStateKeepsNoSliceOfAnEvent(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{})
	names, calls, scopes := []string{"read"}, []event.CallRef{{ID: "t1.c0", Tool: "read"}}, []string{"once"}
	must(t, s, event.ToolsOffered{Digest: "a", Names: names}, event.ModelStarted{ID: "t1.m"}, event.ModelReplied{ID: "t1.m", Calls: calls},
		event.ApprovalRequested{Call: "t1.c0", ID: "q", Scopes: scopes})
	before := dump(t, s)
	names[0], calls[0].Tool, scopes[0] = "x", "x", "x"
	if dump(t, s) != before {
		t.Fatal("the state changed with the event")
	}
}

func TestOtherRulesAreRefused(t *testing.T) {
	t.Parallel()
	s := &step.State{}
	if _, err := s.Apply(event.RunStarted{Run: "r", Rules: step.Rules + 1}); !errors.Is(err, step.ErrRules) || s.Rules != 0 {
		t.Fatalf("error %v, rules %d", err, s.Rules)
	}
	s.Rules = step.Rules + 1
	if _, err := s.Apply(event.Input{ID: "i"}); !errors.Is(err, step.ErrRules) {
		t.Fatalf("error %v", err)
	}
}

func TestSecondClaimIsRefused(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{})
	must(t, s, event.ModelStarted{ID: "t1.m"})
	refuse(t, s, event.ModelStarted{ID: "t1.m"}, event.ModelStarted{ID: "t2.m"})
	must(t, s, event.ModelReplied{ID: "t1.m", Calls: []event.CallRef{{ID: "t1.c0", Tool: "exec"}}})
	refuse(t, s, event.ToolCallStarted{ID: "t1.c0", Try: 1})
	must(t, s, event.ToolCallStarted{ID: "t1.c0", Effect: policy.SideEffect})
	refuse(t, s, event.ToolCallStarted{ID: "t1.c0", Effect: policy.SideEffect}, event.ToolCallStarted{ID: "elsewhere"})
	wants(t, s)
}

func TestLostOpsByEffect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tool   string
		effect policy.Effect
		code   string // "": requested again
	}{{"read", policy.Read, ""}, {"write", policy.Write, ""}, {"child", "", ""}, {"exec", policy.SideEffect, step.CodeOutcomeUnknown}, {"odd", "", step.CodeOutcomeUnknown}} {
		s := started(t, event.RunStarted{})
		must(t, s, event.ModelStarted{ID: "t1.m"}, event.ToolCallLost{ID: "t1.m"})
		wants(t, s, "t1.m#1")
		refuse(t, s, event.ToolCallLost{ID: "t1.m"}, event.ToolCallLost{ID: "t1.m", Try: 1}, event.ModelReplied{ID: "t1.m"})
		reply(t, s, c.tool)
		refuse(t, s, event.ToolCallLost{ID: "t1.c0"})
		must(t, s, event.ToolCallStarted{ID: "t1.c0", Effect: c.effect})
		if got := step.Interrupted(s); len(got) != 1 || got[0].ID != "t1.c0" {
			t.Fatalf("interrupted %v", got)
		}
		must(t, s, event.ToolCallLost{ID: "t1.c0"})
		if c.code == "" {
			wants(t, s, "t1.c0#1")
			continue
		}
		if results(s) != c.code || s.Messages[2].Results[0].Call != "t1.c0" {
			t.Fatalf("%s: %s", c.tool, dump(t, s))
		}
		refuse(t, s, event.ToolResult{ID: "t1.c0"})
	}
}

func TestOpThatKillsItsProcessIsGivenUp(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{})
	reply(t, s, "read")
	for try := range step.MaxLost {
		must(t, s, event.ToolCallStarted{ID: "t1.c0", Try: try, Effect: policy.Read}, event.ToolCallLost{ID: "t1.c0", Try: try})
	}
	if results(s) != step.CodeLostTooOften {
		t.Fatal(dump(t, s))
	}
	for try := range step.MaxLost {
		must(t, s, event.ModelStarted{ID: "t2.m", Try: try}, event.ToolCallLost{ID: "t2.m", Try: try})
	}
	ends(t, s, "failed", step.CodeLostTooOften)
}

func TestRecoveredLogDoesNotRepeatACall(t *testing.T) {
	t.Parallel()
	three := func() *step.State {
		s := started(t, event.RunStarted{})
		reply(t, s, "exec", "exec2", "read")
		must(t, s, event.ApprovalRequested{Call: "t1.c1", ID: "q", Binds: "b"})
		return s
	}
	s := three() // exactly one entry lost: the call it names
	must(t, s, event.RecordRecovered{Seq: 9, LostSeq: 10, LostID: "started:t1.c0#0", LostType: "call.started"})
	wants(t, s, "t1.c1#0?q", "t1.c2#0")
	must(t, s, event.ApprovalExpired{ID: "q", Call: "t1.c1"}, event.ToolResult{ID: "t1.c2"})
	if got := results(s); got != "outcome_unknown expired " {
		t.Fatalf("results %q", got)
	}

	s = three() // more may be lost: no call of the turn is safe
	must(t, s, event.RecordRecovered{Seq: 9, LostSeq: 12, LostID: "returned:t1.c2", LostType: "call.returned"})
	if got := results(s); got != "outcome_unknown outcome_unknown outcome_unknown" {
		t.Fatalf("results %q", got)
	}

	s = three() // nothing that acts was lost
	refuse(t, s, event.RecordRecovered{Seq: 9}, event.RecordRecovered{Seq: 9, LostSeq: 10, LostID: "said:i2", LostType: "input.said"})

	s = started(t, event.RunStarted{}) // the reply with the call is lost with it
	must(t, s, event.ModelStarted{ID: "t1.m"})
	lost := event.RecordRecovered{Seq: 4, LostSeq: 9, LostID: "started:t1.c0#0", LostType: "call.started"}
	must(t, s, lost)
	refuse(t, s, lost)
	must(t, s, event.ToolCallLost{ID: "t1.m"})
	if m := s.Messages[1]; m.Slot.Origin != step.OriginRecovery || m.Content.Digest != "" {
		t.Fatalf("the model is not told: %s", dump(t, s))
	}
	refuse(t, s, event.RecordRecovered{Seq: 4, LostSeq: 5, LostID: "started:http-7#0", LostType: "call.started"}) // not a call of the model
}

func TestModelFailures(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{MaxRetries: 2})
	busy := func(id string, try int) event.ModelFailed {
		return event.ModelFailed{ID: id, Try: try, Code: "model_overloaded", Retry: true}
	}
	must(t, s, event.ModelStarted{ID: "t1.m"}, busy("t1.m", 0))
	refuse(t, s, busy("t1.m", 0), event.ModelFailed{ID: "t9.m"})
	must(t, s, busy("t1.m", 1))
	wants(t, s, "t1.m#2")
	reply(t, s, "read") // a success restarts the count
	must(t, s, event.ToolResult{ID: "t1.c0"}, busy("t2.m", 0), busy("t2.m", 1), busy("t2.m", 2))
	ends(t, s, "failed", "model_overloaded")

	s = started(t, event.RunStarted{MaxRetries: 2})
	must(t, s, event.ModelFailed{ID: "t1.m", Code: "model_auth"})
	ends(t, s, "failed", "model_auth")
}

func TestRepliesThatAreNoAnswer(t *testing.T) {
	t.Parallel()
	for stop, code := range map[string]string{"refusal": "model_refused", "length": step.CodeReplyCut} {
		s := started(t, event.RunStarted{})
		must(t, s, event.ModelStarted{ID: "t1.m"}, event.ModelReplied{ID: "t1.m", Stop: stop})
		ends(t, s, "failed", code)
	}
	s := started(t, event.RunStarted{})
	must(t, s, event.ModelStarted{ID: "t1.m"})
	before := dump(t, s)
	if _, err := s.Apply(event.ModelReplied{ID: "t1.m", Calls: []event.CallRef{{ID: "toolu_1"}}}); err == nil || dump(t, s) != before {
		t.Fatalf("a reply with foreign ids was taken: %v", err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("turns", func(t *testing.T) {
		t.Parallel()
		s := started(t, event.RunStarted{MaxTurns: 2})
		turn(t, s)
		turn(t, s)
		ends(t, s, "failed", step.CodeTurnLimit)
		s = started(t, event.RunStarted{MaxTurns: 2})
		turn(t, s)
		reply(t, s) // an answer in the last turn counts
		ends(t, s, "done", "")
	})
	t.Run("changed under way", func(t *testing.T) {
		t.Parallel()
		s := started(t, event.RunStarted{MaxTurns: 9})
		refuse(t, s, event.RunLimited{Run: "another", MaxTurns: 2})
		refuse(t, s, event.RunLimited{Run: s.Run, MaxTurns: 9})
		turn(t, s)
		must(t, s, event.RunLimited{Run: s.Run, MaxTokens: 1})
		if s.Spec.MaxTurns != 9 {
			t.Errorf("a limit that is not named changed: %+v", s.Spec)
		}
		must(t, s, event.RunLimited{Run: s.Run, MaxTurns: 2, MaxTokens: 1e6})
		turn(t, s)
		ends(t, s, "failed", step.CodeTurnLimit)
		refuse(t, s, event.RunLimited{Run: s.Run, MaxTurns: 3}) // the run has ended
	})
	t.Run("calls in one reply", func(t *testing.T) {
		t.Parallel()
		s := started(t, event.RunStarted{MaxCalls: 2})
		reply(t, s, "a", "b", "c", "d")
		wants(t, s, "t1.c0#0", "t1.c1#0")
		refuse(t, s, event.ToolCallStarted{ID: "t1.c2"})
		must(t, s, event.ToolResult{ID: "t1.c0"}, event.ToolResult{ID: "t1.c1", Code: "x"})
		if got := results(s); got != " x call_limit call_limit" {
			t.Fatalf("results %q", got)
		}
	})
	t.Run("the same call in a row", func(t *testing.T) {
		t.Parallel()
		s := started(t, event.RunStarted{MaxRepeats: 3})
		same := func(args ...string) {
			e := event.ModelReplied{ID: s.Pending.ID}
			for i, a := range args {
				e.Calls = append(e.Calls, event.CallRef{ID: fmt.Sprintf("t%d.c%d", s.Turn, i), Tool: "read", Args: ref(a)})
			}
			must(t, s, event.ModelStarted{ID: s.Pending.ID}, e)
			for i := range s.Calls {
				if len(s.Calls) > 0 && s.Calls[i].Status == step.Ready {
					must(t, s, event.ToolResult{ID: e.Calls[i].ID})
				}
			}
		}
		same("a")
		same("a", "b")
		same("b") // interrupts the series of a
		same("a")
		same("a")
		wants(t, s, "t6.m#0")
		same("c", "a") // b does not run either: its result would not be read
		if got := results(s); got != "loop_detected loop_detected" {
			t.Fatalf("results %q", got)
		}
		ends(t, s, "failed", step.CodeLoop)
	})
	t.Run("tokens", func(t *testing.T) {
		t.Parallel()
		s := started(t, event.RunStarted{MaxTokens: 240})
		turn(t, s)
		wants(t, s, "t2.m#0")
		turn(t, s)
		ends(t, s, "failed", step.CodeTokenBudget)
	})
}

func TestUsageAddsUpWithWhatIsKnownOfTheCost(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{CompactAt: 60, MaxTokens: 1000})
	cost := int64(30)
	for i, c := range []*int64{&cost, nil, &cost} {
		id := fmt.Sprintf("t%d.m", i+1)
		must(t, s, event.ModelStarted{ID: id}, event.Input{ID: id},
			event.ModelReplied{ID: id, Usage: event.Usage{Input: 10, Output: 1, CacheRead: 20, CacheWrite: 5, CostMicroUSD: c}})
	}
	if u := s.Usage; u.Input != 30 || u.Output != 3 || u.CacheRead != 60 || u.CacheWrite != 15 || *u.CostMicroUSD != 60 || cost != 30 {
		t.Fatalf("usage %+v", u)
	}
	if s.LastInput != 35 { // the whole prompt, cached or not
		t.Fatalf("last input %d", s.LastInput)
	}
}

func TestOfferWaitsForTheTurnsEnd(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{})
	must(t, s, event.ToolsOffered{Digest: "a"}) // nothing was sent yet
	refuse(t, s, event.ToolsOffered{Digest: "a"})
	must(t, s, event.ModelStarted{ID: "t1.m"}, event.ToolsOffered{Digest: "b"})
	refuse(t, s, event.ToolsOffered{Digest: "b"})
	if s.Offered.Digest != "a" || s.NewOffer.Digest != "b" {
		t.Fatal(dump(t, s))
	}
	must(t, s, event.ToolCallLost{ID: "t1.m"}, event.ToolsOffered{Digest: "c"}) // a second try of the same turn is shown the same tools
	reply(t, s, "read")
	if s.Offered.Digest != "a" {
		t.Fatal(dump(t, s))
	}
	must(t, s, event.ToolResult{ID: "t1.c0"})
	if s.Offered.Digest != "c" || s.NewOffer != nil {
		t.Fatal(dump(t, s))
	}
}

func TestAnswerIsCheckedAgainstTheSchema(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{Schema: ref("schema"), OutputTries: 1})
	reply(t, s)
	if c := step.Next(s)[0].(step.Check); c.ID != "t1.o" || c.Answer != ref("t1.m") || c.Schema != ref("schema") {
		t.Fatalf("check %+v", c)
	}
	refuse(t, s, event.ModelStarted{ID: "t1.o"}, event.ModelFailed{ID: "t1.o"}, event.OutputChecked{ID: "t2.o"})
	must(t, s, event.ToolsOffered{Digest: "new"}, event.OutputChecked{ID: "t1.o", Code: "schema", Errors: ref("errors")})
	if s.Offered.Digest != "new" || s.NewOffer != nil {
		t.Fatal(dump(t, s))
	}
	if m := s.Messages[2]; m.Slot.Origin != step.OriginCheck || m.Slot.Role != policy.Context || m.Content != ref("errors") {
		t.Fatalf("message %+v", m)
	}
	reply(t, s)
	must(t, s, event.Input{ID: "i2"}) // sent while the check runs: the run does not end yet
	wants(t, s, "t2.o#0")
	must(t, s, event.OutputChecked{ID: "t2.o", Output: ref("out")})
	wants(t, s, "t3.m#0")
	reply(t, s)
	must(t, s, event.OutputChecked{ID: "t3.o", Output: ref("out3")})
	if end := step.Next(s)[0].(step.End); end.Output != ref("out3") || end.Answer != ref("t3.m") {
		t.Fatalf("end %+v", end)
	}
	ends(t, s, "done", "")

	s = started(t, event.RunStarted{Schema: ref("schema"), OutputTries: 1})
	reply(t, s)
	must(t, s, event.OutputChecked{ID: "t1.o", Code: "schema"})
	reply(t, s)
	must(t, s, event.OutputChecked{ID: "t2.o", Code: "schema"})
	ends(t, s, "failed", step.CodeOutputInvalid)
}

func TestEndInTheLogClosesWhatIsOpen(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{})
	reply(t, s, "read", "exec", "ask", "child", "done")
	must(t, s, event.ToolCallStarted{ID: "t1.c0", Effect: policy.Read}, event.ToolCallStarted{ID: "t1.c1", Effect: policy.SideEffect},
		event.ApprovalRequested{Call: "t1.c2", ID: "q"}, event.ToolResult{ID: "t1.c4"})
	refuse(t, s, event.RunEnded{Run: "other"})
	must(t, s, event.RunEnded{Run: "r1", Status: "failed", Code: "abandoned"})
	if got := results(s); got != "cancelled outcome_unknown cancelled cancelled " {
		t.Fatalf("results %q", got)
	}
	refuse(t, s, event.RunEnded{Run: "r1", Status: "done"}, event.RunStopped{Scope: "run"}, event.ToolResult{ID: "t1.c1"})
	wants(t, s)
}
