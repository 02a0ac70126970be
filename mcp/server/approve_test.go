package server_test

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier/event"
	"metier/mcp/server"
	"metier/policy"
	"metier/settings"
)

func asking(w *fixture) {
	w.grants = func(g *policy.Grants) {
		g.Skills = append(g.Skills, policy.SkillRule{Skill: "guide", Effect: policy.RuleAsk})
	}
}

// person answers forms, and keeps the questions.
type person struct {
	action, answer string
	asked          []string
}

func (p *person) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		p.asked = append(p.asked, r.Params.Message)
		return &mcp.ElicitResult{Action: p.action, Content: map[string]any{"answer": p.answer}}, nil
	}}
}

// In both revisions, and over every transport, the user of a client is asked
// before a skill is loaded if policy requires that.
func TestThePersonAtTheClientIsAsked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		version string
		http    bool
	}{"stdio, newest": {newest, false}, "stdio, older": {older, false}, "http, newest": {newest, true}, "http, older": {older, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, answer := range []struct {
				action, answer string
				want           bool
			}{{"accept", "allow once", true}, {"accept", "refuse", false}, {"decline", "", false}, {"cancel", "allow once", false}} {
				w, want := start(t, library, asking), answer.want
				p := &person{action: answer.action, answer: answer.answer}
				var c *client
				if tt.http {
					c = w.over(w.http(server.Access{}), "", tt.version, p.options())
				} else {
					c = w.stdioOf(tt.version, p.options())
				}
				r := c.call("load_skill", map[string]any{"name": "guide"})
				if r.IsError == want || strings.Contains(said(r), "Read references/way.md.") != want {
					t.Errorf("%+v: %s", answer, said(r))
				}
				if len(p.asked) != 1 || !strings.Contains(p.asked[0], "guide") {
					t.Errorf("%+v: asked %q", answer, p.asked)
				}
			}
		})
	}
}

func TestAClientThatCannotAskIsToldWhatWouldBeNeeded(t *testing.T) {
	t.Parallel()
	w := start(t, library, asking)
	for _, version := range []string{older, newest} {
		r := w.stdioOf(version, nil).call("load_skill", map[string]any{"name": "guide"})
		if !r.IsError || !strings.HasPrefix(said(r), "approval_required: ") || strings.Contains(said(r), "way.md") {
			t.Errorf("%s: %s", version, said(r))
		}
	}
	if n := len(events[event.SkillActivated](w, process)); n != 0 {
		t.Errorf("%d activations", n)
	}
}

// A client that reads files is not the operator. A skill that requires approval
// is not a resource until the user approves it, and a client's read is no
// evidence of a direct command.
func TestResourcesAreJudgedAsAClientsOwn(t *testing.T) {
	t.Parallel()
	const main, inside = "skill://project/guide/SKILL.md", "skill://project/guide/references/way.md"
	reads := func(c *client, uri string) bool {
		r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		return err == nil && len(r.Contents) == 1
	}
	p := &person{action: "accept", answer: "allow once"}
	c := start(t, library, asking).stdio(p.options())
	if reads(c, main) || reads(c, inside) {
		t.Error("a skill that policy asks about is read without a question")
	}
	if r := c.call("load_skill", map[string]any{"name": "guide"}); r.IsError || !reads(c, main) || !reads(c, inside) {
		t.Errorf("it is loaded by a yes, and not read: %s", said(r))
	}
	for mode, want := range map[policy.Mode]bool{policy.EnforceExplicit: true, policy.EnforceStrict: false} {
		w := start(t, library, func(w *fixture) { w.grants = func(g *policy.Grants) { g.Mode = mode } })
		if got := reads(w.stdio(nil), main); got != want {
			t.Errorf("%s: read %v", mode, got)
		}
	}
}

