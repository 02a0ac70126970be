package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"metier/policy"
)

// open is grants that allow the tools of the tests without questions.
func open() policy.Grants {
	return policy.Grants{Mode: policy.Disabled, Tools: []string{"read_file", "write_file", "bash", "load_skill", "delegate_task"}, Narrow: policy.NarrowNarrow, Merge: policy.MergeIntersection}
}

// call is a read by the model.
func call(change ...func(*policy.Request)) policy.Request {
	r := policy.Request{Call: "c1", Tool: "read_file", Actor: policy.ByModel, Effect: policy.Read}
	for _, c := range change {
		c(&r)
	}
	return r
}

func active(lists ...[]string) func(*policy.Request) {
	return func(r *policy.Request) {
		for i, l := range lists {
			r.Active = append(r.Active, policy.Subject{ID: "s:" + string(rune('a'+i)), Name: string(rune('a' + i)), Tier: policy.User, AllowedTools: l, Declared: l != nil})
		}
	}
}

// activeOf has the skill a of a tier active.
func activeOf(tier policy.Tier) func(*policy.Request) {
	return func(r *policy.Request) { r.Active = []policy.Subject{{ID: "s:a", Name: "a", Tier: tier}} }
}

// told has a skill whose instructions the model only read.
func told(name string) func(*policy.Request) {
	return func(r *policy.Request) { r.Told = []policy.Subject{{ID: "s:" + name, Name: name, Tier: policy.User}} }
}

func paths(p ...policy.PathUse) func(*policy.Request) {
	return func(r *policy.Request) { r.Paths = p }
}

func as(tool string, e policy.Effect) func(*policy.Request) {
	return func(r *policy.Request) { r.Tool, r.Effect = tool, e }
}

func by(a policy.Actor) func(*policy.Request) { return func(r *policy.Request) { r.Actor = a } }

func profile(name string) func(*policy.Request) {
	return func(r *policy.Request) { r.Profile = name }
}

func profiles(names ...string) func(*policy.Grants) {
	return func(g *policy.Grants) { g.Profiles = names }
}

// decision is a request under grants, and its expected decision.
type decision struct {
	name    string
	grants  func(*policy.Grants) // changes those of open
	request policy.Request
	outcome policy.Outcome
	code    string
}

func (tt decision) check(t *testing.T) {
	t.Parallel()
	g := open()
	if tt.grants != nil {
		tt.grants(&g)
	}
	d := policy.Decide(&g, tt.request)
	if d.Outcome != tt.outcome || d.Code != tt.code {
		t.Errorf("%s %s, want %s %s: %+v", d.Outcome, d.Code, tt.outcome, tt.code, d)
	}
	if (d.Question != nil) != (d.Outcome == policy.Ask) || d.Outcome != policy.Allow && d.Reason == "" {
		t.Errorf("%+v", d)
	}
}

