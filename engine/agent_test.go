package engine_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"metier"
	"metier/engine"
	"metier/model"
	"metier/policy"
)

func TestNewAgent_FailsEarly(t *testing.T) {
	t.Parallel()
	tool, err := metier.FuncTool("read_file", "Read.", policy.Read, func(context.Context, struct{}) (string, error) { return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	fine := replay("turns: [{say: Fine.}]")
	for want, o := range map[string]engine.AgentOptions{
		"no_model":            {},
		"provider_unknown":    {Model: "nobody:any"},
		"tool_name_taken":     {Client: fine, Tools: []metier.Tool{tool}},
		"tool_unknown":        {Client: fine, Allow: []string{"fly"}},
		"skills_root_missing": {Client: fine, Skills: []string{"nowhere"}},
		"workspace_missing":   {Client: fine, Workspace: "/nowhere/at/all"},
		"skill_not_found":     {Client: fine, Scripts: []string{"missing:scripts/a.sh"}},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			o.Environ = []string{"HOME=" + t.TempDir(), "OLLAMA_HOST=127.0.0.1:1"}
			if o.Workspace == "" {
				o.Workspace = t.TempDir()
			}
			a, err := engine.NewAgent(t.Context(), o)
			if diff := cmp.Diff(want, metier.CodeOf(err)); diff != "" || a != nil {
				t.Errorf("%v; code (-want +got):\n%s", err, diff)
			}
		})
	}
}

// Errors name the options of the embedding program, not the fields of the resulting request.
func TestNewAgent_NamesItsOptions(t *testing.T) {
	t.Parallel()
	fine := replay("turns: [{say: Fine.}]")
	for field, o := range map[string]engine.AgentOptions{
		"AgentOptions.Skills":    {Client: fine, Skills: []string{""}},
		"AgentOptions.Model":     {Client: fine, Model: "openai:any"},
		"AgentOptions.Environ":   {Client: fine, Environ: []string{"HOME"}},
		"AgentOptions.MaxTurns":  {Client: fine, MaxTurns: -1},
		"AgentOptions.MaxTokens": {Client: fine, MaxTokens: -1},
		"AgentOptions.Workspace": {Client: fine, Workspace: "/nowhere/at/all"},
		"AgentOptions.Allow":     {Client: fine, Allow: []string{"fly"}},
		"AgentOptions.Records":   {Client: fine, Records: "agent_test.go"},
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			if o.Environ == nil {
				o.Environ = []string{"HOME=" + t.TempDir()}
			}
			if o.Workspace == "" {
				o.Workspace = t.TempDir()
			}
			_, err := engine.NewAgent(t.Context(), o)
			var e *metier.Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(field, e.Field); diff != "" {
				t.Errorf("field (-want +got):\n%s", diff)
			}
			if text := err.Error() + e.Hint; strings.Contains(text, "Request.") {
				t.Errorf("%q names a field of the request", text)
			}
		})
	}
}

