package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/engine"
	"metier/internal/plural"
	"metier/policy"
	"metier/run"
)

// answerFlags are the flags of `metier runs answer`, `approve`, and `deny`.
type answerFlags struct {
	runPlace
	question, scope string
}

func (f *answerFlags) add(c *cobra.Command) {
	f.flags(c)
	c.Flags().StringVar(&f.question, "question", "", "`question` to answer, by its ID or its call's ID (default: the only open question)")
}

func (f *answerFlags) addScope(c *cobra.Command) {
	c.Flags().StringVar(&f.scope, "scope", policy.ScopeOnce, "`scope` of the answer: once (this call), session (this run), or always (a script, in every run)")
}

func (a *app) runsAnswerCommand() *cobra.Command {
	var f answerFlags
	c := &cobra.Command{Use: "answer RUN", Short: "Show the questions that a run is waiting on",
		Long: `Show a run's open questions and what an approval would cover, without changing
anything. Answer with 'metier runs approve' or 'metier runs deny', then continue
with 'metier run --resume RUN'. 'metier runs answer RUN yes' and 'no' also work.` + aboutWaiting,
		Example: "  metier runs answer latest",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 2 && args[1] != "yes" && args[1] != "no" {
				return wrong("usage", "use 'metier runs approve RUN' or 'metier runs deny RUN'", "unknown answer %q", args[1])
			}
			if len(args) == 2 {
				args = args[:1]
			}
			return oneRun(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				if c.Flags().Changed("scope") {
					return wrong("usage", "use: metier runs approve RUN --scope "+f.scope, "--scope needs an answer")
				}
				return a.openQuestions(c.Context(), f, args[0])
			}
			return a.answer(c.Context(), f, args[0], args[1] == "yes")
		}}
	f.add(c)
	f.addScope(c)
	_ = c.Flags().MarkHidden("scope") // of the form with yes or no
	a.completions(c)
	return c
}

// question is one open question in the output of `runs answer --json` and `runs show`.
type question struct {
	ID      string            `json:"id"`
	Call    string            `json:"call"`
	Code    string            `json:"code"`
	Tool    string            `json:"tool"`
	Asks    string            `json:"asks"`
	Covers  map[string]string `json:"covers"`
	Given   json.RawMessage   `json:"given"` // the arguments of the call
	Scopes  []string          `json:"scopes"`
	Binds   string            `json:"binds"`
	AskedAt string            `json:"askedAt"`
	// Subagent is the profile and name of the subagent that asks, or "" for the run itself.
	Subagent string `json:"subagent"`
}

func questionOf(p run.Pending) question {
	asks, covers := engine.Coverage(run.Text(p.Text))
	return question{ID: p.ID, Call: p.Call, Code: p.Code, Tool: p.Tool, Asks: asks, Covers: covers, Given: p.Args, Scopes: p.Scopes, Binds: p.Binds, AskedAt: p.AskedAt, Subagent: engine.Asker(p)}
}

// openQuestions lists the questions a run waits for. It changes nothing.
func (a *app) openQuestions(ctx context.Context, f answerFlags, what string) (err error) {
	root, id, err := a.findWaiting(ctx, f.runPlace, what)
	if err != nil {
		return err
	}
	folder, err := a.lookAtVouched(ctx, runPlace{}, filepath.Join(root, id), true) // another program must not ask for an approval here
	if err != nil {
		return err
	}
	defer func() { err = closed(folder.Close(), err) }()
	r, err := run.Show(ctx, folder)
	if err != nil {
		return err
	}
	open := slices.DeleteFunc(r.Questions, func(q run.Pending) bool { return f.question != "" && q.ID != f.question && q.Call != f.question })
	if f.question != "" && len(open) == 0 {
		return a.nextStep(folder.ID(), folder.Dir(), engine.NotOpen(ctx, folder, r.Status, f.question))
	}
	a.engine().ChildQuestions(ctx, folder.Dir(), open)
	if a.json {
		out := []question{}
		for _, q := range open {
			out = append(out, questionOf(q))
		}
		return a.document(map[string]any{"run": r.ID, "status": r.Status, "questions": out})
	}
	if len(open) == 0 {
		_, err := fmt.Fprintf(a.Out, "run %s has no open questions\n", r.ID)
		return err
	}
	for _, q := range open {
		a.showPending(q, "")
	}
	fmt.Fprintf(a.Out, "\nanswer with: metier runs approve|deny %s%s\n", a.named(result{Run: folder.ID(), Dir: folder.Dir()}), pick(open))
	return nil
}

