package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/model"
)

// Adapter describes an adapter for the suite.
type Adapter struct {
	Server func(testing.TB) *Server
	New    func(url, key string) model.Model
	NoCost bool // the protocol reports no cost
	NoBad  bool // the protocol cannot carry invalid arguments (gemini)
	NoFlag bool // the protocol has no error flag on results (openai)
}

// Conform runs the suite. Every subtest starts its own server.
func Conform(t *testing.T, a Adapter) {
	for name, f := range map[string]func(*testing.T, Adapter){
		"streams text in order and ends with one done":     conformText,
		"maps tool names to the wire and back":             conformNames,
		"runs parallel calls and sends their results back": conformCalls,
		"sends protected reasoning back verbatim":          conformReasoning,
		"keeps fields it does not know":                    conformExtra,
		"keeps arguments that are not JSON":                conformBroken,
		"asks for output by schema":                        conformOutput,
		"maps stop reasons":                                conformStop,
		"counts usage in one convention":                   conformUsage,
		"is safe for concurrent use":                       conformConcurrent,
		"takes a history of another provider":              conformForeign,
		"changes nothing in the request":                   conformUnchanged,
		"maps error answers":                               conformErrors,
		"ends every spoiled stream with an error":          conformSpoiled,
		"never shows the key":                              conformKey,
		"does not retry":                                   conformOnce,
		"does not follow redirects":                        conformRedirect,
		"closes the connection when canceled":              conformCancel,
		"closes the connection when the reader leaves":     conformLeave,
		"says that nobody answers":                         conformUnreachable,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, a)
		})
	}
}

