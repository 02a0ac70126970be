package policy_test

import (
	"slices"
	"strings"
	"testing"

	"metier/policy"
)

// script is a call of a bundled script of an active skill of that tier.
func script(tier policy.Tier, change ...func(*policy.Request)) policy.Request {
	s := policy.Subject{ID: "src:pdf", Name: "pdf", Tree: "sha256:aa", Tier: tier}
	r := policy.Request{Call: "c1", Tool: "run_skill_script", Actor: policy.ByModel, Effect: policy.SideEffect, Skill: &s, Active: []policy.Subject{s},
		Entry: "pdf:scripts/fill.py", Runtime: "python3", Level: "L2", Args: "sha256:bb"}
	for _, c := range change {
		c(&r)
	}
	return r
}

// running returns grants under which scripts may run.
func running(change ...func(*policy.Grants)) *policy.Grants {
	g := open()
	g.Tools = append(g.Tools, "run_skill_script")
	g.ScriptRule, g.Scripts, g.Approval, g.Network = policy.ScriptsExact, []string{"pdf:scripts/fill.py"}, policy.ApprovalByTier, policy.NetworkTiered
	for _, c := range change {
		c(&g)
	}
	return &g
}

func rule(e policy.RuleEffect, pattern string) func(*policy.Grants) {
	return func(g *policy.Grants) { g.Rules = append(g.Rules, policy.Rule{Effect: e, Pattern: pattern}) }
}

func on(network string, hosts ...string) func(*policy.Request) {
	return func(r *policy.Request) { r.Network, r.Hosts = network, hosts }
}

type verdict struct {
	outcome policy.Outcome
	code    string
}

func judged(g *policy.Grants, r policy.Request) verdict {
	d := policy.Decide(g, r)
	return verdict{d.Outcome, d.Code}
}

// A script can be named by the ID of its skill, which no other skill has.
func TestScriptsAreNamedByNameOrID(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]bool{"pdf:scripts/fill.py": true, "src:pdf:scripts/fill.py": true, "other:pdf:scripts/fill.py": false, "src:pdf:scripts/x.py": false, "src:scripts/fill.py": false} {
		g := running(func(g *policy.Grants) { g.Scripts, g.Approval = []string{entry}, policy.ApprovalNever })
		if d := policy.Decide(g, script(policy.Project)); d.Allowed() != want {
			t.Errorf("granted %s: %+v", entry, d)
		}
		g = running(func(g *policy.Grants) { g.Approved = []policy.ApprovedScript{{Entry: entry, Tree: "sha256:aa"}} })
		if d := policy.Decide(g, script(policy.Project)); d.Allowed() != want {
			t.Errorf("approved %s: %+v", entry, d)
		}
		g = running(rule(policy.RuleDeny, "run_skill_script("+entry+")"))
		if d := policy.Decide(g, script(policy.Project)); (d.Code == policy.CodeRuleDenied) != want {
			t.Errorf("denied %s: %+v", entry, d)
		}
	}
}

