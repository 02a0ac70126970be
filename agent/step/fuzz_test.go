package step_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"metier/agent/step"
	"metier/event"
	"metier/policy"
)

func TestStateStaysSmall(t *testing.T) {
	t.Parallel()
	s := started(t, event.RunStarted{MaxTurns: 500})
	for range 500 {
		reply(t, s, "read_file", "run_skill_script", "write_file", "load_skill")
		for i := len(s.Calls) - 1; i >= 0; i-- {
			must := func(e event.Event) {
				if used, err := s.Apply(e); !used || err != nil {
					t.Fatal(used, err)
				}
			}
			id := s.Calls[i].ID
			must(event.ToolCallStarted{ID: id, Effect: policy.SideEffect})
			must(event.ToolResult{ID: id, Content: ref(id)})
		}
	}
	size := len(dump(t, s))
	t.Logf("%d bytes after 500 turns of 4 calls, never compacted", size)
	if size > 2<<20 {
		t.Fatalf("%d bytes", size)
	}
}

// fuzzEvent makes an event from two bytes. It uses few ids, so that many match.
func fuzzEvent(s *step.State, kind, x byte) event.Event {
	turn, n, try := max(s.Turn-int(x>>7), 0), int(x&3), int(x>>2&1)
	call := fmt.Sprintf("t%d.c%d", turn, n)
	top := fmt.Sprintf("t%d.%c", turn, "mkox"[n])
	if p := s.Pending; p != nil && x&16 == 0 {
		top, try = p.ID, p.Try
	}
	question := fmt.Sprint("q", x>>3&1)
	switch kind % 19 {
	case 0:
		return event.Input{ID: fmt.Sprint(x), Content: ref("said")}
	case 1:
		return event.ToolsOffered{Digest: fmt.Sprint(n)}
	case 2, 3:
		return event.ModelStarted{ID: top, Try: try}
	case 4, 5:
		e := event.ModelReplied{ID: top, Stop: []string{"end", "tools", "length", "refusal"}[x>>2&3], Usage: event.Usage{Input: int64(x)}}
		for i := range n {
			e.Calls = append(e.Calls, event.CallRef{ID: fmt.Sprintf("t%d.c%d", s.Turn, i), Tool: "x", Args: ref(fmt.Sprint(x)), Child: x&8 != 0})
		}
		return e
	case 6:
		return event.ModelFailed{ID: top, Try: try, Code: []string{"model_server", "model_context_overflow"}[x>>5&1], Retry: x&8 != 0}
	case 7:
		e := event.ContextCompacted{ID: top, Upto: n}
		if s.Pending != nil && x&8 == 0 {
			e.Upto = s.Pending.Upto
		}
		return e
	case 8:
		return event.ToolCallStarted{ID: call, Try: try, Effect: []policy.Effect{"read", "write", "side-effect", ""}[x>>3&3]}
	case 9:
		return event.ApprovalRequested{ID: question, Call: call, Binds: "b"}
	case 10:
		return event.ApprovalAnswered{ID: question, Call: call, Binds: "b", Allow: x&64 != 0, Scope: []string{"once", "session"}[x>>5&1]}
	case 11:
		return event.ApprovalExpired{ID: question, Call: call}
	case 12:
		return event.ToolResult{ID: call, Content: ref(call)}
	case 13:
		return event.SkillActivated{Call: call, SkillID: fmt.Sprint("s", x>>4&3), Text: ref(fmt.Sprint(x >> 6))}
	case 14:
		if x&8 != 0 {
			return event.ToolCallLost{ID: call, Try: try}
		}
		return event.ToolCallLost{ID: top, Try: try}
	case 15:
		return event.RunStopped{Scope: []string{"turn", "turn", "turn", "run"}[n]}
	case 16:
		return event.OutputChecked{ID: top, Code: []string{"", "schema"}[x>>3&1]}
	case 17:
		return event.RecordRecovered{Seq: uint64(x), LostID: "started:" + call + "#0", LostType: "call.started", LostSeq: uint64(x) + uint64(x>>3&1)}
	}
	if x&3 == 2 {
		return event.RunLimited{Run: s.Run, MaxTurns: int(x >> 4), MaxTokens: int64(x >> 3)}
	}
	if x&1 == 0 {
		return event.RunEnded{Run: s.Run, Status: "failed"}
	}
	return event.RunStarted{Run: fmt.Sprint("r", x), Rules: step.Rules, MaxTurns: int(x >> 4), MaxCalls: 2, MaxRepeats: 3, MaxRetries: 1,
		CompactAt: int(x), KeepLast: int(x >> 6), OutputTries: 1, Schema: ref("s")}
}

