package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/agent"
	"metier/agent/step"
	"metier/event"
	"metier/event/eventtest"
	"metier/model"
	"metier/model/modeltest"
	"metier/policy"
	"metier/record"
)

// events decodes the log.
func (w *fixture) events() []event.Event {
	w.t.Helper()
	return eventtest.All[event.Event](w.t, w.log)
}

func count[E event.Event](evs []event.Event) (n int, last E) {
	for _, e := range evs {
		if x, ok := e.(E); ok {
			n, last = n+1, x
		}
	}
	return n, last
}

// boaster is a model that claims impossible capabilities.
type boaster struct{}

func (boaster) Stream(context.Context, model.Request) iter.Seq2[model.Chunk, error] {
	cost := -3.0
	return func(yield func(model.Chunk, error) bool) {
		yield(model.Chunk{Kind: model.ChunkDone, Message: &model.Message{Role: model.RoleAssistant, Parts: []model.Part{model.Text("hi")}}, Stop: model.StopEnd,
			Model: strings.Repeat("ä", 2<<20), Usage: model.Usage{Input: -1 << 62, Output: 1<<63 - 1, CostUSD: &cost}}, nil)
	}
}

func TestWhatAProviderCountsIsBounded(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	c := w.prepare("go")
	c.Model = boaster{}
	out, err := agent.Run(t.Context(), c)
	if err != nil || out.Status != "done" {
		t.Fatalf("%+v, %v", out, err)
	}
	_, r := count[event.ModelReplied](w.events())
	if u := r.Usage; len(r.Model) > 300 || u.Input != 0 || u.Output <= 0 || u.Output > 1<<40 || u.CostMicroUSD != nil {
		t.Errorf("recorded: model of %d bytes, %+v", len(r.Model), u)
	}
}

func TestModelFaultsAreRetriedOnTheRecord(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		fault   modeltest.Fault
		code    string
		retried bool
	}{
		{"rate limit", modeltest.Fault{Status: 429, Header: map[string]string{"Retry-After": "1"}}, "model_rate_limited", true},
		{"server error", modeltest.Fault{Status: 500}, "model_server", true},
		{"overloaded", modeltest.Fault{Status: 503}, "model_overloaded", true},
		{"cut stream", modeltest.Fault{Cut: -1}, "model_cut", true},
		{"no key", modeltest.Fault{Status: 401}, "model_auth", false},
		{"unknown model", modeltest.Fault{Status: 404}, "model_not_found", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, "default", nil)
			w.server.Say(modeltest.Turn{Text: "half of a reply", Fault: &tc.fault}, modeltest.Turn{Text: "done"})
			out := w.run("go")
			n, failed := count[event.ModelFailed](w.events())
			if n != 1 || failed.Code != tc.code || failed.Retry != tc.retried {
				t.Errorf("%d failures, last %+v", n, failed)
			}
			if tc.retried && (out.Status != "done" || out.Answer != "done") || !tc.retried && (out.Status != "failed" || out.Code != tc.code) {
				t.Errorf("outcome %+v", out)
			}
		})
	}
}

func TestRetriesEnd(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	w.server.Answer(func(*modeltest.Request) modeltest.Turn { return modeltest.Turn{Fault: &modeltest.Fault{Status: 500}} })
	out := w.run("go")
	if out.Status != "failed" || out.Code != "model_server" {
		t.Errorf("outcome %+v", out)
	}
	if n := len(w.server.Requests()); n != 6 { // one try and five retries
		t.Errorf("%d requests", n)
	}
}

func TestEndlessToolLoopIsStopped(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	w.file("a.txt", "a\n")
	w.server.Answer(func(*modeltest.Request) modeltest.Turn { return call("read_file", `{"path":"a.txt"}`) })
	if out := w.run("go"); out.Status != "failed" || out.Code != step.CodeLoop {
		t.Errorf("outcome %+v", out)
	}
}

