package step_test

import (
	"encoding/json"
	"testing"

	"metier/agent/step"
	"metier/event"
	"metier/internal/testenv"
)

func TestAnyScheduleWithCrashesGivesOneTranscript(t *testing.T) {
	t.Parallel()
	first := newFixture(t, 0, 0)
	if s := first.run(); s.Phase != step.Ended || s.Status != step.RunDone || s.Output != ref("output") || s.Turn != 10 {
		t.Fatalf("the plain run ended otherwise: %s", dump(t, s))
	}
	want, unknown, crashed := first.transcript(), 0, 0
	schedules := testenv.Count(200, 2400)
	for seed := range uint64(schedules) {
		w := newFixture(t, seed, int(seed%7))
		left := w.crashes
		w.run()
		crashed += left - w.crashes
		if got := w.transcript(); got != want {
			t.Fatalf("seed %d: %s", seed, firstDiff(want, got))
		}
		unknown += w.effects()
	}
	if unknown == 0 || crashed < 2*schedules {
		t.Fatalf("the schedules prove nothing: %d crashes, %d unknown outcomes", crashed, unknown)
	}
	t.Logf("%d crashes, %d unknown outcomes", crashed, unknown)
}

// effects checks that no side effect happened twice and that each one reported
// as done happened. It counts those with an unknown outcome.
func (w *fixture) effects() (unknown int) {
	w.t.Helper()
	for call, n := range w.acts {
		if n > 1 {
			w.t.Fatalf("%s acted %d times", call, n)
		}
	}
	seen := 0
	execs := map[string]bool{}
	for _, e := range w.log { // compaction hides old results; the log has all
		if c, ok := e.(event.ToolCallStarted); ok && c.Tool == "exec" {
			execs[c.ID] = true
		}
		if r, ok := e.(event.ToolResult); ok && r.Tool == "exec" {
			seen++
			if w.acts[r.ID] != 1 {
				w.t.Fatalf("%s returned and acted %d times", r.ID, w.acts[r.ID])
			}
		}
		if l, ok := e.(event.ToolCallLost); ok && execs[l.ID] {
			unknown++
		}
	}
	if seen == 0 {
		w.t.Fatal("no side effect at all")
	}
	return unknown
}

func TestNextIsIdempotentAndSurvivesJSON(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 3, 4)
	w.run()
	s := &step.State{}
	known := map[string]bool{}
	for _, e := range w.log {
		if _, err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
		var c step.State
		if err := json.Unmarshal([]byte(dump(t, s)), &c); err != nil {
			t.Fatal(err)
		}
		wants(t, &c, keys(s)...)
		wants(t, s, keys(s)...)
		seen := map[string]bool{}
		for _, k := range keys(s) {
			if seen[k] {
				t.Fatalf("%s is listed twice", k)
			}
			seen[k], known[k] = true, true
		}
	}
	if len(known) < 40 {
		t.Fatalf("only %d keys were seen", len(known))
	}
}

func TestDoubledAndLateEventsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 5, 6)
	w.run()
	s := &step.State{}
	var before []event.Event
	for _, e := range w.log {
		if _, err := s.Apply(e); err != nil {
			t.Fatal(err)
		}
		switch e.(type) {
		case event.ToolsOffered: // an older offer, applied again, is a change
		case event.Input: // an input that was compacted away is forgotten
			refuse(t, s, e)
		default:
			before = append(before, e)
		}
		refuse(t, s, before...)
	}
}

func TestStopAtEveryPointLeavesAWholeConversation(t *testing.T) {
	t.Parallel()
	plain := newFixture(t, 11, 0)
	plain.run()
	stopped := 0
	for at := 3; at <= len(plain.log); at++ {
		for seed := range uint64(2) {
			w := newFixture(t, 11+seed, 2)
			w.stopAt = at
			s := w.run()
			if s.Phase == step.Idle { // the turn was stopped: more input opens the next
				stopped++
				turn := s.Turn
				w.append(event.Input{ID: "i2", Content: ref("again")})
				if s.Turn != turn+1 || s.Messages[len(s.Messages)-1].Input != "i2" {
					t.Fatalf("stop after %d: %s", at, dump(t, s))
				}
				s = w.run()
			}
			if s.Phase != step.Ended || s.Status != step.RunDone {
				t.Fatalf("stop after %d: %s", at, dump(t, s))
			}
			if got := dump(t, w.refold()); got != dump(t, s) {
				t.Fatalf("stop after %d: the log gives another state", at)
			}
		}
	}
	if stopped < 50 {
		t.Fatalf("only %d stops did anything", stopped)
	}
}

func TestStopOfTheRunAtEveryPointEndsIt(t *testing.T) {
	t.Parallel()
	plain := newFixture(t, 11, 0)
	plain.run()
	for at := 4; at < len(plain.log)-2; at++ {
		w := newFixture(t, 11, 0)
		s := w.s
		for range 5000 {
			next := step.Next(s)
			if len(next)+len(w.flight) == 0 {
				break
			}
			if len(w.log) >= at && s.Stopping == "" && s.Status == "" {
				w.append(event.RunStopped{Scope: "run", Reason: "deadline"})
				w.flight = nil // what was in flight ends by its Cancel
				continue
			}
			if len(next) > 0 {
				if _, waits := next[0].(step.Await); waits || s.Stopping != "" || s.Phase == step.Ending {
					w.finish(next[0])
				} else if c, check := next[0].(step.Check); check {
					w.finish(c)
				} else {
					w.claim(next[0])
				}
				continue
			}
			a := w.flight[0]
			w.flight = w.flight[1:]
			w.finish(a)
		}
		if s.Phase != step.Ended || s.Status != step.RunFailed || s.Code != "deadline" {
			t.Fatalf("stop after %d: %s", at, dump(t, s))
		}
	}
}
