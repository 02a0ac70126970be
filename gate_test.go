package metier_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"metier"
	"metier/event"
	"metier/model"
	"metier/policy"
	"metier/record"
	"metier/settings"
)

// made is a tool that a test defines.
type made struct {
	name   string
	effect policy.Effect
	facts  func(args json.RawMessage) (metier.Facts, error) // nil: only the effect
	act    func(ctx context.Context, x *metier.ToolContext) (metier.Result, error)
}

func (m made) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	return metier.Spec{ToolSpec: model.ToolSpec{Name: m.name, Schema: json.RawMessage(`{}`)}, Canonical: m.name, Effect: m.effect}, true
}

func (m made) Facts(_ context.Context, _ *metier.Session, args json.RawMessage) (metier.Facts, error) {
	if m.facts != nil {
		return m.facts(args)
	}
	return metier.Facts{Request: policy.Request{Effect: m.effect}}, nil
}

func (m made) Invoke(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
	return m.act(ctx, x)
}

func mediated(text string) metier.Result {
	r := metier.Text(text)
	r.Label.Mediated = true
	return r
}

// withTools opens sessions that also have the given tools, granted.
func withTools(t testing.TB, files map[string]string, tools ...metier.Tool) *fixture {
	t.Helper()
	w := newFixture(t, settings.DefaultProfile, files)
	w.config = func(c *metier.Config) {
		c.Tools = append(c.Tools, tools...)
		for _, m := range tools {
			spec, _ := m.Spec(t.Context(), nil)
			c.Grants.Tools = append(c.Grants.Tools, spec.Canonical)
		}
	}
	return w
}

// onFile keeps the record of a fixture in files.
func (w *fixture) onFile() *fixture {
	w.t.Helper()
	dir := w.t.TempDir()
	blobs, err := record.OpenBlobs(filepath.Join(dir, "blobs"), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	log, err := record.OpenFile(filepath.Join(dir, "events.jsonl"), &record.Options{Blobs: blobs})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { log.Close() })
	w.log, w.blobs = log, blobs
	return w
}

// same compares the states of sessions on one log.
func same(t testing.TB, want, got metier.State) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("states differ (-first +second):\n%s", diff)
	}
}

func TestOneCallActsOnceWhoeverAsks(t *testing.T) {
	t.Parallel()
	var acts atomic.Int64
	begin := make(chan struct{})
	tool := made{name: "act", effect: policy.SideEffect, act: func(context.Context, *metier.ToolContext) (metier.Result, error) {
		<-begin
		return mediated(fmt.Sprint("done ", acts.Add(1))), nil
	}}
	w := withTools(t, nil, tool).onFile().open()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			o, err := w.Call(t.Context(), metier.Call{ID: "t1.c1", Tool: "act", Args: json.RawMessage(`{}`)})
			if err != nil || o.Text() != "done 1" {
				t.Errorf("%v %q", err, o.Text())
			}
		})
	}
	close(begin)
	wg.Wait()
	if n := acts.Load(); n != 1 || len(events[event.ToolCallStarted](w)) != 1 || len(events[event.ToolResult](w)) != 1 {
		t.Errorf("acted %d times", n)
	}
}

// If two sessions on one log claim the same call, one wins and the other gets an error.
func TestClaimIsWonOnce(t *testing.T) {
	t.Parallel()
	var acts atomic.Int64
	entered, begin := make(chan struct{}, 2), make(chan struct{})
	tool := made{name: "act", effect: policy.Write, act: func(context.Context, *metier.ToolContext) (metier.Result, error) {
		entered <- struct{}{}
		<-begin
		acts.Add(1)
		return mediated("done"), nil
	}}
	w := withTools(t, nil, tool).open()
	second := w.session()
	call := metier.Call{ID: "t1.c1", Tool: "act", Args: json.RawMessage(`{}`)}
	first := make(chan error, 1)
	go func() {
		_, err := w.Call(t.Context(), call)
		first <- err
	}()
	<-entered
	_, err := second.Call(t.Context(), call)
	wantError(t, err, "call_claimed", metier.Conflict)
	close(begin)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	o, err := second.Call(t.Context(), call)
	if err != nil || o.Text() != "done" || acts.Load() != 1 {
		t.Errorf("%v %q, acted %d times", err, o.Text(), acts.Load())
	}
	same(t, w.State(), second.State())
}

