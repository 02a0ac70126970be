package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"metier"
	"metier/event"
	"metier/policy"
	"metier/run"
)

// answerFlags are the flags of `metier runs answer`.
type answerFlags struct {
	runPlace
	question, scope string
}

func (a *app) runsAnswerCommand() *cobra.Command {
	var f answerFlags
	c := &cobra.Command{Use: "answer RUN [yes|no]", Short: "Answer what a parked run waits for",
		Long: `Answer writes a person's answer into the record of a run that waits for one.
Without yes or no it shows what is asked and what a yes would cover. The answer
holds for that and nothing else: when a file of the skill changes, it is asked
anew. Then 'metier run --resume RUN' goes on.`,
		Example: "  metier runs answer latest\n  metier runs answer latest yes\n  metier runs answer latest yes --scope always\n  metier runs answer latest no --question q-e33acb2b6745dced",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 2 && args[1] != "yes" && args[1] != "no" {
				return wrong("usage", "write it as: metier runs answer RUN yes, or no", "%q is no answer", args[1])
			}
			if len(args) == 2 {
				args = args[:1]
			}
			return oneRun(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				if c.Flags().Changed("scope") {
					return wrong("usage", "write it as: metier runs answer RUN yes --scope "+f.scope, "--scope is for an answer, and there is none")
				}
				return a.openQuestions(c.Context(), f, args[0])
			}
			return a.answer(c.Context(), f, args[0], args[1] == "yes")
		}}
	f.flags(c)
	c.Flags().StringVar(&f.question, "question", "", "which one, by its id or its call (default: the only one)")
	c.Flags().StringVar(&f.scope, "scope", policy.ScopeOnce, "how long the answer holds: once, session (of this run), always (a yes to a script, in every run)")
	a.completions(c)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return starting([]cobra.Completion{"yes", "no"}, typed), cobra.ShellCompDirectiveNoFileComp
		}
		return firstArg(1, a.completeRuns)(c, args, typed)
	}
	return c
}

// question is one open question as `runs answer --json` and `runs show` have it.
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
	// Subagent is the profile and the name of the one that asks, "" for the run itself.
	Subagent string `json:"subagent"`
}

func questionOf(p run.Pending) question {
	asks, covers := coverage(text(p.Text))
	return question{ID: p.ID, Call: p.Call, Code: p.Code, Tool: p.Tool, Asks: asks, Covers: covers, Given: p.Args, Scopes: p.Scopes, Binds: p.Binds, AskedAt: p.AskedAt, Subagent: who(p)}
}

// coverage is what a question asks, and what its answer covers: the values of
// one label together.
func coverage(text string) (asks string, covers map[string]string) {
	asks, list := policy.Words(text)
	covers = map[string]string{}
	for _, c := range list {
		covers[c[0]] = strings.TrimPrefix(covers[c[0]]+", "+c[1], ", ")
	}
	return asks, covers
}

// openQuestions lists what a run waits for. It changes nothing.
func (a *app) openQuestions(ctx context.Context, f answerFlags, what string) (err error) {
	folder, err := a.lookAtVouched(ctx, f.runPlace, what)
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
		return a.notOpen(ctx, folder, r.Status, f.question)
	}
	a.childQuestions(ctx, folder.Dir(), open)
	if a.json {
		out := []question{}
		for _, q := range open {
			out = append(out, questionOf(q))
		}
		return a.document(map[string]any{"run": r.ID, "status": r.Status, "questions": out})
	}
	if len(open) == 0 {
		_, err := fmt.Fprintf(a.Out, "run %s waits for no answer\n", r.ID)
		return err
	}
	for _, q := range open {
		a.showPending(q, "")
	}
	fmt.Fprintf(a.Out, "\nanswer with: metier runs answer %s yes|no%s\n", a.named(result{Run: folder.ID(), Dir: folder.Dir()}), pick(open))
	return nil
}

// pick is what names one of several questions.
func pick(open []run.Pending) string {
	if len(open) > 1 {
		return " --question ID"
	}
	return ""
}