// req: C-059
func TestDecide(t *testing.T) {
	t.Parallel()
	denied := func(g *policy.Grants) { g.Denied = []string{"bad", "org:evil"} }
	skill := func(id, name string) func(*policy.Request) {
		return func(r *policy.Request) { r.Skill = &policy.Subject{ID: id, Name: name} }
	}
	zone := func(z policy.Zone, write bool) policy.PathUse {
		return policy.PathUse{Path: "/p", Zone: z, Write: write}
	}
	for _, tt := range []decision{
		{"granted", nil, call(), policy.Allow, "cfc_disabled"},
		{"granted write", nil, call(as("write_file", policy.Write)), policy.Allow, "write_file_disabled"},
		{"no grant", nil, call(as("web", policy.Read)), policy.Deny, policy.CodeToolNotAllowed},
		{"no grants at all", func(g *policy.Grants) { *g = policy.Grants{} }, call(), policy.Deny, policy.CodeToolNotAllowed},
		{"a grant is exact", func(g *policy.Grants) { g.Tools = []string{"read"} }, call(), policy.Deny, policy.CodeToolNotAllowed},
		{"the operator needs no grant", nil, call(as("web", policy.Read), by(policy.ByOperator)), policy.Allow, "cfc_disabled"},
		{"a user does", nil, call(as("web", policy.Read), by(policy.ByUser)), policy.Deny, policy.CodeToolNotAllowed},
		{"bad arguments", nil, call(func(r *policy.Request) { r.Invalid = "invalid_arguments" }), policy.Deny, policy.CodeInvalidCall},
		{"bad arguments of the operator", nil, call(by(policy.ByOperator), func(r *policy.Request) { r.Invalid = "x" }), policy.Deny, policy.CodeInvalidCall},
		{"a grant of a profile is exact", profiles("auth", "author*", "*"), call(profile("author")), policy.Deny, policy.CodeProfileDenied},
		{"no tool", nil, call(as("", policy.Read)), policy.Deny, policy.CodeInvalidCall},
		{"no effect", nil, call(as("read_file", "")), policy.Deny, policy.CodeInvalidCall},
		{"unknown effect", nil, call(as("read_file", "think")), policy.Deny, policy.CodeInvalidCall},
		{"unknown mode", func(g *policy.Grants) { g.Mode = "lax" }, call(), policy.Deny, policy.CodeInvalidCall},
		{"no mode", func(g *policy.Grants) { g.Mode = "" }, call(), policy.Deny, policy.CodeInvalidCall},
		{"unknown narrowing", func(g *policy.Grants) { g.Narrow = "x" }, call(), policy.Deny, policy.CodeInvalidCall},
		{"denied by name", denied, call(skill("any:bad", "bad")), policy.Deny, policy.CodeSkillDenied},
		{"denied by ID", denied, call(skill("org:evil", "good")), policy.Deny, policy.CodeSkillDenied},
		{"deny binds the operator", denied, call(skill("any:bad", "bad"), by(policy.ByOperator)), policy.Deny, policy.CodeSkillDenied},
		{"another skill", denied, call(skill("any:badly", "badly")), policy.Allow, "cfc_disabled"},
		{"in the workspace", nil, call(paths(zone(policy.ZoneWorkspace, true))), policy.Allow, "cfc_disabled"},
		{"reads a skill", nil, call(paths(zone(policy.ZoneSkill, false))), policy.Allow, "cfc_disabled"},
		{"writes into a skill", nil, call(paths(zone(policy.ZoneSkill, true))), policy.Deny, policy.CodePathReadOnly},
		{"reads outside", nil, call(paths(zone(policy.ZoneOutside, false))), policy.Ask, policy.CodePathOutside},
		{"reads outside, confined", func(g *policy.Grants) { g.Confined = true }, call(paths(zone(policy.ZoneOutside, false))), policy.Deny, policy.CodePathOutside},
		{"reads inside, confined", func(g *policy.Grants) { g.Confined = true }, call(paths(zone(policy.ZoneWorkspace, false))), policy.Allow, "cfc_disabled"},
		{"writes outside", nil, call(paths(zone(policy.ZoneOutside, true))), policy.Deny, policy.CodePathOutside},
		{"denied zone", nil, call(paths(zone(policy.ZoneDenied, false))), policy.Deny, policy.CodePathDenied},
		{"protected file", nil, call(paths(policy.PathUse{Zone: policy.ZoneDenied, Write: true, Why: policy.CodePathReadOnly})), policy.Deny, policy.CodePathReadOnly},
		{"unknown zone", nil, call(paths(zone("elsewhere", false))), policy.Deny, policy.CodePathDenied},
		{"one bad path of two", nil, call(paths(zone(policy.ZoneWorkspace, false), zone(policy.ZoneDenied, false))), policy.Deny, policy.CodePathDenied},
		{"listed", nil, call(active([]string{"Read"})), policy.Allow, "cfc_disabled"},
		{"not listed", nil, call(active([]string{"Grep"})), policy.Deny, policy.CodeNotNarrowed},
		{"empty list", nil, call(active([]string{})), policy.Deny, policy.CodeNotNarrowed},
		{"no list", nil, call(active(nil)), policy.Allow, "cfc_disabled"},
		{"skill tools stay", nil, call(as("load_skill", policy.Read), active([]string{})), policy.Allow, "cfc_disabled"},
		{"load_content stays", func(g *policy.Grants) { g.Tools = append(g.Tools, "load_content") }, call(as("load_content", policy.Read), active([]string{})), policy.Allow, "cfc_disabled"},
		{"mcp_prompt stays", func(g *policy.Grants) { g.Tools = append(g.Tools, "mcp_prompt") }, call(as("mcp_prompt", policy.Read), active([]string{})), policy.Allow, "cfc_disabled"},
		{"mcp_resource stays", func(g *policy.Grants) { g.Tools = append(g.Tools, "mcp_resource") }, call(as("mcp_resource", policy.Read), active([]string{})), policy.Allow, "cfc_disabled"},
		{"the operator is not narrowed", nil, call(active([]string{}), by(policy.ByOperator)), policy.Allow, "cfc_disabled"},
		{"ignored", func(g *policy.Grants) { g.Narrow = policy.NarrowIgnore }, call(active([]string{})), policy.Allow, "cfc_disabled"},
		{"advised", func(g *policy.Grants) { g.Narrow = policy.NarrowAdvise }, call(active([]string{})), policy.Warn, policy.CodeNarrowAdvice},
		{"listing does not grant", nil, call(as("web", policy.Read), active([]string{"web", "*"})), policy.Deny, policy.CodeToolNotAllowed},
		{"all of two", nil, call(active([]string{"Read"}, []string{"Grep"})), policy.Deny, policy.CodeNotNarrowed},
		{"one of two", func(g *policy.Grants) { g.Merge = policy.MergeUnion }, call(active([]string{"Grep"}, []string{"Read"})), policy.Allow, "cfc_disabled"},
		{"none of two", func(g *policy.Grants) { g.Merge = policy.MergeUnion }, call(active([]string{"Grep"}, []string{})), policy.Deny, policy.CodeNotNarrowed},
		{"the last of two", func(g *policy.Grants) { g.Merge = policy.MergeLast }, call(active([]string{"Grep"}, []string{"Read"})), policy.Allow, "cfc_disabled"},
		{"not the first of two", func(g *policy.Grants) { g.Merge = policy.MergeLast }, call(active([]string{"Read"}, []string{"Grep"})), policy.Deny, policy.CodeNotNarrowed},
		{"a silent one decides nothing", func(g *policy.Grants) { g.Merge = policy.MergeUnion }, call(active([]string{"Grep"}, nil)), policy.Deny, policy.CodeNotNarrowed},
	} {
		t.Run(tt.name, tt.check)
	}
}

