package metier

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"metier/event"
	"metier/internal/termtext"
	"metier/policy"
)

// Call is the one gate every tool call passes, on every surface: facts,
// decision, claim in the log, act, release, result in the log. A refused or
// failed call is an Observation with a Code, so that the model can be told; an
// error is a *NeedsApproval before any effect, a context that ended, a fault of
// the record, or Kind Conflict with code call_claimed: another process makes
// this call. A call whose ID already returned gives the recorded observation
// and does nothing; one that is under way here is waited for.
func (s *Session) Call(ctx context.Context, c Call) (Observation, error) {
	if c.Actor == "" {
		c.Actor = policy.ByModel
	}
	if c.ID == "" {
		c.ID = s.cfg.NewID()
	}
	canonical := s.canonical(c.Tool)
	return s.call(ctx, c, s.tools[canonical], canonical)
}

// canonical maps the name a model uses to ours; "" when there is no such tool.
func (s *Session) canonical(name string) string {
	if c := s.names[name]; c != "" {
		return c
	}
	if s.tools[name] != nil {
		return name
	}
	return ""
}

// Offer returns the tools the model may be shown now: granted, and of use to
// the session. The order is stable, since prompt caches depend on it.
func (s *Session) Offer(ctx context.Context) []Spec {
	var out []Spec
	for _, name := range s.order {
		if !s.granted(name) {
			continue
		}
		if spec, ok := s.tools[name].Spec(ctx, s); ok {
			out = append(out, spec)
		}
	}
	return out
}

func (s *Session) granted(tool string) bool { return slices.Contains(s.cfg.Grants.Tools, tool) }

// claim is what the gate knows once a call was judged: it may act, or it was
// refused, has to ask, or returned meanwhile.
type claim struct {
	request  policy.Request // as it was allowed
	decided  event.PolicyDecided
	intent   json.RawMessage
	active   []event.SkillRef
	refused  *Observation
	question *policy.Question
	returned bool
}

