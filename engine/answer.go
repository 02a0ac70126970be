package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"metier"
	"metier/event"
	"metier/internal/plural"
	"metier/policy"
	"metier/run"
)

// AnswerRequest answers a question of a run.
type AnswerRequest struct {
	Question string // ID of the question or of its call; "": the only one that is open
	Allow    bool
	Scope    string // once, session, or always; "": once
	Surface  string // what the user answers with, such as "cli"; "": "engine"
}

// Answer records an answer in the run with this id below root, under the run's lock.
func (e *Engine) Answer(ctx context.Context, root, id string, a AnswerRequest) (_ run.Pending, _ policy.Answer, err error) {
	var none run.Pending
	a.Scope = cmp.Or(a.Scope, policy.ScopeOnce)
	if a.Scope == policy.ScopeAlways && !a.Allow {
		return none, policy.Answer{}, metier.Errorf(metier.Invalid, "usage", "to deny a skill or a call permanently, use the configuration or a policy file; here, a denial applies once or for the session", "a denial cannot be permanent")
	}
	o := e.RunOptions()
	o.RequireHead = true // an answer would vouch for a record that somebody else wrote
	folder, err := run.Open(root, id, o)
	if err != nil {
		return none, policy.Answer{}, err
	}
	defer func() { err = closed(folder.Close(), err) }()
	return e.answerIn(ctx, folder, a)
}

func (e *Engine) answerIn(ctx context.Context, folder *run.Folder, a AnswerRequest) (q run.Pending, ans policy.Answer, err error) {
	restored, err := folder.Restore(ctx)
	if err != nil {
		return q, ans, err
	}
	p, err := readPast(ctx, folder)
	if err != nil && metier.KindOf(err) != metier.Invalid {
		return q, ans, err
	}
	for _, n := range p.recovered() {
		e.o.Notify(n)
	}
	if err := p.launch.ofParent(folder); err != nil {
		return q, ans, err
	}
	s, err := metier.Open(ctx, metier.Config{ID: folder.ID(), By: e.Principal(), Build: e.o.Version, Log: folder.Log(), Blobs: folder.Blobs(), Now: e.Now, Logger: e.Logger()})
	if err != nil {
		return q, ans, err
	}
	r, err := run.Show(ctx, folder)
	if err != nil {
		return q, ans, err
	}
	if q, err = pickQuestion(ctx, folder, restored.State.Status, r.Questions, a); err != nil {
		return q, ans, err
	}
	q = e.childQuestion(ctx, folder.Dir(), q, false)
	if a.Allow && (gone(q.Text) || gone(q.Args)) {
		return q, ans, &metier.Error{Op: "answer", Path: folder.Dir(), Kind: metier.Drift, Code: "question_unreadable", Hint: "'metier audit verify " + folder.ID() + "' shows what changed; answer no, or start a new run",
			Err: fmt.Errorf("the record no longer contains the text of question %s, so it cannot be answered with yes", q.ID)}
	}
	if a.Allow {
		if err := e.stillAsked(ctx, p.launch, q); err != nil {
			return q, ans, err
		}
		if err := folder.Unaltered(ctx); err != nil {
			return q, ans, err
		}
	}
	ans = policy.Answer{Question: q.ID, Allow: a.Allow, Scope: a.Scope, By: e.Principal(), Surface: cmp.Or(a.Surface, "engine")}
	if err := s.Answer(ctx, q.Call, ans); err != nil {
		return q, ans, err
	}
	if err := folder.Project(ctx); err != nil {
		return q, ans, err
	}
	if a.Scope == policy.ScopeAlways {
		err := e.keepApproval(ctx, newApproval(event.ApprovalRequested{ID: q.ID, Binds: q.Binds, Code: q.Code}, run.Text(q.Text), folder.ID(), ans.By, e.Now()))
		if err != nil {
			return q, ans, fmt.Errorf("the answer is recorded and applies to this run, but it could not be saved for other runs: %w", err)
		}
	}
	return q, ans, nil
}

const unchecked = "the skill's current files were not compared with those that the question covers; they are compared when the run continues: %s"