var (
	schema = json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"n":{"type":"integer"}},"required":["path"]}`)
	tools  = []model.ToolSpec{
		{Name: "read_file", Description: "Reads a file.", Schema: schema},
		{Name: "skills.load", Description: "Loads a skill.", Schema: schema},
		{Name: "list", Description: "Lists."},
	}
	hello = []model.Message{model.UserText("hello")}
)

func begin(t *testing.T, a Adapter, turns ...Turn) (*Server, model.Model) {
	t.Helper()
	s := a.Server(t)
	s.Say(turns...)
	return s, a.New(s.URL, Key)
}

// read collects all chunks of a stream and its error.
func read(t *testing.T, m model.Model, r model.Request) (chunks []model.Chunk, err error) {
	t.Helper()
	for c, e := range m.Stream(t.Context(), r) {
		if err != nil || (len(chunks) > 0 && chunks[len(chunks)-1].Kind == model.ChunkDone) {
			t.Fatalf("a chunk follows the end of the stream: %+v, %v", c, e)
		}
		if e != nil {
			err = e
			continue
		}
		chunks = append(chunks, c)
	}
	if err == nil && (len(chunks) == 0 || chunks[len(chunks)-1].Kind != model.ChunkDone) {
		t.Fatalf("the stream ends without done or error: %+v", chunks)
	}
	return chunks, err
}

// done returns the last chunk of a successful reply, after a round trip through JSON as in the
// record.
func done(t *testing.T, s *Server, m model.Model, r model.Request) model.Chunk {
	t.Helper()
	chunks, err := read(t, m, r)
	if err != nil {
		t.Fatalf("Stream: %v (the stand-in: %s)", err, lastRefusal(s))
	}
	c := chunks[len(chunks)-1]
	b, err := json.Marshal(c.Message)
	if err != nil {
		t.Fatal(err)
	}
	c.Message = &model.Message{}
	if err := json.Unmarshal(b, c.Message); err != nil {
		t.Fatal(err)
	}
	return c
}

func lastRefusal(s *Server) string {
	if r := s.Requests(); len(r) > 0 {
		return r[len(r)-1].Refused
	}
	return "no request"
}

func last(s *Server) Request { r := s.Requests(); return r[len(r)-1] }

func conformText(t *testing.T, a Adapter) {
	want := "Grüße, 世界! \"quoted\"\nand a second line \U0001F600."
	s, m := begin(t, a, Turn{Text: want})
	chunks, err := read(t, m, model.Request{System: "Be brief.", Messages: hello, MaxTokens: 77})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, c := range chunks[:len(chunks)-1] {
		if c.Kind != model.ChunkText {
			t.Fatalf("a chunk of kind %s", c.Kind)
		}
		got.WriteString(c.Text)
	}
	end := chunks[len(chunks)-1]
	if len(chunks) < 4 || got.String() != want || end.Message.Text() != want || end.Message.Role != model.RoleAssistant {
		t.Errorf("%d chunks, deltas %q, message %+v", len(chunks), got.String(), end.Message)
	}
	if end.Stop != model.StopEnd || end.Model == "" || end.Usage.Input == 0 || end.Usage.Output == 0 {
		t.Errorf("done = %+v", end)
	}
	r := last(s)
	if r.System != "Be brief." || r.MaxTokens != 77 || len(r.Messages) != 1 || r.Messages[0].Text != "hello" || r.Model == "" {
		t.Errorf("request = %+v", r)
	}
}

func conformNames(t *testing.T, a Adapter) {
	long := strings.Repeat("mcp.server.", 9) + "tool"
	ours := []string{"skills.load", "skills_load", "skills/load", long, long + "2", "read_file", "9lives", "größe"}
	var specs []model.ToolSpec
	for _, n := range ours {
		specs = append(specs, model.ToolSpec{Name: n, Description: "d", Schema: schema})
	}
	s, m := begin(t, a)
	s.Answer(func(r *Request) Turn {
		var calls []Call
		for _, tool := range r.Tools {
			calls = append(calls, Call{Tool: tool.Name, Args: `{"path":"x"}`})
		}
		return Turn{Calls: calls}
	})
	c := done(t, s, m, model.Request{Messages: hello, Tools: specs})
	var got []string
	for _, p := range c.Message.Calls() {
		got = append(got, p.Tool)
	}
	if diff := cmp.Diff(ours, got); diff != "" {
		t.Errorf("names after the round trip (-want +got):\n%s", diff)
	}
	wire := map[string]bool{}
	for _, tool := range last(s).Tools {
		wire[tool.Name] = true
	}
	if len(wire) != len(ours) || !wire["read_file"] {
		t.Errorf("names on the wire: %v", wire)
	}
}

func conformCalls(t *testing.T, a Adapter) {
	args := []string{`{"path":"a \"b\"/ä.txt","n":9007199254740993}`, `{"path":"c","list":[1,2.50,{"k":null}]}`, `{}`}
	s, m := begin(t, a, Turn{Text: "Reading.", Interleave: true}, Turn{Text: "Both are there."})
	s.turns[0].Calls = []Call{{"read_file", args[0]}, {wireName(s, "skills.load"), args[1]}, {"list", args[2]}}
	r := model.Request{Messages: slices.Clone(hello), Tools: tools}
	chunks, err := read(t, m, r)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, c := range chunks {
		if c.Kind == model.ChunkCall {
			told = append(told, c.Tool)
		}
	}
	end := chunks[len(chunks)-1]
	calls := end.Message.Calls()
	if len(calls) != 3 || end.Stop != model.StopTools || end.Message.Text() != "Reading." {
		t.Fatalf("done = %+v %+v", end, end.Message)
	}
	if diff := cmp.Diff([]string{"read_file", "skills.load", "list"}, told); diff != "" {
		t.Errorf("call chunks (-want +got):\n%s", diff)
	}
	results := model.Message{Role: model.RoleTool}
	for i, c := range calls {
		if c.Tool != told[i] || canonical(c.Args) != canonical([]byte(args[i])) {
			t.Errorf("call %d = %s %s", i, c.Tool, c.Args)
		}
		results.Parts = append(results.Parts, model.Result(c, fmt.Sprintf("result %d", i), i == 1))
	}
	r.Messages = append(r.Messages, *end.Message, results)
	if c := done(t, s, m, r); c.Message.Text() != "Both are there." {
		t.Errorf("second reply = %+v", c.Message)
	}
	sent := last(s)
	var back []SentResult
	for _, msg := range sent.Messages {
		for i, c := range msg.Calls {
			if canonical([]byte(c.Args)) != canonical([]byte(args[i])) {
				t.Errorf("call %d went back as %s", i, c.Args)
			}
		}
		back = append(back, msg.Results...)
	}
	if len(back) != 3 || back[0].Text != "result 0" || back[2].Text != "result 2" || !strings.HasSuffix(back[1].Text, "result 1") {
		t.Fatalf("results = %+v", back)
	}
	if flagged := back[1].Error && !back[0].Error; flagged == a.NoFlag {
		t.Errorf("error flags = %+v", back)
	}
	if a.NoFlag && back[1].Text != "Error: result 1" {
		t.Errorf("the failed result reads %q", back[1].Text)
	}
}

// wireName is a name with a dot as the adapters send it to the server.
func wireName(s *Server, name string) string {
	if _, dots := s.proto.(geminiWire); dots {
		return name
	}
	return strings.ReplaceAll(name, ".", "_")
}

func conformReasoning(t *testing.T, a Adapter) {
	think := "First I look at \"a\" <b> & c,\nthen ä."
	s, m := begin(t, a,
		Turn{Thinking: think, Redacted: "EncRypTed+/==", Text: "Let me see.", Calls: []Call{{"read_file", `{"path":"a"}`}, {"list", `{}`}}},
		Turn{Thinking: "More.", Calls: []Call{{"read_file", `{"path":"b"}`}}},
		Turn{Thinking: "Enough.", Text: "Done."}, Turn{Text: "Bye."})
	r := model.Request{Messages: slices.Clone(hello), Tools: tools}
	for turn := range 4 {
		c := done(t, s, m, r)
		if turn == 0 {
			var seen strings.Builder
			for _, p := range c.Message.Parts {
				if p.Kind == model.PartReasoning {
					seen.WriteString(p.Text)
				}
			}
			if seen.String() != think {
				t.Errorf("reasoning = %q", seen.String())
			}
		}
		r.Messages = append(r.Messages, *c.Message)
		next := model.UserText("thanks")
		if calls := c.Message.Calls(); len(calls) > 0 {
			next = model.Message{Role: model.RoleTool}
			for _, p := range calls {
				next.Parts = append(next.Parts, model.Result(p, "ok", false))
			}
		}
		r.Messages = append(r.Messages, next)
	}
	r = model.Request{Messages: slices.Clone(r.Messages[:3]), Tools: tools} // the rule applies: remove the protected parts
	bare := r.Messages[1]
	bare.Parts = slices.DeleteFunc(slices.Clone(bare.Parts), func(p model.Part) bool { return p.Kind == model.PartReasoning || p.Kind == model.PartOpaque })
	for i := range bare.Parts {
		bare.Parts[i].Opaque = nil
	}
	r.Messages[1] = bare
	if _, err := read(t, m, r); codeOf(err) != model.CodeBadRequest {
		t.Errorf("without its reasoning the turn was taken: %v", err)
	}
}

func conformExtra(t *testing.T, a Adapter) {
	extra := map[string]any{"future_field": map[string]any{"big": json.Number("12345678901234567890"), "s": "x<y>&+/=="}}
	s, m := begin(t, a, Turn{Calls: []Call{{"list", `{}`}}, Extra: extra}, Turn{Text: "ok"})
	c := done(t, s, m, model.Request{Messages: hello, Tools: tools})
	call := c.Message.Calls()[0]
	done(t, s, m, model.Request{Tools: tools, Messages: append(slices.Clone(hello), *c.Message,
		model.Message{Role: model.RoleTool, Parts: []model.Part{model.Result(call, "ok", false)}})})
	want := strings.Trim(compact(extra), "{}")
	if got := canonical(last(s).Body); !strings.Contains(got, want) {
		t.Errorf("the second request lacks %s:\n%s", want, got)
	}
}

func conformBroken(t *testing.T, a Adapter) {
	if a.NoBad {
		return // in this protocol, invalid JSON in a call makes the whole event invalid
	}
	s, m := begin(t, a, Turn{Calls: []Call{{"list", `{"path": "a`}, {"list", ``}, {"list", `[1]`}}}, Turn{Text: "ok"})
	c := done(t, s, m, model.Request{Messages: hello, Tools: tools})
	calls := c.Message.Calls()
	if len(calls) != 3 || calls[0].Args != nil || calls[0].Text != `{"path": "a` || string(calls[1].Args) != "{}" || string(calls[2].Args) != "[1]" {
		t.Fatalf("calls = %+v", calls)
	}
	results := model.Message{Role: model.RoleTool}
	for _, p := range calls {
		results.Parts = append(results.Parts, model.Result(p, "bad arguments", true))
	}
	done(t, s, m, model.Request{Tools: tools, Messages: append(slices.Clone(hello), *c.Message, results)})
	if body := string(last(s).Body); !strings.Contains(body, "invalid_arguments") {
		t.Errorf("the model does not see what it wrote: %s", body)
	}
}

