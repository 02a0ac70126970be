package metier_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/event/eventtest"
	"metier/internal/shell"
	"metier/model"
	"metier/policy"
	"metier/settings"
)

// shellTool stands in for bash in policy decisions: it states its commands and
// runs nothing. hosts are the hosts that a call says it reaches.
func shellTool(acts *atomic.Int64) made {
	return made{name: "bash", effect: policy.SideEffect,
		facts: func(raw json.RawMessage) (metier.Facts, error) {
			var a struct {
				Command string
				Hosts   []string
			}
			if err := json.Unmarshal(raw, &a); err != nil {
				return metier.Facts{}, err
			}
			f, err := shell.Facts(a.Command)
			return metier.Facts{Request: policy.Request{Effect: policy.SideEffect, Commands: f.Commands, Starts: f.Starts, Opaque: f.Opaque, OpaqueWhy: strings.Join(f.Why, ", "), Summary: a.Command, Hosts: a.Hosts}}, err
		},
		act: func(context.Context, *metier.ToolContext) (metier.Result, error) {
			acts.Add(1)
			return mediated("ran"), nil
		}}
}

// governed opens a session with a shell under grants of the test's own.
func governed(t *testing.T, acts *atomic.Int64, change func(*policy.Grants), files map[string]string) *fixture {
	t.Helper()
	w := withTools(t, files, shellTool(acts))
	with := w.config
	w.config = func(c *metier.Config) {
		with(c)
		change(&c.Grants)
	}
	return w.open()
}

// asked makes a call that has to ask, and returns the question.
func (w *fixture) asked(id, name string, a args) policy.Question {
	w.t.Helper()
	_, err := w.try1(id, name, a)
	q, is := errors.AsType[*metier.NeedsApproval](err)
	if !is {
		w.t.Fatalf("%s %v asks nothing: %v", name, a, err)
	}
	return q.Question
}

func (w *fixture) try1(id, name string, a args) (metier.Observation, error) {
	w.t.Helper()
	raw, err := json.Marshal(a)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.Call(w.t.Context(), metier.Call{ID: id, Tool: name, Args: raw})
}

func (w *fixture) answer(id string, q policy.Question, allow bool, scope string) {
	w.t.Helper()
	if err := w.Answer(w.t.Context(), id, policy.Answer{Question: q.ID, Allow: allow, Scope: scope, By: "owner"}); err != nil {
		w.t.Fatal(err)
	}
}

// req: A-187
func TestSkillsAreHiddenAskedForAndLoaded(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for _, name := range []string{"internal-keys", "internal-docs", "deploy-prod", "notes"} {
		files["skills/"+name+"/SKILL.md"] = skillFile(name, "Canary of "+name+".\n")
	}
	w := governed(t, new(atomic.Int64), func(g *policy.Grants) {
		g.Skills = []policy.SkillRule{{Effect: policy.RuleDeny, Skill: "internal-*"}, {Effect: policy.RuleAllow, Skill: "internal-docs"}, {Effect: policy.RuleAsk, Skill: "deploy-*"},
			{Effect: policy.RuleDeny, Skill: "notes*"}, {Effect: policy.RuleAllow, Skill: "notes"}} // a name wins over a pattern
	}, files)
	var listed []string
	for _, e := range w.Catalog(t.Context()).Entries {
		listed = append(listed, e.Name)
	}
	if want := []string{"deploy-prod", "internal-docs", "notes"}; !slices.Equal(listed, want) {
		t.Errorf("listed: %q, want %q", listed, want)
	}
	if o := w.works("search_skills", args{"query": "internal keys deploy notes"}); strings.Contains(o.Text(), "internal-keys") || !strings.Contains(o.Text(), "deploy-prod") {
		t.Error(o.Text())
	}
	if e := w.Snapshot().Explain(w.Snapshot().Entries("internal-keys")[0], w.Catalog(t.Context()), nil); e.ShownRule != "denied" || e.Shown {
		t.Errorf("%+v", e)
	}
	w.fails(policy.CodeSkillDenied, "load_skill", args{"name": "internal-keys"})
	w.fails(policy.CodeSkillDenied, "read_file", args{"path": "/skills/internal-keys/SKILL.md"})
	if _, err := w.Activate(t.Context(), "internal-keys", "cli-preload"); err == nil {
		t.Error("the operator's own deny does not bind the operator")
	}
	if o := w.model("search_files", args{"pattern": "Canary"}); strings.Contains(o.Text(), "internal-keys") || strings.Contains(o.Text(), "deploy-prod") {
		t.Error("a search shows files of a skill that is denied or asked for:", o.Text())
	}
	w.works("load_skill", args{"name": "internal-docs"})
	w.works("load_skill", args{"name": "notes"})

	q := w.asked("a", "load_skill", args{"name": "deploy-prod"})
	if !strings.Contains(q.Text, "deploy-prod") || q.Code != policy.CodeSkillAsk {
		t.Errorf("%+v", q)
	}
	for id, c := range map[string]struct {
		tool string
		args args
	}{"b": {"read_skill_resource", args{"skill": "deploy-prod", "path": "SKILL.md"}}, "c": {"read_file", args{"path": "/skills/deploy-prod/SKILL.md"}}} {
		if q := w.asked(id, c.tool, c.args); q.Code != policy.CodeSkillAsk {
			t.Errorf("%s: %+v", c.tool, q)
		}
	}
	if said := w.said(); strings.Contains(said, "Canary of deploy") || strings.Contains(said, "Canary of internal-keys") || !strings.Contains(said, "Canary of notes") {
		t.Errorf("the models were shown: %s", said)
	}
	w.answer("a", q, false, "once")
	if o, err := w.try1("a", "load_skill", args{"name": "deploy-prod"}); err != nil || o.Code() != policy.CodeRefused {
		t.Errorf("%v %q", err, o.Text())
	}
	q = w.asked("d", "load_skill", args{"name": "deploy-prod"})
	w.answer("d", q, true, "once")
	if o, err := w.try1("d", "load_skill", args{"name": "deploy-prod"}); err != nil || o.Code() != "" || !strings.Contains(w.said(), "Canary of deploy-prod") {
		t.Errorf("%v %q", err, o.Text())
	}
	w.works("read_skill_resource", args{"skill": "deploy-prod", "path": "SKILL.md"}) // active: asked and answered
}