// Names and IDs of servers' skills contain colons. A grant means exactly one
// skill: not the same one of another server, not a local one with that name,
// and none if the words could be read in two ways.
func TestGrantsOfServersSkillsMeanOneSkill(t *testing.T) {
	t.Parallel()
	far := policy.Subject{ID: "mcp:far:skill/team/deploy", Name: "mcp:far:deploy", Tree: "sha256:aa"}
	alike := func(id, name string) policy.Subject { return policy.Subject{ID: id, Name: name, Tree: "sha256:aa"} }
	for _, c := range []struct {
		skill       policy.Subject
		file, entry string
		want        bool
	}{
		{far, "scripts/a.sh", "mcp:far:deploy:scripts/a.sh", true},
		{far, "scripts/a.sh", "mcp:far:skill/team/deploy:scripts/a.sh", true},
		{far, "scripts/a.sh", "mcp:far:skill/team/deploy:scripts/b.sh", false},
		{far, "scripts/a.sh", "mcp:other:skill/team/deploy:scripts/a.sh", false},
		{far, "scripts/a.sh", "mcp:far:skill/deploy:scripts/a.sh", false},
		{far, "scripts/a.sh", "deploy:scripts/a.sh", false},
		{far, "scripts/a.sh", "skill/team/deploy:scripts/a.sh", false},
		{far, "scripts/a.sh", "mcp:scripts/a.sh", false},
		{alike("mcp:other:skill/team/deploy", "mcp:other:deploy"), "scripts/a.sh", "mcp:far:deploy:scripts/a.sh", false},
		{alike("mcp:other:skill/team/deploy", "mcp:other:deploy"), "scripts/a.sh", "mcp:far:skill/team/deploy:scripts/a.sh", false},
		{alike("project:deploy", "deploy"), "scripts/a.sh", "mcp:far:deploy:scripts/a.sh", false},
		{alike("project:x", "mcp:far:deploy"), "scripts/a.sh", "mcp:far:deploy:scripts/a.sh", false},
		{alike("project:x", "mcp:far:deploy"), "scripts/a.sh", "project:x:scripts/a.sh", true},
		{alike("project:x", "user:deploy"), "scripts/a.sh", "user:deploy:scripts/a.sh", false},
		{alike("mcp:far:skill/a:scripts/b", "mcp:far:b"), "scripts/x.sh", "mcp:far:skill/a:scripts/b:scripts/x.sh", false},
		{alike("mcp:far:skill/a", "mcp:far:a"), "scripts/b:scripts/x.sh", "mcp:far:skill/a:scripts/b:scripts/x.sh", false},
	} {
		r := script(policy.ThirdParty, func(r *policy.Request) {
			r.Skill, r.Active, r.Entry = &c.skill, []policy.Subject{c.skill}, c.skill.Name+":"+c.file
		})
		g := running(func(g *policy.Grants) { g.Scripts, g.Approval = []string{c.entry}, policy.ApprovalNever })
		if d := policy.Decide(g, r); (d.Code != policy.CodeScriptUnlisted) != c.want {
			t.Errorf("granted %s, asked for %s of %s: %+v", c.entry, c.file, c.skill.ID, d)
		}
		g = running(func(g *policy.Grants) {
			g.ScriptRule, g.Approved = policy.ScriptsBundled, []policy.ApprovedScript{{Entry: c.entry, Tree: "sha256:aa"}}
		})
		if d := policy.Decide(g, r); (d.Question == nil || d.Question.Code != policy.CodeScriptApproval) != c.want {
			t.Errorf("approved %s, asked for %s of %s: %+v", c.entry, c.file, c.skill.ID, d)
		}
		g = running(func(g *policy.Grants) {
			g.ScriptRule, g.Approval, g.Network = policy.ScriptsBundled, policy.ApprovalNever, policy.NetworkOff
			g.Rules = []policy.Rule{{Effect: policy.RuleDeny, Pattern: "run_skill_script(" + c.entry + ")"}}
		})
		if d := policy.Decide(g, r); c.want && d.Code != policy.CodeRuleDenied {
			t.Errorf("denied %s, asked for %s of %s: %+v", c.entry, c.file, c.skill.ID, d)
		}
	}
}

// Every tier × approval, without a network.
//
// req: C-082, C-083, C-084
func TestScriptsWaitByTier(t *testing.T) {
	t.Parallel()
	runs, asks := verdict{policy.Allow, "cfc_disabled"}, verdict{policy.Ask, policy.CodeScriptApproval}
	for tier, want := range map[policy.Tier][3]verdict{ // always, by tier, never
		policy.Builtin: {asks, runs, runs}, policy.Org: {asks, runs, runs}, policy.Project: {asks, asks, runs}, policy.User: {asks, asks, runs},
		policy.ThirdParty: {asks, asks, runs}, "": {asks, asks, runs}, "root": {asks, asks, runs},
	} {
		for i, a := range []policy.Approval{policy.ApprovalAlways, policy.ApprovalByTier, policy.ApprovalNever} {
			if got := judged(running(func(g *policy.Grants) { g.Approval = a }), script(tier)); got != want[i] {
				t.Errorf("%q %s: %v, want %v", tier, a, got, want[i])
			}
		}
		if got := judged(running(func(g *policy.Grants) { g.Approval = "" }), script(tier)); got != asks {
			t.Errorf("%q with no setting: %v", tier, got)
		}
	}
}

