package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Decide says whether a call may happen. It is pure and total; the first gate
// that objects wins, in this order: arguments, tool grant, denied skill, paths,
// allowed-tools of active skills, questions, enforcement mode. Approval removes
// a question and never a refusal (D2).
func Decide(g *Grants, r Request) Decision {
	risk := risks(r)
	for _, gate := range []func(*Grants, Request) (Decision, bool){judgeCall, judgeSkill, judgePaths, judgeNarrowing} {
		if d, stop := gate(g, r); stop {
			d.Risk = risk
			return d
		}
	}
	d := judgeMode(g.Mode, r.Effect, r.Actor == ByOperator || evidence(r.Slots))
	d.Risk = risk
	if !d.Allowed() {
		return d
	}
	if q := question(r); q != nil {
		a, ok := g.Answers[q.Binds]
		switch {
		case !ok:
			return Decision{Outcome: Ask, Code: q.Code, Rule: "approval", Reason: q.Text, Risk: risk, Question: q}
		case !a.Allow:
			return Decision{Outcome: Deny, Code: CodeRefused, Rule: "approval:" + a.Scope, Reason: "refused by " + a.By, Risk: risk}
		}
		return Decision{Outcome: Allow, Code: CodeAnswered, Rule: "approval:" + a.Scope, Risk: risk}
	}
	if n, noted := advice(g, r); noted {
		n.Risk = risk
		return n
	}
	return d
}

// Release says whether a result may be shown to the model. In the enforce
// modes a result nobody mediated is withheld.
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

func judgeSkill(g *Grants, r Request) (Decision, bool) {
	if r.Skill == nil {
		return Decision{}, false
	}
	for _, d := range g.Denied {
		if strings.EqualFold(d, r.Skill.Name) || d == r.Skill.ID {
			return Decision{Outcome: Deny, Code: CodeSkillDenied, Rule: "skill:" + d, Reason: "the operator denied this skill"}, true
		}
	}
	return Decision{}, false
}

func judgePaths(_ *Grants, r Request) (Decision, bool) {
	for _, p := range r.Paths {
		d := Decision{Outcome: Deny, Rule: "workspace", Reason: p.Why}
		switch {
		case p.Zone == ZoneWorkspace, p.Zone == ZoneSkill && !p.Write:
			continue
		case p.Zone == ZoneOutside && !p.Write:
			continue // a read outside asks (ruling 21): see question
		case p.Zone == ZoneSkill:
			d.Code = CodePathReadOnly
		case p.Zone == ZoneOutside:
			d.Code = CodePathOutside
		default:
			d.Code = CodePathDenied
			if p.Why == CodePathReadOnly {
				d.Code = CodePathReadOnly
			}
		}
		if d.Reason == "" {
			d.Reason = "the path may not be " + map[bool]string{true: "written", false: "read"}[p.Write]
		}
		return d, true
	}
	return Decision{}, false
}

// question returns what a person must answer first, or nil: in this version
// reads outside the workspace.
func question(r Request) *Question {
	var outside []string
	for _, p := range r.Paths {
		if p.Zone == ZoneOutside && !p.Write {
			outside = append(outside, p.Path)
		}
	}
	if len(outside) == 0 {
		return nil
	}
	sort.Strings(outside)
	binds := bind("read-outside", append([]string{r.Tool}, outside...)...)
	return &Question{ID: "q-" + binds[:16], Code: CodePathOutside, Binds: binds,
		Text:   "read outside the workspace: " + strings.Join(outside, ", "),
		Scopes: []string{"once", "session"}}
}

// bind digests what an answer covers. Each part is length-prefixed, so that no
// two lists give one digest.
func bind(kind string, parts ...string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s", len(kind), kind)
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// risks tags a request for people who read the trace.
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
	if len(r.Hosts) > 0 {
		out = append(out, "network")
	}
	if r.Skill != nil && r.Skill.Tier.Or() == ThirdParty {
		out = append(out, "third-party-skill")
	}
	if r.Opaque {
		out = append(out, "dynamic-command")
	}
	return out
}
