package policy

import (
	"fmt"
	"slices"
)

// gates are what can refuse a call, in order. The first that objects decides.
var gates = []func(*Grants, Request) (Decision, bool){judgeCall, judgeProfile, judgeRules, judgeSkill, judgeScript, judgePaths, judgeNetwork, judgeNarrowing, judgeModes}

// Decide reports whether a call may happen. It is pure and total. The first gate
// that objects decides, in this order: arguments and tool grant, subagent profile,
// deny rules, denied skill, script grant and problems of the script, paths,
// network, allowed-tools of active skills, enforcement mode, and then questions,
// one after the other. An approval removes a question and never a refusal.
func Decide(g *Grants, r Request) Decision {
	risk, uses := risks(r), r.uses()
	for _, gate := range gates {
		for _, use := range uses {
			if d, stop := gate(g, use); stop {
				d.Risk = risk
				return d
			}
		}
	}
	d := judgeMode(g.Mode, r.Effect, r.Actor == ByOperator || evidence(r.Slots))
	if r.Profile != "" && d.Outcome == Allow {
		d.Code, d.Rule = CodeProfile, "subagent profiles; "+d.Rule
	}
	var all []need
	for _, use := range uses {
		if n, noted := advice(g, use); noted {
			d = n
		}
		all = append(all, needs(g, use)...)
	}
	var consents []Consent
	for _, n := range all {
		q := n.question()
		if slices.ContainsFunc(consents, func(c Consent) bool { return c.Question.Binds == q.Binds }) {
			continue // the same for each use
		}
		if n.given {
			d = d.answered("operator")
			consents = append(consents, Consent{*q, Answer{Question: q.ID, Allow: true, Scope: ScopeOnce}})
			continue
		}
		a, ok := g.Answers[q.Binds]
		if !ok && n.was != "" {
			a, ok = g.Answers[n.was]
		}
		switch {
		case !ok:
			return Decision{Outcome: Ask, Code: q.Code, Rule: "approval", Reason: n.text, Risk: risk, Question: q}
		case !a.Allow:
			return Decision{Outcome: Deny, Code: CodeRefused, Rule: "approval:" + a.Scope, Reason: "the call was not approved", Risk: risk}
		}
		d = d.answered(a.Scope)
		consents = append(consents, Consent{*q, a})
	}
	d.Risk, d.Consents = risk, consents
	return d
}

// uses returns the requests to check for a call: the call itself, and a call of
// delegate_task if another tool starts a subagent, as load_skill does for some
// skills.
func (r Request) uses() []Request {
	if r.Profile == "" || r.Tool == toolDelegate {
		return []Request{r}
	}
	begins := r
	begins.Tool = toolDelegate
	return []Request{r, begins}
}

// answered returns d after a question was answered with yes. A warning remains,
// because the answer covers only the question.
func (d Decision) answered(by string) Decision {
	if d.Outcome == Warn {
		return d
	}
	return Decision{Outcome: Allow, Code: CodeAnswered, Rule: "approval:" + by}
}

// Release reports whether the model may see a result. In the enforce modes,
// results that were not mediated are withheld.
func Release(g *Grants, l Label) Decision {
	if !l.Mediated && (g.Mode == EnforceExplicit || g.Mode == EnforceStrict) {
		return Decision{Outcome: Deny, Code: CodeUnmediated, Rule: "enforcement_mode=" + string(g.Mode),
			Reason: "the producer of this result did not mediate it"}
	}
	return Decision{Outcome: Allow, Code: CodeReleased}
}

func judgeCall(g *Grants, r Request) (Decision, bool) {
	switch {
	case r.Invalid != "":
		return Decision{Outcome: Deny, Code: CodeInvalidCall, Rule: "arguments", Reason: r.Invalid}, true
	case r.Tool == "" || (r.Effect != Read && r.Effect != Write && r.Effect != SideEffect):
		return Decision{Outcome: Deny, Code: CodeInvalidCall, Rule: "facts", Reason: "the call states no tool or no effect"}, true
	case r.Actor == ByOperator:
		return Decision{}, false
	case !slices.Contains(g.Tools, r.Tool):
		return Decision{Outcome: Deny, Code: CodeToolNotAllowed, Rule: "tools",
			Reason: fmt.Sprintf("the operator did not allow the tool %q", r.Tool)}, true
	}
	return Decision{}, false
}

// judgeProfile refuses a subagent whose profile the operator did not allow. It
// binds everybody, like a deny rule: a profile is what a child may do.
func judgeProfile(g *Grants, r Request) (Decision, bool) {
	if r.Profile == "" || slices.Contains(g.Profiles, r.Profile) {
		return Decision{}, false
	}
	return Decision{Outcome: Deny, Code: CodeProfileDenied, Rule: "subagent profiles",
		Reason: fmt.Sprintf("the operator did not allow subagents of the profile %q", r.Profile)}, true
}

func judgeSkill(g *Grants, r Request) (Decision, bool) {
	used := r.Gives
	if r.Skill != nil {
		used = append([]Subject{*r.Skill}, used...)
	}
	for _, s := range used {
		if effect, rule := g.Skill(s.ID, s.Name); effect == RuleDeny {
			return Decision{Outcome: Deny, Code: CodeSkillDenied, Rule: rule, Reason: "the operator denied this skill"}, true
		}
	}
	return Decision{}, false
}

// judgeModes refuses what the enforcement mode refuses.
func judgeModes(g *Grants, r Request) (Decision, bool) {
	d := judgeMode(g.Mode, r.Effect, r.Actor == ByOperator || evidence(r.Slots))
	return d, !d.Allowed()
}

func judgePaths(g *Grants, r Request) (Decision, bool) {
	for _, p := range r.Paths {
		d := Decision{Outcome: Deny, Rule: "workspace", Reason: p.Why}
		switch {
		case p.Zone == ZoneWorkspace, p.Zone == ZoneSkill && !p.Write:
			continue
		case p.Zone == ZoneOutside && !p.Write && !g.Confined:
			continue // a read outside needs an approval: see outsideNeed
		case p.Zone == ZoneSkill:
			d.Code = CodePathReadOnly
		case p.Zone == ZoneOutside:
			d.Code = CodePathOutside
		default:
			d.Code = CodePathDenied
			switch p.Why {
			case CodePathReadOnly:
				d.Code, d.Reason = CodePathReadOnly, ""
			case WhyInSkills:
				d.Code, d.Reason = CodePathReadOnly, "the workspace or mount is in a skills folder, so it is read-only"
			}
		}
		if d.Reason == "" {
			d.Reason = "the path may not be " + map[bool]string{true: "written", false: "read"}[p.Write]
		}
		return d, true
	}
	return Decision{}, false
}

// risks returns tags of a request for readers of the trace.
func risks(r Request) []string {
	var out []string
	if r.Effect != Read && r.Effect != "" {
		out = append(out, string(r.Effect))
	}
	for _, p := range r.Paths {
		if p.Zone == ZoneOutside {
			out = append(out, "outside-workspace")
			break
		}
	}
	if len(r.Hosts) > 0 || r.Network != "" {
		out = append(out, "network")
	}
	if len(destroyed(r)) > 0 {
		out = append(out, "destructive")
	}
	if r.Skill != nil && r.Skill.Tier.Or() == ThirdParty {
		out = append(out, "third-party-skill")
	}
	if r.Opaque {
		out = append(out, "dynamic-command")
	}
	return out
}