// An answer about loading a skill covers the files that its question is about, and no others.
func TestAskedSkill_DeliversOnlyIndexedFiles(t *testing.T) {
	t.Parallel()
	old, now := skillFile("deploy", "Honest.\n"), skillFile("deploy", "Swapped.\n")
	for name, c := range map[string]struct {
		tool, file string
		args       args
	}{
		"load":      {"load_skill", "SKILL.md", args{"name": "deploy"}},
		"read":      {"read_skill_resource", "references/a.md", args{"skill": "deploy", "path": "references/a.md"}},
		"read file": {"read_file", "references/a.md", args{"path": "/skills/deploy/references/a.md"}},
		"read part": {"read_file", "SKILL.md", args{"path": "/skills/deploy/SKILL.md", "limit": 1}},
		"late file": {"read_skill_resource", "references/late.md", args{"skill": "deploy", "path": "references/late.md"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := governed(t, new(atomic.Int64), func(g *policy.Grants) {
				g.Skills = []policy.SkillRule{{Effect: policy.RuleAsk, Skill: "deploy"}}
			}, map[string]string{"skills/deploy/SKILL.md": old, "skills/deploy/references/a.md": "Honest.\n"})
			q := w.asked("a", c.tool, c.args)
			w.put("skills/deploy/"+c.file, now)
			w.answer("a", q, true, "once")
			if o, err := w.try1("a", c.tool, c.args); err != nil || o.Code() != "skill_drifted" || strings.Contains(o.Text(), "Swapped") {
				t.Errorf("%v %q", err, o.Text())
			}
			if len(w.State().Active) > 0 {
				t.Error("the skill is active")
			}
		})
	}
}

