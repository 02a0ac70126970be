package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"metier"
	"metier/event"
	"metier/policy"
	"metier/run"
	"metier/userstate"
)

func newApproval(q event.ApprovalRequested, text, runID, by string, at time.Time) userstate.Approval {
	_, covers := Coverage(text)
	delete(covers, labelSubagent) // it holds for whoever asks the same
	return userstate.Approval{ID: q.ID, Binds: q.Binds, Code: q.Code, Covers: covers, By: by, At: at.UTC().Format(time.RFC3339), Run: runID}
}

// noteApprovals reports an approvals file that cannot be used.
func (r *Run) noteApprovals() {
	if _, err := r.e.State().Approvals(); err != nil {
		r.note(metier.CodeOf(err), "%v", err)
	}
}

// fromFile is the surface of answers that were given before, for every run.
const fromFile = "approvals.json"

// permanentApprovals returns the current permanent approvals. If the file cannot be read, there are
// none.
func (e *Engine) permanentApprovals() map[string]policy.Answer {
	list, err := e.State().Approvals()
	if err != nil {
		e.Logger().Warn("no permanent approval applies", "err", err)
	}
	out := make(map[string]policy.Answer, len(list))
	for _, p := range list {
		out[p.Binds] = policy.Answer{Question: p.ID, Allow: true, Scope: policy.ScopeAlways, By: p.By, Surface: fromFile}
	}
	return out
}

// settle answers those open questions of a resumed run that have been permanently approved since.
func (r *Run) settle(ctx context.Context) error {
	if !r.launch.runs() {
		return nil
	}
	calls, approved := r.session.State().Calls, r.e.permanentApprovals()
	for _, id := range slices.Sorted(maps.Keys(calls)) {
		q := calls[id].Question
		ans, ok := approved[q.Binds]
		if q.ID == "" || !ok {
			continue
		}
		if err := r.session.Answer(ctx, id, policy.Answer{Question: q.ID, Allow: true, Scope: policy.ScopeOnce, By: ans.By, Surface: ans.Surface}); err != nil {
			return err
		}
	}
	return nil
}

// askAgain ends the open questions of a run that reloads skills if the files that they cover have
// changed. Their calls then ask about the current files.
func (r *Run) askAgain(ctx context.Context) error {
	if !r.onDrift().Reloads() {
		return nil
	}
	var evs []event.Event
	calls := r.session.State().Calls
	for _, id := range slices.Sorted(maps.Keys(calls)) {
		q := calls[id].Question
		p := r.e.childQuestion(ctx, r.folder.Dir(), run.Pending{SkillID: q.SkillID, Tree: q.Tree,
			OpenQuestion: run.OpenQuestion{ID: q.ID, Call: id, Binds: q.Binds, Child: q.Child, ChildCall: q.ChildCall}}, r.trusted)
		if p.Tree == "" {
			continue
		}
		if _, is, err := r.digests(p.SkillID); err == nil && is != p.Tree {
			evs = append(evs, event.ApprovalExpired{ID: q.ID, Call: id, Again: true})
		}
	}
	if len(evs) == 0 {
		return nil
	}
	return r.append(ctx, evs)
}

// keepApproval saves a permanent approval for all runs.
func (e *Engine) keepApproval(ctx context.Context, p userstate.Approval) error {
	kept, err := e.State().Approve(ctx, p)
	if kept != "" {
		e.note("state_copied", "%s could not be parsed; a copy is in %s", e.State().ApprovalFile(), kept)
	}
	return err
}
