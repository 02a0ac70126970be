package policy

import "slices"

// ScriptRule determines which scripts of skills may run.
type ScriptRule string

// The values of the setting scripts.
const (
	ScriptsOff     ScriptRule = "off"         // none
	ScriptsExact   ScriptRule = "exact"       // those in Grants.Scripts
	ScriptsTiered  ScriptRule = "tiered"      // those of active skills, by tier
	ScriptsBundled ScriptRule = "any_bundled" // any script of a known skill
)

// Approval determines which scripts need approval.
type Approval string

// The values of the setting script_approval.
const (
	ApprovalAlways Approval = "always"  // each
	ApprovalByTier Approval = "by_tier" // those of project, user and third_party
	ApprovalNever  Approval = "never"   // none
)

// NetworkRule determines which hosts may be reached.
type NetworkRule string

// The values of the setting script_network.
const (
	NetworkOff    NetworkRule = "off"
	NetworkTiered NetworkRule = "tiered" // granted hosts; others are asked for, and refused to third_party
	NetworkOn     NetworkRule = "on"     // any public host
)

// ApprovedScript is a script that the operator approved as it was: its entry
// (skill:scripts/path) in exactly that tree.
type ApprovedScript struct {
	Entry string `json:"entry"`
	Tree  string `json:"tree"`
	// Level is the weakest sandbox level that the approval covers; "" is any
	// level that the operator allows for the script.
	Level string `json:"level,omitempty"`
}

// Covers reports whether the approval applies to the script in this tree, at this sandbox level.
func (a ApprovedScript) Covers(tree, level string) bool {
	return a.Tree != "" && a.Tree == tree && (a.Level == "" || CheckLevel(a.Level) == nil && CheckLevel(level) == nil && level >= a.Level)
}

// RuleEffect is what a rule does with what it matches.
type RuleEffect string

// The effects of rules, strictest first.
const (
	RuleDeny  RuleEffect = "deny"
	RuleAsk   RuleEffect = "ask"
	RuleAllow RuleEffect = "allow"
)

// Rule is one rule of the operator about calls.
type Rule struct {
	Effect  RuleEffect `json:"effect"`
	Pattern string     `json:"pattern"`         // as ParsePattern reads it
	Skill   string     `json:"skill,omitempty"` // only calls of matching skills: a name or an ID, with * for any text
}

// SkillRule is one rule of the operator about skills: deny hides a skill, ask
// asks before its instructions are loaded, allow loads it.
type SkillRule struct {
	Effect RuleEffect `json:"effect"`
	Skill  string     `json:"skill"`         // a name or an ID, with * for any text
	Set    int        `json:"set,omitempty"` // the rules of one set decide together; see [AddSkills]
}

// AddSkills adds rules that decide together, such as those of one policy file, to others. No set can
// allow what another one denies.
func AddSkills(to, more []SkillRule) []SkillRule {
	set := 0
	for _, u := range to {
		set = max(set, u.Set+1)
	}
	out := slices.Clone(to)
	for _, u := range more {
		u.Set = set
		out = append(out, u)
	}
	return out
}