// Two sessions, 64 goroutines, one log: nothing is lost, all states are equal.
func TestRacingSessionsLoseNothing(t *testing.T) {
	t.Parallel()
	echo := made{name: "echo", effect: policy.Read, act: func(_ context.Context, x *metier.ToolContext) (metier.Result, error) {
		x.Record(event.Note{Code: "echoed", On: x.Call().ID})
		return mediated(string(x.Call().Args)), nil
	}}
	w := withTools(t, guide(), echo).onFile().open()
	sessions := []*metier.Session{w.Session, w.session()}
	const goroutines, each = 64, 5
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			s := sessions[g%2]
			for i := range each {
				id := fmt.Sprintf("g%d.%d", g, i)
				raw, _ := json.Marshal(id)
				o, err := s.Call(t.Context(), metier.Call{ID: id, Tool: "echo", Args: raw})
				if err != nil || o.Text() != string(raw) {
					t.Errorf("%s: %v %q", id, err, o.Text())
				}
				if _, err := s.Send(t.Context(), metier.Input{ID: "in-" + id, Parts: []model.Part{model.Text(id)}}); err != nil {
					t.Error(err)
				}
			}
			if _, err := s.Activate(t.Context(), "guide", "cli-preload"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, s := range sessions {
		if _, err := s.Send(t.Context(), metier.Input{ID: "fold what the other one did"}); err != nil {
			t.Fatal(err)
		}
	}
	notes := map[string]int{}
	for _, n := range events[event.Note](w) {
		notes[n.On]++
	}
	if len(notes) != goroutines*each || len(events[event.SkillActivated](w)) != 1 || len(events[event.Input](w)) != goroutines*each+1 {
		t.Errorf("%d notes, %d activations, %d inputs", len(notes), len(events[event.SkillActivated](w)), len(events[event.Input](w)))
	}
	for id, n := range notes {
		if n != 1 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
	fresh := w.session()
	same(t, sessions[0].State(), sessions[1].State())
	same(t, sessions[0].State(), fresh.State())
}

// Two loads of one skill in one reply run concurrently and return one body.
func TestParallelLoadsGiveOneBody(t *testing.T) {
	t.Parallel()
	w := opened(t, settings.DefaultProfile, guide())
	other := w.session()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			s := []*metier.Session{w.Session, other}[i%2]
			if _, err := s.Call(t.Context(), metier.Call{ID: fmt.Sprintf("t1.c%d", i), Tool: "load_skill", Args: json.RawMessage(`{"name":"guide"}`)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := strings.Count(w.said(), "Read references/a.md when needed."); n != 1 {
		t.Errorf("%d bodies", n)
	}
	one[event.SkillActivated](w)
}

// Clients can make calls for days, and most of them can be invalid.
func TestToolsOnlySession_ForgetsReads(t *testing.T) {
	t.Parallel()
	w := withTools(t, nil, made{name: "look", effect: policy.Read}, made{name: "act", effect: policy.SideEffect})
	config := w.config
	w.config = func(c *metier.Config) {
		config(c)
		c.ToolsOnly = true
		c.Grants.Rules = []policy.Rule{{Effect: policy.RuleDeny, Pattern: "look"}, {Effect: policy.RuleDeny, Pattern: "act"}}
	}
	w.open()
	for range 50 {
		w.fails(policy.CodeRuleDenied, "look", args{})
		w.fails("unknown_tool", "nothing", args{})
	}
	if diff := cmp.Diff(32, len(w.State().Calls)); diff != "" {
		t.Errorf("calls after refused reads (-want +got):\n%s", diff)
	}
	for range 50 { // must be refused again
		w.fails(policy.CodeRuleDenied, "act", args{})
	}
	if diff := cmp.Diff(82, len(w.State().Calls)); diff != "" {
		t.Errorf("calls after refused side effects (-want +got):\n%s", diff)
	}
}

func TestPanickingToolIsAFailedCall(t *testing.T) {
	t.Parallel()
	boom := func(effect policy.Effect) made {
		return made{name: "boom-" + string(effect), effect: effect, act: func(context.Context, *metier.ToolContext) (metier.Result, error) { panic("at once") }}
	}
	early := made{name: "early", effect: policy.Write, facts: func(json.RawMessage) (metier.Facts, error) { panic("in facts") }}
	w := withTools(t, nil, boom(policy.Read), boom(policy.Write), early).open()
	w.fails("tool_panic", "boom-read", args{})
	mentions(t, w.fails("outcome_unknown", "boom-write", args{}).Text(), "may or may not have happened", "at once")
	w.fails("tool_panic", "early", args{})
	if st := w.State(); len(st.Calls) != 3 || st.Calls["c3"].Started {
		t.Errorf("%+v", st.Calls)
	}
}

// If a tool fails after it acted, the model is told that the outcome is unknown, and the tool's
// changes to the session are discarded.
func TestErrorAfterAWrite(t *testing.T) {
	t.Parallel()
	var w *fixture
	half := made{name: "half", effect: policy.Write, act: func(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
		sk, err := x.Session().Snapshot().Find("guide")
		if err != nil {
			return metier.Result{}, err
		}
		if _, _, err := x.Activate(ctx, sk, nil); err != nil {
			return metier.Result{}, err
		}
		x.Record(event.Note{Code: "half-done"})
		return metier.Result{}, errors.New("cable cut")
	}}
	w = withTools(t, guide(), half).open()
	w.fails("outcome_unknown", "half", args{})
	if e := one[event.Note](w); e.Code != "half-done" || len(events[event.SkillActivated](w)) != 0 {
		t.Errorf("%+v, active %+v", e, w.State().Active)
	}
	again, err := w.Call(t.Context(), metier.Call{ID: "c1", Tool: "half", Args: json.RawMessage(`{}`)})
	if err != nil || again.Code() != "outcome_unknown" {
		t.Errorf("%v %q", err, again.Code())
	}
}

func TestCancelledReadIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	slow := made{name: "slow", effect: policy.Read, act: func(ctx context.Context, _ *metier.ToolContext) (metier.Result, error) {
		if tries++; tries == 1 {
			cancel()
			return metier.Result{}, ctx.Err()
		}
		return mediated("at last"), nil
	}}
	w := withTools(t, nil, slow).open()
	call := metier.Call{ID: "t1.c1", Tool: "slow", Args: json.RawMessage(`{}`)}
	if _, err := w.Call(ctx, call); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	o, err := w.Call(t.Context(), call)
	if err != nil || o.Text() != "at last" || len(events[event.ToolCallStarted](w)) != 1 {
		t.Errorf("%v %q", err, o.Text())
	}
}

// req: C-088
func TestUnmediatedResultsAreWithheld(t *testing.T) {
	t.Parallel()
	raw := made{name: "raw", effect: policy.Read, act: func(context.Context, *metier.ToolContext) (metier.Result, error) {
		return metier.Text("canary-unmediated"), nil
	}}
	for _, mode := range []policy.Mode{policy.Disabled, policy.Observe, policy.EnforceExplicit, policy.EnforceStrict} {
		w := withTools(t, guide(), raw)
		plain := w.config
		w.config = func(c *metier.Config) { plain(c); c.Grants.Mode = mode }
		w.open()
		if _, err := w.Send(t.Context(), metier.Input{Parts: []model.Part{model.Text("go")}, Role: policy.DirectCommand}); err != nil {
			t.Fatal(err)
		}
		withheld := mode == policy.EnforceExplicit || mode == policy.EnforceStrict
		o := w.model("raw", args{})
		if (o.Code() == policy.CodeUnmediated) != withheld || strings.Contains(w.said(), "canary") == withheld {
			t.Errorf("%s: %q %q", mode, o.Code(), o.Text())
		}
		var stages []string
		for _, d := range events[event.PolicyDecided](w) {
			stages = append(stages, d.Stage)
		}
		if want := map[bool]int{true: 2, false: 1}[withheld]; len(stages) != want {
			t.Errorf("%s: decisions %v", mode, stages)
		}
		w.works("load_skill", args{"name": "guide"}) // our own results are mediated
		w.activate("guide")
		w.model("raw", args{"again": true})
		for _, d := range events[event.PolicyDecided](w) {
			if d.Stage == "release" && d.Call != "c1" && len(d.Active) != 1 {
				t.Errorf("%s: the decision about call %s names the skills %v", mode, d.Call, d.Active)
			}
		}
	}
}

// Other text from a tool is withheld like a result: that of an error or a panic, before and during
// the action. An *Error is intended for the model.
func TestWordsOfAFailedToolAreMediated(t *testing.T) {
	t.Parallel()
	const canary = "canary-in-an-error"
	fails := func(err error) func(context.Context, *metier.ToolContext) (metier.Result, error) {
		return func(context.Context, *metier.ToolContext) (metier.Result, error) { return metier.Result{}, err }
	}
	early := func(err error) func(json.RawMessage) (metier.Facts, error) {
		return func(json.RawMessage) (metier.Facts, error) { return metier.Facts{}, err }
	}
	meant := &metier.Error{Op: "look", Kind: metier.Invalid, Code: "told", Err: errors.New(canary)}
	tools := []metier.Tool{
		made{name: "fails", effect: policy.Read, act: fails(errors.New(canary))},
		made{name: "wraps", effect: policy.Read, act: fails(fmt.Errorf(canary+": %w", &metier.Error{Code: "inner", Err: errors.New("x")}))},
		made{name: "half", effect: policy.SideEffect, act: fails(errors.New(canary))},
		made{name: "panics", effect: policy.Read, act: func(context.Context, *metier.ToolContext) (metier.Result, error) { panic(canary) }},
		made{name: "early", effect: policy.Read, facts: early(errors.New(canary))},
		made{name: "earlypanic", effect: policy.Read, facts: func(json.RawMessage) (metier.Facts, error) { panic(canary) }},
		made{name: "meant", effect: policy.Read, act: fails(meant)},
		made{name: "earlymeant", effect: policy.Read, facts: early(meant)},
	}
	codes := map[string]string{"fails": "internal", "wraps": "inner", "half": "outcome_unknown", "panics": "tool_panic", "early": "internal", "earlypanic": "tool_panic", "meant": "told", "earlymeant": "told"}
	for _, mode := range []policy.Mode{policy.Disabled, policy.Observe, policy.EnforceExplicit, policy.EnforceStrict} {
		w := withTools(t, nil, tools...)
		plain := w.config
		w.config = func(c *metier.Config) { plain(c); c.Grants.Mode = mode }
		w.open()
		if _, err := w.Send(t.Context(), metier.Input{Parts: []model.Part{model.Text("go")}, Role: policy.DirectCommand}); err != nil {
			t.Fatal(err)
		}
		for name, code := range codes {
			o := w.model(name, args{})
			withheld := (mode == policy.EnforceExplicit || mode == policy.EnforceStrict) && !strings.HasSuffix(name, "meant")
			if o.Code() != code || strings.Contains(o.Text(), canary) == withheld {
				t.Errorf("%s, %s: %q %q", mode, name, o.Code(), o.Text())
			}
		}
	}
}

// asking asks before it reads.
func asking(acts *atomic.Int64) made {
	return made{name: "ask", effect: policy.Read,
		facts: func(raw json.RawMessage) (metier.Facts, error) {
			return metier.Facts{Request: policy.Request{Effect: policy.Read, Paths: []policy.PathUse{{Path: string(raw), Zone: policy.ZoneOutside}}}}, nil
		},
		act: func(context.Context, *metier.ToolContext) (metier.Result, error) {
			acts.Add(1)
			return mediated("read"), nil
		}}
}

// req: C-041, C-051
func TestAnswersCoverWhatTheyBind(t *testing.T) {
	t.Parallel()
	var acts atomic.Int64
	w := withTools(t, nil, asking(&acts)).onFile().open()
	question := func(id, path string) (policy.Question, metier.Observation) {
		t.Helper()
		raw, _ := json.Marshal(path)
		o, err := w.Call(t.Context(), metier.Call{ID: id, Tool: "ask", Args: raw})
		if q, is := errors.AsType[*metier.NeedsApproval](err); is {
			return q.Question, o
		} else if err != nil {
			t.Fatal(err)
		}
		return policy.Question{}, o
	}
	answer := func(id string, q policy.Question, allow bool, scope string) error {
		return w.Answer(t.Context(), id, policy.Answer{Question: q.ID, Allow: allow, Scope: scope, By: "owner"})
	}
	q, _ := question("a", "/x")
	if q.ID == "" || acts.Load() != 0 {
		t.Fatal("acted before the answer")
	}
	if again, _ := question("a", "/x"); again.ID != q.ID || len(events[event.ApprovalRequested](w)) != 1 {
		t.Error("one question was asked twice")
	}
	wantError(t, answer("a", policy.Question{ID: "q-other"}, true, "once"), "question_not_open", metier.Conflict)
	wantError(t, answer("b", q, true, "once"), "question_not_open", metier.Conflict)
	wantError(t, answer("a", policy.Question{}, true, "once"), "question_not_open", metier.Conflict)
	wantError(t, answer("a", q, true, "always"), "scope_unknown", metier.Invalid)
	if err := answer("a", q, true, ""); err != nil { // no scope: once
		t.Fatal(err)
	}
	wantError(t, answer("a", q, true, "once"), "question_not_open", metier.Conflict)
	if _, o := question("a", "/x"); o.Code() != "" || acts.Load() != 1 {
		t.Errorf("%q", o.Text())
	}
	wantError(t, answer("a", q, true, "session"), "question_not_open", metier.Conflict)

	q, _ = question("b", "/x") // once does not cover the next call
	if q.ID == "" {
		t.Fatal("an answer for once covered another call")
	}
	if err := answer("b", q, true, "session"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"b", "c", "d"} {
		if _, o := question(id, "/x"); o.Code() != "" {
			t.Errorf("%s: %q", id, o.Text())
		}
	}
	q, _ = question("e", "/y") // another path is another question
	if q.ID == "" {
		t.Fatal("an answer covered another path")
	}
	if err := answer("e", q, false, "session"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"e", "f"} {
		if _, o := question(id, "/y"); o.Code() != policy.CodeRefused {
			t.Errorf("%s: %q", id, o.Code())
		}
	}
	if acts.Load() != 4 {
		t.Errorf("acted %d times", acts.Load())
	}
	same(t, w.State(), w.session().State())
}

// An input is recorded once: repeating it changes nothing, and a different one with the same ID is
// rejected.
func TestInputIsSaidOnce(t *testing.T) {
	t.Parallel()
	w := opened(t, settings.DefaultProfile, nil)
	say := func(id, text string) (policy.Slot, error) {
		return w.Send(t.Context(), metier.Input{ID: id, Parts: []model.Part{model.Text(text)}, Role: policy.DirectCommand})
	}
	for _, id := range []string{"a", "b", "a"} {
		if _, err := say(id, "text of "+id); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(events[event.Input](w)); n != 2 {
		t.Errorf("%d inputs", n)
	}
	_, err := say("a", "something else")
	wantError(t, err, "input_exists", metier.Conflict)
}

// The slot of an input is what the record has: a repeated input cannot become a command.
func TestSend_ReturnsTheRecordedSlot(t *testing.T) {
	t.Parallel()
	w := opened(t, settings.DefaultProfile, nil)
	send := func(role policy.Role, by string) (policy.Slot, error) {
		return w.Send(t.Context(), metier.Input{ID: "a", Parts: []model.Part{model.Text("go")}, Role: role, By: by})
	}
	first, err := send(policy.Context, "ann")
	if err != nil {
		t.Fatal(err)
	}
	again, err := send(policy.Context, "bob")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the slot of a repeated input (-want +got):\n%s", diff)
	}
	other, err := send(policy.DirectCommand, "ann")
	wantError(t, err, "input_exists", metier.Conflict)
	if diff := cmp.Diff(policy.Slot{}, other); diff != "" {
		t.Errorf("the slot of another role (-want +got):\n%s", diff)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, *metier.ToolContext) (metier.Result, error) { return mediated(""), nil }
	for name, tt := range map[string]struct {
		log  record.Entry
		conf func(*metier.Config)
		code string
		kind metier.Kind
	}{
		"an entry it must understand":  {record.Entry{V: 1, ID: "x", Type: "future.thing", Must: true}, nil, "record_newer", metier.Unsupported},
		"a newer version of one":       {record.Entry{V: 99, ID: "x", Type: "skill.activated", Must: true, Data: json.RawMessage(`{}`)}, nil, "record_newer", metier.Unsupported},
		"an entry that is no event":    {record.Entry{V: 1, ID: "x", Type: "skill.activated", Must: true, Data: json.RawMessage(`{"call":7}`)}, nil, "record_damaged", metier.Drift},
		"another session's log":        {record.Entry{}, func(c *metier.Config) { c.ID = "other" }, "session_other", metier.Conflict},
		"no log":                       {record.Entry{}, func(c *metier.Config) { c.Log = nil }, "config_invalid", metier.Invalid},
		"two tools of one name":        {record.Entry{}, func(c *metier.Config) { c.Tools = append(c.Tools, made{name: "read_file", act: nothing}) }, "config_invalid", metier.Invalid},
		"a tool that plays load_skill": {record.Entry{}, func(c *metier.Config) { c.Tools = append(c.Tools, made{name: "load_skill", act: nothing}) }, "config_invalid", metier.Invalid},
		"a tool without a name":        {record.Entry{}, func(c *metier.Config) { c.Tools = append(c.Tools, made{act: nothing}) }, "config_invalid", metier.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := opened(t, settings.DefaultProfile, nil)
			if tt.log.Type != "" {
				head, err := w.log.Head(t.Context())
				if err == nil {
					_, err = w.log.Append(t.Context(), head, tt.log)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			w.config = tt.conf
			_, err := w.try()
			wantError(t, err, tt.code, tt.kind)
			if tt.log.Type != "" { // a session that is already open stops as well
				_, err := w.Send(t.Context(), metier.Input{})
				wantError(t, err, tt.code, tt.kind)
			}
		})
	}
}

func TestUnknownEntryThatMayBeSkippedIs(t *testing.T) {
	t.Parallel()
	w := opened(t, settings.DefaultProfile, nil)
	head, err := w.log.Head(t.Context())
	if err == nil {
		_, err = w.log.Append(t.Context(), head, record.Entry{V: 1, ID: "x", Type: "future.thing"})
	}
	if err != nil {
		t.Fatal(err)
	}
	same(t, w.State(), w.session().State())
}

// A deny rule applies to the skill actually used, even if a name resolves to it only after the call
// was checked.
func TestDenyHoldsForTheSkillThatIsUsed(t *testing.T) {
	t.Parallel()
	w := newFixture(t, settings.DefaultProfile, guide())
	w.put("skills/bad/SKILL.md", skillFile("bad", "canary-denied"))
	w.put("skills/bad/a.md", "canary-denied")
	direct := made{name: "direct", effect: policy.Read, act: func(ctx context.Context, x *metier.ToolContext) (metier.Result, error) {
		sk, err := x.Session().Snapshot().Find("bad")
		if err != nil {
			return metier.Result{}, err
		}
		if _, _, err := x.Activate(ctx, sk, nil); err == nil {
			t.Error("a denied skill was activated")
		}
		_, err = x.Read(ctx, "bad", "a.md", 0)
		return metier.Failure(err), nil
	}}
	w.config = func(c *metier.Config) {
		c.Tools = append(c.Tools, direct)
		c.Grants.Tools, c.Grants.Denied = append(c.Grants.Tools, "direct"), []string{"bad"}
	}
	w.open()
	w.fails(policy.CodeSkillDenied, "load_skill", args{"name": "bad"})
	w.fails(policy.CodeSkillDenied, resourceCall, args{"skill": "bad", "path": "a.md"})
	w.fails(policy.CodeSkillDenied, "direct", args{})
	silent(t, w.said(), "canary")
}
