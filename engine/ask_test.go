package engine_test

import (
	"context"
	"path/filepath"
	"testing"

	"metier/config"
	"metier/engine"
	"metier/event"
	"metier/policy"
)

// A program's answer without a name counts as the user's. An answer with a scope that the question
// does not offer applies to no other run.
func TestRun_AnswersAreOfTheUserAndOfTheirScope(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"", policy.ScopeAlways} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "ws", "own.txt"), "own\n")
		write(t, filepath.Join(dir, "policy.yaml"), "version: 1\nrules: [{ask: read_file}]\n")
		env := config.NewEnv([]string{"HOME=" + filepath.Join(dir, "home"), "METIER_PRINCIPAL=ann"}, filepath.Join(dir, "ws"))
		e := engine.New(env, engine.Options{})
		records := filepath.Join(dir, "records")
		p, err := e.Plan(t.Context(), engine.Request{Prompt: "Read it.", Artifacts: records, Policies: []string{filepath.Join(dir, "policy.yaml")}, Custom: engine.Custom{Model: replay(`
turns:
  - calls: [{tool: read_file, args: {path: own.txt}}]
  - say: Done.
`)}})
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		r, err := e.Start(t.Context(), p, e.RunID(), engine.Hooks{Ask: func(context.Context, engine.Question) (policy.Answer, error) {
			asked++
			return policy.Answer{Allow: true, Scope: scope}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		_, driven := r.Drive(t.Context())
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if (scope == "") != (driven == nil) {
			t.Errorf("scope %q: Drive: %v", scope, driven)
		}
		by := ""
		for ev, err := range e.Follow(t.Context(), records, r.ID(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if a, is := ev.Event.(event.ApprovalAnswered); is {
				by = a.By
			}
		}
		if asked != 1 || scope == "" && by != "ann" {
			t.Errorf("scope %q: %d questions, answered by %q", scope, asked, by)
		}
		if list, err := e.State().Approvals(); err != nil || len(list) > 0 {
			t.Errorf("scope %q: kept approvals: %v, %v", scope, list, err)
		}
	}
}