func TestUnknownToolAndBadArgumentsAreToldToTheModel(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	w.server.Say(
		modeltest.Turn{Calls: []modeltest.Call{{Tool: "rm_rf", Args: `{}`}, {Tool: "read_file", Args: `{"path":`}, {Tool: "read_file", Args: `{"pth":"x"}`}}},
		modeltest.Turn{Text: "done"})
	w.run("go")
	results := strings.Join(w.server.Requests()[1].LastResults(), "\n")
	want(t, results, "unknown_tool", "the arguments are not valid JSON", `unknown field "pth"`)
}

// Compaction replaces older messages and keeps all active skills.
func TestCompactionKeepsActiveSkills(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	w.skill("guide", "guides", "THE GUIDE BODY\n")
	w.file("a.txt", strings.Repeat("a long line of text\n", 20))
	n := 0
	w.server.Answer(func(r *modeltest.Request) modeltest.Turn {
		if strings.Contains(r.System, "Summarize the conversation") {
			return modeltest.Turn{Text: "They read a.txt."}
		}
		switch n++; {
		case n == 1:
			return call("load_skill", `{"name":"guide"}`)
		case n < 7:
			// The input grows until the sixth prompt exceeds the limit.
			return modeltest.Turn{Calls: []modeltest.Call{{Tool: "read_file", Args: fmt.Sprintf(`{"path":"a.txt","offset":%d}`, n)}}, Usage: model.Usage{Input: int64(n) * 30_000, Output: 10}}
		}
		return modeltest.Turn{Text: "done"}
	})
	out := w.run("go")
	if out.Status != "done" {
		t.Fatalf("outcome %+v", out)
	}
	if n, _ := count[event.ContextCompacted](w.events()); n == 0 {
		t.Fatal("nothing was compacted")
	}
	reqs := w.server.Requests()
	last := reqs[len(reqs)-1]
	all := ""
	for _, m := range last.Messages {
		all += m.Text
		for _, r := range m.Results {
			all += r.Text
		}
	}
	want(t, all, "They read a.txt.")
	if got := strings.Count(all, "THE GUIDE BODY"); got != 1 {
		t.Errorf("the skill's text is there %d times after compaction:\n%s", got, all)
	}
}

// After a context overflow, the driver compacts once and repeats the turn.
func TestContextOverflowCompactsOnce(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	w.file("a.txt", "a\n")
	n := 0
	w.server.Answer(func(r *modeltest.Request) modeltest.Turn {
		if strings.Contains(r.System, "Summarize the conversation") {
			return modeltest.Turn{Text: "a summary"}
		}
		switch n++; {
		case n <= 5:
			return call("read_file", fmt.Sprintf(`{"path":"a.txt","offset":%d}`, n))
		case n == 6:
			return modeltest.Turn{Fault: &modeltest.Fault{Status: 400, Kind: "context_length_exceeded", Message: "This model's maximum context length is 100 tokens"}}
		}
		return modeltest.Turn{Text: "done"}
	})
	out := w.run("go")
	if c, _ := count[event.ContextCompacted](w.events()); out.Status != "done" || c != 1 {
		t.Errorf("outcome %+v, %d compactions", out, c)
	}
}

// If its context ends, a run stays open and can be resumed.
func TestInterruptedRunGoesOn(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	w.file("a.txt", "one\n")
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	w.server.Answer(func(*modeltest.Request) modeltest.Turn {
		switch n++; n {
		case 1:
			return call("edit_file", `{"path":"a.txt","old":"one","new":"one one"}`)
		case 2: // the model is working when the run is interrupted
			cancel()
			return modeltest.Turn{Fault: &modeltest.Fault{Hang: true}}
		}
		return modeltest.Turn{Text: "done"}
	})
	cfg := w.prepare("go")
	out, err := agent.Run(ctx, cfg)
	if err != nil || out.Status != "interrupted" {
		t.Fatalf("outcome %+v, %v", out, err)
	}
	out, err = agent.Run(t.Context(), cfg)
	if err != nil || out.Status != "done" {
		t.Fatalf("outcome %+v, %v", out, err)
	}
	if n, _ := count[event.RunStarted](w.events()); n != 1 {
		t.Errorf("the run began %d times", n)
	}
	again, err := agent.Run(t.Context(), cfg)
	if err != nil || again.Status != "done" || again.Head != out.Head {
		t.Errorf("a run that is over: %+v, %v", again, err)
	}
}

