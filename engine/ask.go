package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"metier"
	"metier/agent"
	"metier/event"
	"metier/policy"
	"metier/record"
	"metier/run"
)

// Question asks a user whether a call may happen. Code is the reason, such as script_needs_approval,
// and Scopes lists the scopes that an answer can have. Text starts with the request, followed by what
// an approval covers; [policy.SplitQuestion] separates them. Text and Args contain what the model
// wrote, so do not trust them, and escape them before you print them.
type Question struct {
	agent.Question
	Subagent string          // profile and name of the subagent that asks, "" for the run itself
	Args     json.RawMessage // of the call
}

// ask shows a question of the run or of one of its children to the user, and saves permanent
// approvals.
func (r *Run) ask(ctx context.Context, q agent.Question) (policy.Answer, error) {
	p, err := r.asked(ctx, q)
	if err != nil {
		return policy.Answer{}, err
	}
	q.Text = run.Text(p.Text)
	ans, err := r.hooks.Ask(ctx, Question{Question: q, Subagent: Asker(p), Args: p.Args})
	ans.By, ans.Surface = cmp.Or(ans.By, r.e.Principal()), cmp.Or(ans.Surface, r.from)
	if err != nil || !ans.Allow || ans.Scope != policy.ScopeAlways || !slices.Contains(q.Scopes, ans.Scope) {
		return ans, err // the session refuses a scope that the question does not have
	}
	if err := r.e.keepApproval(ctx, newApproval(q.ApprovalRequested, q.Text, r.folder.ID(), ans.By, r.e.Now())); err != nil {
		r.note(metier.CodeOf(err), "the answer applies to this session only: %v", err)
		ans.Scope = policy.ScopeSession
	}
	return ans, nil
}

// given returns the arguments of a waiting call as JSON, or nil if they are not in the record.
func (r *Run) given(ctx context.Context, call string) (json.RawMessage, error) {
	var ref record.Ref
	for e, err := range events(ctx, r.folder.Log()) {
		if err != nil {
			return nil, err
		}
		if d, is := e.(event.PolicyDecided); is && d.Call == call && d.Outcome == policy.Ask {
			ref = d.Args
		}
	}
	if ref.Digest == "" {
		return nil, nil
	}
	return r.folder.Blobs().Open(ctx, ref)
}
