package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// The scopes of an answer: this call, this session, and always for what the
// question binds.
const (
	ScopeOnce    = "once"
	ScopeSession = "session"
	ScopeAlways  = "always"
)

// need is one approval that a call requires.
type need struct {
	code   string
	text   string
	facts  [][2]string
	kind   string
	binds  []string
	scopes []string
	was    string  // what earlier versions bound an answer to; "": the same
	given  bool    // the operator approved it in advance
	skill  Subject // whose files the answer covers
}

func (n need) question() *Question {
	b := bind(n.kind, n.binds...)
	return &Question{ID: "q-" + b[:16], Code: n.code, Binds: b, Text: questionText(n.text, n.facts), Scopes: n.scopes, SkillID: n.skill.ID, Tree: n.skill.Tree}
}

// needs are the questions of a call, in the order they are asked. Each is
// answered on its own, since each binds what it covers and nothing else.
func needs(g *Grants, r Request) []need {
	var out []need
	for i := range r.Gives { // as if each were loaded by the call
		one := r
		one.Skill = &r.Gives[i]
		if n := skillNeed(g, one); n != nil {
			out = append(out, *n)
		}
	}
	for _, ask := range []func(*Grants, Request) *need{skillNeed, outsideNeed, ruleNeed, destructiveNeed, scriptNeed, servedNeed, networkNeed} {
		if n := ask(g, r); n != nil {
			out = append(out, *n)
		}
	}
	return out
}

// skillNeed asks before the first use of a version of a skill that an ask rule names. The
// operator's own calls need no approval.
func skillNeed(g *Grants, r Request) *need {
	if r.Skill == nil || r.Actor == ByOperator || slices.ContainsFunc(r.Active, r.Skill.VersionOf) {
		return nil
	}
	effect, rule := g.Skill(r.Skill.ID, r.Skill.Name)
	if effect != RuleAsk {
		return nil
	}
	s := r.Skill
	return &need{code: CodeSkillAsk, kind: "skill", skill: *s, text: fmt.Sprintf("load the skill %q (%s, tier %s)? rule %s", s.Name, s.ID, s.Tier.Or(), rule),
		facts: labelled("skill", s.Name+" ("+s.ID+")", "tier", string(s.Tier.Or()), "SKILL.md", s.Digest, "tree", s.Tree, "rule", rule),
		binds: []string{s.ID, string(s.Tier.Or()), s.Digest, s.Tree}, scopes: []string{ScopeOnce, ScopeSession}}
}

// outsideNeed asks for reads outside the workspace.
func outsideNeed(g *Grants, r Request) *need {
	var outside []string
	var uses []PathUse
	for _, p := range r.Paths {
		if p.Zone == ZoneOutside && !p.Write {
			outside, uses = append(outside, p.Path), append(uses, p)
		}
	}
	if len(outside) == 0 || g.allowed(r.only(uses, nil), true) {
		return nil
	}
	slices.Sort(outside)
	return &need{code: CodePathOutside, kind: "read-outside", text: "read outside the workspace: " + strings.Join(outside, ", "),
		facts: append(labelled("tool", r.Tool), each("path", outside)...),
		binds: append([]string{r.Tool}, outside...), scopes: []string{ScopeOnce, ScopeSession}}
}

// only returns a request of the same skills with these paths and hosts alone.
func (r Request) only(paths []PathUse, hosts []string) Request {
	r.Paths, r.Hosts, r.Entry, r.Commands, r.Opaque = paths, hosts, "", nil, false
	return r
}

// ruleNeed asks if an ask rule matches the call, and states what the call may destroy. A skill's
// allowed-tools can replace the answer only if the rule covers the whole tool, not a specific
// argument. Scripts have their own question.
func ruleNeed(g *Grants, r Request) *need {
	rules := g.asking(r)
	if len(rules) == 0 || r.Actor == ByOperator || r.Entry != "" {
		return nil
	}
	if preapproved(g, r) && !g.singled(r) {
		return nil
	}
	n := &need{code: CodeRuleAsk, kind: "rule", text: fmt.Sprintf("%s? rule %s", described(r), rules[0]),
		facts: append(callWords(r), each("rule", rules)...), scopes: []string{ScopeOnce, ScopeSession}}
	n.binds, n.was = append(append(callBinds(r), fmt.Sprint(len(rules))), rules...), boundBefore(r)
	if what := g.destruction(r); len(what) > 0 {
		n.text += fmt.Sprintf(". It may destroy data (%s)", strings.Join(what, "; "))
		n.facts, n.binds = append(n.facts, each("destructive", what)...), append(n.binds, what...)
	}
	return n
}

// asking returns the ask rules that touch the call.
func (g *Grants) asking(r Request) (out []string) {
	for _, u := range g.Rules {
		if s := u.String(); u.Effect == RuleAsk && !slices.Contains(out, s) && u.applies(r, g.Inherited) && ParsePattern(u.Pattern).touches(r) {
			out = append(out, s)
		}
	}
	return out
}

