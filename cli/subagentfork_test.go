package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/model/modeltest"
	"metier/run"
)

func loadCall(name string) modeltest.Call {
	return modeltest.Call{Tool: "load_skill", Args: `{"name":"` + name + `"}`}
}

// A skill with "context: fork" runs as a subagent. Its agent field selects a profile only if the
// operator allowed that profile and it accepts the skill. Its start is a decision with that profile.
//
// req: A-168
func TestASkillThatForksRunsAsASubagent(t *testing.T) {
	t.Parallel()
	const solo = "---\nname: solo\ndescription: Does it alone. Use when it is to be done alone.\ncontext: fork\nagent: painter\n---\nThe instructions of solo: SOLO-MARK-5c6d7e8f.\n"
	for name, c := range map[string]struct {
		allowed, takes string
		profile        string // of the subagent; "" for none
	}{
		"its profile is allowed":         {"[default, painter]", "[solo]", "painter"},
		"its profile is not allowed":     {"[default]", "[solo]", "default"},
		"its profile does not take it":   {"[default, painter]", "[other]", "default"},
		"only a profile that does not":   {"[painter]", "[other]", ""},
		"no subagent may begin":          {"[]", "[solo]", ""},
		"its profile is the only one":    {"[painter]", "[so*]", "painter"},
		"its profile takes it by a star": {"[default, painter]", `["*"]`, "painter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKin(t, map[string]string{"skills/solo/SKILL.md": solo, "skills/solo/references/a.md": "a text\n",
				"subs/painter.yaml": "name: painter\ndescription: Paints.\nallow_skills: " + c.takes + "\ntools: [inherit]\ninstructions: You paint.\n",
				"config.yaml":       "skills: [{path: skills, tier: user}]\nsubagents: {profiles: [subs], allow: " + c.allowed + "}\nallow_tools: [default]\n"})
			var last string
			k.parent = func(turn int, r *modeltest.Request) modeltest.Turn {
				if turn == 0 {
					return turnOf(loadCall("solo"))
				}
				last = prompt(r)
				return modeltest.Turn{Text: strings.Join(r.LastResults(), "")}
			}
			asked := ""
			k.child = func(_ string, turn int, r *modeltest.Request) modeltest.Turn {
				if turn == 0 { // its own load returns the instructions; it does not fork again
					asked = prompt(r)
					return turnOf(loadCall("solo"))
				}
				return modeltest.Turn{Text: "Done alone."}
			}
			k.run()
			acts := k.activations(k.folder())
			if c.profile == "" {
				if !slices.Equal(acts, []string{"solo model-tool"}) || asked != "" || !strings.Contains(last, "SOLO-MARK-5c6d7e8f") {
					t.Errorf("activations %q, asked %v", acts, asked != "")
				}
				return
			}
			if acts != nil || strings.Contains(last, "SOLO-MARK-5c6d7e8f") || !strings.Contains(asked, "SOLO-MARK-5c6d7e8f") || strings.Contains(asked, "You paint.") != (c.profile == "painter") {
				t.Errorf("activations of the parent: %q", acts)
			}
			if out := k.out.String(); !strings.HasPrefix(out, `<subagent_report run="t1.c0" profile="`+c.profile+`">`) || !strings.Contains(out, "Done alone.") {
				t.Error(out)
			}
			if got := k.activations(k.childFolder("t1.c0")); !slices.Equal(got, []string{"solo subagent-inherit"}) {
				t.Errorf("%q", got)
			}
			var got []string
			for _, d := range readArtifact[run.PolicyTrace](t, k.folder(), run.FilePolicyTrace).Decisions {
				if d.Call == "t1.c0" {
					got = append(got, strings.Join([]string{d.Profile, d.Decision, d.Code, d.Effect, d.Skill}, " "))
				}
			}
			if d := cmp.Diff([]string{c.profile + " allowed subagent_profile_allowed side-effect user:solo"}, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// A load_skill call that starts a subagent is also checked as a delegate_task call: against its
// rules, and whether the caller has the tool.
func TestLoad_SkillThatForksNeedsDelegateTask(t *testing.T) {
	t.Parallel()
	const forks = "---\nname: solo\ndescription: Does it alone.\ncontext: fork\nagent: builder\n---\nSOLO-MARK-5c6d7e8f.\n"
	files := func(rules string) map[string]string {
		return map[string]string{"skills/solo/SKILL.md": forks,
			"skills/narrow/SKILL.md": "---\nname: narrow\ndescription: Reads only.\nallowed-tools: Read\n---\nRead.\n",
			"subs/builder.yaml":      "name: builder\ndescription: Builds.\nallow_skills: [\"*\"]\ntools: [write_file, load_skill]\n",
			"subs/reader.yaml":       "name: reader\ndescription: Reads.\nallow_skills: [\"*\"]\ntools: [read_file, load_skill]\n",
			"policy.yaml":            "version: 1\nrules: [" + rules + "]\n",
			"config.yaml":            "skills: [{path: skills, tier: user}]\npolicy: policy.yaml\nsubagents: {profiles: [subs], allow: [builder, reader]}\nallow_tools: [default]\n"}
	}
	for name, c := range map[string]struct {
		rules string
		args  []string
		calls []modeltest.Call
		code  string // of the last call's decision
	}{
		"deny rule":    {rules: "{deny: delegate_task}", calls: []modeltest.Call{loadCall("solo")}, code: "rule_denied"},
		"ask rule":     {rules: "{ask: delegate_task}", calls: []modeltest.Call{loadCall("solo")}, code: "rule_needs_approval"},
		"narrow skill": {args: []string{"--set", "allowed_tools=enforce"}, calls: []modeltest.Call{loadCall("narrow"), loadCall("solo")}, code: "allowed_tools"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKin(t, files(c.rules))
			k.parent = func(turn int, _ *modeltest.Request) modeltest.Turn {
				if turn < len(c.calls) {
					return turnOf(c.calls[turn])
				}
				return modeltest.Turn{Text: "Done."}
			}
			k.child = says("Done alone.")
			k.run(c.args...)
			trace := readArtifact[run.PolicyTrace](t, k.folder(), run.FilePolicyTrace).Decisions
			if got := trace[len(trace)-1].Code; got != c.code {
				t.Errorf("code %s, want %s", got, c.code)
			}
			if _, err := os.Stat(filepath.Join(k.folder(), "children")); err == nil {
				t.Error("a subagent began")
			}
		})
	}
	t.Run("a subagent without the tool", func(t *testing.T) {
		t.Parallel()
		k := newKin(t, files(""))
		k.parent = func(turn int, _ *modeltest.Request) modeltest.Turn {
			if turn == 0 {
				return turnOf(modeltest.Call{Tool: "delegate_task", Args: `{"task":"Read it.","profile":"reader"}`})
			}
			return modeltest.Turn{Text: "Done."}
		}
		k.child = func(_ string, turn int, r *modeltest.Request) modeltest.Turn {
			if turn == 0 {
				return turnOf(loadCall("solo"))
			}
			return modeltest.Turn{Text: "Done alone."}
		}
		k.run()
		if got, want := k.activations(k.childFolder("t1.c0")), []string{"solo model-tool"}; !slices.Equal(got, want) {
			t.Errorf("activations of the subagent: %q, want %q", got, want)
		}
	})
}