// A source without a tier counts as third_party: its scripts ask, and reach
// nothing that the operator did not grant.
//
// req: C-049
func TestUnknownTierIsThirdParty(t *testing.T) {
	t.Parallel()
	for _, tier := range []policy.Tier{"", "trusted", policy.ThirdParty} {
		d := policy.Decide(running(), script(tier))
		if d.Outcome != policy.Ask || !strings.Contains(d.Question.Text, "tier third_party") || !slices.Contains(d.Risk, "third-party-skill") {
			t.Errorf("%q: %+v", tier, d)
		}
		if got := judged(running(), script(tier, on("hosts:x.org", "x.org"))); got != (verdict{policy.Deny, policy.CodeNetworkDenied}) {
			t.Errorf("%q with a network: %v", tier, got)
		}
	}
}

// Every tier × network setting × what a script asks for.
//
// req: C-050, C-084, C-060
func TestNetworkByTier(t *testing.T) {
	t.Parallel()
	granted := func(n policy.NetworkRule) *policy.Grants {
		return running(func(g *policy.Grants) {
			g.Network, g.Hosts, g.Approval = n, []string{"api.x.org", "*.y.org"}, policy.ApprovalNever
		})
	}
	runs, asks, no := verdict{policy.Allow, "cfc_disabled"}, verdict{policy.Ask, policy.CodeNetworkAsk}, verdict{policy.Deny, policy.CodeNetworkDenied}
	for _, tt := range []struct {
		name                 string
		network              func(*policy.Request)
		off, org, third, all verdict // off; tiered for org and third_party; on
	}{
		{"none", on(""), runs, runs, runs, runs},
		{"a granted host", on("hosts:api.x.org", "api.x.org"), no, runs, runs, runs},
		{"in any letters", on("hosts:API.x.org.", "API.x.org."), no, runs, runs, runs},
		{"below a star", on("hosts:a.b.y.org", "a.b.y.org"), no, runs, runs, runs},
		{"a whole star", on("hosts:*.y.org", "*.y.org"), no, runs, runs, runs},
		{"a narrower star", on("hosts:*.a.y.org", "*.a.y.org"), no, runs, runs, runs},
		{"the star's own name", on("hosts:y.org", "y.org"), no, asks, no, runs},
		{"a tail without a dot", on("hosts:evil-y.org", "evil-y.org"), no, asks, no, runs},
		{"a longer name", on("hosts:api.x.org.evil.com", "api.x.org.evil.com"), no, asks, no, runs},
		{"a wider star", on("hosts:*.org", "*.org"), no, asks, no, runs},
		{"one of two", on("hosts:api.x.org,z.org", "api.x.org", "z.org"), no, asks, no, runs},
		{"any host", on("public"), no, asks, no, runs},
		{"hosts without a policy", on("", "z.org"), no, asks, no, runs},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct {
				rule policy.NetworkRule
				tier policy.Tier
				want verdict
			}{
				{policy.NetworkOff, policy.Org, tt.off}, {"", policy.Org, tt.off}, {policy.NetworkOff, policy.ThirdParty, tt.off},
				{policy.NetworkTiered, policy.Org, tt.org}, {policy.NetworkTiered, policy.Builtin, tt.org}, {policy.NetworkTiered, policy.User, tt.org},
				{policy.NetworkTiered, policy.ThirdParty, tt.third}, {policy.NetworkTiered, "", tt.third},
				{policy.NetworkOn, policy.Org, tt.all}, {policy.NetworkOn, policy.ThirdParty, tt.all},
			} {
				if got := judged(granted(c.rule), script(c.tier, tt.network)); got != c.want {
					t.Errorf("%s %s: %v, want %v", c.rule, c.tier, got, c.want)
				}
			}
		})
	}
}