// A subagent starts if its profile and the tool delegate_task are granted,
// whichever tool starts it.
// The reason for a denied write is a sentence, not the code again.
func TestDecide_ReasonOfReadOnlyPath(t *testing.T) {
	t.Parallel()
	for why, want := range map[string]string{policy.CodePathReadOnly: "the path may not be written",
		policy.WhyInSkills: "the workspace or mount is in a skills folder, so it is read-only"} {
		d := policy.Decide(&policy.Grants{Tools: []string{"write_file"}}, policy.Request{Tool: "write_file", Effect: policy.Write,
			Paths: []policy.PathUse{{Path: "/p", Zone: policy.ZoneDenied, Write: true, Why: why}}})
		if diff := cmp.Diff(want, d.Reason); diff != "" || d.Code != policy.CodePathReadOnly {
			t.Errorf("%+v; reason (-want +got):\n%s", d, diff)
		}
	}
}

func TestDecide_SubagentProfiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []decision{
		{"a profile that was granted", profiles("web", "author"), call(profile("author")), policy.Allow, policy.CodeProfile},
		{"a profile that was not", profiles("web"), call(profile("author")), policy.Deny, policy.CodeProfileDenied},
		{"a profile binds the operator", nil, call(profile("author"), by(policy.ByOperator)), policy.Deny, policy.CodeProfileDenied},
		{"a profile without its tool", profiles("author"), call(as("web", policy.Read), profile("author")), policy.Deny, policy.CodeToolNotAllowed},
		{"a profile the mode warns of", func(g *policy.Grants) { g.Profiles, g.Mode = []string{"a"}, policy.Observe }, call(as("bash", policy.SideEffect), profile("a")),
			policy.Warn, "cfc_observe_requires_direct_command"},
		{"a profile the mode denies", func(g *policy.Grants) { g.Profiles, g.Mode = []string{"a"}, policy.EnforceStrict }, call(profile("a")),
			policy.Deny, "cfc_enforce_strict_requires_direct_command"},
		{"a profile that another tool begins", func(g *policy.Grants) { g.Profiles, g.Tools = []string{"a"}, []string{"load_skill"} }, call(as("load_skill", policy.SideEffect), profile("a")),
			policy.Deny, policy.CodeToolNotAllowed},
		{"a profile that another tool begins against a rule", func(g *policy.Grants) {
			g.Profiles, g.Rules = []string{"a"}, []policy.Rule{{Effect: policy.RuleDeny, Pattern: "delegate_task"}}
		}, call(as("load_skill", policy.SideEffect), profile("a")), policy.Deny, policy.CodeRuleDenied},
		{"a profile that another tool begins beyond allowed-tools", profiles("a"), call(as("load_skill", policy.SideEffect), profile("a"), active([]string{"Grep"})), policy.Deny, policy.CodeNotNarrowed},
		{"a profile beyond allowed-tools", profiles("a"), call(profile("a"), active([]string{"Grep"})), policy.Deny, policy.CodeNotNarrowed},
	} {
		t.Run(tt.name, tt.check)
	}
}