// A skill inside another is found by the address of the outer one if its name is not that of its
// folder. Its own rule restricts its files.
func TestReadResource_AsksForTheInnermostSkill(t *testing.T) {
	t.Parallel()
	w := start(t, map[string]string{"o/SKILL.md": skill("o", "Around.", "Outer."), "o/in/SKILL.md": skill("other", "Inside.", "CANARY"), "o/in/a/b.md": "CANARY", "o/inn/c.md": "fine"},
		func(w *fixture) {
			w.nested = settings.NestedYes
			w.grants = func(g *policy.Grants) { g.Skills = []policy.SkillRule{{Effect: policy.RuleAsk, Skill: "other"}} }
		})
	c := w.stdioOf(older, (&person{action: "accept", answer: "allow once"}).options()) // newer clients keep what they read
	reads := func(file string) bool {
		r, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "skill://project/o/" + file})
		return err == nil && len(r.Contents) == 1
	}
	for file, want := range map[string]bool{"SKILL.md": true, "inn/c.md": true, "in/SKILL.md": false, "in/a/b.md": false} {
		if got := reads(file); got != want {
			t.Errorf("%s is read: %t, want %t", file, got, want)
		}
	}
	if r := c.call("load_skill", map[string]any{"name": "other"}); r.IsError || !reads("in/a/b.md") {
		t.Errorf("a file of an approved skill is not read: %s", said(r))
	}
	w.put("o/in/a/b.md", "Swapped.")
	if reads("in/a/b.md") {
		t.Error("a file is read that the answer does not cover")
	}
}

