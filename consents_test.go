package metier_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"metier"
	"metier/event"
	"metier/policy"
)

// scripted opens a session with one tool that stands in for a script of the
// skill s in policy decisions.
func scripted(t *testing.T, acts *atomic.Int64, tree *string, change func(*policy.Grants)) *fixture {
	t.Helper()
	tool := made{name: "run_skill_script", effect: policy.SideEffect,
		facts: func(raw json.RawMessage) (metier.Facts, error) {
			var a struct{ Path string }
			err := json.Unmarshal(raw, &a)
			return metier.Facts{Request: policy.Request{Effect: policy.SideEffect, Entry: "s:" + cmp.Or(a.Path, "scripts/a.sh"), Level: "L2",
				Skill: &policy.Subject{ID: "src:s", Name: "s", Tree: *tree, Tier: policy.ThirdParty}}}, err
		},
		act: func(context.Context, *metier.ToolContext) (metier.Result, error) {
			acts.Add(1)
			return mediated("ran"), nil
		}}
	w := withTools(t, nil, tool)
	with := w.config
	w.config = func(c *metier.Config) {
		with(c)
		c.By = "owner-of-session"
		c.Grants.Mode, c.Grants.ScriptRule, c.Grants.Approval = policy.Disabled, policy.ScriptsBundled, policy.ApprovalByTier
		change(&c.Grants)
	}
	return w.open()
}

// before fails unless an approval of the call is in the log right before its
// decision and its start.
func (w *fixture) before(call, by, rule string) event.ApprovalAnswered {
	w.t.Helper()
	var ans event.ApprovalAnswered
	step := 0
	for _, e := range events[event.Event](w) {
		switch e := e.(type) {
		case event.ApprovalAnswered:
			if e.Call == call {
				ans, step = e, 1
			}
		case event.PolicyDecided:
			if step == 1 && e.Call == call && e.Outcome == policy.Allow && e.Rule == rule {
				step = 2
			}
		case event.ToolCallStarted:
			if e.ID == call && step == 2 {
				step = 3
			} else if e.ID == call {
				w.t.Errorf("%s started after step %d", call, step)
			}
		}
	}
	if step != 3 || ans.By != by || !ans.Allow || ans.Binds == "" {
		w.t.Errorf("%s came to step %d with %+v, want all three, by %s and rule %s", call, step, ans, by, rule)
	}
	return ans
}

// req: C-051
func TestNothingOfAThirdPartyStartsWithoutAnApproval(t *testing.T) {
	t.Parallel()
	var acts atomic.Int64
	tree := "sha256:aa"
	w := scripted(t, &acts, &tree, func(*policy.Grants) {})
	q := w.asked("a", "run_skill_script", nil)
	if acts.Load() != 0 || len(events[event.ToolCallStarted](w)) != 0 {
		t.Fatal("it started before anybody answered")
	}
	w.answer("a", q, true, "once")
	if o, err := w.try1("a", "run_skill_script", nil); err != nil || o.Code() != "" || acts.Load() != 1 {
		t.Fatalf("%v %q", err, o.Text())
	}
	w.before("a", "owner", "approval:once")
	q = w.asked("b", "run_skill_script", nil)
	w.answer("b", q, false, "once")
	if o, err := w.try1("b", "run_skill_script", nil); err != nil || o.Code() != policy.CodeRefused || acts.Load() != 1 {
		t.Errorf("%v %q", err, o.Text())
	}
	// An answer for the session applies to this script of this tree.
	q = w.asked("c", "run_skill_script", nil)
	w.answer("c", q, true, "session")
	w.works("run_skill_script", nil)
	w.asked("d", "run_skill_script", args{"path": "scripts/b.sh"})
	tree = "sha256:bb"
	w.asked("e", "run_skill_script", nil)
	if acts.Load() != 2 {
		t.Errorf("ran %d times, want 2", acts.Load())
	}
	// The operator's own call also needs an approval.
	_, err := w.Call(t.Context(), metier.Call{ID: "f", Tool: "run_skill_script", Args: json.RawMessage(`{}`), Actor: policy.ByOperator})
	if _, asks := errors.AsType[*metier.NeedsApproval](err); !asks {
		t.Errorf("the operator's own call did not ask: %v", err)
	}
	if acts.Load() != 2 {
		t.Error("the operator's own call ran without an approval")
	}
}

// An approval by the operator's grants is recorded, too: by the one who opened the session, for
// each call separately, and only while the grant is valid.
//
// req: C-051
func TestAnApprovalOfTheGrantsIsRecordedBeforeTheStart(t *testing.T) {
	t.Parallel()
	var acts atomic.Int64
	tree := "sha256:aa"
	granted := []policy.ApprovedScript{{Entry: "s:scripts/a.sh", Tree: tree}}
	w := scripted(t, &acts, &tree, func(g *policy.Grants) { g.Approved = granted })
	w.try1("a", "run_skill_script", nil)
	w.try1("b", "run_skill_script", nil)
	w.before("a", "owner-of-session", "approval:operator")
	w.before("b", "owner-of-session", "approval:operator")
	tree = "sha256:bb"
	w.asked("c", "run_skill_script", nil)
	tree = "sha256:aa"
	granted = nil
	w.open() // the operator revoked it: a record is not a grant
	w.asked("d", "run_skill_script", nil)
	if acts.Load() != 2 {
		t.Errorf("it ran %d times", acts.Load())
	}
}

// req: C-051
func TestAnAnswerThatHoldsAlwaysCoversOneTreeAndYieldsToTheSession(t *testing.T) {
	t.Parallel()
	var acts atomic.Int64
	tree := "sha256:aa"
	var always map[string]policy.Answer
	w := scripted(t, &acts, &tree, func(g *policy.Grants) { g.Answers = always })
	q := w.asked("a", "run_skill_script", nil)
	always = map[string]policy.Answer{q.Binds: {Question: q.ID, Allow: true, Scope: "always", By: "earlier"}}
	w.open()
	if o, err := w.try1("b", "run_skill_script", nil); err != nil || o.Code() != "" {
		t.Fatal(err, o.Text())
	}
	w.before("b", "earlier", "approval:always")
	w.answer("a", q, false, "session") // the newest answer wins
	if o, err := w.try1("c", "run_skill_script", nil); err != nil || o.Code() != policy.CodeRefused {
		t.Error(err, o.Text())
	}
	tree = "sha256:bb"
	w.asked("d", "run_skill_script", nil)
	if acts.Load() != 1 {
		t.Errorf("it ran %d times", acts.Load())
	}
	// Revoked: its record covered one call.
	fresh := scripted(t, &acts, &tree, func(g *policy.Grants) { g.Answers = always })
	tree = "sha256:aa"
	fresh.try1("a", "run_skill_script", nil)
	always = nil
	fresh.open()
	fresh.asked("b", "run_skill_script", nil)
	if acts.Load() != 2 {
		t.Errorf("it ran %d times", acts.Load())
	}
}