// The table mode × effect × evidence, each cell.
//
// req: A-143, C-059
func TestModes(t *testing.T) {
	t.Parallel()
	type cell struct {
		outcome policy.Outcome
		code    string
	}
	const need, have = "requires_direct_command", "direct_command"
	want := map[policy.Mode]map[policy.Effect][2]cell{ // without, with a direct command
		policy.Disabled: {
			policy.Read: {{policy.Allow, "cfc_disabled"}, {policy.Allow, "cfc_disabled"}}, policy.Write: {{policy.Allow, "write_file_disabled"}, {policy.Allow, "write_file_disabled"}},
			policy.SideEffect: {{policy.Allow, "cfc_disabled"}, {policy.Allow, "cfc_disabled"}}},
		policy.Observe: {
			policy.Read: {{policy.Allow, "cfc_observe_read"}, {policy.Allow, "cfc_observe_read"}}, policy.Write: {{policy.Warn, "write_file_observe_" + need}, {policy.Allow, "write_file_observe_" + have}},
			policy.SideEffect: {{policy.Warn, "cfc_observe_" + need}, {policy.Allow, "cfc_observe_" + have}}},
		policy.EnforceExplicit: {
			policy.Read: {{policy.Allow, "cfc_enforce_explicit_read"}, {policy.Allow, "cfc_enforce_explicit_read"}}, policy.Write: {{policy.Deny, "write_file_enforce_explicit_" + need}, {policy.Allow, "write_file_enforce_explicit_" + have}},
			policy.SideEffect: {{policy.Deny, "cfc_enforce_explicit_" + need}, {policy.Allow, "cfc_enforce_explicit_" + have}}},
		policy.EnforceStrict: {
			policy.Read: {{policy.Deny, "cfc_enforce_strict_" + need}, {policy.Allow, "cfc_enforce_strict_" + have}}, policy.Write: {{policy.Deny, "write_file_enforce_strict_" + need}, {policy.Allow, "write_file_enforce_strict_" + have}},
			policy.SideEffect: {{policy.Deny, "cfc_enforce_strict_" + need}, {policy.Allow, "cfc_enforce_strict_" + have}}},
	}
	for mode, effects := range want {
		for effect, cells := range effects {
			for i, slots := range [][]policy.Slot{{{Role: policy.Context}, {Role: policy.Quote}, {}}, {{Role: policy.Context}, {Role: policy.DirectCommand}}} {
				g := open()
				g.Mode = mode
				d := policy.Decide(&g, call(as("bash", effect), func(r *policy.Request) { r.Slots = slots }))
				if got := (cell{d.Outcome, d.Code}); got != cells[i] || d.Rule != "enforcement_mode="+string(mode) {
					t.Errorf("%s %s %d: %+v, want %+v", mode, effect, i, d, cells[i])
				}
				d = policy.Decide(&g, call(as("bash", effect), by(policy.ByOperator))) // is a direct command
				if got := (cell{d.Outcome, d.Code}); got != cells[1] {
					t.Errorf("operator: %s %s: %+v", mode, effect, d)
				}
			}
		}
	}
}