// An approval binds the tree, the entry, the tier, the level and the network,
// and where asked the arguments: any change asks anew (D3).
//
// req: C-051
func TestScriptApprovalBindsWhatRuns(t *testing.T) {
	t.Parallel()
	g := running(func(g *policy.Grants) {
		g.ScriptRule, g.Hosts = policy.ScriptsBundled, []string{"*.x.org"}
	})
	base := func(change ...func(*policy.Request)) policy.Request {
		return script(policy.ThirdParty, append([]func(*policy.Request){on("hosts:a.x.org", "a.x.org")}, change...)...)
	}
	q := policy.Decide(g, base()).Question
	if q == nil || q.Code != policy.CodeScriptApproval || !slices.Equal(q.Scopes, []string{"once", "session", "always"}) {
		t.Fatalf("%+v", q)
	}
	for _, part := range []string{"pdf:scripts/fill.py", "third_party", "sha256:aa", "L2", "hosts:a.x.org"} {
		if !strings.Contains(q.Text, part) {
			t.Errorf("the question does not say %q: %s", part, q.Text)
		}
	}
	g.Answers = map[string]policy.Answer{q.Binds: {Question: q.ID, Allow: true, Scope: "session", By: "owner"}}
	if d := policy.Decide(g, base()); d.Outcome != policy.Allow || d.Code != policy.CodeAnswered || d.Rule != "approval:session" {
		t.Errorf("%+v", d)
	}
	subject := func(f func(*policy.Subject)) func(*policy.Request) {
		return func(r *policy.Request) { s := *r.Skill; f(&s); r.Skill = &s }
	}
	for name, change := range map[string]func(*policy.Request){
		"tree":    subject(func(s *policy.Subject) { s.Tree = "sha256:ab" }),
		"skill":   subject(func(s *policy.Subject) { s.ID = "other:pdf" }),
		"tier":    subject(func(s *policy.Subject) { s.Tier = policy.User }),
		"entry":   func(r *policy.Request) { r.Entry = "pdf:scripts/other.py" },
		"level":   func(r *policy.Request) { r.Level = "L1" },
		"network": on("hosts:b.x.org", "b.x.org"),
		"more":    on("hosts:a.x.org,b.x.org", "a.x.org", "b.x.org"),
		"none":    on(""),
		"policy":  on("public", "a.x.org"),
		"place":   func(r *policy.Request) { r.Host = true },
	} {
		d := policy.Decide(g, base(change))
		if d.Outcome != policy.Ask || d.Question.Binds == q.Binds {
			t.Errorf("another %s rides on the answer: %+v", name, d)
		}
	}
	onHost := policy.Decide(g, script(policy.ThirdParty, func(r *policy.Request) { r.Host = true })).Question
	if !strings.Contains(onHost.Text, "on this machine itself, outside of any sandbox?") || !strings.Contains(onHost.Text, "\nnetwork: all that this machine has") {
		t.Errorf("the question does not say where it runs: %s", onHost.Text)
	}
	args := func(r *policy.Request) { r.Args = "sha256:bc" }
	if d := policy.Decide(g, base(args)); d.Outcome != policy.Allow {
		t.Errorf("other arguments: %+v", d)
	}
	g.BindArgs = true
	q = policy.Decide(g, base()).Question
	g.Answers[q.Binds] = policy.Answer{Allow: true, Scope: "session"}
	if d := policy.Decide(g, base()); d.Outcome != policy.Allow {
		t.Errorf("%+v", d)
	}
	if d := policy.Decide(g, base(args)); d.Outcome != policy.Ask {
		t.Errorf("other arguments ride on the answer: %+v", d)
	}
	g.Answers[q.Binds] = policy.Answer{Allow: false, Scope: "once", By: "owner"}
	if got := judged(g, base()); got != (verdict{policy.Deny, policy.CodeRefused}) {
		t.Errorf("%v", got)
	}
}

