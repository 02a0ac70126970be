package telemetry_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/event"
	"metier/policy"
	"metier/record"
	"metier/telemetry"
	"metier/telemetry/telemetrytest"
)

var began = time.Date(2031, 5, 4, 10, 0, 0, 0, time.UTC)

// session is a log that is followed; each entry is a second after the previous
// one.
type session struct {
	t   *testing.T
	log record.Log
	n   int
}

func (s *session) add(evs ...event.Event) {
	s.t.Helper()
	for _, e := range evs {
		s.n++
		head, err := s.log.Head(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		en, err := event.New(e, fmt.Sprint(s.n), "tester", began.Add(time.Duration(s.n)*time.Second))
		if err != nil {
			s.t.Fatal(err)
		}
		if _, err := s.log.Append(s.t.Context(), head, en); err != nil {
			s.t.Fatal(err)
		}
	}
}

func start(t *testing.T, env map[string]string, report func(error)) *telemetry.Telemetry {
	t.Helper()
	to, err := telemetry.New(t.Context(), func(k string) string { return env[k] }, telemetry.Options{Version: "test", Report: report})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func must(t *testing.T) func(error) {
	return func(err error) {
		t.Helper()
		if err != nil {
			t.Errorf("reported: %v", err)
		}
	}
}

func follow(t *testing.T, to *telemetry.Telemetry, id string, log record.Log) (*session, func()) {
	t.Helper()
	watched, stop, err := to.Follow(t.Context(), id, log)
	if err != nil {
		t.Fatal(err)
	}
	return &session{t: t, log: watched}, stop
}

func find(t *testing.T, spans []telemetrytest.Span, name string) telemetrytest.Span {
	t.Helper()
	i := slices.IndexFunc(spans, func(s telemetrytest.Span) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no span %s", name)
	}
	return spans[i]
}

func TestEventsAreShownWithTheTimesOfTheRecord(t *testing.T) {
	t.Parallel()
	r := telemetrytest.New(t)
	to := start(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": r.URL + "/"}, must(t))
	s, stop := follow(t, to, "run-1", record.NewMemory())
	s.add(event.SessionOpened{Session: "run-1"}, // 1 s
		event.SkillsDiscovered{Loaded: 2, Sources: []event.Found{{Label: "skills", Source: policy.Project, Loaded: 2}}},
		event.RunStarted{Run: "run-1", Model: "openai:m:1"},
		event.ModelStarted{ID: "t1.m"}, // 4 s
		event.ModelFailed{ID: "t1.m", Code: "model_rate_limited", Status: 429, Retry: true},
		event.ModelStarted{ID: "t1.m", Try: 1}, // 6 s
		event.ModelReplied{ID: "t1.m", Model: "m:1-2031\x1b[31m", Stop: "tools", Usage: event.Usage{Input: 10, Output: 2}},
		event.PolicyDecided{Call: "t1.c1", Tool: "read_file", Outcome: policy.Deny, Code: "path_outside", Stage: "call", Effect: policy.Read, Active: []event.SkillRef{{ID: "s:a", Digest: "sha256:1"}}},
		event.ToolResult{ID: "t1.c1", Tool: "read_file", Code: "path_outside"}, // 9 s
		event.ModelStarted{ID: "t2.m"},                                         // 10 s
		event.ModelReplied{ID: "t2.m", Stop: "end"},
		event.ToolCallStarted{ID: "t2.c1", Tool: "write_file"}, // never returns
		event.RunEnded{Run: "run-1", Status: "failed", Code: "turn_limit"})
	stop()
	to.Close(t.Context())
	spans := r.Spans()
	run := find(t, spans, "invoke_agent metier")
	if !run.Start.Equal(began.Add(time.Second)) || !run.End.Equal(began.Add(13*time.Second)) || run.Parent != "" || run.Error != "turn_limit" || run.Trace != telemetry.TraceID("run-1") {
		t.Errorf("the run: %+v", run)
	}
	if len(run.Events) != 1 || run.Events[0].Name != "skill.discovered" || run.Events[0].Attrs["metier.skills.loaded"] != "2" {
		t.Errorf("events of the run: %+v", run.Events)
	}
	var chats []string
	for _, c := range spans {
		if c.Name == "chat m:1" {
			chats = append(chats, fmt.Sprintf("%s try %s %v-%v in %s out %s stop %s model %s error %s", c.Kind, c.Attrs["metier.try"], c.Start.Sub(began), c.End.Sub(began), c.Attrs["gen_ai.usage.input_tokens"],
				c.Attrs["gen_ai.usage.output_tokens"], c.Attrs["gen_ai.response.finish_reasons"], c.Attrs["gen_ai.response.model"], c.Error))
		}
	}
	if d := cmp.Diff([]string{"client try 0 4s-5s in  out  stop  model  error model_rate_limited", "client try 1 6s-7s in 10 out 2 stop [tools] model m:1-2031[31m error ",
		"client try 0 10s-11s in 0 out 0 stop [end] model  error "}, chats); d != "" {
		t.Error(d)
	}
	refused := find(t, spans, "execute_tool read_file")
	if refused.Attrs["metier.policy.outcome"] != "deny" || refused.Error != "path_outside" || refused.Attrs["metier.skills.active"] != "[sha256:1]" || refused.Attrs["gen_ai.tool.call.id"] != "t1.c1" {
		t.Errorf("%+v", refused)
	}
	if cut := find(t, spans, "execute_tool write_file"); cut.Error != "interrupted" {
		t.Errorf("a call that never returned: %+v", cut)
	}
	if n := r.Metric("metier.policy.decisions{gen_ai.tool.name=read_file,metier.code=path_outside,metier.policy.outcome=deny}"); n != 1 {
		t.Errorf("%d decisions: %v", n, r.Metrics())
	}
}

// Earlier entries, and entries that another process appends in between, are
// taken in the log's order: the first are not shown again, the others are.
func TestOnlyWhatIsNewIsShown(t *testing.T) {
	t.Parallel()
	r := telemetrytest.New(t)
	to := start(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": r.URL}, must(t))
	log := record.NewMemory()
	before := &session{t: t, log: log}
	before.add(event.SessionOpened{Session: "s"}, event.SkillActivated{SkillID: "s:old", Hash: "sha256:0"})
	s, stop := follow(t, to, "s", log)
	s.n = 10
	s.add(event.RunResumed{Run: "s", Verified: 1})
	(&session{t: t, log: log, n: 20}).add(event.SkillActivated{SkillID: "s:new", Hash: "sha256:1", Source: policy.User})
	s.n = 30
	s.add(event.RunWaiting{Run: "s", Asks: []string{"q"}})
	stop()
	to.Close(t.Context())
	root := find(t, r.Spans(), "metier.session")
	var names []string
	for _, e := range root.Events {
		names = append(names, e.Name+" "+e.Attrs["metier.skill.id"])
	}
	if d := cmp.Diff([]string{"run.resumed ", "skill.activated s:new", "run.parked "}, names); d != "" || root.Attrs["metier.run.status"] != "parked" {
		t.Errorf("%s\n%+v", d, root)
	}
	if len(r.Metrics()) != 1 || r.Metric("metier.skill.activations{metier.activation.source=,metier.skill.id=s:new,metier.skill.tier=user}") != 1 {
		t.Errorf("metrics %v", r.Metrics())
	}
}

// Each append is the same as without a watcher.
func TestAFollowedLogIsTheLog(t *testing.T) {
	t.Parallel()
	to := start(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, nil)
	log := record.NewMemory()
	s, _ := follow(t, to, "s", log)
	s.add(event.SessionOpened{Session: "s"})
	en, err := event.New(event.Note{Code: "x"}, "late", "tester", began)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.log.Append(t.Context(), record.Head{}, en); !errors.Is(err, record.ErrMoved) {
		t.Errorf("a stale head gives %v", err)
	}
	direct, err := log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if through, err := s.log.Head(t.Context()); err != nil || through != direct || direct.Seq != 1 {
		t.Errorf("head %v, want %v, %v", through, direct, err)
	}
	_, watched := s.log.(record.Syncer)
	if _, plain := record.Log(log).(record.Syncer); watched != plain {
		t.Errorf("it can be synced: %v, want %v", watched, plain)
	}
}

func TestSendingTriesAgainAndReportsOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answers []int
		spans   int
		reports int64
	}{
		"overloaded once": {[]int{503, 503}, 1, 0}, // traces and metrics are sent at the same time
		"for ever":        {slices.Repeat([]int{503}, 100), 0, 1},
		"forbidden":       {slices.Repeat([]int{401}, 2), 0, 1},
		"moved":           {slices.Repeat([]int{http.StatusMovedPermanently}, 2), 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := telemetrytest.New(t)
			r.Answer(tt.answers...)
			var reports atomic.Int64
			to := start(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": r.URL}, func(error) { reports.Add(1) })
			s, stop := follow(t, to, "s", record.NewMemory())
			s.add(event.SessionOpened{Session: "s"}, event.SkillActivated{SkillID: "s:a"})
			stop()
			to.Close(t.Context())
			if got := len(r.Spans()); got != tt.spans || reports.Load() != tt.reports {
				t.Errorf("%d spans and %d reports, want %d and %d", got, reports.Load(), tt.spans, tt.reports)
			}
		})
	}
}

// If more spans arrive than fit into the queue, the rest are dropped, and this
// is reported.
func TestWhatTheQueueCannotHoldIsReported(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	r := telemetrytest.New(t)
	var why atomic.Value
	to := start(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": r.URL + "/v1/traces", "OTEL_EXPORTER_OTLP_TIMEOUT": "3600000"}, func(err error) { why.Store(err.Error()) })
	r.Hold(hold)
	s, stop := follow(t, to, "s", record.NewMemory())
	for i := range 10000 {
		s.add(event.ToolCallStarted{ID: fmt.Sprint(i), Tool: "x"}, event.ToolResult{ID: fmt.Sprint(i), Tool: "x"})
	}
	close(hold)
	stop()
	to.Close(t.Context())
	if got, _ := why.Load().(string); !strings.Contains(got, "lost") {
		t.Errorf("reported %q; %d spans came", got, len(r.Spans()))
	}
}

func TestWanted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": false, "OTEL_SERVICE_NAME=x": false, "OTEL_EXPORTER_OTLP_ENDPOINT=http://x": true, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://x": true,
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://x": true, "OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_SDK_DISABLED=true": false, "OTEL_EXPORTER_OTLP_ENDPOINT=http://x OTEL_SDK_DISABLED=no": true,
	} {
		env := map[string]string{}
		for kv := range strings.FieldsSeq(text) {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
		if got := telemetry.Wanted(func(k string) string { return env[k] }); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// Only the signal that has a receiver is sent.
func TestSignalsAreChosen(t *testing.T) {
	t.Parallel()
	for _, signal := range []string{"TRACES", "METRICS"} {
		r := telemetrytest.New(t)
		to := start(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": r.URL, "OTEL_" + signal + "_EXPORTER": "none"}, must(t))
		s, stop := follow(t, to, "s", record.NewMemory())
		s.add(event.SessionOpened{Session: "s"}, event.SkillActivated{SkillID: "s:a"})
		stop()
		to.Close(t.Context())
		if spans, metrics := len(r.Spans()) > 0, len(r.Metrics()) > 0; spans != (signal == "METRICS") || metrics != (signal == "TRACES") {
			t.Errorf("without %s: spans %v, metrics %v", signal, spans, metrics)
		}
	}
}