// While a skill is active, an answer covers the files that its question named. Other files lead to a new
// question if a new search found them, and are not delivered otherwise.
func TestAskedSkill_AsksForAnotherVersion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool, file string
		args       args
	}{
		"load":        {"load_skill", "SKILL.md", args{"name": "deploy"}},
		"load a file": {"load_skill", "references/a.md", args{"name": "deploy"}},
		"read":        {"read_skill_resource", "references/a.md", args{"skill": "deploy", "path": "references/a.md"}},
		"other file":  {"read_skill_resource", "references/a.md", args{"skill": "deploy", "path": "SKILL.md"}},
		"read file":   {"read_file", "references/a.md", args{"path": "/skills/deploy/references/a.md"}},
		"read part":   {"read_file", "SKILL.md", args{"path": "/skills/deploy/SKILL.md", "limit": 1}},
		"search":      {"search_files", "references/a.md", args{"path": "/skills/deploy", "pattern": "Swapped"}},
	} {
		for _, drift := range []settings.Drift{settings.DriftFail, settings.DriftWarn, settings.DriftReload, settings.DriftIgnore} {
			t.Run(name+", "+string(drift), func(t *testing.T) {
				t.Parallel()
				w := governed(t, new(atomic.Int64), func(g *policy.Grants) {
					g.Skills = []policy.SkillRule{{Effect: policy.RuleAsk, Skill: "deploy"}}
				}, map[string]string{"skills/deploy/SKILL.md": skillFile("deploy", "Honest.\n"), "skills/deploy/references/a.md": "Honest.\n"})
				w.set.Activate.DriftBatch = drift
				with := w.config
				w.config = func(cfg *metier.Config) {
					with(cfg)
					cfg.Refresh = func(context.Context) (*metier.Snapshot, error) { return w.snapshot(), nil }
				}
				w.open()
				q := w.asked("a", "load_skill", args{"name": "deploy"})
				w.answer("a", q, true, "session")
				if o, err := w.try1("a", "load_skill", args{"name": "deploy"}); err != nil || o.Code() != "" {
					t.Fatalf("%v %q", err, o.Text())
				}
				w.works("load_skill", args{"name": "deploy"}) // the same files: no question
				w.works(c.tool, c.args)

				w.put("skills/deploy/"+c.file, skillFile("deploy", "Swapped.\n"))
				if o := w.model(c.tool, c.args); strings.Contains(o.Text(), "Swapped.") {
					t.Errorf("before a new search: %q", o.Text())
				}
				if err := w.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
				later := w.asked("b", c.tool, c.args)
				if later.Code != policy.CodeSkillAsk || later.Binds == q.Binds {
					t.Errorf("%+v", later)
				}
				w.answer("b", later, true, "session")
				if o, err := w.try1("b", c.tool, c.args); err != nil || o.Code() != "" {
					t.Errorf("approved: %v %q", err, o.Text())
				}
				w.works("load_skill", args{"name": "deploy"})
				w.works(c.tool, c.args)
				if a := w.State().Active; len(a) != 1 || a[0].Tree != later.Tree {
					t.Errorf("active: %+v, want the tree %s", a, later.Tree)
				}
			})
		}
	}
}

// req
func TestAllowedToolsNarrowOrAdvise(t *testing.T) {
	t.Parallel()
	files := map[string]string{"skills/reader/SKILL.md": skillFile("reader", "Read.\n", "allowed-tools: Read web_search Bash(git:*)\n"), "a.txt": "a\n"}
	for narrow, want := range map[policy.Narrowing]struct {
		code string
		out  policy.Outcome
		acts int64
	}{
		policy.NarrowNarrow: {policy.CodeNotNarrowed, policy.Deny, 0}, policy.NarrowEnforce: {policy.CodeNotNarrowed, policy.Deny, 0},
		policy.NarrowAdvise: {policy.CodeNarrowAdvice, policy.Warn, 1}, policy.NarrowIgnore: {"cfc_disabled", policy.Allow, 1},
	} {
		t.Run(string(narrow), func(t *testing.T) {
			t.Parallel()
			var acts, searches atomic.Int64
			search := made{name: "web_search", effect: policy.Read, act: func(context.Context, *metier.ToolContext) (metier.Result, error) {
				searches.Add(1)
				return mediated("found"), nil
			}}
			w := withTools(t, files, shellTool(&acts))
			with := w.config
			w.config = func(c *metier.Config) {
				with(c)
				c.Tools = append(c.Tools, search) // available, but not granted
				c.Grants.Narrow, c.Grants.Mode = narrow, policy.Disabled
			}
			w.open()
			w.works("bash", args{"command": "make all"}) // no skill is active
			w.works("load_skill", args{"name": "reader"})
			w.works("read_file", args{"path": "a.txt"})
			w.works("bash", args{"command": "git status"}) // listed
			if acts.Swap(0) != 2 {
				t.Error("what the skill lists, or what ran before it, did not act")
			}
			o := w.model("bash", args{"command": "make all"})
			d := last[event.PolicyDecided](w)
			if d.Code != want.code || d.Outcome != want.out || acts.Load() != want.acts || (o.Code() == "") != (want.acts == 1) {
				t.Errorf("%+v, acted %d times: %s", d, acts.Load(), o.Text())
			}
			by, err := w.Call(t.Context(), metier.Call{ID: "person", Tool: "bash", Args: json.RawMessage(`{"command":"make all"}`), Actor: policy.ByUser, By: "ada"}) // a person's call is no different
			if d := last[event.PolicyDecided](w); err != nil || d.Code != want.code || d.Outcome != want.out || by.Code() != o.Code() || acts.Load() != 2*want.acts {
				t.Errorf("a person's call: %+v, acted %d times, %v", d, acts.Load(), err)
			}
			w.works(resourceCall, args{"skill": "reader", "path": "SKILL.md"}) // no list removes the tools for skills
			w.fails(policy.CodeToolNotAllowed, "web_search", args{})           // the skill names it, the operator does not
			if searches.Load() != 0 {
				t.Error("a skill granted a tool")
			}
		})
	}
}

