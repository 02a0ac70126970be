package step_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"metier/agent/step"
	"metier/event"
	"metier/model"
)

func TestCompactionByThreshold(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{CompactAt: 100, KeepLast: 2})
	must(t, s, event.ToolsOffered{Digest: "a"}, event.SkillActivated{Call: "cli", SkillID: "s:a", Text: ref("a")})
	reply(t, s, "load_skill", "read")
	load := event.SkillActivated{Call: "t1.c0", SkillID: "s:b", Hash: "h", Text: ref("b")}
	must(t, s, load)
	refuse(t, s, load)
	must(t, s, event.ToolResult{ID: "t1.c0"}, event.ToolResult{ID: "t1.c1"})
	if s.Active[1].InMessage != 2 || s.Active[0].InMessage != -1 {
		t.Fatalf("active %+v", s.Active)
	}
	wants(t, s, "t2.m#0") // three messages, two of them are kept: nothing to gain
	turn(t, s)
	if c := step.Next(s)[0]; c != (step.Compact{ID: "t3.k", Upto: 3}) {
		t.Fatalf("%+v", c)
	}
	refuse(t, s, event.ContextCompacted{ID: "t3.k", Upto: 3}) // not claimed
	must(t, s, event.ModelStarted{ID: "t3.k"}, event.Input{ID: "i2"}, event.ToolCallLost{ID: "t3.k"}, event.ModelStarted{ID: "t3.k", Try: 1})
	refuse(t, s, event.ContextCompacted{ID: "t3.k", Upto: 2}, event.ModelStarted{ID: "t3.m"})
	must(t, s, event.ContextCompacted{ID: "t3.k", Upto: 3, Summary: ref("sum"), Usage: event.Usage{Input: 7}})
	if m := s.Messages; len(m) != 3 || m[0].Content != ref("sum") || m[0].Slot.Origin != step.OriginSummary || m[1].Role != model.RoleAssistant {
		t.Fatal(dump(t, s))
	}
	if len(s.Active) != 2 || s.Active[1].InMessage != -1 || s.Usage.Input != 207 || s.LastInput != 0 {
		t.Fatal(dump(t, s))
	}
	wants(t, s, "t3.m#0")
	refuse(t, s, load, event.ContextCompacted{ID: "t3.k", Upto: 3})
}

func TestActivatedAfterItsCallReturnedIsCarriedByTheResult(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{})
	reply(t, s, "load_skill")
	must(t, s, event.ToolResult{ID: "t1.c0"}, event.SkillActivated{Call: "t1.c0", SkillID: "s:b", Hash: "1", Text: ref("b")})
	if s.Active[0].InMessage != 2 {
		t.Fatalf("active %+v", s.Active)
	}
	reply(t, s, "exec") // the same text again, outside of a result: the first message still has it
	must(t, s, event.SkillActivated{Call: "user", SkillID: "s:b", Hash: "1", Text: ref("b")}, event.ToolResult{ID: "t2.c0"})
	if s.Active[0].InMessage != 2 {
		t.Fatalf("active %+v", s.Active)
	}
	reply(t, s, "load_skill") // the file changed, and the turn was stopped before the new text was shown
	must(t, s, event.SkillActivated{Call: "t3.c0", SkillID: "s:b", Hash: "2", Text: ref("b2"), DigestChanged: true}, event.RunStopped{Scope: "turn"})
	if len(s.Active) != 1 || s.Active[0].InMessage != -1 || s.Active[0].Digest != "2" {
		t.Fatalf("active %+v", s.Active)
	}
}

func TestFailedPrecautionIsNoEnd(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{CompactAt: 100, KeepLast: 1, MaxRetries: 1})
	turn(t, s)
	turn(t, s)
	wants(t, s, "t3.k#0")
	must(t, s, event.ModelFailed{ID: "t3.k", Code: "model_server", Retry: true}, event.ModelFailed{ID: "t3.k", Try: 1, Code: "model_server", Retry: true})
	wants(t, s, "t3.m#0")
	over := func(try int) event.ModelFailed {
		return event.ModelFailed{ID: "t3.m", Try: try, Code: string(model.CodeContextOverflow), Retry: true}
	}
	must(t, s, event.ModelStarted{ID: "t3.m"}, over(0))
	wants(t, s, "t3.k#2") // now it is required
	must(t, s, event.ModelStarted{ID: "t3.k", Try: 2}, event.ContextCompacted{ID: "t3.k", Upto: 3})
	wants(t, s, "t3.m#1")
	must(t, s, over(1))
	ends(t, s, "failed", "model_context_overflow")
}