// A question suspends a run that may wait. An answer from another process resumes it.
func TestParkedRunGoesOnWithAnAnswer(t *testing.T) {
	t.Parallel()
	for _, allow := range []bool{true, false} {
		t.Run(fmt.Sprint(allow), func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, "default", nil)
			outside := t.TempDir()
			w.server.Say(call("list_files", `{"path":"`+outside+`"}`), modeltest.Turn{Text: "done"})
			cfg := w.prepare("go")
			cfg.Park = true
			out, err := agent.Run(t.Context(), cfg)
			if err != nil || out.Status != "parked" || len(out.Asks) != 1 {
				t.Fatalf("outcome %+v, %v", out, err)
			}
			want(t, out.Asks[0].Text, outside)
			q := out.Asks[0]
			if err := w.sess.Answer(t.Context(), q.Call, policy.Answer{Question: q.ID, Allow: allow, Scope: "once", By: "somebody"}); err != nil {
				t.Fatal(err)
			}
			out, err = agent.Run(t.Context(), cfg)
			if err != nil || out.Status != "done" {
				t.Fatalf("outcome %+v, %v", out, err)
			}
			res := strings.Join(w.server.Requests()[1].LastResults(), "")
			if refused := strings.Contains(res, "refused"); refused == allow {
				t.Errorf("allow %v, result %q", allow, res)
			}
		})
	}
}

// If no user is available, a batch run rejects the question and continues.
func TestBatchAnswersQuestionsWithNo(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	w.server.Say(call("read_file", `{"path":"`+t.TempDir()+`/x"}`), modeltest.Turn{Text: "done"})
	if out := w.run("go"); out.Status != "done" {
		t.Fatalf("outcome %+v", out)
	}
	_, answered := count[event.ApprovalAnswered](w.events())
	if answered.Allow || answered.By != "batch" {
		t.Errorf("answered %+v", answered)
	}
	want(t, strings.Join(w.server.Requests()[1].LastResults(), ""), "refused")
}

// Writing calls run one at a time in the model's order. Reads between them see what was written.
func TestCallsOfOneReplyActInOrder(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	w.file("a.txt", "0")
	w.server.Say(modeltest.Turn{Calls: []modeltest.Call{
		{Tool: "edit_file", Args: `{"path":"a.txt","old":"0","new":"01"}`},
		{Tool: "read_file", Args: `{"path":"a.txt"}`},
		{Tool: "edit_file", Args: `{"path":"a.txt","old":"01","new":"012"}`},
		{Tool: "read_file", Args: `{"path":"a.txt","offset":1}`},
	}}, modeltest.Turn{Text: "done"})
	w.run("go")
	res := w.server.Requests()[1].LastResults()
	if len(res) != 4 || strings.TrimSpace(res[1]) != "01" || strings.TrimSpace(res[3]) != "012" {
		t.Errorf("results %q", res)
	}
}

func TestLimitsEndARun(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		set  func(*agent.Spec)
		code string
	}{
		{"turns", func(s *agent.Spec) { s.MaxTurns = 2 }, step.CodeTurnLimit},
		{"tokens", func(s *agent.Spec) { s.MaxTokens = 50 }, step.CodeTokenBudget},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, "default", nil)
			w.file("a.txt", "a\n")
			n := 0
			w.server.Answer(func(*modeltest.Request) modeltest.Turn {
				n++
				return call("read_file", fmt.Sprintf(`{"path":"a.txt","offset":%d}`, n))
			})
			cfg := w.prepare("go")
			tc.set(&cfg.Spec)
			out, err := agent.Run(t.Context(), cfg)
			if err != nil || out.Status != "failed" || out.Code != tc.code {
				t.Errorf("outcome %+v, %v", out, err)
			}
		})
	}
}

