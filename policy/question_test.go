package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/policy"
)

// An answer about a call covers the paths and the skill that its arguments led to, and the rules that
// asked.
func TestRuleQuestion_BindsWhatArgumentsLeadTo(t *testing.T) {
	t.Parallel()
	rules := func(patterns ...string) *policy.Grants {
		g := &policy.Grants{Mode: policy.Disabled, Narrow: policy.NarrowIgnore, Merge: policy.MergeUnion, Tools: []string{"read_file", "load_skill"}}
		for _, p := range patterns {
			g.Rules = append(g.Rules, policy.Rule{Effect: policy.RuleAsk, Pattern: p})
		}
		return g
	}
	at := func(paths ...string) policy.Request {
		r := call()
		for _, p := range paths {
			r.Paths = append(r.Paths, policy.PathUse{Path: p, Names: []string{"/workspace/docs/l"}, Zone: policy.ZoneWorkspace})
		}
		return r
	}
	load := func(id string) policy.Request {
		return call(as("load_skill", policy.Read), func(r *policy.Request) { r.Skill = &policy.Subject{ID: id, Name: "a"} })
	}
	docs := rules("Read(docs/**)")
	for name, c := range map[string]struct {
		g, other *policy.Grants
		a, b     policy.Request
		same     bool
	}{
		"same call":              {docs, docs, at("/workspace/docs/a"), at("/workspace/docs/a"), true},
		"paths in other order":   {docs, docs, at("/workspace/docs/a", "/workspace/docs/b"), at("/workspace/docs/b", "/workspace/docs/a"), true},
		"other target":           {docs, docs, at("/workspace/docs/a"), at("/workspace/docs/b"), false},
		"more targets":           {docs, docs, at("/workspace/docs/a"), at("/workspace/docs/a", "/workspace/docs/b"), false},
		"rule for the target":    {rules("Read(docs/**)", "Read(x/**)"), rules("Read(docs/**)", "Read(docs/l)"), at("/workspace/docs/a"), at("/workspace/docs/a"), false},
		"rule that is elsewhere": {docs, rules("Read(docs/**)", "Read(x/**)"), at("/workspace/docs/a"), at("/workspace/docs/a"), true},
		"same skill":             {rules("load_skill"), rules("load_skill"), load("s:a"), load("s:a"), true},
		"other skill":            {rules("load_skill"), rules("load_skill"), load("s:a"), load("t:a"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := policy.Decide(c.g, c.a), policy.Decide(c.other, c.b)
			if a.Code != policy.CodeRuleAsk || b.Code != policy.CodeRuleAsk {
				t.Fatalf("%+v, %+v", a, b)
			}
			if diff := cmp.Diff(c.same, a.Question.Binds == b.Question.Binds); diff != "" {
				t.Errorf("same answer (-want +got):\n%s", diff)
			}
		})
	}
	q := policy.Decide(rules("Read(docs/**)", "Read(secrets/**)"), at("/workspace/secrets/a")).Question
	for _, want := range []string{"\npath: /workspace/secrets/a", "\nrule: ask: Read(docs/**)", "\nrule: ask: Read(secrets/**)"} {
		if !strings.Contains(q.Text, want) {
			t.Errorf("%q is not in %q", want, q.Text)
		}
	}
}

// If an ask rule matches a call that may destroy data, one question states both. Its answer counts
// for nothing that it does not state.
func TestRuleQuestion_StatesDestruction(t *testing.T) {
	t.Parallel()
	decide := func(g policy.Grants, r policy.Request) *policy.Question { return policy.Decide(&g, r).Question }
	alone, asking, allowed := open(), open(), open()
	rule(policy.RuleAsk, "Bash(make:*)")(&asking)
	rule(policy.RuleAsk, "Bash(make:*)")(&allowed)
	rule(policy.RuleAllow, "Bash(make:*)")(&allowed)
	rule(policy.RuleAllow, "Bash(rm:*)")(&allowed)

	q := decide(asking, bash("make report; rm -rf data"))
	if q.Code != policy.CodeRuleAsk || !strings.Contains(q.Text, "It may destroy data (rm)") || !strings.Contains(q.Text, "\ndestructive: rm") {
		t.Errorf("%+v", q)
	}
	if d := decide(alone, bash("make report; rm -rf data")); d.Code != policy.CodeDestructive || d.Binds == q.Binds {
		t.Errorf("%+v", d)
	}
	for name, r := range map[string]policy.Request{"plain": bash("make report"), "allowed": bash("make report; rm -rf data")} {
		if plain := decide(allowed, r); plain.Code != policy.CodeRuleAsk || strings.Contains(plain.Text, "destr") || plain.Binds == q.Binds {
			t.Errorf("%s: %+v", name, plain)
		}
	}
	asking.Answers = map[string]policy.Answer{q.Binds: {Question: q.ID, Allow: true, Scope: "once", By: "owner"}}
	if d := policy.Decide(&asking, bash("make report; rm -rf data")); d.Outcome != policy.Allow {
		t.Errorf("a second question: %+v", d)
	}
	if d := policy.DecideStart(&asking, bash("make report"), policy.Started{Lines: [][]string{{"rm", "x"}}, Direct: true}); d.Code != policy.CodeDestructive {
		t.Errorf("a program that the question did not state: %+v", d)
	}
}

