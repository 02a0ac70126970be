package policy_test

import (
	"strings"
	"testing"

	"metier/policy"
)

// The combined table of everything that decides: grants, rules, trust,
// allowed-tools, approvals, modes. In each case exactly one gate stops the
// call, so the loss of any gate fails a case.
//
// req: C-059
func TestEachGateAloneDecides(t *testing.T) {
	t.Parallel()
	type grants = func(*policy.Grants)
	type request = func(*policy.Request)
	no, ask := policy.Deny, policy.Ask
	base := running(func(g *policy.Grants) { g.Approval = policy.ApprovalNever })
	for _, tt := range []struct {
		name    string
		grants  grants
		request request
		tier    policy.Tier // "" is org
		outcome policy.Outcome
		code    string
		rule    string // part of it
	}{
		{"nothing objects", nil, nil, "", policy.Allow, "cfc_disabled", "enforcement_mode=disabled"},
		{"arguments", nil, func(r *policy.Request) { r.Invalid = "skill_not_activated" }, "", no, policy.CodeInvalidCall, "arguments"},
		{"facts: effect", nil, func(r *policy.Request) { r.Effect = "" }, "", no, policy.CodeInvalidCall, "facts"},
		{"facts: entry", nil, func(r *policy.Request) { r.Entry = "" }, "", no, policy.CodeScriptUnlisted, "scripts=exact"},
		{"facts: entry, any", func(g *policy.Grants) { g.ScriptRule = policy.ScriptsBundled }, func(r *policy.Request) { r.Entry = "" }, "", no, policy.CodeInvalidCall, "facts"},
		{"facts: skill", nil, func(r *policy.Request) { r.Skill = nil }, "", no, policy.CodeInvalidCall, "facts"},
		{"facts: tree", nil, func(r *policy.Request) { r.Skill = &policy.Subject{ID: "src:pdf", Tier: policy.Org} }, "", no, policy.CodeInvalidCall, "facts"},
		{"tool grant", func(g *policy.Grants) { g.Tools = []string{"bash"} }, nil, "", no, policy.CodeToolNotAllowed, "tools"},
		{"deny rule", rule(policy.RuleDeny, "run_skill_script(pdf:*/*)"), nil, "", no, policy.CodeRuleDenied, "deny: run_skill_script(pdf:*/*)"},
		{"broken rule", rule(policy.RuleAllow, "Read("), nil, "", no, policy.CodeRuleDenied, "rule"},
		{"rule without effect", rule("", "Read"), nil, "", no, policy.CodeRuleDenied, "rule"},
		{"rule for no skill", func(g *policy.Grants) {
			g.Rules = []policy.Rule{{Effect: policy.RuleDeny, Pattern: "Read", Skill: " "}}
		}, nil, "", no, policy.CodeRuleDenied, "rule"},
		{"denied skill", func(g *policy.Grants) { g.Denied = []string{"PDF"} }, nil, "", no, policy.CodeSkillDenied, "skill:PDF"},
		{"skill rule", func(g *policy.Grants) { g.Skills = []policy.SkillRule{{Effect: policy.RuleDeny, Skill: "src:*"}} }, nil, "", no, policy.CodeSkillDenied, "deny: src:*"},
		{"broken skill rule", func(g *policy.Grants) { g.Skills = []policy.SkillRule{{Effect: "hide", Skill: "x"}} }, nil, "", no, policy.CodeSkillDenied, "cannot be read"},
		{"scripts off", func(g *policy.Grants) { g.ScriptRule = policy.ScriptsOff }, nil, "", no, policy.CodeScriptsOff, "scripts=off"},
		{"scripts unsaid", func(g *policy.Grants) { g.ScriptRule = "" }, nil, "", no, policy.CodeScriptsOff, "scripts=off"},
		{"scripts unknown", func(g *policy.Grants) { g.ScriptRule = "all" }, nil, "", no, policy.CodeInvalidCall, "scripts"},
		{"script not listed", func(g *policy.Grants) {
			g.Scripts = []string{"pdf:scripts/fill.pyc", "pdf:scripts/*", "pdf:scripts/fill"}
		}, nil, "", no, policy.CodeScriptUnlisted, "scripts=exact"},
		{"skill not active", func(g *policy.Grants) { g.ScriptRule = policy.ScriptsTiered }, func(r *policy.Request) { r.Active = nil }, "", no, policy.CodeNotActivated, "scripts=tiered"},
		{"another skill active", func(g *policy.Grants) { g.ScriptRule = policy.ScriptsTiered }, func(r *policy.Request) { r.Active = []policy.Subject{{ID: "other:pdf", Name: "pdf"}} }, "", no, policy.CodeNotActivated, "scripts=tiered"},
		{"script broken", nil, func(r *policy.Request) { r.Broken = "script_snapshot_mismatch" }, "", no, "script_snapshot_mismatch", "script"},
		{"approval unknown", func(g *policy.Grants) { g.Approval = "sometimes" }, nil, "", no, policy.CodeInvalidCall, "script_approval"},
		{"path", nil, paths(policy.PathUse{Path: "/x", Zone: policy.ZoneDenied}), "", no, policy.CodePathDenied, "workspace"},
		{"network off", func(g *policy.Grants) { g.Network = policy.NetworkOff }, on("hosts:x.org", "x.org"), "", no, policy.CodeNetworkDenied, "script_network=off"},
		{"network unknown", func(g *policy.Grants) { g.Network = "raw" }, nil, "", no, policy.CodeInvalidCall, "script_network"},
		{"network of a third party", nil, on("hosts:x.org", "x.org"), policy.ThirdParty, no, policy.CodeNetworkDenied, "script_network=tiered"},
		{"allowed-tools", nil, active([]string{"Read"}), "", no, policy.CodeNotNarrowed, "allowed_tools=narrow"},
		{"allowed-tools, listed", nil, active([]string{"Read", "run_skill_script"}), "", policy.Allow, "cfc_disabled", "enforcement_mode=disabled"},
		{"mode", func(g *policy.Grants) { g.Mode = policy.EnforceExplicit }, nil, "", no, "cfc_enforce_explicit_requires_direct_command", "enforcement_mode"},
		{"skill asked for", func(g *policy.Grants) { g.Skills = []policy.SkillRule{{Effect: policy.RuleAsk, Skill: "p*"}} }, func(r *policy.Request) { r.Active = nil }, "", ask, policy.CodeSkillAsk, "approval"},
		{"read outside", nil, paths(policy.PathUse{Path: "/etc/x", Zone: policy.ZoneOutside}), "", ask, policy.CodePathOutside, "approval"},
		{"ask rule", rule(policy.RuleAsk, "run_skill_script"), nil, "", ask, policy.CodeScriptApproval, "approval"},
		{"ask rule, no script", rule(policy.RuleAsk, "bash"), func(r *policy.Request) { r.Tool, r.Entry = "bash", "" }, "", ask, policy.CodeRuleAsk, "approval"},
		{"destructive", nil, func(r *policy.Request) { r.Tool, r.Entry, r.Destructive = "bash", "", []string{"the database"} }, "", ask, policy.CodeDestructive, "approval"},
		{"approval by tier", func(g *policy.Grants) { g.Approval = policy.ApprovalByTier }, nil, policy.User, ask, policy.CodeScriptApproval, "approval"},
		{"approval by tier, project", func(g *policy.Grants) { g.Approval = policy.ApprovalByTier }, nil, policy.Project, ask, policy.CodeScriptApproval, "approval"},
		{"approval by tier, third party", func(g *policy.Grants) { g.Approval = policy.ApprovalByTier }, nil, policy.ThirdParty, ask, policy.CodeScriptApproval, "approval"},
		{"approval by tier, org", func(g *policy.Grants) { g.Approval = policy.ApprovalByTier }, nil, policy.Org, policy.Allow, "cfc_disabled", "enforcement_mode=disabled"},
		{"approval by tier, builtin", func(g *policy.Grants) { g.Approval = policy.ApprovalByTier }, nil, policy.Builtin, policy.Allow, "cfc_disabled", "enforcement_mode=disabled"},
		{"always asked", func(g *policy.Grants) { g.Approval = policy.ApprovalAlways }, nil, policy.Builtin, ask, policy.CodeScriptApproval, "approval"},
		{"network not granted", nil, on("hosts:x.org", "x.org"), "", ask, policy.CodeNetworkAsk, "approval"},
		{"advice", func(g *policy.Grants) { g.Narrow = policy.NarrowAdvise }, active([]string{"Read"}), "", policy.Warn, policy.CodeNarrowAdvice, "allowed_tools=advise"},
		{"observed", func(g *policy.Grants) { g.Mode = policy.Observe }, nil, "", policy.Warn, "cfc_observe_requires_direct_command", "enforcement_mode"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, tier := *base, tt.tier
			if tier == "" {
				tier = policy.Org
			}
			r := script(tier)
			if tt.grants != nil {
				tt.grants(&g)
			}
			if tt.request != nil {
				tt.request(&r)
			}
			d := policy.Decide(&g, r)
			if d.Outcome != tt.outcome || d.Code != tt.code || !strings.Contains(d.Rule, tt.rule) {
				t.Errorf("%+v, want %s %s %q", d, tt.outcome, tt.code, tt.rule)
			}
			if (d.Outcome == policy.Ask) != (d.Question != nil) || d.Outcome != policy.Allow && d.Reason == "" {
				t.Errorf("%+v", d)
			}
		})
	}
}