// Requests other than calls of tools cannot ask. They are refused with the reason, and the server's
// log has no error, because a rule that applies is not one.
func TestRequestsThatCannotAsk_SayWhatIsNeeded(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	w := start(t, library, asking, func(w *fixture) {
		w.options = func(o *server.Options) {
			o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		}
	})
	c := w.stdio((&person{action: "accept", answer: "allow once"}).options())
	_, read := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "skill://project/guide/SKILL.md"})
	_, prompt := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "guide"})
	for name, err := range map[string]error{"resources/read": read, "prompts/get": prompt} {
		e, is := errors.AsType[*jsonrpc.Error](err)
		if !is {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(int64(jsonrpc.CodeInvalidRequest), e.Code); diff != "" {
			t.Errorf("%s: code (-want +got):\n%s", name, diff)
		}
		want := `approval_required: load the skill "guide" (project:guide, tier project)? rule ask: guide This request cannot ask the user. The operator of the server can allow it with a policy file.`
		if diff := cmp.Diff(want, e.Message); diff != "" {
			t.Errorf("%s: message (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff("", log.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// A client's answer counts only for the call that it was requested for, from
// the client that was asked, and unchanged.
func TestAnswersCannotBeForgedOrMoved(t *testing.T) {
	t.Parallel()
	w := start(t, library, func(w *fixture) {
		w.grants = func(g *policy.Grants) {
			g.Skills = append(g.Skills, policy.SkillRule{Skill: "guide", Effect: policy.RuleAsk}, policy.SkillRule{Skill: "hello", Effect: policy.RuleAsk})
		}
	})
	h := w.http(server.Access{Tokens: map[string]string{"ann": "token-of-ann-0123456789", "bob": "token-of-bob-0123456789"}})
	yes := mcp.InputResponseMap{"approval": &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow once"}}}
	o := &mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}, ElicitationHandler: (&person{}).options().ElicitationHandler}
	ann, bob := w.over(h, "token-of-ann-0123456789", newest, o), w.over(h, "token-of-bob-0123456789", newest, o)
	with := func(c *client, skill, state string, answers mcp.InputResponseMap) (*mcp.CallToolResult, error) {
		return c.CallTool(t.Context(), &mcp.CallToolParams{Name: "load_skill", Arguments: map[string]any{"name": skill}, RequestState: state, InputResponses: answers})
	}
	try := func(c *client, skill, state string, answers mcp.InputResponseMap) *mcp.CallToolResult {
		r, err := with(c, skill, state, answers)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	odd := mcp.InputResponseMap{"approval": &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow anything"}}}
	if r := try(ann, "guide", try(ann, "guide", "", nil).RequestState, odd); !r.IsError || strings.Contains(said(r), "way.md") {
		t.Errorf("an answer that was no choice is a yes: %s", said(r))
	}
	state := try(ann, "guide", "", nil).RequestState
	raw, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil || len(raw) < 40 {
		t.Fatalf("the state %q: %v", state, err)
	}
	raw[len(raw)-3] ^= 1
	for name, r := range map[string]*mcp.CallToolResult{
		"an answer without a state": try(ann, "guide", "", yes),
		"the state of another call": try(ann, "hello", state, yes),
	} {
		if r.InputRequests == nil || len(r.Content) != 0 {
			t.Errorf("%s was taken: %s", name, said(r))
		}
	}
	for name, bad := range map[string]struct {
		client *client
		state  string
	}{
		"a state that was changed":   {ann, base64.RawURLEncoding.EncodeToString(raw)},
		"a state of nobody's making": {ann, "AAAA"},
		"no state at all":            {ann, "?"},
		"another principal's state":  {bob, state},
	} {
		r, err := with(bad.client, "guide", bad.state, yes)
		if e, is := errors.AsType[*jsonrpc.Error](err); !is || e.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%s was taken: %+v, %v", name, r, err)
		}
	}
	if r := try(ann, "guide", state, yes); r.IsError || r.InputRequests != nil || !strings.Contains(said(r), "way.md") {
		t.Errorf("the right answer was not taken: %+v", r)
	}
	// It was used up, and is invalid for another call.
	r, err := ann.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_skill_resource", Arguments: map[string]any{"skill": "guide", "path": "references/way.md"}, RequestState: state, InputResponses: yes})
	if err != nil || strings.Contains(said(r), "Read references/way.md.") {
		t.Errorf("the call before is answered again: %s, %v", said(r), err)
	}
	if r := try(ann, "hello", state, yes); r.InputRequests == nil || len(r.Content) != 0 {
		t.Errorf("an old state was taken for another call: %s", said(r))
	}
	if n := len(events[event.SkillActivated](w, server.Client{Principal: "bob"})); n != 0 {
		t.Errorf("bob has %d activations", n)
	}
}

// An anonymous request has a session of its own, which does not know that its answer was used. The
// same answer counts once all the same, and the user is asked again.
func TestAnswer_OfAnonymousRequestCountsOnce(t *testing.T) {
	t.Parallel()
	w := start(t, library, asking)
	o := &mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}, ElicitationHandler: (&person{}).options().ElicitationHandler}
	c := w.over(w.http(server.Access{}), "", newest, o)
	load := func(state string) *mcp.CallToolResult {
		p := &mcp.CallToolParams{Name: "load_skill", Arguments: map[string]any{"name": "guide"}, RequestState: state}
		if state != "" {
			p.InputResponses = mcp.InputResponseMap{"approval": &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow once"}}}
		}
		r, err := c.CallTool(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	state := load("").RequestState
	if r := load(state); r.IsError || !strings.Contains(said(r), "way.md") {
		t.Fatalf("the answer was not taken: %s", said(r))
	}
	again := load(state)
	if again.InputRequests == nil || len(again.Content) != 0 || again.RequestState == state {
		t.Errorf("the answer was taken again: %s", said(again))
	}
	if r := load(again.RequestState); r.IsError || !strings.Contains(said(r), "way.md") {
		t.Errorf("the next answer was not taken: %s", said(r))
	}
}

// A client that never answers cannot make the server keep any number of calls, or one for ever.
func TestQuestionsThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	shown, answer := make(chan struct{}), make(chan struct{})
	load := func(wait time.Duration) func() error {
		w := start(t, library, asking, func(w *fixture) {
			w.options = func(o *server.Options) { o.Answer = wait }
		})
		c := w.over(w.http(server.Access{}), "", older, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			shown <- struct{}{}
			<-answer
			return nil, errors.New("no")
		}})
		return func() error {
			_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "load_skill", Arguments: map[string]any{"name": "guide"}})
			return err
		}
	}
	var open sync.WaitGroup
	call := load(0)
	for range 8 {
		open.Go(func() { _ = call() })
		<-shown
	}
	if err := call(); err == nil || !strings.Contains(err.Error(), "too_many_calls") {
		t.Errorf("the ninth question: %v", err)
	}
	brief := load(time.Millisecond)
	go func() { <-shown }()
	if err := brief(); err == nil || !strings.Contains(err.Error(), "the question was not answered within 1ms") {
		t.Errorf("a question without an answer: %v", err)
	}
	close(answer)
	open.Wait()
}
