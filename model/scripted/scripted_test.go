package scripted_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/model"
	"metier/model/scripted"
)

const orders = "region,customer,amount\nnorth,Ann,100.50\nsouth,Bob,\"1,200\"\nnorth,Cy,49.5\nsouth,Di,0.1\n"

func script(t *testing.T, src string) model.Model {
	t.Helper()
	m, err := scripted.New([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// talk holds a conversation with a model and answers its calls.
type talk struct {
	m        model.Model
	messages []model.Message
	answer   func(model.Part) (string, bool)
}

func (c *talk) next(t *testing.T) (model.Message, error) {
	t.Helper()
	msg, usage, _, err := model.Collect(c.m.Stream(t.Context(), model.Request{System: "sys", Messages: c.messages}))
	if err != nil {
		return msg, err
	}
	if usage.Input == 0 || usage.Output == 0 {
		t.Errorf("usage = %+v", usage)
	}
	c.messages = append(c.messages, msg)
	results := model.Message{Role: model.RoleTool}
	for _, p := range msg.Calls() {
		text, failed := c.answer(p)
		results.Parts = append(results.Parts, model.Result(p, text, failed))
	}
	if len(results.Parts) > 0 {
		c.messages = append(c.messages, results)
	}
	return msg, nil
}

func newTalk(m model.Model, prompt string) *talk {
	return &talk{m: m, messages: []model.Message{model.UserText(prompt)}, answer: func(model.Part) (string, bool) { return orders, false }}
}

func codeOf(err error) model.Code {
	var e *model.Error
	errors.As(err, &e)
	if e == nil {
		return ""
	}
	return e.Code
}

func TestReplyIsComputedFromToolResults(t *testing.T) {
	t.Parallel()
	m := script(t, `
turns:
  - say: I read the orders.
    calls:
      - {tool: read_file, args: {path: "{{ prompt | match \"in (\\\\S+)\" }}", limit: 10}}
  - calls:
      - tool: write_file
        args:
          path: out.md
          rows: {$json: '{{ csv (result "read_file" -1) | sortBy "amount" "desc" | col "amount" | json }}'}
          content: |
            {{ range csv (result "read_file" 1) | groupBy "region" -}}
            {{ .Key }}: {{ .Rows | col "amount" | sum | money }} in {{ count .Rows }}
            {{ end -}}
  - say: '{{ result "write_file" -1 }}, {{ results "read_file" | count }} read'
`)
	c := newTalk(m, "sum up the sales in orders.csv please")
	c.answer = func(p model.Part) (string, bool) {
		if p.Tool == "write_file" {
			return "written", false
		}
		return orders, false
	}
	first, err := c.next(t)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(first.Calls()[0].Args); got != `{"limit":10,"path":"orders.csv"}` {
		t.Errorf("args = %s", got)
	}
	second, err := c.next(t)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"content":"north: 150.00 in 2\nsouth: 1,200.10 in 2\n","path":"out.md","rows":["1,200","100.50","49.5","0.1"]}`
	if diff := cmp.Diff(want, string(second.Calls()[0].Args)); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
	if third, err := c.next(t); err != nil || third.Text() != "written, 1 read" {
		t.Errorf("%q, %v", third.Text(), err)
	}
	if _, err := c.next(t); codeOf(err) != scriptEnded || !strings.Contains(err.Error(), "the script has only 3 turns") {
		t.Errorf("past the end: %v", err)
	}
}

const scriptEnded = model.CodeScriptEnded

// The error of a template says what is missing, without the library's words.
func TestTemplateError_NamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := newTalk(script(t, `turns: [{say: '{{ result "read_fle" 1 }}'}]`), "Go.").next(t)
	if err == nil || !strings.Contains(err.Error(), "turn 1: say: no result 1 of read_fle: there are 0") || strings.Contains(err.Error(), "executing") {
		t.Errorf("error %v", err)
	}
}

func TestStreamsWordsThenOneDone(t *testing.T) {
	t.Parallel()
	m := script(t, "model: demo\nturns:\n  - say: \"one two\\n three \"\n    calls: [{tool: list}]\n    usage: {input: 7, output: 9}\n")
	var texts []string
	var kinds []model.ChunkKind
	var end model.Chunk
	for c, err := range m.Stream(t.Context(), model.Request{}) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, c.Kind)
		if c.Kind == model.ChunkText {
			texts = append(texts, c.Text)
		}
		end = c
	}
	if diff := cmp.Diff([]string{"one", " two", "\n three", " "}, texts); diff != "" {
		t.Errorf("deltas (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]model.ChunkKind{"text", "text", "text", "text", "call", "done"}, kinds); diff != "" {
		t.Errorf("chunks (-want +got):\n%s", diff)
	}
	if end.Model != "demo" || end.Stop != model.StopTools || end.Usage != (model.Usage{Input: 7, Output: 9}) || end.Message.Text() != "one two\n three " {
		t.Errorf("done = %+v", end)
	}
}

func TestErrorTurnsFailOnceForEachConversation(t *testing.T) {
	t.Parallel()
	m := script(t, "turns:\n  - {error: model_overloaded, repeat: 2, retry_after: 2s, message: busy}\n  - say: fine\n  - error: model_bad_request\n")
	for _, prompt := range []string{"a", "b"} {
		c := newTalk(m, prompt)
		for range 2 {
			_, err := c.next(t)
			var e *model.Error
			if !errors.As(err, &e) || e.Code != model.CodeOverloaded || e.RetryAfter != 2*time.Second || !e.Retryable() || e.Message != "busy" {
				t.Fatalf("%s: %v", prompt, err)
			}
		}
		if msg, err := c.next(t); err != nil || msg.Text() != "fine" {
			t.Errorf("%s: %q, %v", prompt, msg.Text(), err)
		}
		if _, err := c.next(t); codeOf(err) != model.CodeBadRequest {
			t.Errorf("%s: %v", prompt, err)
		}
	}
}

func TestWhenPassesTurnsOverAndRepeatKeepsThem(t *testing.T) {
	t.Parallel()
	m := script(t, `
turns:
  - {when: '{{ contains "summar" prompt }}', say: a summary}
  - {repeat: 2, say: '{{ prompt }}!'}
  - {when: '{{ eq prompt "never" }}', say: no}
  - {when: '{{ not (contains "stop" (results "poll" | json)) }}', repeat: 100, calls: [{tool: poll}]}
  - say: stopped
`)
	c := newTalk(m, "hi")
	polls := 0
	c.answer = func(model.Part) (string, bool) {
		if polls++; polls == 4 {
			return "stop", false
		}
		return "go on", false
	}
	c.messages = append(c.messages, model.Message{Role: model.RoleTool, Parts: []model.Part{{Kind: model.PartResult, Tool: "x", Text: "r"}}})
	var got []string
	for range 7 {
		msg, err := c.next(t)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, msg.Text())
	}
	if diff := cmp.Diff([]string{"hi!", "hi!", "", "", "", "", "stopped"}, got); diff != "" || polls != 4 {
		t.Errorf("%d polls, texts (-want +got):\n%s", polls, diff)
	}
	if msg, err := newTalk(m, "summarise").next(t); err != nil || msg.Text() != "a summary" {
		t.Errorf("%q, %v", msg.Text(), err)
	}
}

func TestPlaceTravelsWithTheConversation(t *testing.T) {
	t.Parallel()
	src := "turns:\n  - say: one\n  - say: two\n    repeat: 2\n  - say: three\n"
	c := newTalk(script(t, src), "go")
	for _, want := range []string{"one", "two", "two", "three"} {
		c.m = script(t, src) // another process
		if msg, err := c.next(t); err != nil || msg.Text() != want {
			t.Errorf("%q, %v, want %q", msg.Text(), err, want)
		}
	}
	bare := []model.Message{model.UserText("go"), {Role: model.RoleAssistant, Parts: []model.Part{model.Text("from elsewhere")}}, model.UserText("on")}
	if msg, err := (&talk{m: script(t, src), messages: bare}).next(t); err != nil || msg.Text() != "two" {
		t.Errorf("after one unmarked reply: %q, %v", msg.Text(), err)
	}
	m := script(t, src)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c := newTalk(m, "go")
			for _, want := range []string{"one", "two", "two", "three"} {
				if msg, err := c.next(t); err != nil || msg.Text() != want {
					t.Errorf("%q, %v, want %q", msg.Text(), err, want)
				}
			}
		})
	}
	wg.Wait()
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		`lines (result "read_file" 1) | count`:                                            "5",
		`csv (result "read_file" 1) | col "region" | json`:                                `["north","south","north","south"]`,
		`csv (result "read_file" 1) | sortBy "amount" | col "amount"`:                     "[0.1 49.5 100.50 1,200]",
		`csv (result "read_file" 1) | col "amount" | avg | money`:                         "337.52",
		`match "Ann,([0-9.]+)" (result "read_file" 1)`:                                    "100.50",
		`matches "(?m)^north,(\\w+)" (result "read_file" 1) | json`:                       `["Ann","Cy"]`,
		`(index (csv (result "read_file" -1) | groupBy "region") 0).Key`:                  "north",
		`(index (csv (result "read_file" 1) | groupBy "region" | rankBy "amount") 0).Key`: "south",
		`money -1234567.891`:       "-1,234,567.89",
		`add "1,000" 1 | num`:      "1001",
		`add 1 (len (trim " a "))`: "2",
		`split "," "a,b" | count`:  "2",
		`offered "read_file"`:      "false",
		`failed "read_file" 1`:     "true",
		`system`:                   "sys",
		`contains "x" given`:       "true",
		`contains "sys" given`:     "false",
	} {
		c := newTalk(script(t, "turns:\n  - calls: [{tool: read_file}]\n  - say: |-\n      {{ "+expr+" }}\n"), "x")
		c.answer = func(model.Part) (string, bool) { return orders, true }
		if _, err := c.next(t); err != nil {
			t.Fatal(err)
		}
		if msg, err := c.next(t); err != nil || msg.Text() != want {
			t.Errorf("%s = %q, %v, want %q", expr, msg.Text(), err, want)
		}
	}
}

func TestFaultsNameTheirTurn(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"turns: []":                                        "0 turns",
		"turns: [{sey: x}]":                                "sey",
		"turns: [{say: '{{ nope }}'}]":                     "turn 1: ",
		"turns: [{say: x}, {repeat: -1}]":                  "turn 2: repeat",
		"turns: [{stop: maybe}]":                           "stop is",
		"turns: [{error: No}]":                             "error is",
		"turns: [{error: model_cut, say: x}]":              "cannot say",
		"turns: [{calls: [{args: {}}]}]":                   "call 1 has no tool name",
		"turns: [{calls: [{tool: x, args: {a: ['{{']}}]}]": "call 1: a: 0",
		"turns: [{error: model_cut, retry_after: soon}]":   "retry_after",
		"turns: [{calls: [{tool: x, raw: x, args: {}}]}]":  "use only one",
	} {
		if _, err := scripted.New([]byte(src)); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "script: ") {
			t.Errorf("%s: %v, want %q", src, err, want)
		}
	}
	for say, want := range map[string]string{
		`{{ result "read_file" 2 }}`:                  "there are 0",
		`{{ range csv "a,b\n1,2" }}{{ .c }}{{ end }}`: `"c"`,
		`{{ csv "a,b\n1" }}`:                          "row 1 has 1 cells",
		`{{ csv "a\n1" | col "z" }}`:                  `no column "z"`,
		`{{ sum (lines "x") }}`:                       "not a number",
		`{{ add 1 "x" }}`:                             "not a number",
		`{{ range 100000 }}0123456789{{ end }}`:       "longer than",
		`{{ match "(" "x" }}`:                         "missing closing )",
	} {
		m := script(t, fmt.Sprintf("turns:\n  - say: %q\n", say))
		_, _, _, err := model.Collect(m.Stream(t.Context(), model.Request{}))
		if codeOf(err) != model.CodeScriptFailed || !strings.Contains(err.Error(), "turn 1: say: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", say, err, want)
		}
	}
}

func TestRawArgumentsNeedNotBeJSON(t *testing.T) {
	t.Parallel()
	m := script(t, "turns: [{calls: [{tool: x, raw: '{\"a\":'}]}]")
	msg, _, _, err := model.Collect(m.Stream(t.Context(), model.Request{}))
	if err != nil || msg.Calls()[0].Args != nil || msg.Calls()[0].Text != `{"a":` {
		t.Errorf("%+v, %v", msg, err)
	}
}

func TestCanceledContextEndsTheReply(t *testing.T) {
	t.Parallel()
	m := script(t, "turns: [{say: one two three}]")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	var err error
	for _, e := range m.Stream(ctx, model.Request{}) {
		n++
		err = e
		cancel()
	}
	if n != 2 || codeOf(err) != model.CodeCanceled {
		t.Errorf("%d chunks, %v", n, err)
	}
}