func TestAnswerThatNeverFitsItsSchemaFails(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	w.output = `{"type":"object","required":["n"]}`
	w.server.Answer(func(*modeltest.Request) modeltest.Turn { return modeltest.Turn{Text: "no JSON at all"} })
	if out := w.run("go"); out.Status != "failed" || out.Code != step.CodeOutputInvalid {
		t.Errorf("outcome %+v", out)
	}
	if n := len(w.server.Requests()); n != 3 {
		t.Errorf("%d requests", n)
	}
}

// The operator's price determines the cost of a run.
func TestCostIsCountedWhereAPriceIsKnown(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	w.server.Say(modeltest.Turn{Text: "done", Usage: model.Usage{Input: 1_000_000, Output: 1_000_000}})
	cfg := w.prepare("go")
	cfg.Spec.Price = &model.Price{Input: 3, Output: 15}
	out, err := agent.Run(t.Context(), cfg)
	if err != nil || out.Usage.CostMicroUSD == nil || *out.Usage.CostMicroUSD != 18_000_000 {
		t.Errorf("usage %+v, %v", out.Usage, err)
	}
}

// Two calls ask the same question concurrently. An approval for the session answers both, and the
// other question is withdrawn.
func TestAnAnswerForTheSessionEndsTheOtherQuestion(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	outside := modeltest.Call{Tool: "list_files", Args: fmt.Sprintf(`{"path":%q}`, t.TempDir())}
	w.server.Say(modeltest.Turn{Calls: []modeltest.Call{outside, outside}}, modeltest.Turn{Text: "done"})
	cfg := w.prepare("go")
	var asked atomic.Int32
	both := make(chan struct{})
	cfg.Ask = func(ctx context.Context, q agent.Question) (policy.Answer, error) {
		if asked.Add(1) == 1 {
			<-both
			return policy.Answer{Question: q.ID, Allow: true, Scope: policy.ScopeSession, By: "somebody"}, nil
		}
		close(both)
		<-ctx.Done() // nothing else ends it
		return policy.Answer{}, ctx.Err()
	}
	if out, err := agent.Run(t.Context(), cfg); err != nil || out.Status != "done" || asked.Load() != 2 {
		t.Fatalf("outcome %+v, %v, asked %d times", out, err, asked.Load())
	}
	if res := strings.Join(w.server.Requests()[1].LastResults(), ""); strings.Contains(res, "refused") {
		t.Error(res)
	}
}

// slowLog makes the second answer durable only when that write is canceled,
// where it can be.
type slowLog struct {
	*record.Memory
	answers       atomic.Int32
	first, second chan struct{} // closed when the answer is in the log
}

func (l *slowLog) Append(ctx context.Context, after record.Head, e ...record.Entry) (record.Head, error) {
	head, err := l.Memory.Append(ctx, after, e...)
	if slices.ContainsFunc(e, func(e record.Entry) bool { return e.Type == event.ApprovalAnswered{}.Type() }) {
		l.answers.Add(1)
	}
	return head, err
}

func (l *slowLog) Sync(ctx context.Context) error {
	switch l.answers.Load() {
	case 1:
		close(l.first)
	case 2:
		close(l.second)
		if ctx.Done() != nil {
			<-ctx.Done()
		}
	}
	return ctx.Err()
}