// enter waits until no call of that ID is under way in this process, so that
// the second one finds the first one's result. leave lets the next one in.
func (s *Session) enter(ctx context.Context, id string) (leave func(), err error) {
	for {
		s.mu.Lock()
		wait, busy := s.flight[id]
		if !busy {
			mine := make(chan struct{})
			s.flight[id] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.flight, id)
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// mostTurns bounds how often a read is made again because another call
// activated the same skill first.
const mostTurns = 4

func (s *Session) call(ctx context.Context, c Call, t Tool, canonical string) (Observation, error) {
	leave, err := s.enter(ctx, c.ID)
	if err != nil {
		return Observation{}, err
	}
	defer leave()
	if o, ok, err := s.recorded(ctx, c.ID); ok || err != nil {
		return o, err
	}
	facts, why := s.facts(ctx, c, t, canonical)
	cl, err := s.decide(ctx, c, facts, why)
	switch {
	case err != nil:
		return Observation{}, err
	case cl.returned:
		o, _, err := s.recorded(ctx, c.ID)
		return o, err
	case cl.refused != nil:
		return *cl.refused, nil
	case cl.question != nil:
		return Observation{}, &NeedsApproval{Call: c.ID, Question: *cl.question}
	}
	if c.Claimed != nil {
		c.Claimed()
	}
	if facts.Effect != policy.Read {
		if err := s.sync(ctx); err != nil {
			return Observation{}, err
		}
	}
	return s.act(ctx, c, t, canonical, facts.Effect, cl)
}

// act invokes a claimed call and records its result.
func (s *Session) act(ctx context.Context, c Call, t Tool, canonical string, e policy.Effect, cl claim) (Observation, error) {
	for turn := 1; ; turn++ {
		x := &ToolContext{s: s, call: c, request: cl.request, decided: cl.decided, intent: cl.intent, active: cl.active}
		res, err := invoke(ctx, t, x)
		if c.Before != nil {
			c.Before()
		}
		if later, is := errors.AsType[*Suspended](err); is {
			return Observation{}, s.suspend(ctx, c, x, later)
		}
		if err != nil {
			if ctx.Err() != nil && e == policy.Read {
				return Observation{}, ctx.Err() // nothing happened; the claim is taken up again
			}
			res = s.failed(err, e)
			x.withdraw()
		}
		x.last = e != policy.Read || turn == mostTurns
		o, again, err := s.finish(ctx, c, canonical, x, res)
		if !again || err != nil {
			return o, err
		}
	}
}

// suspend records the question of an act that goes on later. Without one the
// claim stays open: a call with a higher try takes the act up again.
func (s *Session) suspend(ctx context.Context, c Call, x *ToolContext, later *Suspended) error {
	q := later.Question
	if q == nil {
		return cmp.Or(ctx.Err(), error(later))
	}
	ctx = context.WithoutCancel(ctx)
	text, err := s.putText(ctx, q.Text)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.append(ctx, c.By, func(*State) ([]event.Event, error) {
		return append(x.events, event.ApprovalRequested{Call: c.ID, ID: q.ID, Code: q.Code, Binds: q.Binds, Scopes: q.Scopes, Text: text, Child: q.Child, ChildCall: q.ChildCall}), nil
	})
	return cmp.Or(err, error(&NeedsApproval{Call: c.ID, Question: *q}))
}

// facts asks the tool what the call would do. What it cannot tell makes the
// request invalid, so that Decide refuses it.
func (s *Session) facts(ctx context.Context, c Call, t Tool, canonical string) (Facts, string) {
	bad := Facts{Request: policy.Request{Tool: canonical, Effect: policy.Read}}
	switch {
	case t == nil:
		bad.Tool, bad.Invalid = "unknown", "unknown_tool"
		return bad, fmt.Sprintf("there is no tool %s", termtext.Quote(c.Tool))
	case c.Bad:
		bad.Invalid = "invalid_arguments"
		return bad, "the arguments are not valid JSON, or nested more than 100 deep"
	case c.Actor == policy.ByModel && len(c.Args) > mostNaming && naming(canonical):
		bad.Invalid = "invalid_arguments"
		return bad, s.mediated(tooLong(c.Args))
	}
	f, err := state(ctx, s, t, c.Args)
	if err != nil {
		bad.Invalid = CodeOf(err)
		spec, _ := t.Spec(ctx, s)
		bad.Effect = spec.Effect
		return bad, s.mediated(err)
	}
	f.Tool = canonical
	if f.Effect == "" { // the tool does not say less of this call
		spec, _ := t.Spec(ctx, s)
		f.Effect = spec.Effect
	}
	if f.Skill != nil {
		sub := s.covered(ctx, *f.Skill)
		f.Skill = &sub
	}
	for i, sub := range f.Gives {
		f.Gives[i] = s.covered(ctx, sub)
	}
	if f.Skill != nil && strings.Contains(f.Skill.Name, ":") {
		sub := *f.Skill
		sk, err := s.Snapshot().Find(sub.Name)
		sub.Named = err == nil && sk.ID.String() == sub.ID
		f.Skill = &sub
	}
	return f, ""
}

// judge is where a session asks policy.
func (s *Session) judge(g *policy.Grants, r policy.Request) policy.Decision {
	return policy.Decide(g, r)
}

// judgeStart is where a session asks policy about a program that a call starts.
func (s *Session) judgeStart(r policy.Request, p policy.Started) policy.Decision {
	return policy.DecideStart(&s.cfg.Grants, r, p)
}

// answered judges a request that questions of this session were answered for. What was
// approved always is looked up where there would be a question.
func (s *Session) answered(r policy.Request, said map[string]policy.Answer) policy.Decision {
	g := s.cfg.Grants
	with := func(always map[string]policy.Answer) policy.Decision {
		g.Answers = map[string]policy.Answer{}
		maps.Copy(g.Answers, always)
		maps.Copy(g.Answers, said) // what was said in this session wins
		return s.judge(&g, r)
	}
	d := with(g.Answers)
	if d.Outcome == policy.Ask && s.cfg.Permanent != nil {
		d = with(s.cfg.Permanent())
	}
	return d
}

// readable reports whether a call may read a skill's files without asking.
func (s *Session) readable(ctx context.Context, c Call, sk Skill) bool {
	g := &s.cfg.Grants
	if unlisted(&sk, g, s.cfg.Settings.Activate.Injection) != "" {
		return false
	}
	sub := s.asked(ctx, sk).Subject()
	return s.judge(g, policy.Request{Tool: s.canonical(c.Tool), Effect: policy.Read, Actor: c.Actor, Skill: &sub}).Allowed()
}

// decide checks the call against the newest state and, if it may act, claims it. A refusal and a
// question are recorded the same way.
func (s *Session) decide(ctx context.Context, c Call, f Facts, why string) (claim, error) {
	args, err := s.tally.each(ctx, "application/json", s.kept(c.Args, f))
	if err != nil {
		return claim{}, s.fault("call", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var cl claim
	err = s.append(ctx, c.By, func(st *State) ([]event.Event, error) {
		cl = claim{active: st.skillRefs()}
		prev := st.Calls[c.ID]
		switch {
		case prev.Returned != nil:
			cl.returned = true
			return nil, nil
		case prev.Started && prev.Try >= c.Try && prev.Effect != policy.Read:
			return nil, &Error{Op: "call", Kind: Conflict, Code: "call_claimed", Hint: "wait for its result, or call with a higher try if its process is gone",
				Err: fmt.Errorf("call %s is under way elsewhere", termtext.Quote(c.ID))}
		}
		r := f.Request
		r.Call, r.Actor, r.Args = c.ID, c.Actor, args.Digest
		r.Active, r.Told, r.Slots = st.subjects(), s.told(st), st.Slots
		d := s.answered(r, st.answers(c.ID))
		rec := event.PolicyDecided{Call: c.ID, Tool: r.Tool, Actor: r.Actor, Effect: r.Effect, Outcome: d.Outcome, Code: d.Code,
			Rule: d.Rule, Risk: d.Risk, Args: args, Active: cl.active, Slots: st.Slots, Stage: "call", Profile: r.Profile, Fault: d.Fault}
		if r.Skill != nil {
			rec.Skill = r.Skill.ID
		}
		switch {
		case d.Outcome == policy.Ask:
			return s.ask(ctx, st, c, d, rec, &cl)
		case !d.Allowed():
			return s.refuse(ctx, c, d, rec, why, &cl)
		}
		cl.request, cl.decided = r, rec
		evs, err := s.claim(ctx, st, c, f, rec, &cl)
		if len(evs) > 0 {
			evs = append(s.consented(st, c.ID, d.Consents), evs...)
		}
		return evs, err
	})
	return cl, err
}

// consented are the approvals of a call that the record does not hold yet: what
// the operator's grants answered before anybody was asked. Nothing that needs
// an approval starts without one in the record. They count for
// this call alone, so that taking a grant back ends it.
func (s *Session) consented(st *State, call string, cs []policy.Consent) []event.Event {
	var out []event.Event
	known := st.answers(call)
	for _, c := range cs {
		if _, there := known[c.Question.Binds]; there {
			continue
		}
		by := c.Answer.By
		if by == "" {
			by = s.cfg.By
		}
		out = append(out, event.ApprovalAnswered{ID: c.Question.ID, Call: call, Binds: c.Question.Binds, Allow: true, Scope: scopeOnce, By: by, Surface: c.Answer.Surface})
	}
	return out
}

func (s *Session) ask(ctx context.Context, st *State, c Call, d policy.Decision, rec event.PolicyDecided, cl *claim) ([]event.Event, error) {
	cl.question = d.Question
	if st.Calls[c.ID].Question.ID == d.Question.ID {
		return nil, nil // asked before, still open
	}
	text, err := s.putText(ctx, d.Question.Text)
	q := d.Question
	return []event.Event{rec, event.ApprovalRequested{Call: c.ID, ID: q.ID, Code: q.Code, Binds: q.Binds, Scopes: q.Scopes, Text: text, SkillID: q.SkillID, Tree: q.Tree}}, err
}

func (s *Session) refuse(ctx context.Context, c Call, d policy.Decision, rec event.PolicyDecided, why string, cl *claim) ([]event.Event, error) {
	kind, code, reason := Denied, d.Code, d.Reason
	if d.Code == policy.CodeInvalidCall && why != "" {
		kind, code, reason = Invalid, d.Reason, why // the tool's own words: unknown_tool, invalid_arguments
	}
	res := s.worded(rec.Tool, failure(kind, code, reason))
	o, ret, err := s.result(ctx, c, rec.Tool, res, cl.active)
	cl.refused = &o
	return []event.Event{rec, ret}, err
}

// refusedBy makes the results of the calls that an answer of no ends: the one
// that asked and, if the answer holds for the session, those that ask the same.
// The question of a subagent ends the subagent's call, not its parent's.
func (s *Session) refusedBy(ctx context.Context, st *State, call string, a policy.Answer) ([]event.Event, error) {
	var out []event.Event
	binds := st.Calls[call].Question.Binds
	wide := a.Scope == scopeSession || a.Scope == scopeAlways
	for _, id := range slices.Sorted(maps.Keys(st.Calls)) {
		c := st.Calls[id]
		if id != call && (!wide || c.Question.Binds != binds) || c.ChildAsks || c.Tool == "" || c.Returned != nil {
			continue
		}
		res := s.worded(c.Tool, failure(Denied, policy.CodeRefused, "the call was not approved"))
		_, ret, err := s.result(ctx, Call{ID: id, Tool: c.Tool}, c.Tool, res, st.skillRefs())
		if err != nil {
			return nil, err
		}
		out = append(out, ret)
	}
	return out, nil
}

func (s *Session) claim(ctx context.Context, st *State, c Call, f Facts, rec event.PolicyDecided, cl *claim) ([]event.Event, error) {
	cl.intent = f.Intent
	prev := st.Calls[c.ID]
	intent := prev.Intent
	if intent.Digest != "" { // a second try: what was claimed the first time counts
		b, err := s.cfg.Blobs.Open(ctx, intent)
		if err != nil {
			return nil, s.fault("call", err)
		}
		cl.intent = b
	} else if f.Intent != nil {
		ref, err := s.cfg.Blobs.Put(ctx, "application/json", f.Intent)
		if err != nil {
			return nil, s.fault("call", err)
		}
		intent = ref
	}
	if prev.Started && prev.Try == c.Try {
		return nil, nil // a read that is taken up again
	}
	effect := f.Effect
	if effect == policy.Write && intent.Digest == "" {
		effect = policy.SideEffect // after a crash nothing tells whether it happened, so it is not made again
	}
	return []event.Event{rec, event.ToolCallStarted{ID: c.ID, Try: c.Try, Tool: rec.Tool, Effect: effect, Args: rec.Args, Intent: intent, Active: cl.active}}, nil
}

// finish releases a result and records it with everything the tool recorded.
// again says that a skill became active meanwhile, so the tool has to look
// once more.
func (s *Session) finish(ctx context.Context, c Call, canonical string, x *ToolContext, res Result) (o Observation, again bool, err error) {
	var evs []event.Event
	if res.Label.Role != policy.Quote {
		res.Label.Role = policy.Context // results are no commands, whoever made them
	}
	d := s.release(res.Label)
	if !d.Allowed() {
		evs = append(evs, event.PolicyDecided{Call: c.ID, Tool: canonical, Actor: c.Actor, Outcome: d.Outcome, Code: d.Code, Rule: d.Rule, Active: x.active, Stage: "release"})
		label := res.Label
		res = failure(Denied, d.Code, "the result is withheld: "+d.Reason)
		res.Label = label
		x.withdraw()
	}
	// What happened has to be recorded even when the caller stopped waiting.
	ctx = context.WithoutCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	returned := false
	err = s.append(ctx, c.By, func(st *State) ([]event.Event, error) {
		if returned = st.Calls[c.ID].Returned != nil; returned {
			return nil, nil // another process read the same and was faster
		}
		if again = !x.last && x.stale(st); again {
			return nil, nil
		}
		var ret event.ToolResult
		var err error
		o, ret, err = s.result(ctx, c, canonical, res, st.skillRefs())
		return slices.Concat(evs, x.events, []event.Event{ret}), err
	})
	if err == nil && returned {
		o, err = s.replay(ctx, c.ID)
	}
	return o, again, err
}

// invoke runs the tool; a panic is the tool's failure, not the session's.
func invoke(ctx context.Context, t Tool, x *ToolContext) (res Result, err error) {
	defer caught(&err)
	return t.Invoke(ctx, x)
}

// state asks for the facts in the same way.
func state(ctx context.Context, s *Session, t Tool, args json.RawMessage) (f Facts, err error) {
	defer caught(&err)
	return t.Facts(ctx, s, args)
}

func caught(err *error) {
	if p := recover(); p != nil {
		*err = &Error{Op: "call", Kind: Internal, Code: codePanic, Err: fmt.Errorf("the tool panicked: %v", p)}
	}
}