func conformOutput(t *testing.T, a Adapter) {
	s, m := begin(t, a, Turn{Text: `{"path":"x"}`}, Turn{Text: `{"path":"x"}`})
	for _, with := range [][]model.ToolSpec{nil, tools} {
		done(t, s, m, model.Request{Messages: hello, Tools: with, Output: schema})
		var got struct{ Required []string }
		if r := last(s); json.Unmarshal(r.Output, &got) != nil || len(got.Required) != 1 {
			t.Errorf("with %d tools the schema asked for is %s", len(with), r.Output)
		}
	}
}

func conformUsage(t *testing.T, a Adapter) {
	cost := 0.0125
	want := model.Usage{Input: 100, Output: 40, CacheRead: 1000, CacheWrite: 30, CostUSD: &cost}
	s, m := begin(t, a)
	if a.NoCost {
		want.CostUSD = nil
	}
	if _, none := s.proto.(geminiWire); none {
		want.CacheWrite = 0 // implicit caching does not count writes
	}
	s.Say(Turn{Text: "x", Usage: want})
	if c := done(t, s, m, model.Request{Messages: hello}); !cmp.Equal(want, c.Usage) {
		t.Error(cmp.Diff(want, c.Usage))
	}
}

func conformStop(t *testing.T, a Adapter) {
	s, m := begin(t, a)
	words := map[string]map[string]model.Stop{
		"anthropic": {"end_turn": "end", "max_tokens": "length", "stop_sequence": "stop_sequence", "refusal": "refusal", "model_context_window_exceeded": "length", "news": "other"},
		"openai":    {"stop": "end", "length": "length", "content_filter": "refusal", "news": "other"},
		"gemini":    {"STOP": "end", "MAX_TOKENS": "length", "SAFETY": "refusal", "PROHIBITED_CONTENT": "refusal", "OTHER": "other"},
	}[protoName(s)]
	for word, want := range words {
		s.Say(Turn{Text: "x", Stop: word})
		if c := done(t, s, m, model.Request{Messages: hello}); c.Stop != want {
			t.Errorf("%s is %s, want %s", word, c.Stop, want)
		}
	}
}