// req: C-043, C-044, C-086
func TestAllowedToolsPreapproveAndEnforce(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, acts *atomic.Int64, change func(*policy.Grants)) *fixture {
		w := governed(t, acts, func(g *policy.Grants) {
			g.Narrow, g.Mode = policy.NarrowPreapprove, policy.Disabled
			g.Rules = []policy.Rule{{Effect: policy.RuleAsk, Pattern: "Bash"}}
			change(g)
		}, map[string]string{"skills/committer/SKILL.md": skillFile("committer", "Commit.\n", "allowed-tools: Bash(git:*)\n")})
		return w
	}
	t.Run("asked without the skill", func(t *testing.T) {
		t.Parallel()
		var acts atomic.Int64
		w := open(t, &acts, func(*policy.Grants) {})
		w.asked("a", "bash", args{"command": "git status"})
		w.works("load_skill", args{"name": "committer"})
		for _, command := range []string{"git status", "git reset --hard", "git log | git shortlog", "git"} {
			if o := w.model("bash", args{"command": command}); o.Code() != "" { // model fails if a question comes
				t.Errorf("%q: %s", command, o.Text())
			}
		}
		if acts.Load() != 4 || len(events[event.ApprovalRequested](w)) != 1 {
			t.Errorf("acted %d times, asked %d times", acts.Load(), len(events[event.ApprovalRequested](w)))
		}
		for _, command := range []string{"ls", "git status; rm -rf /", "git status > f", "G=1 git status", "git $(ls)", "env git status", "gitk status", "sh -c 'git status; ls'", "git status && ls", "ls | git status"} {
			o := w.fails(policy.CodeNotNarrowed, "bash", args{"command": command})
			if !strings.Contains(o.Text(), `"committer"`) {
				t.Errorf("the refusal does not name the skill: %s", o.Text())
			}
		}
		if acts.Load() != 4 {
			t.Error("a refused call acted")
		}
		if o := w.fails(policy.CodeNotNarrowed, "read_file", args{"path": "a.txt"}); !strings.Contains(o.Text(), `"committer"`) {
			t.Errorf("the refusal does not name the skill: %s", o.Text())
		}
	})
	for name, change := range map[string]func(*policy.Grants){
		"where the setting does not say so": func(g *policy.Grants) { g.Narrow = policy.NarrowEnforce },
		"where the operator singled it out": func(g *policy.Grants) {
			g.Rules = append(g.Rules, policy.Rule{Effect: policy.RuleAsk, Pattern: "Bash(git status)"})
		},
		"where the operator does not allow it": func(g *policy.Grants) { g.Rules = []policy.Rule{{Effect: policy.RuleDeny, Pattern: "Bash"}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var acts atomic.Int64
			w := open(t, &acts, change)
			w.works("load_skill", args{"name": "committer"})
			o, err := w.ask("bash", args{"command": "git status"})
			if _, asks := errors.AsType[*metier.NeedsApproval](err); !asks && o.Code() != policy.CodeRuleDenied || acts.Load() != 0 {
				t.Errorf("%v %q, acted %d times", err, o.Text(), acts.Load())
			}
		})
	}
	t.Run("an empty list leaves nothing", func(t *testing.T) {
		t.Parallel()
		var acts atomic.Int64
		w := governed(t, &acts, func(g *policy.Grants) { g.Narrow, g.Mode = policy.NarrowNarrow, policy.Disabled },
			map[string]string{"skills/committer/SKILL.md": skillFile("committer", "Commit.\n", "allowed-tools: []\n")})
		w.works("load_skill", args{"name": "committer"})
		for tool, a := range map[string]args{"bash": {"command": "git status"}, "read_file": {"path": "a.txt"}} {
			if o := w.fails(policy.CodeNotNarrowed, tool, a); !strings.Contains(o.Text(), `"committer"`) || acts.Load() != 0 {
				t.Errorf("%s: %s, acted %d times", tool, o.Text(), acts.Load())
			}
		}
	})
	t.Run("a third party approves nothing of its own", func(t *testing.T) {
		t.Parallel()
		var acts atomic.Int64
		w := withTools(t, map[string]string{"found/committer/SKILL.md": skillFile("committer", "Commit.\n", "allowed-tools: Bash(git:*)\n")}, shellTool(&acts))
		w.roots = []metier.Mount{w.mount("found", policy.ThirdParty)}
		with := w.config
		w.config = func(c *metier.Config) {
			with(c)
			c.Grants.Narrow, c.Grants.Rules = policy.NarrowPreapprove, []policy.Rule{{Effect: policy.RuleAsk, Pattern: "Bash"}}
		}
		w.open()
		w.works("load_skill", args{"name": "committer"})
		w.asked("a", "bash", args{"command": "git status"})
	})
}