// The order of contracts.md §2.1: what a call is, then whether it is allowed,
// then what is wrong with the script, then questions. A script that is not
// allowed tells nothing of itself.
//
// req: C-059
func TestGatesStandInOrder(t *testing.T) {
	t.Parallel()
	g := running()
	r := script(policy.ThirdParty, on("hosts:x.org", "x.org"), active([]string{"Read"}), paths(policy.PathUse{Zone: policy.ZoneDenied}))
	r.Invalid, r.Broken = "script_path_invalid", "script_not_indexed"
	g.Tools, g.Scripts, g.Denied = nil, nil, []string{"pdf"}
	g.Mode = policy.EnforceStrict
	rule(policy.RuleDeny, "Bash")(g)
	for i, step := range []struct {
		code string
		mend func()
	}{
		{policy.CodeInvalidCall, func() { r.Invalid = "" }},
		{policy.CodeToolNotAllowed, func() { g.Tools = []string{"run_skill_script"} }},
		{policy.CodeRuleDenied, func() { g.Rules = nil }},
		{policy.CodeSkillDenied, func() { g.Denied = nil }},
		{policy.CodeScriptUnlisted, func() { g.Scripts = []string{r.Entry} }},
		{"script_not_indexed", func() { r.Broken = "" }},
		{policy.CodePathDenied, func() { r.Paths = nil }},
		{policy.CodeNetworkDenied, func() { r.Network, r.Hosts = "", nil }},
		{policy.CodeNotNarrowed, func() { r.Active = r.Active[:1] }},
		{"cfc_enforce_strict_requires_direct_command", func() { g.Mode = policy.Disabled }},
		{policy.CodeScriptApproval, func() { g.Approval = policy.ApprovalNever }},
		{"cfc_disabled", func() {}},
	} {
		if d := policy.Decide(g, r); d.Code != step.code {
			t.Fatalf("step %d: %+v, want %s", i, d, step.code)
		}
		step.mend()
	}
}

