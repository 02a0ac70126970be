package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// applies reports whether a rule's skills match those of the call. A rule that restricts applies if
// any skill matches. A rule that allows applies only if all match, those of a workspace or a third
// party by their IDs: they choose their names themselves.
func (u Rule) applies(r Request, inherited []Subject) bool {
	if u.Skill == "" {
		return true
	}
	all := r.Active
	if r.Skill != nil {
		all = append([]Subject{*r.Skill}, all...)
	}
	matching := func(list []Subject) (n int) {
		for _, s := range list {
			name, match := s.Name, MatchSkill
			if u.Effect == RuleAllow {
				match = Listed
				if !s.Tier.ByName() {
					name = ""
				}
			}
			if match(u.Skill, s.ID, name) {
				n++
			}
		}
		return n
	}
	hits, told := matching(all), matching(r.Told)
	if u.Effect == RuleAllow {
		return hits > 0 && hits == len(all) && told == len(r.Told)
	}
	return hits+told+matching(inherited) > 0
}

// touched is the first rule of an effect that touches the call, or nil.
func (g *Grants) touched(e RuleEffect, r Request) *Rule {
	for i, u := range g.Rules {
		if u.Effect == e && u.applies(r, g.Inherited) && ParsePattern(u.Pattern).touches(r) {
			return &g.Rules[i]
		}
	}
	return nil
}

// allowed reports whether the operator's allow rules cover the whole call. With args, only rules
// with an argument count.
func (g *Grants) allowed(r Request, args bool) bool {
	var list []Pattern
	for _, u := range g.Rules {
		if p := ParsePattern(u.Pattern); u.Effect == RuleAllow && u.applies(r, nil) && !(args && p.any()) {
			list = append(list, p)
		}
	}
	return covers(list, r)
}

// judgeRules refuses calls that a deny rule matches, for every actor. An invalid rule denies,
// because it must not be ignored.
func judgeRules(g *Grants, r Request) (Decision, bool) {
	for _, u := range g.Rules {
		if err := u.Check(); err != nil {
			return Decision{Outcome: Deny, Code: CodeRuleDenied, Rule: "rule", Reason: fmt.Sprintf("a rule of the operator cannot be read: %q: %v", u.Pattern, err)}, true
		}
	}
	if u := g.touched(RuleDeny, r); u != nil {
		return Decision{Outcome: Deny, Code: CodeRuleDenied, Rule: u.String(), Reason: "the operator's rule denies it: " + u.String()}, true
	}
	return Decision{}, false
}

// String is the rule as a policy file has it.
func (u Rule) String() string {
	s := string(u.Effect) + ": " + u.Pattern
	if u.Skill != "" {
		s += " (skill " + u.Skill + ")"
	}
	return s
}

// Check returns an error if the rule is invalid.
func (u Rule) Check() error {
	if err := checkEffect(u.Effect); err != nil {
		return err
	}
	if u.Skill != "" {
		if err := checkSkill(u.Skill); err != nil {
			return err
		}
	}
	return CheckPattern(u.Pattern)
}

// Check returns an error if the rule is invalid.
func (u SkillRule) Check() error {
	if err := checkEffect(u.Effect); err != nil {
		return err
	}
	return checkSkill(u.Skill)
}

func checkEffect(e RuleEffect) error {
	switch e {
	case RuleDeny, RuleAsk, RuleAllow:
		return nil
	}
	return fmt.Errorf("%q is not an effect: use deny, ask, or allow", string(e))
}

func checkSkill(s string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return errors.New("it names no skill")
	case len(s) > patternMax:
		return fmt.Errorf("it is longer than %d bytes", patternMax)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("it contains a control character or is not UTF-8")
	case strings.Count(s, "*") > 8:
		return errors.New("it has more than 8 stars")
	}
	return nil
}

// Skill returns the operator's decision about a skill and its rule. Deny hides the skill and
// refuses its use. Ask requires an approval before its instructions are loaded. Allow, or no rule,
// loads it; a rule that allows never treats a name as an ID. Grants.Denied precedes all rules. Each
// set of rules decides by itself, and the strictest decision counts.
func (g *Grants) Skill(id, name string) (RuleEffect, string) {
	for _, d := range g.Denied {
		if d == id || same(d, name) {
			return RuleDeny, "skill:" + d
		}
	}
	for _, list := range g.Only {
		if !slices.ContainsFunc(list, func(p string) bool { return Listed(p, id, name) }) {
			return RuleDeny, "only"
		}
	}
	var sets [][]SkillRule
	for _, u := range g.Skills {
		if u.Check() != nil || u.Set < 0 || u.Set > len(g.Skills) {
			return RuleDeny, "skill rule that cannot be read"
		}
		for len(sets) <= u.Set {
			sets = append(sets, nil)
		}
		sets[u.Set] = append(sets[u.Set], u)
	}
	effect, rule := RuleAllow, ""
	for _, set := range sets {
		if e, r := decideSkill(set, id, name); rule == "" || strict(e) > strict(effect) {
			effect, rule = e, r
		}
	}
	return effect, rule
}

// decideSkill returns the decision of one set of rules. The most specific rule decides: one without a
// star, or the one with the most other characters. Among equally specific rules, the strictest one
// decides.
func decideSkill(set []SkillRule, id, name string) (effect RuleEffect, rule string) {
	effect = RuleAllow
	best := -1
	var said []SkillRule // match a name that looks like an ID, because they only restrict
	for _, u := range set {
		if !Listed(u.Skill, id, name) {
			if MatchSkill(u.Skill, id, name) {
				said = append(said, u)
			}
			continue
		}
		exact := len(u.Skill) - strings.Count(u.Skill, "*")
		if !strings.Contains(u.Skill, "*") {
			exact = patternMax + 1
		}
		if exact > best || exact == best && strict(u.Effect) > strict(effect) {
			best, effect, rule = exact, u.Effect, string(u.Effect)+": "+u.Skill
		}
	}
	for _, u := range said {
		if strict(u.Effect) > strict(effect) {
			effect, rule = u.Effect, string(u.Effect)+": "+u.Skill
		}
	}
	return effect, rule
}

func strict(e RuleEffect) int { return map[RuleEffect]int{RuleAsk: 1, RuleDeny: 2}[e] }

// same compares names without regard to case and surrounding spaces.
func same(a, b string) bool {
	return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b))
}

// Listed is like [MatchSkill] for rules that allow: a pattern with a colon only matches IDs, so
// that a skill cannot impersonate another by its name. Names of servers' skills also match, because
// the host assigns them.
func Listed(pattern, id, name string) bool {
	if strings.Contains(pattern, ":") && !strings.HasPrefix(id, ServedPrefix) {
		name = ""
	}
	return MatchSkill(pattern, id, name)
}

// MatchSkill matches a name, ignoring case, or an exact ID, with * for any text.
func MatchSkill(pattern, id, name string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == id || same(pattern, name)
	}
	return starMatch(pattern, id) || starMatch(strings.ToLower(strings.TrimSpace(pattern)), strings.ToLower(strings.TrimSpace(name)))
}

// starMatch matches text against a pattern in which * is any text.
func starMatch(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for _, p := range parts[1:last] {
		i := strings.Index(text, p)
		if i < 0 {
			return false
		}
		text = text[i+len(p):]
	}
	return strings.HasSuffix(text, parts[last])
}
