package policy

import (
	"path"
	"slices"
	"strings"
)

// Started is a program that an allowed call starts.
type Started struct {
	// Lines are the command lines that describe it: as it was called, and by its file. If there are
	// none, it is unknown. A last word Dynamic represents words that are missing.
	Lines [][]string
	// Interpreters are the command lines of the interpreters of a script, which only deny rules match.
	Interpreters [][]string
	// Direct reports that the call itself starts it, and not a program that decides itself what it
	// starts.
	Direct bool
}

// DecideStart decides whether a program that an allowed call starts may run. Deny rules apply to
// every program. Questions apply to those that the call itself starts: a program that needs an
// approval is denied, with the code of the question, unless the request stated it, since Decide has
// asked about the call then.
func DecideStart(g *Grants, r Request, s Started) Decision {
	if len(s.Lines) == 0 {
		s.Lines = [][]string{{Dynamic}}
	}
	one := r
	one.Commands, one.Starts, one.Opaque, one.OpaqueWhy, one.Destructive = named(s.Lines), slices.Concat(s.Lines, s.Interpreters), false, "", cut(s.Lines)
	if d, stop := judgeRules(g, one); stop {
		return d
	}
	one.Starts = s.Lines
	if !s.Direct {
		return Decision{Outcome: Allow}
	}
	if n := ruleNeed(g, one); n != nil {
		for _, u := range g.Rules {
			if p := ParsePattern(u.Pattern); u.Effect == RuleAsk && u.applies(r, g.Inherited) && p.touches(one) && !p.touches(r) {
				return Decision{Outcome: Deny, Code: n.code, Rule: u.String(), Reason: "the operator's rule asks first: " + u.String()}
			}
		}
	}
	asked := destroyed(r)
	for _, what := range g.destruction(one) {
		if !slices.Contains(asked, what) && !slices.Contains(asked, undetermined) {
			return Decision{Outcome: Deny, Code: CodeDestructive, Rule: "approval", Reason: "it may destroy data: " + what}
		}
	}
	return Decision{Outcome: Allow}
}

// named returns the command lines that rules have to cover to allow a program: one for each name.
func named(lines [][]string) (out [][]string) {
	for _, l := range lines {
		if !slices.ContainsFunc(out, func(o []string) bool { return path.Base(o[0]) == path.Base(l[0]) }) {
			out = append(out, l)
		}
	}
	return out
}

// cut returns what commands may destroy because of words that are missing.
func cut(lines [][]string) (out []string) {
	for _, l := range lines {
		if name := path.Base(l[0]); l[len(l)-1] == Dynamic && len(destructive[name]) > 0 {
			out = append(out, name+" "+strings.Join(destructive[name], ", "))
		}
	}
	return out
}