// Destructive actions, and actions that reach hosts without a grant, wait for approval. The answer
// is in the log before the action. A rejection stops it.
//
// req: C-041
func TestDestructiveAndExternalActsWait(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]args{"destructive": {"command": "ls && rm -rf build"}, "destructive by its path": {"command": "/bin/rm -rf build"}, "external": {"command": "make deploy", "hosts": []string{"prod.example.org"}},
		"external, of two hosts": {"command": "make deploy", "hosts": []string{"a.example.com", "prod.example.org", "test.example.org"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var acts atomic.Int64
			w := governed(t, &acts, func(g *policy.Grants) { g.Network, g.Hosts = policy.NetworkTiered, []string{"*.example.com"} }, nil)
			q := w.asked("no", "bash", a)
			w.answer("no", q, false, "once")
			if o, err := w.try1("no", "bash", a); err != nil || o.Code() != policy.CodeRefused || acts.Load() != 0 {
				t.Errorf("%v %q, acted %d times", err, o.Text(), acts.Load())
			}
			q = w.asked("yes", "bash", a)
			if len(events[event.ToolCallStarted](w)) != 0 {
				t.Error("started before the answer")
			}
			w.answer("yes", q, true, "once")
			if o, err := w.try1("yes", "bash", a); err != nil || o.Code() != "" || acts.Load() != 1 {
				t.Errorf("%v %q, acted %d times", err, o.Text(), acts.Load())
			}
			var order []string
			for _, e := range events[event.Event](w) {
				switch e := e.(type) {
				case event.ApprovalAnswered:
					if e.Call == "yes" && e.Allow {
						order = append(order, "answered")
					}
				case event.ToolCallStarted:
					order = append(order, "started "+e.ID)
				}
			}
			if !slices.Equal(order, []string{"answered", "started yes"}) {
				t.Errorf("%q", order)
			}
			for _, quiet := range []args{{"command": "ls"}, {"command": "make deploy", "hosts": []string{"a.example.com"}}} {
				w.works("bash", quiet)
			}
		})
	}
}

// A direct command allows the actions of the turn it starts, and of no later turn.
// req: A-094
func TestDecide_DirectCommandHoldsForItsTurn(t *testing.T) {
	t.Parallel()
	var acts atomic.Int64
	w := governed(t, &acts, func(g *policy.Grants) { g.Mode = policy.EnforceExplicit }, nil)
	say := func(r policy.Role) {
		if _, err := w.Send(t.Context(), metier.Input{Parts: []model.Part{model.Text("go")}, Role: r, Surface: "cli", By: "u"}); err != nil {
			t.Fatal(err)
		}
	}
	say(policy.DirectCommand)
	w.works("bash", args{"command": "ls"})
	say(policy.Context)
	w.fails("cfc_enforce_explicit_requires_direct_command", "bash", args{"command": "ls"})
	say("") // a program that names no role gives no command
	w.fails("cfc_enforce_explicit_requires_direct_command", "bash", args{"command": "ls"})
	if got := acts.Load(); got != 1 {
		t.Errorf("it acted %d times, want 1", got)
	}
}

// A rejection by the user is recorded as a result, like a refusal by a rule.
// req
func TestAnswer_NoRecordsResult(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"once", "session"} {
		w := governed(t, new(atomic.Int64), func(g *policy.Grants) {}, nil)
		q := w.asked("c1", "bash", args{"command": "rm -r x"})
		w.asked("c2", "bash", args{"command": "rm -r x"})
		w.answer("c1", q, false, scope)
		want := []string{"c1"}
		if scope == "session" {
			want = append(want, "c2")
		}
		var got []string
		for _, e := range eventtest.All[event.ToolResult](t, w.log) {
			if e.Tool != "bash" || e.Code != policy.CodeRefused || e.Content.Digest == "" {
				t.Errorf("%s: %+v", scope, e)
			}
			got = append(got, e.ID)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", scope, d)
		}
		o, err := w.try1("c1", "bash", args{"command": "rm -r x"})
		if err != nil || o.Code() != policy.CodeRefused {
			t.Errorf("%s: %v, %v", scope, o, err)
		}
	}
}