// pick returns the flags that select one of several questions.
func pick(open []run.Pending) string {
	if len(open) > 1 {
		return " --question ID"
	}
	return ""
}

// showPending prints one open question.
func (a *app) showPending(q run.Pending, indent string) {
	fmt.Fprintf(a.Out, "%s%s, for %s, asked %s, scopes: %s\n", indent, oneLine(q.ID), oneLine(q.Call), oneLine(localTime(q.AskedAt)), oneLine(strings.Join(q.Scopes, ", ")))
	a.showQuestion(a.Out, indent+"  ", run.Text(q.Text), q.Args, policy.Layout{Width: a.columns()})
}

func yesNo(allow bool) string {
	if allow {
		return "yes"
	}
	return "no"
}

// answer writes one answer into the record.
func (a *app) answer(ctx context.Context, f answerFlags, what string, allow bool) error {
	root, id, err := a.findNoted(ctx, f.runPlace, what, run.FindToAnswer)
	if err != nil {
		return err
	}
	q, ans, err := a.engine().Answer(ctx, root, id, engine.AnswerRequest{Question: f.question, Allow: allow, Scope: f.scope, Surface: surface})
	if err != nil {
		dir := filepath.Join(root, id)
		return a.resumable(id, dir, a.nextStep(id, dir, err))
	}
	return a.answered(ctx, root, id, q, ans)
}

// nextStep adds the command that continues a run to the error that no question is open.
func (a *app) nextStep(id, dir string, err error) error {
	e, ok := errors.AsType[*metier.Error](err)
	if !ok || e.Code != "question_answered" && e.Code != "question_not_open" {
		return err
	}
	with := *e
	with.Hint = "continue with: " + a.again(result{Run: id, Dir: dir})
	return &with
}

// answered reports what was recorded and how to continue.
func (a *app) answered(ctx context.Context, root, id string, q run.Pending, ans policy.Answer) (err error) {
	folder, err := run.Look(root, id, a.engine().RunOptions())
	if err != nil {
		return err
	}
	defer func() { err = closed(folder.Close(), err) }()
	r, err := run.Show(ctx, folder)
	if err != nil {
		return err
	}
	here := result{Run: folder.ID(), Dir: folder.Dir()}
	if a.json {
		return a.document(map[string]any{"run": folder.ID(), "question": questionOf(q), "answer": yesNo(ans.Allow), "scope": ans.Scope, "by": ans.By,
			"open": len(r.Questions), "head": fmt.Sprintf("%d:%s", r.Head.Seq, r.Head.Hash)})
	}
	a.showPending(q, "")
	fmt.Fprintf(a.Out, "%s answered %s (%s) to %s\n", oneLine(ans.By), yesNo(ans.Allow), ans.Scope, q.ID)
	if ans.Scope == policy.ScopeAlways {
		fmt.Fprintln(a.Out, "the approval applies until the skill's files, the isolation, or the network access changes; to revoke it for other runs, use 'metier runs approvals --revoke "+q.ID+"'")
	}
	if n := len(r.Questions); n > 0 {
		_, err := fmt.Fprintf(a.Out, "%s still open: metier runs answer %s\n", plural.Of(n, "question"), a.named(here))
		return err
	}
	_, err = fmt.Fprintf(a.Out, "continue with: %s\n", a.again(here))
	return err
}