func protoName(s *Server) string {
	switch s.proto.(type) {
	case anthropicWire:
		return "anthropic"
	case openaiWire:
		return "openai"
	}
	return "gemini"
}

func conformConcurrent(t *testing.T, a Adapter) {
	s, m := begin(t, a)
	s.Answer(func(r *Request) Turn { return Turn{Text: "echo " + r.Messages[0].Text} })
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			msg, _, _, err := model.Collect(m.Stream(t.Context(), model.Request{Messages: []model.Message{model.UserText(fmt.Sprint(i))}}))
			if want := fmt.Sprint("echo ", i); err != nil || msg.Text() != want {
				t.Errorf("reply %d = %q, %v", i, msg.Text(), err)
			}
		})
	}
	wg.Wait()
}

func conformForeign(t *testing.T, a Adapter) {
	s, m := begin(t, a, Turn{Text: "ok"})
	call := model.Part{Kind: model.PartCall, Call: "t1.c1", Tool: "skills.load", Args: json.RawMessage(`{"path":"x"}`), Provider: "elsewhere", Opaque: json.RawMessage(`{"type":"secret_call"}`)}
	other := model.Part{Kind: model.PartCall, Call: "t1.c2", WireID: "functions.read:0/" + strings.Repeat("x", 90), Tool: "gone.tool", Args: json.RawMessage(`{}`)}
	done(t, s, m, model.Request{Tools: tools, Messages: []model.Message{
		model.UserText("hello"),
		{Role: model.RoleAssistant, Parts: []model.Part{
			{Kind: model.PartReasoning, Text: "hm", Provider: "elsewhere", Opaque: json.RawMessage(`{"type":"secret"}`)},
			{Kind: model.PartOpaque, Provider: "elsewhere", Opaque: json.RawMessage(`{"type":"secret"}`)},
			{Kind: model.PartText}, call, other}},
		{Role: model.RoleTool, Parts: []model.Part{model.Result(call, "one", false), model.Result(other, "", true)}},
		{Role: model.RoleUser, Parts: []model.Part{model.Text("go on"), model.Text(" please")}},
		model.UserText("now"),
	}})
	if body := string(last(s).Body); strings.Contains(body, "secret") {
		t.Errorf("another provider's blocks were sent: %s", body)
	}
}

func conformUnchanged(t *testing.T, a Adapter) {
	s, m := begin(t, a, Turn{Thinking: "t", Calls: []Call{{"list", `{}`}}, Extra: map[string]any{"extra_field": "1"}}, Turn{Text: "ok"})
	c := done(t, s, m, model.Request{Messages: hello, Tools: tools})
	r := model.Request{System: "s", Tools: tools, Output: schema, Messages: append(slices.Clone(hello), *c.Message,
		model.Message{Role: model.RoleTool, Parts: []model.Part{model.Result(c.Message.Calls()[0], "ok", false)}})}
	before, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	done(t, s, m, r)
	if after, _ := json.Marshal(r); string(before) != string(after) {
		t.Errorf("the request changed:\n%s\n%s", before, after)
	}
}

func codeOf(err error) model.Code {
	var e *model.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Code
}

func readCtx(ctx context.Context, t *testing.T, m model.Model) (last model.Chunk, err error) {
	t.Helper()
	for c, e := range m.Stream(ctx, model.Request{Messages: hello}) {
		last, err = c, e
	}
	return last, err
}

func cancelable(t *testing.T) (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(t.Context())
}