// endure folds any sequence of events. Nothing panics, the conversation stays
// complete, an ignored event changes nothing, a round trip through JSON changes
// nothing, and a run is never stuck: something is outstanding, in flight or
// awaited unless it is idle or ended.
func endure(t *testing.T, in []byte) {
	t.Helper()
	s := &step.State{}
	for i := 0; i+1 < len(in) && i < 400; i += 2 {
		before := dump(t, s)
		e := fuzzEvent(s, in[i], in[i+1])
		used, err := s.Apply(e)
		after := dump(t, s)
		if (!used || err != nil) && before != after {
			t.Fatalf("%T %+v: used %t, error %v, and changed\n%s\ninto\n%s", e, e, used, err, before, after)
		}
		pairs(t, s)
		var c step.State
		if err := json.Unmarshal([]byte(after), &c); err != nil || dump(t, &c) != after {
			t.Fatalf("JSON changes the state: %v\n%s", err, after)
		}
		seen := map[string]bool{}
		for _, k := range keys(s) {
			if seen[k] {
				t.Fatalf("%s is listed twice", k)
			}
			seen[k] = true
		}
		waits := s.Rules == 0 || s.Phase == step.Idle || s.Phase == step.Ended
		if moves := len(seen)+len(step.Interrupted(s)) > 0; moves == waits {
			t.Fatalf("%T %+v leaves phase %s with %v outstanding: %s", e, e, s.Phase, seen, after)
		}
		if step.Waiting(s) && len(step.Interrupted(s)) > 0 {
			t.Fatalf("parked with work in flight: %s", after)
		}
	}
}

func TestAnyEventsInAnyOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		in := []byte{18, byte(r.IntN(256)) | 1, 0, 1}
		for range 150 {
			kind := byte(r.IntN(17)) // an end or a recovery is rare
			if r.IntN(60) == 0 {
				kind = 17 + byte(r.IntN(2))
			}
			in = append(in, kind, byte(r.IntN(256)))
		}
		endure(t, in)
	}
}

func FuzzApply(f *testing.F) {
	f.Add([]byte("\x12\x03\x00\x01\x02\x00\x04\x02\x08\x00\x08\x01\x0c\x00\x0c\x01\x02\x00\x04\x00\x10\x00"))
	f.Add([]byte("\x12\xff\x00\x01\x02\x00\x04\xf3\x09\x00\x0a\x40\x08\x05\x0e\x08\x0f\x03\x12\x00\x12\x21"))
	f.Add([]byte("\x12\x73\x00\x01\x02\x00\x04\xf1\x0d\x00\x0c\x00\x02\x00\x04\xe1\x0c\x00\x06\x20\x02\x00\x07\x00\x02\x04\x0f\x00"))
	f.Fuzz(endure)
}

// BenchmarkTurn folds a turn of two calls in a run that is 0 to 500 turns long.
func BenchmarkTurn(b *testing.B) {
	content := ref("content")
	var s *step.State
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%500 == 0 {
			s = &step.State{}
			for _, e := range []event.Event{event.RunStarted{Run: "r", Rules: step.Rules, MaxRepeats: 1000}, event.Input{ID: "i", Content: content}} {
				if _, err := s.Apply(e); err != nil {
					b.Fatal(err)
				}
			}
		}
		c0, c1 := fmt.Sprintf("t%d.c0", s.Turn), fmt.Sprintf("t%d.c1", s.Turn)
		id := s.Pending.ID
		for _, e := range []event.Event{
			event.ModelStarted{ID: id},
			event.ModelReplied{ID: id, Message: content, Calls: []event.CallRef{{ID: c0, Tool: "a", Args: content}, {ID: c1, Tool: "b", Args: content}}},
			event.ToolCallStarted{ID: c0}, event.ToolCallStarted{ID: c1},
			event.ToolResult{ID: c1, Content: content}, event.ToolResult{ID: c0, Content: content},
		} {
			if used, err := s.Apply(e); err != nil || !used {
				b.Fatal(used, err)
			}
			step.Next(s)
		}
	}
}
