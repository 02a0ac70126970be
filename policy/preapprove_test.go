package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/policy"
)

// What a list takes away, by whose word, under which merge: questions of two
// kinds, by a trusted skill that lists the call itself.
//
// req: C-043, C-044, C-086
func TestPreapproval(t *testing.T) {
	t.Parallel()
	type skill struct {
		tier policy.Tier
		list []string // nil: not declared
	}
	git, read := []string{"Bash(git:*)"}, []string{"Read"}
	const quiet = "cfc_disabled"
	for _, tt := range []struct {
		name   string
		skills []skill
		merge  policy.Merge
		src    string
		change func(*policy.Grants)
		want   string
	}{
		{"listed", []skill{{policy.Project, git}}, "", "git clean -f", nil, quiet},
		{"listed by the organisation", []skill{{policy.Org, git}}, "", "git status", nil, quiet},
		{"listed by the user", []skill{{policy.User, git}}, "", "git status", nil, quiet},
		{"built in", []skill{{policy.Builtin, git}}, "", "git clean -f", nil, quiet},
		{"listed by a third party", []skill{{policy.ThirdParty, git}}, "", "git status", nil, policy.CodeRuleAsk},
		{"listed by nobody knows whom", []skill{{"", git}}, "", "git clean -f", nil, policy.CodeRuleAsk},
		{"no skill", nil, "", "git status", nil, policy.CodeRuleAsk},
		{"nothing declared", []skill{{policy.Project, nil}}, "", "git status", nil, policy.CodeRuleAsk},
		{"not listed", []skill{{policy.Project, git}}, "", "ls", nil, policy.CodeNotNarrowed},
		{"both list it", []skill{{policy.Project, git}, {policy.ThirdParty, git}}, policy.MergeIntersection, "git status", nil, quiet},
		{"one does not", []skill{{policy.Project, git}, {policy.Org, read}}, policy.MergeIntersection, "git status", nil, policy.CodeNotNarrowed},
		{"one of them", []skill{{policy.Org, read}, {policy.Project, git}}, policy.MergeUnion, "git status", nil, quiet},
		{"one of them, who is no one's friend", []skill{{policy.Org, read}, {policy.ThirdParty, git}}, policy.MergeUnion, "git status", nil, policy.CodeRuleAsk},
		{"the last", []skill{{policy.Org, read}, {policy.Project, git}}, policy.MergeLast, "git status", nil, quiet},
		{"the last is a third party", []skill{{policy.Project, git}, {policy.ThirdParty, git}}, policy.MergeLast, "git status", nil, policy.CodeRuleAsk},
		{"singled out", []skill{{policy.Project, git}}, "", "git push", rule(policy.RuleAsk, "Bash(git push *)"), policy.CodeRuleAsk},
		{"denied", []skill{{policy.Project, git}}, "", "git push", rule(policy.RuleDeny, "Bash(git push *)"), policy.CodeRuleDenied},
		{"not granted", []skill{{policy.Project, git}}, "", "git push", func(g *policy.Grants) { g.Tools = nil }, policy.CodeToolNotAllowed},
		{"another setting", []skill{{policy.Project, git}}, "", "git push", func(g *policy.Grants) { g.Narrow = policy.NarrowEnforce }, policy.CodeRuleAsk},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := open()
			g.Narrow, g.Merge = policy.NarrowPreapprove, tt.merge
			rule(policy.RuleAsk, "Bash")(&g)
			if tt.change != nil {
				tt.change(&g)
			}
			r := bash(tt.src)
			for _, s := range tt.skills {
				r.Active = append(r.Active, policy.Subject{ID: string(s.tier), Name: "s", Tier: s.tier, AllowedTools: s.list, Declared: s.list != nil})
			}
			if d := policy.Decide(&g, r); d.Code != tt.want {
				t.Errorf("%+v, want %s", d, tt.want)
			}
		})
	}
	// Scripts, networks and reads outside are never approved by a list.
	list := func(r *policy.Request) {
		r.Active[0].AllowedTools, r.Active[0].Declared = []string{"*"}, true
	}
	g := running(func(g *policy.Grants) { g.Narrow = policy.NarrowPreapprove })
	if got := judged(g, script(policy.User, list)); got != (verdict{policy.Ask, policy.CodeScriptApproval}) {
		t.Errorf("a script: %v", got)
	}
	if got := judged(g, script(policy.Org, list, on("hosts:x.org", "x.org"))); got != (verdict{policy.Ask, policy.CodeNetworkAsk}) {
		t.Errorf("a network: %v", got)
	}
	outside := script(policy.Org, list, paths(policy.PathUse{Path: "/etc/x", Zone: policy.ZoneOutside}))
	if got := judged(g, outside); got != (verdict{policy.Ask, policy.CodePathOutside}) {
		t.Errorf("a read outside: %v", got)
	}
}