// showPending prints one open question.
func (a *app) showPending(q run.Pending, indent string) {
	fmt.Fprintf(a.Out, "%s%s, for %s, asked %s, may hold: %s\n", indent, oneLine(q.ID), oneLine(q.Call), oneLine(localTime(q.AskedAt)), oneLine(strings.Join(q.Scopes, ", ")))
	a.showQuestion(a.Out, indent+"  ", text(q.Text), q.Args)
}

// answer writes one answer into the record, under the run's lock.
func (a *app) answer(ctx context.Context, f answerFlags, what string, allow bool) (err error) {
	root, id, err := a.findRun(f.runPlace, what)
	if err != nil {
		return err
	}
	if f.scope == policy.ScopeAlways && !allow {
		return wrong("usage", "deny a skill or a call always in the configuration or a policy file; here a no holds once or for the session", "a no is not kept always")
	}
	o := a.runOptions()
	o.Witnessed = true // an answer would vouch for a record that somebody else wrote
	folder, err := run.Open(root, id, o)
	if err != nil {
		return err
	}
	defer func() { err = a.resumable(folder, closed(folder.Close(), err)) }()
	restored, err := folder.Restore(ctx)
	if err != nil {
		return err
	}
	a.noteTorn(ctx, folder)
	if err := ofParent(ctx, folder); err != nil {
		return err
	}
	s, err := metier.Open(ctx, metier.Config{ID: folder.ID(), By: a.principal(), Build: buildVersion(), Log: folder.Log(), Blobs: folder.Blobs(), Now: a.now, Logger: a.logger()})
	if err != nil {
		return err
	}
	r, err := run.Show(ctx, folder)
	if err != nil {
		return err
	}
	q, err := a.pickQuestion(ctx, folder, restored.State.Status, r.Questions, f)
	if err != nil {
		return err
	}
	q = a.childQuestion(ctx, folder.Dir(), q)
	if allow && (gone(q.Text) || gone(q.Args)) {
		return &metier.Error{Op: "answer", Path: folder.Dir(), Kind: metier.Drift, Code: "question_unreadable", Hint: "'metier audit verify " + folder.ID() + "' says what is altered; answer no, or begin a new run",
			Err: fmt.Errorf("the record does not hold what question %s asks any more: nobody can say yes to it", q.ID)}
	}
	ans := policy.Answer{Question: q.ID, Allow: allow, Scope: f.scope, By: a.principal()}
	if err := s.Answer(ctx, q.Call, ans); err != nil {
		return err
	}
	if err := folder.Project(ctx); err != nil {
		return err
	}
	if f.scope == policy.ScopeAlways {
		err := a.keepApproval(ctx, newApproval(event.Asked{ID: q.ID, Binds: q.Binds, Code: q.Code}, text(q.Text), folder.ID(), ans.By, a.now()))
		if err != nil {
			return fmt.Errorf("the answer is in the record and holds for this run; it could not be kept for others: %w", err)
		}
	}
	return a.answered(ctx, folder, q, ans)
}

// gone reports whether content of the record was erased or altered: what stands
// in its place names the digest.
func gone(raw json.RawMessage) bool {
	var c struct {
		Altered, Erased bool
		Digest          string
	}
	return json.Unmarshal(raw, &c) == nil && (c.Altered || c.Erased) && c.Digest != ""
}

// noteTorn tells that a crash took the end of the record.
func (a *app) noteTorn(ctx context.Context, folder *run.Folder) {
	if p, err := readPast(ctx, folder); err == nil {
		a.noteRecovered(p)
	}
}