// req: C-059
func TestQuestionsBindWhatTheyCover(t *testing.T) {
	t.Parallel()
	g := open()
	ask := func(tool string, names ...string) policy.Decision {
		var uses []policy.PathUse
		for _, n := range names {
			uses = append(uses, policy.PathUse{Path: n, Zone: policy.ZoneOutside})
		}
		return policy.Decide(&g, call(as(tool, policy.Read), paths(uses...)))
	}
	q := ask("read_file", "/a", "/b").Question
	if q == nil || !slices.Equal(q.Scopes, []string{"once", "session"}) || !strings.Contains(q.Text, "/a, /b") || q.Binds == "" {
		t.Fatalf("%+v", q)
	}
	if d := cmp.Diff(q, ask("read_file", "/b", "/a").Question); d != "" {
		t.Error("the order of paths makes another question:", d)
	}
	for _, other := range []policy.Decision{ask("read_file", "/a"), ask("read_file", "/a", "/b", "/c"), ask("bash", "/a", "/b"), ask("read_file", "/a/b"), ask("read_file", "/a1:", "/b")} {
		if other.Question.Binds == q.Binds {
			t.Errorf("%q binds the same", other.Question.Text)
		}
	}
	for allow, want := range map[bool]policy.Outcome{true: policy.Allow, false: policy.Deny} {
		g.Answers = map[string]policy.Answer{q.Binds: {Question: q.ID, Allow: allow, Scope: "once", By: "owner"}}
		if d := ask("read_file", "/a", "/b"); d.Outcome != want {
			t.Errorf("answered %v: %+v", allow, d)
		}
		if d := ask("read_file", "/a"); d.Outcome != policy.Ask {
			t.Errorf("an answer covered another question: %+v", d)
		}
	}
	g.Mode = policy.Observe // a yes does not hide what else is missing
	g.Answers = map[string]policy.Answer{q.Binds: {Question: q.ID, Allow: true, Scope: "once", By: "owner"}}
	warned := policy.Decide(&g, call(as("read_file", policy.SideEffect), paths(policy.PathUse{Path: "/a", Zone: policy.ZoneOutside}, policy.PathUse{Path: "/b", Zone: policy.ZoneOutside})))
	if warned.Outcome != policy.Warn || warned.Code != "cfc_observe_requires_direct_command" || len(warned.Consents) != 1 {
		t.Errorf("an answer hid the warning: %+v", warned)
	}
	g.Mode = policy.Disabled
	g.Answers = map[string]policy.Answer{q.Binds: {Allow: true}}
	g.Denied = []string{"bad"} // an approval removes a question, never a refusal
	d := policy.Decide(&g, call(paths(policy.PathUse{Path: "/a", Zone: policy.ZoneOutside}, policy.PathUse{Path: "/b", Zone: policy.ZoneOutside}), func(r *policy.Request) { r.Skill = &policy.Subject{Name: "bad"} }))
	if d.Code != policy.CodeSkillDenied {
		t.Errorf("%+v", d)
	}
}

// req: C-059
func TestRelease(t *testing.T) {
	t.Parallel()
	for mode, withheld := range map[policy.Mode]bool{policy.Disabled: false, policy.Observe: false, policy.EnforceExplicit: true, policy.EnforceStrict: true} {
		g := policy.Grants{Mode: mode}
		if d := policy.Release(&g, policy.Label{Role: policy.Context}); d.Allowed() == withheld || withheld && d.Code != policy.CodeUnmediated {
			t.Errorf("%s: %+v", mode, d)
		}
		if d := policy.Release(&g, policy.Label{Role: policy.Context, Mediated: true}); !d.Allowed() || d.Code != policy.CodeReleased {
			t.Errorf("%s, mediated: %+v", mode, d)
		}
	}
}

// req: C-043, C-044, C-086
func TestPatterns(t *testing.T) {
	t.Parallel()
	in := func(names ...string) policy.Request {
		var uses []policy.PathUse
		for _, n := range names {
			uses = append(uses, policy.PathUse{Path: n, Zone: policy.ZoneWorkspace})
		}
		return call(paths(uses...))
	}
	for _, tt := range []struct {
		pattern string
		request policy.Request
		want    bool
	}{
		{"read_file", in("a"), true}, {"Read", in("a"), true}, {"READ", in("a"), true}, {"*", in("a"), true}, {"Write", in("a"), false},
		{"Read(*)", in("a/b"), true}, {"Read(a/*)", in("a/b"), true}, {"Read(a/*)", in("a/b/c"), false}, {"Read(a/**)", in("a/b/c"), true}, {"Read(**/c)", in("a/b/c"), true},
		{"Read(a/*)", in("/workspace/a/b"), true}, {"Read(a/*)", in("a/b", "x"), false}, {"Read(a)", call(), false}, {"Read(", in("a"), false}, {"Read(a", in("a"), false},
		{"", in("a"), false}, {"()", in("a"), false}, {"Read([)", in("["), false}, {" Read ", in("a"), true}, {"Bash(git:*)", call(as("bash", policy.SideEffect)), false},
		{"Read(" + strings.Repeat("**/", 31) + "x)", in(strings.Repeat("a/", 200) + "y"), false}, // bounded
		{"Read(" + strings.Repeat("a", 600) + ")", in(strings.Repeat("a", 600)), false},
	} {
		if got := policy.ParsePattern(tt.pattern).Matches(tt.request); got != tt.want {
			t.Errorf("%q matches %v: %v", tt.pattern, tt.request.Paths, got)
		}
	}
}