// A script that the operator named is approved in the tree it had, and not at a
// level below the one that was approved.
//
// req: C-051
func TestScriptsApprovedBeforehand(t *testing.T) {
	t.Parallel()
	approved := func(a policy.ApprovedScript) *policy.Grants {
		return running(func(g *policy.Grants) { g.Approved = []policy.ApprovedScript{{}, a} })
	}
	full := policy.ApprovedScript{Entry: "pdf:scripts/fill.py", Tree: "sha256:aa"}
	d := policy.Decide(approved(full), script(policy.ThirdParty))
	if d.Outcome != policy.Allow || d.Code != policy.CodeAnswered || d.Rule != "approval:operator" {
		t.Errorf("%+v", d)
	}
	asks := verdict{policy.Ask, policy.CodeScriptApproval}
	for name, a := range map[string]policy.ApprovedScript{
		"another tree": {Entry: full.Entry, Tree: "sha256:ab"}, "no tree": {Entry: full.Entry}, "another entry": {Entry: "pdf:scripts/x.py", Tree: full.Tree},
		"a star": {Entry: "*", Tree: full.Tree}, "a higher level": {full.Entry, full.Tree, "L3"}, "no level": {full.Entry, full.Tree, "high"},
	} {
		if got := judged(approved(a), script(policy.ThirdParty)); got != asks {
			t.Errorf("%s: %v", name, got)
		}
	}
	for _, level := range []string{"L2", "L1"} {
		if got := judged(approved(policy.ApprovedScript{Entry: full.Entry, Tree: full.Tree, Level: level}), script(policy.ThirdParty)); got.outcome != policy.Allow {
			t.Errorf("approved for %s: %v", level, got)
		}
	}
	// It answers only the question about the script.
	g := approved(full)
	if got := judged(g, script(policy.User, on("hosts:z.org", "z.org"))); got != (verdict{policy.Ask, policy.CodeNetworkAsk}) {
		t.Errorf("a network rides on the approval: %v", got)
	}
	g.Skills = []policy.SkillRule{{Effect: policy.RuleDeny, Skill: "pdf"}}
	if got := judged(g, script(policy.User)); got != (verdict{policy.Deny, policy.CodeSkillDenied}) {
		t.Errorf("an approval lifts a refusal: %v", got)
	}
}

// The operator's rules for bash apply to scripts, which a shell could start as
// well.
//
// req: C-039
func TestDenyOfBashDeniesScripts(t *testing.T) {
	t.Parallel()
	denied := verdict{policy.Deny, policy.CodeRuleDenied}
	for pattern, want := range map[string]verdict{
		"Bash": denied, "bash": {policy.Allow, "cfc_disabled"}, "*": denied, "Bash(*)": denied, "run_skill_script": denied, "run_skill_script(pdf:scripts/*)": denied, "run_skill_script(PDF:scripts/*)": denied,
		"Bash(python3:*)": denied, "Bash(scripts/fill.py:*)": denied, "Bash(fill.py:*)": denied, "Bash(./scripts/*)": denied, "Bash(git:*)": {policy.Allow, "cfc_disabled"},
		"run_skill_script(other:scripts/*)": {policy.Allow, "cfc_disabled"}, "Read": {policy.Allow, "cfc_disabled"},
	} {
		g := running(rule(policy.RuleDeny, pattern))
		if pattern == "bash" { // our own name for the tool means the same
			want = denied
		}
		if got := judged(g, script(policy.Builtin)); got != want {
			t.Errorf("deny %s: %v, want %v", pattern, got, want)
		}
		if got := judged(g, script(policy.Builtin, func(r *policy.Request) { r.Actor = policy.ByOperator })); got != want {
			t.Errorf("deny %s binds the operator: %v", pattern, got)
		}
	}
	for _, allowed := range []string{"run_skill_script", "run_skill_script(pdf:scripts/*)", "Bash(scripts/fill.py:*)"} {
		for _, g := range []*policy.Grants{running(rule(policy.RuleDeny, "Bash"), rule(policy.RuleAllow, allowed)), running(rule(policy.RuleAllow, allowed), rule(policy.RuleDeny, "Bash"))} {
			if got := judged(g, script(policy.Builtin)); got != denied {
				t.Errorf("deny Bash, allow %s: %v", allowed, got)
			}
		}
	}
	if got := judged(running(rule(policy.RuleDeny, "Bash")), call(as("bash", policy.SideEffect), commands("ls"))); got != denied {
		t.Errorf("bash itself: %v", got)
	}
	if got := judged(running(rule(policy.RuleAsk, "Bash")), script(policy.Builtin)); got != (verdict{policy.Ask, policy.CodeScriptApproval}) {
		t.Errorf("an ask rule for bash: %v", got)
	}
}