// A network that a person is asked for with the script is not asked for twice;
// what stands apart is asked one by one, each answer for itself.
//
// req: C-059
func TestQuestionsComeOneByOne(t *testing.T) {
	t.Parallel()
	g := running(func(g *policy.Grants) { g.Skills = []policy.SkillRule{{Effect: policy.RuleAsk, Skill: "pdf"}} })
	r := script(policy.User, on("hosts:x.org", "x.org"), paths(policy.PathUse{Path: "/etc/x", Zone: policy.ZoneOutside}))
	r.Active = nil
	g.Answers = map[string]policy.Answer{}
	var codes []string
	for {
		d := policy.Decide(g, r)
		if d.Question == nil {
			if d.Outcome != policy.Allow || d.Code != policy.CodeAnswered {
				t.Errorf("%+v", d)
			}
			break
		}
		codes = append(codes, d.Code)
		g.Answers[d.Question.Binds] = policy.Answer{Question: d.Question.ID, Allow: true, Scope: "once"}
		if len(codes) > 9 {
			break
		}
	}
	if got := strings.Join(codes, " "); got != policy.CodeSkillAsk+" "+policy.CodePathOutside+" "+policy.CodeScriptApproval {
		t.Error(got)
	}
}

// What an answer about a skill, a network or a call covers, and nothing else.
//
// req: C-059
func TestAnswersBindSkillsAndNetworks(t *testing.T) {
	t.Parallel()
	g := running(func(g *policy.Grants) {
		g.Tools, g.Skills = append(g.Tools, "web_fetch", "read_skill_resource"), []policy.SkillRule{{Effect: policy.RuleAsk, Skill: "pdf"}}
		g.Approval = policy.ApprovalNever
	})
	subject := func(f func(*policy.Subject)) func(*policy.Request) {
		return func(r *policy.Request) { s := *r.Skill; f(&s); r.Skill = &s }
	}
	load := func(change ...func(*policy.Request)) policy.Request {
		return call(append([]func(*policy.Request){as("load_skill", policy.Read), func(r *policy.Request) {
			r.Skill = &policy.Subject{ID: "src:pdf", Name: "pdf", Digest: "sha256:d", Tree: "sha256:t", Tier: policy.Org}
		}}, change...)...)
	}
	reach := func(change ...func(*policy.Request)) policy.Request {
		return script(policy.Org, append([]func(*policy.Request){on("hosts:x.org", "x.org")}, change...)...)
	}
	fetch := func(change ...func(*policy.Request)) policy.Request {
		return call(append([]func(*policy.Request){as("web_fetch", policy.Read), on("", "x.org")}, change...)...)
	}
	tree := subject(func(s *policy.Subject) { s.Tree = "sha256:u" })
	for name, tt := range map[string]struct {
		base   policy.Request
		others []policy.Request
		same   policy.Request
	}{
		policy.CodeSkillAsk: {load(), []policy.Request{load(tree), load(subject(func(s *policy.Subject) { s.Digest = "sha256:e" })), load(subject(func(s *policy.Subject) { s.Tier = policy.ThirdParty })), load(subject(func(s *policy.Subject) { s.ID = "b:pdf" }))},
			load(as("read_skill_resource", policy.Read))},
		policy.CodeNetworkAsk: {reach(), []policy.Request{reach(tree), reach(on("hosts:x.org", "y.org")), reach(on("hosts:x.org,y.org", "x.org", "y.org")), reach(on("public")), reach(func(r *policy.Request) { r.Level = "L1" }), fetch()},
			reach(func(r *policy.Request) { r.Args = "sha256:other" })},
	} {
		g.Answers = nil
		d := policy.Decide(g, tt.base)
		if d.Code != name {
			t.Fatalf("%+v, want %s", d, name)
		}
		g.Answers = map[string]policy.Answer{d.Question.Binds: {Allow: true, Scope: "session"}}
		for _, r := range []policy.Request{tt.base, tt.same} {
			if d := policy.Decide(g, r); d.Outcome != policy.Allow {
				t.Errorf("%s: asked again: %+v", name, d)
			}
		}
		for i, r := range tt.others {
			if d := policy.Decide(g, r); d.Outcome != policy.Ask {
				t.Errorf("%s %d rides on the answer: %+v", name, i, d)
			}
		}
	}
}