// pickQuestion finds the open question that is answered.
func (a *app) pickQuestion(ctx context.Context, folder *run.Folder, status string, open []run.Pending, f answerFlags) (run.Pending, error) {
	var none run.Pending
	var found []run.Pending
	for _, q := range open {
		if f.question == "" || q.ID == f.question || q.Call == f.question {
			found = append(found, q)
		}
	}
	switch {
	case len(found) == 0:
		return none, a.notOpen(ctx, folder, status, f.question)
	case len(found) > 1 && (f.question == "" || f.scope == policy.ScopeOnce):
		var names []string
		for _, q := range found {
			names = append(names, q.ID+" for "+q.Call)
		}
		return none, wrong("question_ambiguous", "name one with --question, by its id or its call: "+strings.Join(names, "; "), "%d questions are open", len(found))
	case !slices.Contains(found[0].Scopes, f.scope):
		return none, wrong("scope_unknown", "give --scope "+strings.Join(found[0].Scopes, " or "), "this question cannot be answered for %q", f.scope)
	}
	return found[0], nil
}

// notOpen says why there is nothing to answer.
func (a *app) notOpen(ctx context.Context, folder *run.Folder, status, name string) error {
	fail := func(k metier.Kind, code, hint, format string, args ...any) error {
		return &metier.Error{Op: "answer", Path: folder.Dir(), Kind: k, Code: code, Hint: hint, Err: fmt.Errorf(format, args...)}
	}
	given := a.again(result{Run: folder.ID(), Dir: folder.Dir()})
	last, err := lastAnswer(ctx, folder, name)
	switch over := status == run.StatusDone || status == run.StatusDenied || status == run.StatusFailed || status == run.StatusCancelled; {
	case err != nil:
		return err
	case last != nil && !over:
		return fail(metier.Conflict, "question_answered", "go on with: "+given, "question %s was answered with %s by %s (%s)", last.ID, yesNo(last.Allow), last.By, cmp.Or(last.Scope, policy.ScopeOnce))
	case over:
		return fail(metier.Conflict, "run_over", "begin a new run; 'metier runs show "+folder.ID()+"' tells how this one ended", "the run is over (%s): nothing waits for an answer", status)
	case name != "":
		return fail(metier.NotFound, "question_not_found", "'metier runs answer "+folder.ID()+"' shows the open ones", "no question %q is open", name)
	}
	return fail(metier.Conflict, "question_not_open", "go on with: "+given, "the run waits for no answer")
}

// lastAnswer is the newest answer in the record: to the named question, or to
// any.
func lastAnswer(ctx context.Context, folder *run.Folder, name string) (*event.Answered, error) {
	var out *event.Answered
	for en, err := range folder.Log().Read(ctx, 1) {
		if err != nil {
			return nil, err
		}
		if e, err := event.Decode(en); err == nil {
			if ans, is := e.(event.Answered); is && (name == "" || name == ans.ID || name == ans.Call) {
				out = &ans
			}
		}
	}
	return out, nil
}

func yesNo(allow bool) string {
	if allow {
		return "yes"
	}
	return "no"
}

// answered tells what was written and how it goes on.
func (a *app) answered(ctx context.Context, folder *run.Folder, q run.Pending, ans policy.Answer) error {
	r, err := run.Show(ctx, folder)
	if err != nil {
		return err
	}
	here := result{Run: folder.ID(), Dir: folder.Dir()}
	if a.json {
		return a.document(map[string]any{"run": folder.ID(), "question": questionOf(q), "answer": yesNo(ans.Allow), "scope": ans.Scope, "by": ans.By,
			"open": len(r.Questions), "head": fmt.Sprintf("%d:%s", r.Head.Seq, r.Head.Hash)})
	}
	fmt.Fprintf(a.Out, "%s is answered with %s (%s) by %s\n", q.ID, yesNo(ans.Allow), ans.Scope, oneLine(ans.By))
	if ans.Scope == policy.ScopeAlways {
		fmt.Fprintln(a.Out, "it holds while the skill's files, the isolation and the network are the same; 'metier runs approvals' takes it back for other runs")
	}
	if n := len(r.Questions); n > 0 {
		_, err := fmt.Fprintf(a.Out, "%s open: metier runs answer %s\n", plural(n, "question")+" more", a.named(here))
		return err
	}
	_, err = fmt.Fprintf(a.Out, "go on with: %s\n", a.again(here))
	return err
}