// req: C-049, C-062
func TestTiers(t *testing.T) {
	t.Parallel()
	for in, want := range map[policy.Tier]policy.Tier{"": policy.ThirdParty, "root": policy.ThirdParty, policy.Builtin: policy.Builtin, policy.Org: policy.Org, policy.Project: policy.Project, policy.User: policy.User} {
		if got := in.Or(); got != want {
			t.Errorf("%q is %q", in, got)
		}
	}
}

// Whatever active skills declare, it never allows what is not allowed without
// them, and Decide is total: it always returns a decision.
//
// req
func TestSkillsOnlyNarrow(t *testing.T) {
	t.Parallel()
	item := rapid.OneOf(rapid.SampledFrom([]string{"*", "Read", "Write", "Bash(git:*)", "read_file(**)", "", "(", "web"}), rapid.String())
	rapid.Check(t, func(r *rapid.T) {
		g := open()
		g.Mode = rapid.SampledFrom([]policy.Mode{policy.Disabled, policy.Observe, policy.EnforceExplicit, policy.EnforceStrict, "x"}).Draw(r, "mode")
		g.Narrow = rapid.SampledFrom([]policy.Narrowing{policy.NarrowIgnore, policy.NarrowAdvise, policy.NarrowNarrow, policy.NarrowEnforce, policy.NarrowPreapprove, ""}).Draw(r, "narrow")
		g.Merge = rapid.SampledFrom([]policy.Merge{policy.MergeIntersection, policy.MergeUnion, policy.MergeLast, ""}).Draw(r, "merge")
		q := call(as(rapid.SampledFrom([]string{"read_file", "write_file", "bash", "web", ""}).Draw(r, "tool"), rapid.SampledFrom([]policy.Effect{policy.Read, policy.Write, policy.SideEffect, ""}).Draw(r, "effect")),
			by(rapid.SampledFrom([]policy.Actor{policy.ByModel, policy.ByUser, policy.ByOperator}).Draw(r, "actor")))
		if rapid.Bool().Draw(r, "path") {
			q.Paths = []policy.PathUse{{Path: "a", Zone: rapid.SampledFrom([]policy.Zone{policy.ZoneWorkspace, policy.ZoneSkill, policy.ZoneOutside, policy.ZoneDenied}).Draw(r, "zone"), Write: rapid.Bool().Draw(r, "write")}}
		}
		bare := policy.Decide(&g, q)
		active(rapid.SliceOfN(rapid.SliceOfN(item, 0, 3), 0, 3).Draw(r, "lists")...)(&q)
		with := policy.Decide(&g, q)
		rank := map[policy.Outcome]int{policy.Allow: 0, policy.Warn: 1, policy.Ask: 2, policy.Deny: 3}
		for _, d := range []policy.Decision{bare, with} {
			if _, known := rank[d.Outcome]; !known || d.Code == "" {
				r.Fatalf("%+v", d)
			}
		}
		if rank[with.Outcome] < rank[bare.Outcome] {
			r.Fatalf("skills turned %+v into %+v", bare, with)
		}
	})
}

// req: C-062
func TestSourceTypesAreFour(t *testing.T) {
	t.Parallel()
	got := map[policy.Tier]bool{}
	for tier, want := range map[policy.Tier]policy.Tier{policy.Builtin: policy.Builtin, policy.Org: policy.Org, policy.User: policy.User,
		policy.ThirdParty: policy.ThirdParty, policy.Project: policy.User, "": policy.ThirdParty, "root": policy.ThirdParty} {
		if s := tier.SourceType(); s != want {
			t.Errorf("%q: %q, want %q", tier, s, want)
		}
		got[tier.SourceType()] = true
	}
	if len(got) != 4 {
		t.Errorf("%d values: %v", len(got), got)
	}
}
