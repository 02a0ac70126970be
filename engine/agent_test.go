package engine_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/engine"
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

func TestAgent_AskReturnsTheReason(t *testing.T) {
	t.Parallel()
	a, err := engine.NewAgent(t.Context(), engine.AgentOptions{Client: replay("turns:\n  - calls: [{tool: list_files, args: {}}]\n  - say: Done.\n  - say: Again.\n"), MaxTurns: 1,
		Workspace: t.TempDir(), Environ: []string{"HOME=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Ask(t.Context(), "List the files.")
	if diff := cmp.Diff("turn_limit", metier.CodeOf(err)); diff != "" {
		t.Errorf("%v; code (-want +got):\n%s", err, diff)
	}
	// The conversation is there still.
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

// After Close, an agent begins no other conversation.
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
