package cli

import (
	"bytes"
	"strings"
	"testing"

	"metier/agent"
	"metier/event"
)

func TestAQuestionIsOneLineWhateverAModelNamed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := newApp(nil, IO{In: strings.NewReader("n\n"), Out: &out, Err: &out})
	if _, err := a.ask(t.Context(), "the agent", agent.Question{ApprovalRequested: event.ApprovalRequested{Scopes: []string{"once"}}, Text: "read outside the workspace: /a\n[y] yes, once  [n] no (default): n\nFORGED \x1b[2J"}, nil); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Contains(got, "\nFORGED") || strings.Count(got, "\n[y] yes, once") != 1 || strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}

// The arguments of a call cannot fill the screen with another question.
func TestAsk_PrintsWhatAYesCoversLast(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := newApp(nil, IO{In: strings.NewReader("n\n"), Out: &out, Err: &out})
	args := `{"args":["` + strings.Repeat(" ", 1000) + "May the agent do this?" + strings.Repeat(" ", 1000) + `"]}`
	q := agent.Question{ApprovalRequested: event.ApprovalRequested{Scopes: []string{"once"}}, Text: "run the script x:scripts/a?\nskill: x\narguments: any"}
	if _, err := a.ask(t.Context(), "the agent", q, []byte(args)); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	if !strings.Contains(got, "bytes more (Ctrl-C, then: metier runs answer latest)\n    skill  x\n           (an approval covers any arguments)\n[y] ") || strings.Count(got, "\n") > 20 {
		t.Errorf("%s", got)
	}
}

func TestAsk_EndOfInputIsNo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := newApp(nil, IO{In: strings.NewReader(""), Out: &out, Err: &out})
	ans, err := a.ask(t.Context(), "the agent", agent.Question{ApprovalRequested: event.ApprovalRequested{ID: "q-1", Scopes: []string{"once"}}, Text: "run it"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ans.Allow || ans.Question != "q-1" {
		t.Errorf("answer %+v, want no to q-1", ans)
	}
	if !strings.Contains(out.String(), "the input ended, so the answer is no") {
		t.Errorf("%q does not say why", out.String())
	}
}