// A list without end is cut, which takes away and is said.
//
// req: C-044
func TestLongListsAreCut(t *testing.T) {
	t.Parallel()
	list := slices.Repeat([]string{"Grep"}, 256)
	g := open()
	if d := policy.Decide(&g, call(active(append([]string{"Read"}, list[1:]...)))); d.Code != "cfc_disabled" {
		t.Errorf("%+v", d)
	}
	if d := policy.Decide(&g, call(active(append(list, "Read")))); d.Code != policy.CodeNotNarrowed || !strings.Contains(d.Reason, "first 256 patterns") {
		t.Errorf("%+v", d)
	}
}

// Whatever a skill lists, and whatever a skill lists that was only read, a refusal stays a refusal and
// a question stays a question.
//
// req
func TestDecide_AllowedToolsGrantNothing(t *testing.T) {
	t.Parallel()
	all := []policy.Subject{{ID: "s:all", Name: "all", Tier: policy.Project, AllowedTools: []string{"*"}, Declared: true}}
	outside := call(paths(policy.PathUse{Path: "/etc/x", Zone: policy.ZoneOutside}))
	for name, tt := range map[string]struct {
		request policy.Request
		change  func(*policy.Grants)
		code    string
	}{
		"tool that is not granted":  {bash("git push"), func(g *policy.Grants) { g.Tools = nil }, policy.CodeToolNotAllowed},
		"deny rule":                 {bash("git push"), rule(policy.RuleDeny, "Bash"), policy.CodeRuleDenied},
		"read of the outside":       {outside, func(*policy.Grants) {}, policy.CodePathOutside},
		"refused read of the same":  {outside, func(g *policy.Grants) { g.Confined = true }, policy.CodePathOutside},
		"ask rule with an argument": {bash("git push"), rule(policy.RuleAsk, "Bash(git push *)"), policy.CodeRuleAsk},
	} {
		for _, narrow := range []policy.Narrowing{policy.NarrowIgnore, policy.NarrowAdvise, policy.NarrowNarrow, policy.NarrowEnforce, policy.NarrowPreapprove} {
			g := open()
			g.Narrow = narrow
			tt.change(&g)
			active, told := tt.request, tt.request
			active.Active, told.Told = all, all
			if d := cmp.Diff([]string{tt.code, tt.code}, []string{policy.Decide(&g, active).Code, policy.Decide(&g, told).Code}); d != "" {
				t.Errorf("%s, allowed_tools=%s: with an active skill, and one that was read (-want +got):\n%s", name, narrow, d)
			}
		}
	}
	g := open()
	g.Narrow = policy.NarrowPreapprove
	rule(policy.RuleAsk, "Bash")(&g)
	told := bash("git push")
	told.Active = []policy.Subject{{ID: "s:other", Name: "other", Tier: policy.Project}}
	told.Told = all
	if d := cmp.Diff(policy.CodeRuleAsk, policy.Decide(&g, told).Code); d != "" {
		t.Errorf("a list that was only read answers an ask rule (-want +got):\n%s", d)
	}
}