// While an answer is being persisted, the driver learns that the question is answered: it is
// withdrawn, and the run continues.
func TestAnswer_IsRecordedWhateverHappensMeanwhile(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	slow := &slowLog{Memory: w.log, first: make(chan struct{}), second: make(chan struct{})}
	w.slow = slow
	var calls []modeltest.Call
	for _, dir := range []string{t.TempDir(), t.TempDir(), "."} {
		calls = append(calls, modeltest.Call{Tool: "list_files", Args: fmt.Sprintf(`{"path":%q}`, dir)})
	}
	w.server.Say(modeltest.Turn{Calls: calls}, modeltest.Turn{Text: "done"})
	cfg := w.prepare("go")
	idle := make(chan struct{}) // closed when the driver is idle
	cfg.Observe = func(p agent.Progress) {
		if p.Kind == agent.ToolResult && p.Call == "t1.c2" {
			close(idle)
			<-slow.second
		}
	}
	cfg.Ask = func(_ context.Context, q agent.Question) (policy.Answer, error) {
		before := idle
		if q.Call == "t1.c0" {
			before = slow.first
		}
		<-before
		return policy.Answer{Question: q.ID, Allow: true, Scope: policy.ScopeOnce, By: "somebody"}, nil
	}
	out, err := agent.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	want(t, out.Status, "done")
}

// endless is a read that ends only when it is canceled.
type endless struct{ begun chan struct{} }

func (endless) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	return metier.Spec{ToolSpec: model.ToolSpec{Name: "endless", Schema: json.RawMessage(`{"type":"object"}`)}, Canonical: "endless", Effect: policy.Read}, true
}

func (endless) Facts(context.Context, *metier.Session, json.RawMessage) (metier.Facts, error) {
	return metier.Facts{Request: policy.Request{Effect: policy.Read}}, nil
}

func (e endless) Invoke(ctx context.Context, _ *metier.ToolContext) (metier.Result, error) {
	close(e.begun)
	<-ctx.Done()
	return metier.Result{}, ctx.Err()
}

// A run that is stopped because the user is gone cancels pending calls and ends.
func TestAStoppedRunCancelsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "default", nil)
	e := endless{make(chan struct{})}
	w.more, w.grants = []metier.Tool{e}, append(slices.Clone(w.grants), "endless")
	w.server.Say(modeltest.Turn{Calls: []modeltest.Call{{Tool: "list_files", Args: fmt.Sprintf(`{"path":%q}`, t.TempDir())}, {Tool: "endless", Args: `{}`}}}, modeltest.Turn{Text: "done"})
	cfg := w.prepare("go")
	cfg.Ask = func(context.Context, agent.Question) (policy.Answer, error) {
		<-e.begun
		return policy.Answer{}, errors.New("the terminal is closed")
	}
	if out, err := agent.Run(t.Context(), cfg); err != nil || out.Status != "failed" || out.Code != "ask_failed" || out.Reason != "the terminal is closed" {
		t.Fatalf("outcome %+v, %v", out, err)
	}
}

// Four reads and two identical loads in one reply always produce the same log, and the second load
// finds the skill active.
// req: C-006
func TestCalls_OneOrderInTheLog(t *testing.T) {
	t.Parallel()
	var first []string
	for run := range 12 {
		w := newFixture(t, "default", nil)
		w.skill("guide", "Guides. Use when lost.", "Body of the guide.\n")
		var calls []modeltest.Call
		for _, name := range []string{"a.txt", "b.txt", "c.txt", "d.txt"} {
			w.file(name, strings.Repeat(name+"\n", 200))
			calls = append(calls, modeltest.Call{Tool: "read_file", Args: `{"path":"` + name + `"}`})
		}
		load := modeltest.Call{Tool: "load_skill", Args: `{"name":"guide"}`}
		w.server.Say(modeltest.Turn{Calls: append(calls, load, load)}, modeltest.Turn{Text: "done"})
		w.run("go")
		var got []string
		for _, e := range w.events() {
			switch e := e.(type) {
			case event.ToolCallStarted:
				got = append(got, "started "+e.ID)
			case event.SkillActivated:
				got = append(got, "activated "+e.Call)
			case event.ToolResult:
				got = append(got, "returned "+e.ID+" "+e.Content.Digest)
			}
		}
		if run == 0 {
			first = got
			if len(got) != 13 || got[9] != "activated t1.c4" {
				t.Fatalf("%q", got)
			}
		}
		if d := cmp.Diff(first, got); d != "" {
			t.Fatalf("run %d: %s", run, d)
		}
	}
}
