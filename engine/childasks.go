package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/agent"
	"metier/agent/subagent"
	"metier/internal/termtext"
	"metier/run"
)

// labelSubagent is the label of the subagent in what a question covers.
const labelSubagent = "subagent"

// childQuestion looks up in the records of children what a question of a run asks, because the
// parent records only who asks. The tool, the arguments and the text are those of the waiting call.
// The text names the subagent. If they are unavailable, they are a gap, and the question cannot be
// approved. The records of children must be this user's, unless the operator trusts the
// run's record.
func (e *Engine) childQuestion(ctx context.Context, dir string, q run.Pending, trusted bool) run.Pending {
	if q.Child == "" {
		return q
	}
	out, profile, top := q, "", filepath.Dir(dir)
	var chain []string
	for q.Child != "" {
		chain, profile = append(chain, q.Child), profileIn(q)
		inner, err := e.pendingOf(ctx, top, run.ChildrenOf(dir), q, trusted)
		if err != nil {
			gap, err := json.Marshal(run.Gap{Altered: true, Digest: q.Binds})
			if err != nil {
				panic(err) // a struct of strings always marshals
			}
			out.Text, out.Args = gap, gap
			return out
		}
		dir, q = filepath.Join(run.ChildrenOf(dir), q.Child), inner
	}
	out.Tool, out.Args, out.Text, out.SkillID, out.Tree = q.Tool, q.Args, q.Text, q.SkillID, q.Tree
	if gone(q.Text) {
		return out
	}
	named, err := json.Marshal(run.Text(q.Text) + "\n" + labelSubagent + ": " + termtext.Line(profile+" "+strings.Join(chain, "/")))
	if err != nil {
		panic(err) // a string always marshals
	}
	out.Text = named
	return out
}

// pendingOf returns the question of a child that its parent passed on.
func (e *Engine) pendingOf(ctx context.Context, top, root string, q run.Pending, trusted bool) (_ run.Pending, err error) {
	o := e.RunOptions()
	o.Top, o.RequireHead = top, !trusted
	f, err := run.Look(root, q.Child, o)
	if err != nil {
		return q, err
	}
	defer func() { err = closed(f.Close(), err) }()
	if err := f.VerifyHead(ctx); err != nil {
		return q, err
	}
	r, err := run.Show(ctx, f)
	if err != nil {
		return q, err
	}
	i := slices.IndexFunc(r.Questions, func(in run.Pending) bool {
		return in.Call == q.ChildCall && in.Binds == q.Binds && subagent.AskID(q.Child, in.Call, in.ID) == q.ID
	})
	if i < 0 {
		return q, &metier.Error{Op: "answer", Path: root, Kind: metier.NotFound, Code: "question_not_open", Err: errors.New("the subagent does not ask that")}
	}
	return r.Questions[i], nil
}

// ChildQuestions replaces the open questions that subagents of a run ask by what they ask in their own
// records.
func (e *Engine) ChildQuestions(ctx context.Context, dir string, open []run.Pending) {
	for i := range open {
		open[i] = e.childQuestion(ctx, dir, open[i], false)
	}
}

// asked returns the content of a question raised in this process, wherever it is recorded.
func (r *Run) asked(ctx context.Context, q agent.Question) (run.Pending, error) {
	words, err := json.Marshal(q.Text)
	if err != nil {
		return run.Pending{}, err
	}
	p := run.Pending{OpenQuestion: run.OpenQuestion{ID: q.ID, Call: q.Call, Code: q.Code, Scopes: q.Scopes, Binds: q.Binds, Child: q.Child, ChildCall: q.ChildCall}, Text: words}
	if q.Child == "" {
		p.Args, err = r.given(ctx, q.Call)
		return p, err
	}
	p = r.e.childQuestion(ctx, r.folder.Dir(), p, r.trusted)
	if gone(p.Text) || gone(p.Args) {
		return p, &metier.Error{Op: "ask", Path: r.folder.Dir(), Kind: metier.Drift, Code: "question_unreadable", Err: errors.New("the record of a subagent does not hold what it asks")}
	}
	return p, nil
}

// Asker returns who asks: the subagent's profile and name, or "" for the run itself.
func Asker(p run.Pending) string {
	if p.Child == "" {
		return ""
	}
	return cmp.Or(profileIn(p), p.Child)
}

// profileIn returns the subagent that a question's text names, or "".
func profileIn(p run.Pending) string {
	_, covers := Coverage(run.Text(p.Text))
	return covers[labelSubagent]
}
