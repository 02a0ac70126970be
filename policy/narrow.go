package policy

import (
	"fmt"
	"slices"
)

// exempt lists the tools for using skills. allowed-tools never removes them,
// because then no other skill could be loaded.
var exempt = []string{"load_skill", "read_skill_resource", "search_skills", "list_skills", "load_content", "mcp_prompt", "mcp_resource"}

// declaring are the active skills whose allowed-tools count, under the merge
// rule: MergeLast leaves one.
func declaring(g *Grants, r Request) []Subject {
	var out []Subject
	for _, s := range r.Active {
		if s.Declared {
			out = append(out, s)
		}
	}
	if g.Merge == MergeLast && len(out) > 1 {
		out = out[len(out)-1:]
	}
	return out
}

// excludedBy returns the name of the active skill whose list does not cover
// the request, under the merge rule; "" when all is covered.
func excludedBy(g *Grants, r Request) (name string, excluded bool) {
	if r.Actor == ByOperator || slices.Contains(exempt, r.Tool) {
		return "", false
	}
	for _, s := range declaring(g, r) {
		switch {
		case !covered(s, r) && !ownScript(s, r):
			if !excluded {
				name, excluded = s.Name, true
			}
		case g.Merge == MergeUnion:
			return toldExcludes(r)
		}
	}
	if !excluded {
		return toldExcludes(r)
	}
	return name, excluded
}

// toldExcludes is excludedBy for the skills that the model only read: each of them counts, because
// none of them may allow what another one does not.
func toldExcludes(r Request) (name string, excluded bool) {
	for _, s := range r.Told {
		if s.Declared && !covered(s, r) && !ownScript(s, r) {
			return s.Name, true
		}
	}
	return "", false
}

// ownScript reports whether the request runs a script of the skill itself.
// allowed-tools does not apply to those: the operator grants scripts.
func ownScript(s Subject, r Request) bool {
	return r.Entry != "" && r.Skill != nil && r.Skill.ID == s.ID
}

// covered reports whether one skill's list covers the request.
func covered(s Subject, r Request) bool {
	items := s.AllowedTools[:min(len(s.AllowedTools), itemsMax)]
	list := make([]Pattern, 0, len(items))
	for _, item := range items {
		list = append(list, ParsePattern(item))
	}
	return covers(list, r)
}

// preapproved reports whether allowed-tools removes a question: the active
// skills list the call, and at least one of them has a trusted tier. A
// third-party skill cannot approve its own calls.
func preapproved(g *Grants, r Request) bool {
	if g.Narrow != NarrowPreapprove || r.Actor == ByOperator {
		return false
	}
	if _, excluded := excludedBy(g, r); excluded {
		return false
	}
	return slices.ContainsFunc(declaring(g, r), func(s Subject) bool { return s.Tier.Or() != ThirdParty && covered(s, r) })
}

func judgeNarrowing(g *Grants, r Request) (Decision, bool) {
	switch g.Narrow {
	case NarrowNarrow, NarrowEnforce, NarrowPreapprove:
	case NarrowIgnore, NarrowAdvise:
		return Decision{}, false
	default:
		return Decision{Outcome: Deny, Code: CodeInvalidCall, Rule: "allowed_tools", Reason: "unknown value of allowed_tools"}, true
	}
	name, excluded := excludedBy(g, r)
	if !excluded {
		return Decision{}, false
	}
	return Decision{Outcome: Deny, Code: CodeNotNarrowed, Rule: "allowed_tools=" + string(g.Narrow), Reason: unlisted(name, r)}, true
}

// advice reports a call beyond the lists if the setting only advises.
func advice(g *Grants, r Request) (Decision, bool) {
	if g.Narrow != NarrowAdvise {
		return Decision{}, false
	}
	name, excluded := excludedBy(g, r)
	if !excluded {
		return Decision{}, false
	}
	return Decision{Outcome: Warn, Code: CodeNarrowAdvice, Rule: "allowed_tools=advise", Reason: unlisted(name, r)}, true
}

func unlisted(skill string, r Request) string {
	s := fmt.Sprintf("the active skill %q does not list this use of %q in allowed-tools", skill, r.Tool)
	for _, a := range r.Active {
		if a.Name == skill && len(a.AllowedTools) > itemsMax {
			s += fmt.Sprintf(", of which the first %d patterns count", itemsMax)
		}
	}
	if r.Opaque && r.OpaqueWhy != "" {
		s += "; no pattern covers a text with " + r.OpaqueWhy
	}
	return s
}