func TestNamesThatOperatorsWrite(t *testing.T) {
	t.Parallel()
	for s, ok := range map[string]bool{"pdf:scripts/a.py": true, "pdf:scripts/a/b.py": true, "src:pdf:scripts/a.py": true, "pdf": false, "pdf:a.py": false, ":scripts/a": false, "pdf:scripts/": false, "pdf:scripts/../a": false,
		"pdf:scripts//a": false, "pdf:scripts/./a": false, "pdf:scripts/*.py": false, "p*:scripts/a": false, "pdf:scripts/a\\b": false, "pdf:scripts/a\n": false} {
		if err := policy.CheckScript(s); (err == nil) != ok {
			t.Errorf("script %q: %v", s, err)
		}
	}
	for l, ok := range map[string]bool{"L0": true, "L3": true, "L4": false, "2": false, "": false, "l2": false, "L22": false} {
		if err := policy.CheckLevel(l); (err == nil) != ok {
			t.Errorf("level %q: %v", l, err)
		}
	}
}

// A name with a colon counts if the session found that it means only this
// skill, and if the entry splits in one way only.
func TestGrants_ColonInSkillName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file, entry string
		named, want       bool
	}{
		{"ckm:brand", "scripts/a.sh", "ckm:brand:scripts/a.sh", true, true},
		{"ckm:brand", "scripts/a.sh", "ckm:brand:scripts/a.sh", false, false},
		{"ckm:brand", "scripts/b.sh", "ckm:brand:scripts/a.sh", true, false},
		{"ckm:brand", "scripts/a.sh", "brand:scripts/a.sh", true, false},
		{"ckm:brand", "scripts/a.sh", "third_party:x:scripts/a.sh", false, true},
		{"a:b", "run.sh", "a:b:run.sh", true, false},
		{"a:scripts/b", "scripts/c.sh", "a:scripts/b:scripts/c.sh", true, false},
		{"a:b", "scripts/c:scripts/d.sh", "a:b:scripts/c:scripts/d.sh", true, false},
	} {
		sub := policy.Subject{ID: "third_party:x", Name: c.name, Tree: "sha256:aa", Named: c.named}
		r := script(policy.ThirdParty, func(r *policy.Request) {
			r.Skill, r.Active, r.Entry = &sub, []policy.Subject{sub}, c.name+":"+c.file
		})
		g := running(func(g *policy.Grants) { g.Scripts, g.Approval = []string{c.entry}, policy.ApprovalNever })
		if got := policy.Decide(g, r).Code != policy.CodeScriptUnlisted; got != c.want {
			t.Errorf("entry %s for %s of %s (unambiguous: %t): allowed %t, want %t", c.entry, c.file, c.name, c.named, got, c.want)
		}
	}
}

// A skill's allowed-tools restrict what its instructions may use. They say
// nothing about its own scripts, which the operator names.
//
// req: C-044, C-086
func TestDecide_AllowedToolsLeaveTheSkillItsOwnScripts(t *testing.T) {
	t.Parallel()
	pdf := policy.Subject{ID: "src:pdf", Name: "pdf", Tree: "sha256:aa", Tier: policy.User, AllowedTools: []string{"Bash(pdf:*)"}, Declared: true}
	other := policy.Subject{ID: "src:other", Name: "other", AllowedTools: []string{"Read"}, Declared: true}
	for name, tc := range map[string]struct {
		active []policy.Subject
		denied string
	}{
		"its own list":           {[]policy.Subject{pdf}, ""},
		"list of another":        {[]policy.Subject{other, pdf}, policy.CodeNotNarrowed},
		"list of another, alone": {[]policy.Subject{other}, policy.CodeNotNarrowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, how := range []policy.Narrowing{policy.NarrowNarrow, policy.NarrowEnforce, policy.NarrowPreapprove} {
				g := running(func(g *policy.Grants) { g.Narrow, g.Approval = how, policy.ApprovalNever })
				d := policy.Decide(g, script(policy.User, func(r *policy.Request) { r.Skill, r.Active = &pdf, tc.active }))
				if want := tc.denied == ""; d.Allowed() != want || !want && d.Code != tc.denied {
					t.Errorf("%s: %+v", how, d)
				}
			}
		})
	}
}