func TestOverflowIsAnsweredByOneCompaction(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{KeepLast: 2, CompactAt: 100})
	reply(t, s, "read")
	for _, in := range []string{"a", "b", "c", "d", "e"} {
		must(t, s, event.Input{ID: in})
	}
	must(t, s, event.ToolResult{ID: "t1.c0"}, event.ModelStarted{ID: "t2.k"})
	for _, in := range []string{"f", "g", "h"} { // too late for this turn
		must(t, s, event.Input{ID: in})
	}
	must(t, s, event.ContextCompacted{ID: "t2.k", Upto: 6})
	over := func(try int) event.ModelFailed {
		return event.ModelFailed{ID: "t2.m", Try: try, Code: string(model.CodeContextOverflow)}
	}
	must(t, s, event.RecordRecovered{Seq: 1, LostSeq: 9, LostID: "started:t9.c0#0", LostType: "call.started"}, over(0))
	wants(t, s, "t2.k#1") // not the key of the proactive compaction
	for seq := range uint64(5) {
		must(t, s, event.RecordRecovered{Seq: seq + 2, LostSeq: 9, LostID: "started:t9.c0#0", LostType: "call.started"})
	}
	must(t, s, event.ModelStarted{ID: "t2.k", Try: 1}, event.ContextCompacted{ID: "t2.k", Upto: 2}, over(1)) // there would be more to summarize
	ends(t, s, "failed", "model_context_overflow")
}

func TestStopWhileCompacting(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{KeepLast: 1, CompactAt: 100})
	turn(t, s)
	turn(t, s)
	must(t, s, event.ModelStarted{ID: "t3.k"}, event.RunStopped{Scope: "turn"})
	wants(t, s, "t3.k#0!")
	must(t, s, event.ContextCompacted{ID: "t3.k", Upto: 3, Summary: ref("sum")}) // it was faster, and is kept
	wants(t, s)
	if s.Phase != step.Idle || s.Messages[0].Content != ref("sum") {
		t.Fatal(dump(t, s))
	}
}

func TestOverflowWithoutAnythingToSummarizeFails(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{KeepLast: 4})
	must(t, s, event.ModelFailed{ID: "t1.m", Code: string(model.CodeContextOverflow)})
	ends(t, s, "failed", "model_context_overflow")

	s = started(t, event.RunStarted{KeepLast: 1})
	turn(t, s)
	turn(t, s)
	must(t, s, event.ModelFailed{ID: "t3.m", Code: string(model.CodeContextOverflow)}, event.ModelFailed{ID: "t3.k", Code: "model_auth"})
	ends(t, s, "failed", "model_auth")
}

func TestCompactionKeepsPairsSkillsAndTheLastMessages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		keep := rapid.IntRange(0, 7).Draw(r, "keep")
		s := &step.State{}
		apply := func(e event.Event) {
			if used, err := s.Apply(e); err != nil || !used {
				r.Fatalf("%+v: %t %v", e, used, err)
			}
		}
		apply(event.RunStarted{Run: "r", Rules: step.Rules, KeepLast: keep, CompactAt: 1})
		apply(event.Input{ID: "i"})
		var skills []string
		for n := range rapid.IntRange(1, 25).Draw(r, "turns") {
			if s.Pending.Kind == step.KindCompact {
				before, upto := slices.Clone(s.Messages), s.Pending.Upto
				apply(event.ModelStarted{ID: s.Pending.ID})
				apply(event.ContextCompacted{ID: s.Pending.ID, Upto: upto, Summary: ref(fmt.Sprint("sum", n))})
				if len(before)-upto < max(keep, 1) {
					r.Fatalf("%d of %d messages went, %d stay", upto, len(before), keep)
				}
				was, _ := json.Marshal(before[upto:])
				if is, _ := json.Marshal(s.Messages[1:]); string(is) != string(was) {
					r.Fatalf("the rest changed")
				}
			}
			calls := rapid.IntRange(1, 4).Draw(r, "calls")
			e := event.ModelReplied{ID: s.Pending.ID, Message: ref("m"), Usage: event.Usage{Input: int64(rapid.IntRange(0, 1).Draw(r, "tokens"))}}
			for i := range calls {
				e.Calls = append(e.Calls, event.CallRef{ID: fmt.Sprintf("t%d.c%d", s.Turn, i), Tool: "load_skill", Args: ref(fmt.Sprint(n, i))})
			}
			apply(event.ModelStarted{ID: s.Pending.ID})
			apply(e)
			for i, c := range e.Calls {
				if id := fmt.Sprint("s:", n, i); rapid.Bool().Draw(r, "loads") {
					apply(event.SkillActivated{Call: c.ID, SkillID: id, Text: ref(id)})
					skills = append(skills, id)
				}
				if rapid.Bool().Draw(r, "said") {
					apply(event.Input{ID: fmt.Sprint("in", n, i)})
				}
				apply(event.ToolResult{ID: c.ID, Content: ref(c.ID)})
			}
			pairs(t, s)
			for i, l := range s.Active { // nothing is lost, and each skill is where Active says
				if l.SkillID != skills[i] {
					r.Fatalf("active %+v, want %v", s.Active, skills)
				}
				carried := -1
				for at, m := range s.Messages {
					if slices.ContainsFunc(m.Results, func(x step.Result) bool { return x.Call == l.Call }) {
						carried = at
					}
				}
				if l.InMessage != carried {
					r.Fatalf("%s is in message %d, said to be in %d", l.SkillID, carried, l.InMessage)
				}
			}
			if len(s.Active) != len(skills) {
				r.Fatalf("%d of %d skills are left", len(s.Active), len(skills))
			}
		}
	})
}
