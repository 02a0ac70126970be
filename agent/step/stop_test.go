package step_test

import (
	"testing"

	"metier/agent/step"
	"metier/event"
	"metier/policy"
)

func TestStopOfATurnAnswersOpenCalls(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{})
	reply(t, s, "exec", "ask", "read")
	must(t, s, event.ToolCallStarted{ID: "t1.c0", Effect: policy.SideEffect}, event.ApprovalRequested{Call: "t1.c1", ID: "q"},
		event.Input{ID: "i2", Content: ref("instead")}, event.RunStopped{Scope: "turn"})
	wants(t, s, "t1.c0#0!")
	refuse(t, s, event.RunStopped{Scope: "turn"}, event.ToolResult{ID: "t1.c1"}, event.ToolCallStarted{ID: "t1.c2"}, event.ApprovalAnswered{ID: "q", Call: "t1.c1", Allow: true})
	must(t, s, event.ToolResult{ID: "t1.c0", Content: ref("it was done by then")})
	if got := results(s); got != " cancelled cancelled" {
		t.Fatalf("results %q", got)
	}
	refuse(t, s, event.ToolResult{ID: "t1.c0"})
	wants(t, s, "t2.m#0") // the queued input opens the next turn
	if s.Messages[3].Input != "i2" || s.Stopping != "" {
		t.Fatal(dump(t, s))
	}
}

func TestStopOfATurnInTheModel(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{})
	must(t, s, event.ModelStarted{ID: "t1.m"}, event.RunStopped{Scope: "turn"})
	wants(t, s, "t1.m#0!")
	must(t, s, event.ModelFailed{ID: "t1.m", Code: "model_canceled", Retry: true})
	wants(t, s)
	if s.Phase != step.Idle {
		t.Fatal(dump(t, s))
	}
	refuse(t, s, event.ModelReplied{ID: "t1.m"}, event.RunStopped{Scope: "turn"})

	must(t, s, event.Input{ID: "i2"}, event.ModelStarted{ID: "t2.m"}, event.RunStopped{Scope: "turn"},
		event.ModelReplied{ID: "t2.m", Calls: []event.CallRef{{ID: "t2.c0", Tool: "exec"}}}) // the reply was faster
	if results(s) != step.CodeCancelled || s.Phase != step.Idle {
		t.Fatal(dump(t, s))
	}
}

func TestStopOfTheRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ reason, status, code string }{
		{"", "cancelled", "cancelled"}, {"cancel", "cancelled", "cancelled"}, {"denied", "denied", "denied"}, {"deadline", "failed", "deadline"},
	} {
		s := started(t, event.RunStarted{})
		reply(t, s, "exec", "write", "read", "child", "ready")
		for i, e := range []policy.Effect{policy.SideEffect, policy.Write, policy.Read, ""} {
			must(t, s, event.ToolCallStarted{ID: s.Calls[i].ID, Effect: e})
		}
		must(t, s, event.RunStopped{Scope: "turn"}, event.RunStopped{Scope: "run", Reason: c.reason})
		refuse(t, s, event.RunStopped{Scope: "run", Reason: "other"}, event.RunStopped{Scope: "turn"})
		wants(t, s, "t1.c0#0!", "t1.c1#0!", "t1.c2#0!", "t1.c3#0!")
		for _, l := range step.Interrupted(s) { // then the process crashed: nothing is repeated
			must(t, s, l)
		}
		if got := results(s); got != "outcome_unknown outcome_unknown cancelled cancelled cancelled" {
			t.Fatalf("results %q", got)
		}
		ends(t, s, c.status, c.code)
	}
	s := started(t, event.RunStarted{})
	if _, err := s.Apply(event.RunStopped{Scope: "all"}); err == nil {
		t.Fatal("an unknown scope was taken")
	}
	s = &step.State{}
	refuse(t, s, event.RunStopped{Scope: "run"})
	must(t, s, event.RunStarted{Run: "r1", Rules: step.Rules}, event.RunStopped{Scope: "run"}) // idle
	ends(t, s, "cancelled", "cancelled")
}

func TestParkAndAnswer(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{})
	if step.Waiting(s) {
		t.Fatal("parked while the model is to be asked")
	}
	reply(t, s, "exec", "read", "exec", "child")
	must(t, s, event.ApprovalRequested{Call: "t1.c0", ID: "q1", Binds: "b1"}, event.ApprovalRequested{Call: "t1.c2", ID: "q2", Binds: "b1"},
		event.ToolCallStarted{ID: "t1.c1", Effect: policy.Read}, event.ToolCallStarted{ID: "t1.c3"})
	refuse(t, s, event.ApprovalRequested{Call: "t1.c0", ID: "q1", Binds: "b1"}, event.ApprovalRequested{Call: "t1.c1", ID: "q9"}, event.ApprovalRequested{Call: "x"})
	must(t, s, event.ApprovalRequested{Call: "t1.c3", ID: "q3", Binds: "b3"}) // the child itself waits
	if step.Waiting(s) {
		t.Fatal("parked while a read is in flight")
	}
	must(t, s, event.ToolResult{ID: "t1.c1"})
	wants(t, s, "t1.c0#0?q1", "t1.c2#0?q2", "t1.c3#0?q3")
	if !step.Waiting(s) {
		t.Fatal("not parked")
	}
	refuse(t, s, event.ApprovalAnswered{ID: "q9", Call: "t1.c0", Binds: "b1", Allow: true},
		event.ApprovalAnswered{ID: "q1", Call: "t1.c0", Binds: "old", Allow: true}, event.ApprovalAnswered{ID: "q1", Call: "t1.c2", Binds: "b1", Allow: true},
		event.ApprovalExpired{ID: "q2", Call: "t1.c0"}, event.ToolCallStarted{ID: "t1.c0"})
	yes := event.ApprovalAnswered{ID: "q1", Call: "t1.c0", Binds: "b1", Allow: true, Scope: "session"}
	must(t, s, yes)
	wants(t, s, "t1.c0#1", "t1.c2#1", "t1.c3#0?q3") // the second waited for the same approval
	if s.Calls[0].Ask != nil {
		t.Fatal("an answered question is still there")
	}
	refuse(t, s, yes, event.ApprovalRequested{Call: "t1.c0", ID: "q1", Binds: "b1"}, event.ApprovalExpired{ID: "q1", Call: "t1.c0"})
	must(t, s, event.ApprovalRequested{Call: "t1.c0", ID: "q4", Binds: "b4"}) // something changed: asked again
	must(t, s, event.ApprovalAnswered{ID: "q4", Call: "t1.c0", Binds: "b4", Scope: "once"}, event.ApprovalExpired{ID: "q3", Call: "t1.c3"}, event.ToolResult{ID: "t1.c2"})
	if got := results(s); got != policy.CodeRefused+"   "+step.CodeExpired {
		t.Fatalf("results %q", got)
	}
	if step.Waiting(s) {
		t.Fatal("parked in the next turn")
	}
}

func TestAnswerOnceIsForOneCall(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{})
	reply(t, s, "exec", "exec")
	must(t, s, event.ApprovalRequested{Call: "t1.c0", ID: "q", Binds: "b"}, event.ApprovalRequested{Call: "t1.c1", ID: "q", Binds: "b"},
		event.ApprovalAnswered{ID: "q", Call: "t1.c0", Binds: "b", Allow: true, Scope: "once"})
	wants(t, s, "t1.c0#1", "t1.c1#0?q")
	if step.Waiting(s) {
		t.Fatal("parked with a call to make")
	}
}