// stillAsked returns an error if the skill that a question covers has changed on disk since: a yes
// would cover the files that were shown, and these no longer run. Skills outside the run's roots,
// such as those of servers, are checked only when they are used.
func (e *Engine) stillAsked(ctx context.Context, l *Launch, q run.Pending) error {
	if q.Tree == "" {
		return nil
	}
	now, note, err := e.skillsNow(ctx, l, nil)
	if err != nil || now == nil {
		e.note("skill_unchecked", unchecked, cmp.Or(note, fmt.Sprint(err)))
		return nil
	}
	_, is, err := now(q.SkillID)
	switch {
	case err != nil && metier.KindOf(err) != metier.NotFound:
		e.note("skill_unchecked", unchecked, err)
		return nil
	case err != nil || is == "" || is == q.Tree:
		return nil
	}
	return &metier.Error{Op: "answer", Skill: q.SkillID, Kind: metier.Drift, Code: CodeDrift,
		Hint: "restore the files, answer no, or resume the run with ResumeOptions.OnDrift reload, so that it asks about the current files",
		Err:  fmt.Errorf("the skill has changed since question %s was asked: its tree was %s, is %s", q.ID, q.Tree, is)}
}

// gone reports whether recorded content was erased or altered.
func gone(raw json.RawMessage) bool {
	_, gap := run.GapIn(raw)
	return gap
}

func pickQuestion(ctx context.Context, folder *run.Folder, status string, open []run.Pending, a AnswerRequest) (run.Pending, error) {
	var none run.Pending
	var found []run.Pending
	for _, q := range open {
		if a.Question == "" || q.ID == a.Question || q.Call == a.Question {
			found = append(found, q)
		}
	}
	switch {
	case len(found) == 0:
		return none, NotOpen(ctx, folder, status, a.Question)
	case len(found) > 1 && (a.Question == "" || a.Scope == policy.ScopeOnce):
		var names []string
		for _, q := range found {
			names = append(names, q.ID+" for "+q.Call)
		}
		return none, metier.Fieldf(metier.Invalid, "AnswerRequest.Question", "question_ambiguous", "specify one with AnswerRequest.Question, by its ID or its call: "+strings.Join(names, "; "), "%d questions are open", len(found))
	case !slices.Contains(found[0].Scopes, a.Scope):
		return none, metier.Fieldf(metier.Invalid, "AnswerRequest.Scope", "scope_unknown", "use AnswerRequest.Scope "+plural.Either(found[0].Scopes), "%q is not a valid scope for this question", a.Scope)
	}
	return found[0], nil
}

// NotOpen returns an error that explains why there is nothing to answer.
func NotOpen(ctx context.Context, folder *run.Folder, status, name string) error {
	fail := func(k metier.Kind, code, hint, format string, args ...any) error {
		return &metier.Error{Op: "answer", Path: folder.Dir(), Kind: k, Code: code, Hint: hint, Err: fmt.Errorf(format, args...)}
	}
	last, err := lastAnswer(ctx, folder, name)
	switch over := run.Over(status); {
	case err != nil:
		return err
	case last != nil && !over:
		return fail(metier.Conflict, "question_answered", "", "%s answered %s (%s) to question %s", last.By, map[bool]string{true: "yes", false: "no"}[last.Allow], cmp.Or(last.Scope, policy.ScopeOnce), last.ID)
	case over:
		return fail(metier.Conflict, "run_over", "start a new run; 'metier runs show "+folder.ID()+"' shows how this one ended", "the run has ended (%s), so it has no open questions", status)
	case name != "":
		return fail(metier.NotFound, "question_not_found", "'metier runs answer "+folder.ID()+"' shows the open ones", "no question %q is open", name)
	}
	return fail(metier.Conflict, "question_not_open", "", "the run has no open question")
}

// lastAnswer returns the newest recorded answer to the named question, or to any question.
func lastAnswer(ctx context.Context, folder *run.Folder, name string) (*event.ApprovalAnswered, error) {
	var out *event.ApprovalAnswered
	for e, err := range events(ctx, folder.Log()) {
		if err != nil {
			return nil, err
		}
		if ans, is := e.(event.ApprovalAnswered); is && (name == "" || name == ans.ID || name == ans.Call) {
			out = &ans
		}
	}
	return out, nil
}

// Coverage returns what a question asks and what its answer covers. Values with the same label are
// combined.
func Coverage(text string) (asks string, covers map[string]string) {
	asks, list := policy.SplitQuestion(text)
	covers = map[string]string{}
	for _, c := range list {
		covers[c[0]] = strings.TrimPrefix(covers[c[0]]+", "+c[1], ", ")
	}
	return asks, covers
}
