package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/event"
	"metier/mcp/server"
	"metier/model"
	"metier/policy"
)

// echo is an embedder's tool: it repeats its argument, or returns a picture.
type echo struct{}

func (echo) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"additionalProperties":false}`)
	return metier.Spec{Canonical: "echo", Effect: policy.Read, ToolSpec: model.ToolSpec{Name: "echo", Description: "Says what it is told.", Schema: schema}}, true
}

func (echo) Facts(context.Context, *metier.Session, json.RawMessage) (metier.Facts, error) {
	return metier.Facts{Request: policy.Request{Effect: policy.Read}}, nil
}

func (echo) Invoke(_ context.Context, x *metier.ToolContext) (metier.Result, error) {
	var a struct {
		Text string `json:"text"`
	}
	if err := metier.DecodeArgs(x.Call().Args, &a); err != nil {
		return metier.Failure(err), nil
	}
	if a.Text == "picture" {
		return metier.Result{Parts: []model.Part{{Kind: model.PartImage, Media: "image/png", Data: []byte("\x89PNG")}}}, nil
	}
	return metier.Text(a.Text), nil
}

func embedding(change func(*server.Options)) func(*fixture) {
	return func(w *fixture) { w.tools, w.options = append(w.tools, echo{}), change }
}

// An embedder's tool is listed where it is named, and runs through its caller's
// session.
func TestAnEmbeddersToolPassesTheGate(t *testing.T) {
	t.Parallel()
	own := embedding(func(o *server.Options) { o.Tools = map[string]string{"echo": "Echo"} })
	w := start(t, library, own)
	c := w.stdio(nil)
	var seen *mcp.Tool
	for tool, err := range c.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if tool.Name == "echo" {
			seen = tool
		}
	}
	if seen == nil || seen.Title != "Echo" || seen.OutputSchema != nil || !seen.Annotations.ReadOnlyHint || !*seen.Annotations.OpenWorldHint {
		t.Fatalf("offered as %+v", seen)
	}
	if r := c.call("echo", map[string]any{"text": "hello"}); r.IsError || said(r) != "hello" || r.StructuredContent != nil {
		t.Errorf("%+v: %s", r, said(r))
	}
	r := c.call("echo", map[string]any{"text": "picture"})
	if p, is := r.Content[0].(*mcp.ImageContent); !is || p.MIMEType != "image/png" || string(p.Data) != "\x89PNG" {
		t.Errorf("a picture is %#v", r.Content[0])
	}
	recorded := 0
	for _, e := range events[event.ToolCallStarted](w, process) {
		if e.Tool == "echo" {
			recorded++
		}
	}
	if recorded != 2 {
		t.Errorf("%d calls are on the record", recorded)
	}
	asks := start(t, library, own, func(w *fixture) {
		w.grants = func(g *policy.Grants) {
			g.Rules = append(g.Rules, policy.Rule{Effect: policy.RuleAsk, Pattern: "echo"})
		}
	})
	p := &person{action: "accept", answer: "refuse"}
	if r := asks.stdio(p.options()).call("echo", map[string]any{"text": "hello"}); !r.IsError || len(p.asked) != 1 {
		t.Errorf("asked %q: %s", p.asked, said(r))
	}
	if _, err := start(t, library, embedding(nil)).stdio(nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "x"}}); err == nil {
		t.Error("a tool that is not named can be called")
	}
}

func TestAnEmbedderAddsToTheServer(t *testing.T) {
	t.Parallel()
	w := start(t, library, embedding(func(o *server.Options) {
		o.Protocol = func(p *mcp.ServerOptions) {
			p.CompletionHandler = func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
				return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"one"}}}, nil
			}
		}
		o.Extend = func(s *mcp.Server) error {
			s.AddPrompt(&mcp.Prompt{Name: "own prompt"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{Description: "own"}, nil
			})
			return nil
		}
	}))
	c := w.stdio(nil)
	if r, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "own prompt"}); err != nil || r.Description != "own" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "guide"}); err != nil || len(r.Messages) != 1 {
		t.Errorf("a skill beside it: %+v, %v", r, err)
	}
	r, err := c.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "hello"}, Argument: mcp.CompleteParamsArgument{Name: "who", Value: "o"}})
	if err != nil || len(r.Completion.Values) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	failed := &fixture{t: t, dir: t.TempDir(), profile: w.profile, logs: w.logs, ends: make(chan server.Client, 1)}
	_, err = server.New(t.Context(), failed, &server.Options{Extend: func(*mcp.Server) error { return errors.New("no room") }})
	if err == nil || !strings.Contains(err.Error(), "no room") || failed.open.Load() != 0 {
		t.Errorf("%v; %d sessions are open", err, failed.open.Load())
	}
}

// With Resume an older client gets the answers that its broken connection did
// not deliver.
func TestAnswersAreKeptForClientsThatComeBack(t *testing.T) {
	t.Parallel()
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"kept"}}}`
	for _, keep := range []int{0, 1 << 20} {
		w := start(t, library, embedding(func(o *server.Options) { o.Resume, o.Tools = keep, map[string]string{"echo": "Echo"} }))
		h := w.http(server.Access{})
		c := w.over(h, "", older, nil)
		send := func(method, body, last string) (*http.Response, string) {
			req, err := http.NewRequestWithContext(t.Context(), method, h.URL, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": c.ID(), "Mcp-Protocol-Version": older, "Last-Event-Id": last} {
				if v != "" {
					req.Header.Set(k, v)
				}
			}
			r, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Body.Close() })
			return r, read(t, r)
		}
		r, answer := send(http.MethodPost, call, "")
		if !strings.Contains(answer, "kept") {
			t.Fatalf("the answer is %q", answer)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil { // until the server has ended it, no other request can resume the stream
			t.Fatal(err)
		}
		_, rest, kept := strings.Cut(answer, "id: ")
		if kept != (keep > 0) {
			t.Errorf("of %d bytes kept, events can be asked for: %v: %q", keep, kept, answer)
		}
		if !kept {
			continue
		}
		first, _, _ := strings.Cut(rest, "\n")
		if r, again := send(http.MethodGet, "", first); !strings.Contains(again, "kept") {
			t.Errorf("after %q: %s, %q", first, r.Status, again)
		}
	}
}

// read reads a stream up to the answer of the call, or to its end.
func read(t *testing.T, r *http.Response) string {
	t.Helper()
	text, lines := "", bufio.NewScanner(r.Body)
	for !strings.Contains(text, "kept") && lines.Scan() {
		text += lines.Text() + "\n"
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return text
}