// singled reports whether an ask rule with an argument touches the call.
func (g *Grants) singled(r Request) bool {
	return slices.ContainsFunc(g.Rules, func(u Rule) bool {
		p := ParsePattern(u.Pattern)
		return u.Effect == RuleAsk && !p.any() && u.applies(r, g.Inherited) && p.touches(r)
	})
}

// destruction returns what a call may destroy and needs an approval for, unless the operator's
// allow rules, or a trusted skill's list if the setting permits it, cover the call.
func (g *Grants) destruction(r Request) []string {
	what := destroyed(r)
	if len(what) == 0 || r.Effect == Read || r.Actor == ByOperator || r.Entry != "" || g.allowed(r, true) || preapproved(g, r) {
		return nil
	}
	return what
}

// destructiveNeed asks before a call destroys data, unless the question of an ask rule states it.
func destructiveNeed(g *Grants, r Request) *need {
	what := g.destruction(r)
	if len(what) == 0 || ruleNeed(g, r) != nil {
		return nil
	}
	return &need{code: CodeDestructive, kind: "destructive", text: fmt.Sprintf("%s? It may destroy data (%s)", described(r), strings.Join(what, "; ")),
		facts: append(callWords(r), each("destructive", what)...), binds: append(callBinds(r), what...), was: boundBefore(r), scopes: []string{ScopeOnce, ScopeSession}}
}

// scriptNeed asks for a script by tier, by setting, or because an ask rule
// touches it. The answer binds the tree, the entry, the level and the network.
func scriptNeed(g *Grants, r Request) *need {
	if r.Entry == "" || r.Skill == nil {
		return nil
	}
	if !g.confirmed(r.Skill.Tier) && (r.Actor == ByOperator || g.touched(RuleAsk, r) == nil) {
		return nil
	}
	network, args := networkWords(r.Network), anyArgs
	where := ""
	if r.Host {
		network, where = allNetwork, " on this machine itself, outside of any sandbox"
	}
	if g.BindArgs {
		args = argsOfCall
	}
	n := &need{code: CodeScriptApproval, kind: "script", skill: *r.Skill, scopes: []string{ScopeOnce, ScopeSession, ScopeAlways},
		facts: labelled("skill", r.Skill.Name+" ("+r.Skill.ID+")", "tier", string(r.Skill.Tier.Or()), "script", strings.TrimPrefix(r.Entry, r.Skill.Name+":"), "tree", r.Skill.Tree, "sandbox", r.Level,
			"network", network, "arguments", args),
		text:  fmt.Sprintf("run the script %s (tier %s)%s?", r.Entry, r.Skill.Tier.Or(), where),
		binds: append([]string{r.Skill.ID, r.Entry, r.Skill.Tree, string(r.Skill.Tier.Or()), r.Level, r.Network, fmt.Sprint(len(r.Hosts))}, r.Hosts...),
		given: g.approvedBefore(r)}
	if r.Host {
		n.binds = append(n.binds, "host")
	}
	if g.BindArgs {
		n.binds = append(n.binds, r.Args)
		n.text = strings.TrimSuffix(n.text, "?") + " with exactly these arguments?"
	}
	return n
}

// networkNeed asks for hosts that the operator did not grant. If a question
// about the script is asked, that question includes its network.
func networkNeed(g *Grants, r Request) *need {
	over := g.beyond(r)
	if len(over) == 0 || r.Entry == "" && g.allowed(r.only(nil, over), true) {
		return nil
	}
	if n := scriptNeed(g, r); n != nil && !n.given {
		return nil
	}
	binds := append([]string{r.Tool, r.Entry, r.Level, r.Network}, over...)
	if r.Skill != nil {
		binds = append([]string{r.Skill.ID, r.Skill.Tree}, binds...)
	}
	return &need{code: CodeNetworkAsk, kind: "network", text: fmt.Sprintf("%s reaches hosts that were not granted: %s; continue?", described(r), strings.Join(over, ", ")),
		facts: append(labelled("tool", r.Tool, "script", r.Entry, "sandbox", r.Level, "network", r.Network), each("host", over)...), binds: binds, scopes: []string{ScopeOnce, ScopeSession}}
}

// callBinds is what an answer about one call covers: the tool with exactly
// these arguments and the skill and paths that they lead to, in the same isolation, by the same run.
func callBinds(r Request) []string {
	b := []string{r.Tool, r.Args, r.Level, r.Network, r.Within, ""}
	if r.Skill != nil {
		b[5] = r.Skill.ID
	}
	paths := r.paths()
	return append(append(b, fmt.Sprint(len(paths))), paths...)
}

// boundBefore is what earlier versions bound an answer about one call to. Only their records have such
// an answer, and a run that they recorded goes on.
func boundBefore(r Request) string {
	b := []string{r.Tool, r.Args, r.Level, r.Network}
	if r.Within != "" {
		b = append(b, r.Within)
	}
	return bind("call", b...)
}

// paths returns the paths of a call, links resolved, in order.
func (r Request) paths() (out []string) {
	for _, p := range r.Paths {
		out = append(out, p.Path)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// bind returns the digest of what an answer covers. Each part is
// length-prefixed, so that different lists have different digests.
func bind(kind string, parts ...string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s", len(kind), kind)
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}