func TestAgent_NamesItsPrompt(t *testing.T) {
	t.Parallel()
	a, err := engine.NewAgent(t.Context(), engine.AgentOptions{Client: replay("turns: [{say: Fine.}, {say: Fine.}]"), Workspace: t.TempDir(), Environ: []string{"HOME=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	want := &metier.Error{Kind: metier.Invalid, Code: "usage", Field: "prompt", Hint: "pass a prompt"}
	for _, when := range []string{"first", "later"} {
		_, err := a.Ask(t.Context(), "")
		got, _ := errors.AsType[*metier.Error](err)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(metier.Error{}, "Err")); diff != "" {
			t.Errorf("%s message (-want +got):\n%s", when, diff)
		}
		if _, err := a.Ask(t.Context(), "Hello."); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// broken is a model whose client was never created.
type broken struct{ model.Model }

func TestNewAgent_NamesModelAndScripts(t *testing.T) {
	t.Parallel()
	fine := replay("turns: [{say: Fine.}]")
	skills := t.TempDir()
	write(t, filepath.Join(skills, "greet", "SKILL.md"), "---\nname: greet\ndescription: Greets. Use when someone arrives.\n---\nGreet.\n")
	for _, tt := range []struct {
		name, field string
		o           engine.AgentOptions
	}{
		{"a model without a provider", "AgentOptions.Model", engine.AgentOptions{Model: "claude"}},
		{"a script without a skill", "AgentOptions.Scripts", engine.AgentOptions{Client: fine, Scripts: []string{"hi.sh"}}},
		{"a script of no skill", "AgentOptions.Scripts", engine.AgentOptions{Client: fine, Scripts: []string{"none:scripts/hi.sh"}}},
		{"a script that does not exist", "AgentOptions.Scripts", engine.AgentOptions{Client: fine, Skills: []string{skills}, Scripts: []string{"greet:scripts/hi.sh"}}},
		{"scripts without their tool", "AgentOptions.Scripts", engine.AgentOptions{Client: fine, Allow: []string{"load_skill"}, Scripts: []string{"greet:scripts/hi.sh"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.o.Workspace, tt.o.Environ = t.TempDir(), []string{"HOME=" + t.TempDir()}
			_, err := engine.NewAgent(t.Context(), tt.o)
			e, ok := errors.AsType[*metier.Error](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tt.field, e.Field); diff != "" {
				t.Errorf("%v; field (-want +got):\n%s", err, diff)
			}
		})
	}
}

// Scripts that may run are enough: the tool that runs them is granted with them.
func TestNewAgent_ScriptsGrantTheirTool(t *testing.T) {
	t.Parallel()
	skills := t.TempDir()
	write(t, filepath.Join(skills, "greet", "SKILL.md"), "---\nname: greet\ndescription: Greets. Use when someone arrives.\n---\nGreet.\n")
	write(t, filepath.Join(skills, "greet", "scripts", "hi.sh"), "#!/bin/sh\necho hi\n")
	a, err := engine.NewAgent(t.Context(), engine.AgentOptions{Skills: []string{skills}, Scripts: []string{"greet:scripts/hi.sh"}, Workspace: t.TempDir(), Environ: []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")},
		Client: replay("turns:\n  - calls: [{tool: load_skill, args: {name: greet}}, {tool: run_skill_script, args: {name: greet, path: scripts/hi.sh}}]\n  - say: Done.\n")})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(t.Context())
	o, err := a.Run(t.Context(), "Greet.")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range o.Denied {
		if d.Code == "tool_not_allowed" {
			t.Errorf("%s was not allowed", d.Tool)
		}
	}
}

// A panic of a model ends the answer, not the program.
func TestAgent_ModelPanicIsAnError(t *testing.T) {
	t.Parallel()
	a, err := engine.NewAgent(t.Context(), engine.AgentOptions{Client: broken{replay("turns: [{say: Fine.}]")}, Workspace: t.TempDir(), Environ: []string{"HOME=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Ask(t.Context(), "Hello.")
	if diff := cmp.Diff("run_panic", metier.CodeOf(err)); diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func (broken) Stream(context.Context, model.Request) iter.Seq2[model.Chunk, error] {
	panic("no client")
}

// The error for a records folder that cannot be created names it.
func TestAgent_RecordsFolderThatCannotBeMade(t *testing.T) {
	t.Parallel()
	a, err := engine.NewAgent(t.Context(), engine.AgentOptions{Client: replay("turns: [{say: Fine.}]"), Records: "/proc/none", Workspace: t.TempDir(), Environ: []string{"HOME=" + t.TempDir()}})
	if err == nil {
		_, err = a.Ask(t.Context(), "Hello.")
	}
	if diff := cmp.Diff("read_only", metier.CodeOf(err)); diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

func TestAgent_AskReturnsTheReason(t *testing.T) {
	t.Parallel()
	a, err := engine.NewAgent(t.Context(), engine.AgentOptions{Client: replay("turns:\n  - calls: [{tool: list_files, args: {}}]\n  - say: Done.\n  - say: Again.\n"), MaxTurns: 1,
		Workspace: t.TempDir(), Environ: []string{"HOME=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Ask(t.Context(), "List the files.")
	if err == nil || !strings.Contains(err.Error(), " failed: turn_limit") {
		t.Errorf("the error is %v", err)
	}
	if diff := cmp.Diff("turn_limit", metier.CodeOf(err)); diff != "" {
		t.Errorf("%v; code (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(metier.LimitReached, metier.KindOf(err)); diff != "" {
		t.Errorf("kind (-want +got):\n%s", diff)
	}
	// The conversation still exists.
	answer, err := a.Ask(t.Context(), "Go on.")
	if diff := cmp.Diff("Done.", answer); diff != "" || err != nil {
		t.Errorf("%v; answer (-want +got):\n%s", err, diff)
	}
	if _, err := a.Ask(t.Context(), " "); err == nil {
		t.Error("an empty message is taken")
	}
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// After Close, an agent starts no more conversations.
func TestAgent_AskFailsAfterClose(t *testing.T) {
	t.Parallel()
	a, err := engine.NewAgent(t.Context(), engine.AgentOptions{Client: replay("turns: [{say: Done.}]"), Workspace: t.TempDir(), Environ: []string{"HOME=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if answer, err := a.Ask(t.Context(), "Again?"); err == nil || metier.CodeOf(err) != "agent_closed" {
		t.Errorf("Ask after Close = %q, %v, want agent_closed", answer, err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// What AgentOptions.Approve documents: it gets the whole question, questions of one turn are open at
// the same time, and its error ends the run.
func TestAgent_Approve(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	write(t, filepath.Join(outside, "a.txt"), "a\n")
	ask := func(approve func(context.Context, engine.Question) (policy.Answer, error)) engine.Outcome {
		t.Helper()
		a, err := engine.NewAgent(t.Context(), engine.AgentOptions{Workspace: t.TempDir(), Environ: []string{"HOME=" + t.TempDir()}, Approve: approve, Client: replay(`
turns:
  - calls: [{tool: read_file, args: {path: "` + outside + `/a.txt"}}, {tool: list_files, args: {path: "` + outside + `"}}]
  - say: Done.
`)})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close(t.Context())
		o, err := a.Run(t.Context(), "Read.")
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	var both sync.WaitGroup
	both.Add(2)
	asked := make(chan engine.Question, 2)
	o := ask(func(_ context.Context, q engine.Question) (policy.Answer, error) {
		asked <- q
		both.Done()
		both.Wait() // each question waits for the other
		return policy.Answer{Allow: true}, nil
	})
	if len(o.Denied) > 0 || o.Status != "done" {
		t.Errorf("run %s, denied %v", o.Status, o.Denied)
	}
	first, second := <-asked, <-asked
	if first.Call > second.Call {
		first, second = second, first
	}
	text, covers := policy.SplitQuestion(first.Text)
	got := []string{first.Call, first.Code, text, covers[0][0], string(first.Args), strings.Join(first.Scopes, " "), first.Subagent}
	want := []string{"t1.c0", "path_outside", "read outside the workspace: " + outside + "/a.txt", "tool", `{"path":"` + outside + `/a.txt"}`, "once session", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if o := ask(nil); o.Status != "done" || deniedBy(o) != "refused" {
		t.Errorf("without Approve: run %s, denied %v", o.Status, o.Denied)
	}
	if o := ask(func(context.Context, engine.Question) (policy.Answer, error) {
		return policy.Answer{}, errors.New("no phone")
	}); o.Code != "ask_failed" || o.Reason != "no phone" {
		t.Errorf("an error of Approve: run %s, code %s: %s", o.Status, o.Code, o.Reason)
	}
}

// deniedBy returns the code of the denied calls.
func deniedBy(o engine.Outcome) (code string) {
	for _, d := range o.Denied {
		code = d.Code
	}
	return code
}