// An answer about programs while a server's skill is active covers the isolation that it was given
// for and, for a script, the script with its files. It covers every command, and says so.
func TestServedQuestion_BindsScriptAndIsolation(t *testing.T) {
	t.Parallel()
	far := policy.Subject{ID: "mcp:far:skill/deploy", Name: "mcp:far:deploy", Digest: "sha256:d", Tree: "sha256:t", Declared: true}
	other := policy.Subject{ID: "mcp:far:skill/other", Name: "mcp:far:other", Digest: "sha256:o", Tree: "sha256:o", Declared: true}
	near := policy.Subject{ID: "user:tool", Name: "tool", Tier: policy.User, Tree: "sha256:n"}
	g := open()
	g.Narrow, g.Tools = policy.NarrowIgnore, []string{"bash", "run_skill_script"}
	g.ScriptRule, g.Approval, g.Network = "any_bundled", "never", policy.NetworkOn
	with := func(r policy.Request, change func(*policy.Request)) policy.Request {
		change(&r)
		return r
	}
	command := call(as("bash", policy.SideEffect), commands("ls"), func(r *policy.Request) {
		r.Level, r.Args, r.Active = "L2", "sha256:a", []policy.Subject{far, other}
	})
	script := call(as("run_skill_script", policy.SideEffect), func(r *policy.Request) {
		r.Level, r.Args, r.Active, r.Skill, r.Entry, r.Runtime = "L2", "sha256:a", []policy.Subject{far, near}, &near, "tool:scripts/a.sh", "bash"
	})
	for name, c := range map[string]struct {
		a, b policy.Request
		same bool
	}{
		"another command":  {command, with(command, func(r *policy.Request) { commands("pwd")(r); r.Args = "sha256:b" }), true},
		"another order":    {command, with(command, func(r *policy.Request) { r.Active = []policy.Subject{other, far} }), true},
		"another level":    {command, with(command, func(r *policy.Request) { r.Level = "L0" }), false},
		"on the host":      {command, with(command, func(r *policy.Request) { r.Host = true }), false},
		"a network":        {command, with(command, func(r *policy.Request) { r.Network, r.Hosts = "example.org", []string{"example.org"} }), false},
		"other arguments":  {script, with(script, func(r *policy.Request) { r.Args = "sha256:b" }), true},
		"another script":   {script, with(script, func(r *policy.Request) { r.Entry = "tool:scripts/b.sh" }), false},
		"a changed script": {script, with(script, func(r *policy.Request) { s := near; s.Tree = "sha256:m"; r.Skill = &s }), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := policy.Decide(&g, c.a), policy.Decide(&g, c.b)
			if a.Code != policy.CodeServedAsk || b.Code != policy.CodeServedAsk {
				t.Fatalf("%+v, %+v", a, b)
			}
			if diff := cmp.Diff(c.same, a.Question.Binds == b.Question.Binds); diff != "" {
				t.Errorf("same answer (-want +got):\n%s", diff)
			}
		})
	}
	q := policy.Decide(&g, command).Question
	for _, want := range []string{"\nsandbox: L2", "\nnetwork: none", "\ntree: sha256:t", "\narguments: any"} {
		if !strings.Contains(q.Text, want) {
			t.Errorf("%q is not in %q", want, q.Text)
		}
	}
}

// A rule with an argument asks about a listed call in any case, also if the argument is any path.
func TestRuleQuestion_AnyPathIsAnArgument(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{"Write": "write_file_disabled", "Write(**)": policy.CodeRuleAsk} {
		g := open()
		g.Narrow = policy.NarrowPreapprove
		rule(policy.RuleAsk, pattern)(&g)
		r := call(as("write_file", policy.Write), paths(policy.PathUse{Path: "/workspace/a", Zone: policy.ZoneWorkspace, Write: true}))
		r.Active = []policy.Subject{{ID: "s:a", Name: "a", Tier: policy.Project, AllowedTools: []string{"Write"}, Declared: true}}
		if diff := cmp.Diff(want, policy.Decide(&g, r).Code); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pattern, diff)
		}
	}
}

// Rules that restrict the tools for skills also restrict the prompts and resources of clients.
func TestRules_CoverPromptsAndResources(t *testing.T) {
	t.Parallel()
	for tool, names := range map[string][2]string{"mcp_prompt": {"load_skill", "read_skill_resource"}, "mcp_resource": {"read_skill_resource", "load_skill"}} {
		for i, pattern := range names {
			for effect, code := range map[policy.RuleEffect]string{policy.RuleDeny: policy.CodeRuleDenied, policy.RuleAsk: policy.CodeRuleAsk} {
				g := open()
				g.Tools = []string{tool}
				rule(effect, pattern)(&g)
				if got := policy.Decide(&g, call(as(tool, policy.Read), by(policy.ByUser))).Code == code; got != (i == 0) {
					t.Errorf("%s, %s: %s: %t", tool, effect, pattern, got)
				}
			}
		}
	}
}
