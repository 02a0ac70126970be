package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/model/modeltest"
	"metier/run"
)

// named returns skills of one line each.
func named(names ...string) map[string]string {
	out := map[string]string{}
	for _, n := range names {
		out["skills/"+n+"/SKILL.md"] = "---\nname: " + n + "\ndescription: Does " + n + ". Use when " + n + " is asked for.\n---\nThe instructions of " + n + ".\n"
	}
	return out
}

// activations returns the skills of a run's activations, each with its source.
func (k *kin) activations(folder string) (out []string) {
	k.t.Helper()
	if _, err := os.Stat(filepath.Join(folder, run.FileActivations)); err != nil {
		return nil // without a registry there are none
	}
	for _, a := range readArtifact[run.Activations](k.t, folder, run.FileActivations).Activations {
		out = append(out, a.Name+" "+a.Source)
	}
	return out
}

// prompt is the whole text of a request.
func prompt(r *modeltest.Request) string { return string(r.Body) }

func says(text string) func(string, int, *modeltest.Request) modeltest.Turn {
	return func(string, int, *modeltest.Request) modeltest.Turn { return modeltest.Turn{Text: text} }
}

// req
func TestASubagentBeginsWithNoSkillsButThoseItWasGiven(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, inherit, skills string
		want                  []string
	}{
		{"nothing is named", "listed", "", nil},
		{"nothing is set or named", "", "", nil},
		{"nothing is set or named in cf-harness", "", "", nil},
		{"one is named", "listed", `["other"]`, []string{"other subagent-inherit"}},
		{"two are named", "listed", `["other","open"]`, []string{"other subagent-inherit", "open subagent-inherit"}},
		{"all of its parent's", "all", "", []string{"open subagent-inherit"}},
		{"all and a named one", "all", `["other"]`, []string{"other subagent-inherit", "open subagent-inherit"}},
		{"none", "none", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := newKin(t, named("open", "other"))
			args := `{"task":"Look."}`
			if c.skills != "" {
				args = `{"task":"Look.","skills":` + c.skills + `}`
			}
			takes := false // whether the tool takes skills
			k.parent = func(turn int, r *modeltest.Request) modeltest.Turn {
				for _, tool := range r.Tools {
					takes = takes || tool.Name == "delegate_task" && strings.Contains(string(tool.Schema), `"skills"`)
				}
				return once(delegate(args))(turn, r)
			}
			asked := ""
			k.child = func(_ string, _ int, r *modeltest.Request) modeltest.Turn {
				asked = prompt(r)
				return modeltest.Turn{Text: "Looked."}
			}
			flags := []string{"--skills-root", "skills", "--skill", "open", "--allow-tool", "default", "--allow-subagent-profile", "default"}
			if strings.HasSuffix(c.name, " in cf-harness") {
				flags = append(flags, "--profile", "cf-harness")
			}
			if c.inherit != "" {
				flags = append(flags, "--set", "inherit="+c.inherit)
			}
			k.run(flags...)
			if got := k.activations(k.folder()); !slices.Equal(got, []string{"open cli-preload"}) {
				t.Errorf("the parent's activations: %q", got)
			}
			if d := cmp.Diff(c.want, k.activations(k.childFolder("t1.c0"))); d != "" {
				t.Errorf("activations of the subagent: %s", d)
			}
			for _, n := range []string{"open", "other"} {
				want := slices.ContainsFunc(c.want, func(w string) bool { return strings.HasPrefix(w, n+" ") })
				if got := strings.Contains(asked, "The instructions of "+n+"."); got != want {
					t.Errorf("the prompt of the subagent has the instructions of %s: %v, want %v", n, got, want)
				}
			}
			if takes != (c.inherit != "none") {
				t.Errorf("inherit=%s: the tool takes skills: %v", c.inherit, takes)
			}
			if strings.Contains(asked, "Go.") {
				t.Error("the task of its parent is in its prompt")
			}
		})
	}
}

// A subagent does not get the skills that its parent's model loaded, and passes on none of those that
// it was given itself.
//
// req
func TestSubagents_GetNoLoadedSkillsOfTheirParents(t *testing.T) {
	t.Parallel()
	k := newKin(t, named("open", "other"))
	k.write(map[string]string{"subs/deep.yaml": deep + "allow_skills: [\"*\"]\n", "config.yaml": "subagents: {depth: 2, profiles: [subs], allow: [deep]}\nallow_tools: [default]\n"})
	k.parent = func(turn int, _ *modeltest.Request) modeltest.Turn {
		switch turn {
		case 0:
			return turnOf(modeltest.Call{Tool: "load_skill", Args: `{"name":"open"}`})
		case 1:
			return turnOf(delegate(`{"profile":"deep","task":"Upper.","skills":["other"]}`))
		}
		return modeltest.Turn{Text: "Done."}
	}
	asked := map[string]string{}
	k.child = func(task string, turn int, r *modeltest.Request) modeltest.Turn {
		if asked[task] = prompt(r); task == "Upper." && turn == 0 {
			return turnOf(delegate(`{"profile":"deep","task":"Lower."}`))
		}
		return modeltest.Turn{Text: "Looked."}
	}
	k.run("--skills-root", "skills")
	upper := k.childFolder("t2.c0")
	lower := filepath.Join(upper, "children", "t1.c0")
	got := [][]string{k.activations(k.folder()), k.activations(upper), k.activations(lower)}
	if d := cmp.Diff([][]string{{"open model-tool"}, {"other subagent-inherit"}, nil}, got); d != "" {
		t.Errorf("activations of the run, its subagent, and that one's (-want +got):\n%s", d)
	}
	if strings.Contains(asked["Upper."], "The instructions of open.") || strings.Contains(asked["Lower."], "The instructions of o") {
		t.Errorf("a subagent was sent the skills of its parent:\n%s\n%s", asked["Upper."], asked["Lower."])
	}
}

// If nothing is inherited, a call cannot name skills either.
func TestWithInheritNoneACallNamesNoSkills(t *testing.T) {
	t.Parallel()
	k := newKin(t, named("open"))
	k.parent = func(turn int, r *modeltest.Request) modeltest.Turn {
		if turn == 0 {
			for _, tool := range r.Tools {
				if tool.Name == "delegate_task" && strings.Contains(string(tool.Schema), `"skills"`) {
					t.Errorf("it is offered: %s", tool.Schema)
				}
			}
			return turnOf(delegate(`{"task":"Look.","skills":["open"]}`))
		}
		return modeltest.Turn{Text: strings.Join(r.LastResults(), "")}
	}
	k.child = says("never")
	k.run("--skills-root", "skills", "--allow-tool", "default", "--allow-subagent-profile", "default", "--set", "inherit=none")
	if out := k.out.String(); !strings.HasPrefix(out, "Error: subagent_skill_not_allowed: ") {
		t.Error(out)
	}
}

// subagentOf is spec.subagent of a run's manifest.
func subagentOf(t *testing.T, folder string) (m struct {
	Profile, Parent, Call, ExecutionTarget, ReturnChannel string
	Depth                                                 int
	Skills, Scripts, Tools, MissingSkills                 []string
}) {
	t.Helper()
	spec := readArtifact[run.Manifest](t, folder, run.FileManifest).Spec
	if err := json.Unmarshal(spec, &struct{ Subagent any }{&m}); err != nil {
		t.Fatal(err)
	}
	return m
}

func toolNamesOf(r *modeltest.Request) (out []string) {
	for _, t := range r.Tools {
		out = append(out, t.Name)
	}
	slices.Sort(out)
	return out
}

// A profile is exact: other scripts do not run, whatever the run's settings and grants are. Hosts
// and tools come only from the profile.
//
// req
func TestTheManifestOfASubagentIsItsProfileAndHolds(t *testing.T) {
	t.Parallel()
	needLinux(t)
	for _, rule := range []string{"exact", "tiered", "any_bundled"} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			files := secretSkill()
			files["skills/secret/scripts/other.sh"] = "#!/bin/sh\necho other ran >>/workspace/other.txt\n"
			k := newKin(t, files)
			k.parent = once(delegate(`{"profile":"worker","task":"Count."}`))
			var results []string
			k.child = func(_ string, turn int, r *modeltest.Request) modeltest.Turn {
				if turn == 0 {
					return turnOf(modeltest.Call{Tool: "run_skill_script", Args: `{"skill":"secret","path":"scripts/leak.sh"}`},
						modeltest.Call{Tool: "run_skill_script", Args: `{"skill":"secret","path":"scripts/other.sh"}`},
						modeltest.Call{Tool: "load_skill", Args: `{"name":"open"}`}, modeltest.Call{Tool: "bash", Args: `{"command":"true"}`})
				}
				results = r.LastResults()
				return modeltest.Turn{Text: "Counted."}
			}
			k.run("--skills-root", "skills", "--skill", "open", "--subagent-profiles", "subs", "--allow-subagent-profile", "worker", "--allow-tool", "default", "--allow-tool", "run_skill_script", "--allow-tool", "bash",
				"--allow-skill-script", "secret:scripts/leak.sh", "--allow-skill-script", "secret:scripts/other.sh", "--set", "scripts="+rule, "--set", "script_network=on")
			m := subagentOf(t, k.childFolder("t1.c0"))
			want := []string{"read_file", "list_files", "search_files", "load_skill", "read_skill_resource", "search_skills", "write_file", "edit_file", "run_skill_script"}
			slices.Sort(want)
			slices.Sort(m.Tools)
			m.Tools = slices.DeleteFunc(m.Tools, func(s string) bool { return s == "list_skills" || s == "load_content" })
			if d := cmp.Diff(want, m.Tools); d != "" {
				t.Error(d)
			}
			if m.Profile != "worker" || m.Parent != filepath.Base(k.folder()) || m.Call != "t1.c0" || m.Depth != 1 || m.ExecutionTarget != "sandbox" || m.ReturnChannel != "summary-and-sanitized-state" ||
				!slices.Equal(m.Skills, []string{"secret"}) || !slices.Equal(m.MissingSkills, []string{"gone"}) || !slices.Equal(m.Scripts, []string{"secret:scripts/leak.sh"}) {
				t.Errorf("%+v", m)
			}
			if len(results) != 4 || !strings.Contains(results[0], canaries["stdout"]) || !strings.HasPrefix(results[1], "Error: script_not_allowlisted: ") || !strings.HasPrefix(results[2], "Error: skill_denied: ") || !strings.HasPrefix(results[3], "Error: unknown_tool: ") && !strings.HasPrefix(results[3], "Error: tool_not_allowed: ") {
				t.Errorf("%.300q", results)
			}
			if _, err := os.Stat(filepath.Join(k.dir, "other.txt")); err == nil {
				t.Error("a script that the profile does not name ran")
			}
			scripts := readArtifact[run.Scripts](t, k.childFolder("t1.c0"), run.FileScripts).Executions
			if len(scripts) != 2 || *scripts[0].Network != "none" {
				t.Errorf("%+v", scripts)
			}
			if diff := cmp.Diff("sandbox", *scripts[0].ExecutionTarget); diff != "" {
				t.Errorf("a profile without target: host: %s", diff)
			}
		})
	}
}

// The manifest says where the profile's scripts run, for each target.
//
// req: A-161
func TestSubagentManifest_NamesExecutionTarget(t *testing.T) {
	t.Parallel()
	needLinux(t)
	for target, line := range map[string]string{"sandbox": "", "host": "target: host\n"} {
		files := named("open")
		files["skills/open/scripts/a.sh"] = "#!/bin/sh\n"
		files["subs/runner.yaml"] = "name: runner\ndescription: Runs it.\nskills: [open]\nscripts: [\"open:scripts/a.sh\"]\ntools: [run_skill_script]\n" + line
		k := newKin(t, files)
		k.parent, k.child = once(delegate(`{"profile":"runner","task":"Run it."}`)), says("Done.")
		k.run("--skills-root", "skills", "--subagent-profiles", "subs", "--allow-subagent-profile", "runner", "--allow-tool", "default")
		if diff := cmp.Diff(target, subagentOf(t, k.childFolder("t1.c0")).ExecutionTarget); diff != "" {
			t.Error(diff)
		}
	}
}

// A script on the host needs no browser: the profile alone moves it there. The same script stays in
// the sandbox if the run itself calls it.
//
// req: A-087
func TestSubagent_RunsScriptsOnTheHostByItsProfile(t *testing.T) {
	t.Parallel()
	needLinux(t)
	files := named("open")
	files["skills/open/scripts/a.sh"] = "#!/bin/bash\necho ran\n"
	files["subs/runner.yaml"] = "name: runner\ndescription: Runs it.\nskills: [open]\nscripts: [\"project:open:scripts/a.sh\"]\ntools: [run_skill_script]\ntarget: host\n"
	k := newKin(t, files)
	call := modeltest.Call{Tool: "run_skill_script", Args: `{"skill":"open","path":"scripts/a.sh"}`}
	k.parent = once(call, delegate(`{"profile":"runner","task":"Run it."}`))
	k.child = func(_ string, turn int, _ *modeltest.Request) modeltest.Turn {
		if turn == 0 {
			return turnOf(call)
		}
		return modeltest.Turn{Text: "Done."}
	}
	k.run("--skills-root", "skills", "--skill", "open", "--subagent-profiles", "subs", "--allow-subagent-profile", "runner", "--allow-tool", "default", "--allow-tool", "run_skill_script",
		"--allow-skill-script", "project:open:scripts/a.sh")
	for _, c := range []struct{ name, folder, want string }{{"the run's own", k.folder(), "executed sandbox"}, {"the subagent's", k.childFolder("t1.c1"), "executed host"}} {
		var got []string
		for _, s := range readArtifact[run.Scripts](t, c.folder, run.FileScripts).Executions {
			got = append(got, s.Status+" "+*s.ExecutionTarget)
		}
		if diff := cmp.Diff([]string{c.want}, got); diff != "" {
			t.Errorf("%s script (-want +got):\n%s", c.name, diff)
		}
	}
}

func browserSkill() map[string]string {
	out := named("agent-browser", "open")
	for _, s := range []string{"form-automation", "capture-workflow", "authenticated-session"} {
		out["skills/agent-browser/scripts/"+s+".sh"] = "#!/bin/sh\necho ran " + s + "\n"
	}
	return out
}

// req
func TestTheBrowserProfileHasItsSkillWhereThereIsARegistry(t *testing.T) {
	t.Parallel()
	needLinux(t)
	for _, registry := range []bool{true, false} {
		k := newKin(t, browserSkill())
		k.parent = once(delegate(`{"profile":"browser","task":"Look at the page."}`))
		var tools, results []string
		k.child = func(_ string, turn int, r *modeltest.Request) modeltest.Turn {
			if turn == 0 && registry {
				tools = toolNamesOf(r)
				return turnOf(modeltest.Call{Tool: "run_skill_script", Args: `{"skill":"agent-browser","path":"scripts/authenticated-session.sh"}`})
			}
			results = r.LastResults()
			return modeltest.Turn{Text: "Looked."}
		}
		args := []string{"--profile", "cf-harness", "--allow-subagent-profile", "browser"}
		if registry {
			args = append(args, "--skills-root", "skills", "--allow-tool", "default", "--allow-tool", "run_skill_script",
				"--allow-skill-script", "agent-browser:scripts/authenticated-session.sh") // a grant of the parent does not extend the profile
		}
		k.run(args...)
		m := subagentOf(t, k.childFolder("t1.c0"))
		if !slices.Equal(m.Scripts, []string{"agent-browser:scripts/form-automation.sh", "agent-browser:scripts/capture-workflow.sh"}) || m.ExecutionTarget != "host" ||
			!slices.Equal(m.Tools, []string{"read_skill_resource", "run_skill_script"}) {
			t.Errorf("registry %v: %+v", registry, m)
		}
		if r := k.report("t1.c0"); r.Status != "done" || r.Summary != "Looked." {
			t.Errorf("registry %v: %v", registry, r)
		}
		if !registry {
			if got := k.activations(k.childFolder("t1.c0")); got != nil || !slices.Equal(m.MissingSkills, []string{"agent-browser"}) {
				t.Errorf("without a registry: %q, missing %q", got, m.MissingSkills)
			}
			continue
		}
		if got := k.activations(k.childFolder("t1.c0")); !slices.Equal(got, []string{"agent-browser subagent-inherit"}) {
			t.Errorf("activations %q", got)
		}
		if !slices.Equal(tools, []string{"read_skill_resource", "run_skill_script"}) {
			t.Errorf("the tools it is offered: %q", tools)
		}
		if len(results) != 1 || !strings.HasPrefix(results[0], "Error: script_not_allowlisted: ") {
			t.Errorf("a script with credentials: %q", results)
		}
	}
}

// outcomes returns the results of a run's delegations by their calls.
func (k *kin) outcomes() map[string]report {
	k.t.Helper()
	out := map[string]report{}
	match, err := filepath.Glob(filepath.Join(k.folder(), "tool-outputs", "*-delegate_task.json"))
	if err != nil {
		k.t.Fatal(err)
	}
	for _, m := range match {
		call := strings.TrimSuffix(filepath.Base(m), "-delegate_task.json")
		out[call] = k.report(call)
	}
	return out
}

// req: A-168
func TestEachDelegationIsADecisionWithItsProfile(t *testing.T) {
	t.Parallel()
	k := newKin(t, named("open"))
	k.parent = once(delegate(`{"task":"Look."}`), delegate(`{"profile":"author","task":"Look."}`), delegate(`{"profile":"nobody","task":"Look."}`))
	k.child = says("Looked.")
	k.run("--skills-root", "skills", "--allow-tool", "default", "--allow-subagent-profile", "default")
	got := map[string]string{}
	for _, d := range readArtifact[run.PolicyTrace](t, k.folder(), run.FilePolicyTrace).Decisions {
		if d.Profile != "" {
			got[d.Profile] += d.Call + " " + d.Decision + " " + d.Code
		}
	}
	want := map[string]string{"default": "t1.c0 allowed subagent_profile_allowed", "author": "t1.c1 denied subagent_profile_not_allowed", "nobody": "t1.c2 denied subagent_profile_not_allowed"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if list, _ := os.ReadDir(filepath.Join(k.folder(), "children")); len(list) != 1 {
		t.Errorf("%d subagents began", len(list))
	}
}

// req
func TestACallNamesOnlySkillsThatItsProfileTakes(t *testing.T) {
	t.Parallel()
	files := named("pattern-ui", "pattern-dev", "other")
	files["subs/painter.yaml"] = "name: painter\ndescription: Paints.\nallow_skills: [shared-*, pattern-*, drawn]\ntools: [inherit]\n"
	k := newKin(t, files)
	k.parent = func(turn int, r *modeltest.Request) modeltest.Turn {
		if turn == 0 {
			return turnOf(delegate(`{"profile":"painter","task":"Paint.","skills":["pattern-ui"]}`), delegate(`{"profile":"painter","task":"Paint.","skills":["other"]}`),
				delegate(`{"profile":"painter","task":"Paint.","skills":["pattern-none"]}`), delegate(`{"profile":"painter","task":"Paint.","skills":["pattern-*"]}`),
				delegate(`{"profile":"painter","task":"Paint.","skills":["pattern-ui","other"]}`))
		}
		return modeltest.Turn{Text: strings.Join(r.LastResults(), "\n")}
	}
	var loaded []string
	k.child = func(_ string, turn int, r *modeltest.Request) modeltest.Turn {
		if turn == 0 {
			return turnOf(modeltest.Call{Tool: "load_skill", Args: `{"name":"pattern-dev"}`}, modeltest.Call{Tool: "load_skill", Args: `{"name":"other"}`})
		}
		loaded = r.LastResults()
		return modeltest.Turn{Text: "Painted."}
	}
	k.run("--skills-root", "skills", "--subagent-profiles", "subs", "--allow-tool", "default", "--allow-subagent-profile", "painter")
	out := k.out.String()
	if !strings.Contains(out, "Painted.") || !strings.Contains(out, `subagent_skill_not_allowed: delegate`) || strings.Count(out, "subagent_skill_not_allowed") != 2 || strings.Count(out, "Error: skill_not_found") != 2 {
		t.Error(out)
	}
	if got := k.activations(k.childFolder("t1.c0")); !slices.Equal(got, []string{"pattern-ui subagent-inherit", "pattern-dev model-tool"}) {
		t.Errorf("%q", got)
	}
	if len(loaded) != 2 || !strings.Contains(loaded[0], "The instructions of pattern-dev.") || !strings.HasPrefix(loaded[1], "Error: skill_denied: ") {
		t.Errorf("%q", loaded)
	}
	if list, _ := os.ReadDir(filepath.Join(k.folder(), "children")); len(list) != 1 {
		t.Errorf("%d subagents began", len(list))
	}
}

// A skill named like another skill's ID matches neither that ID in a profile nor a source that a
// profile allows.
func TestAProfileTakesNoNameForAnID(t *testing.T) {
	t.Parallel()
	files := map[string]string{"skills/x/SKILL.md": "---\nname: \"org:deploy\"\ndescription: Does x. Use when x is asked for.\n---\nThe words of a stranger.\n"}
	files["subs/painter.yaml"] = "name: painter\ndescription: Paints.\nskills: [\"org:deploy\"]\nallow_skills: [\"org:*\"]\ntools: [inherit]\n"
	k := newKin(t, files)
	k.parent = once(delegate(`{"profile":"painter","task":"Paint."}`))
	var seen, loaded string
	k.child = func(_ string, turn int, r *modeltest.Request) modeltest.Turn {
		if turn == 0 {
			seen = prompt(r)
			return turnOf(modeltest.Call{Tool: "load_skill", Args: `{"name":"org:deploy"}`})
		}
		loaded = strings.Join(r.LastResults(), "")
		return modeltest.Turn{Text: "Painted."}
	}
	k.run("--skills-root", "skills", "--subagent-profiles", "subs", "--allow-tool", "default", "--allow-subagent-profile", "painter")
	if r := k.report("t1.c0"); r.Summary != "Painted." || strings.Contains(seen+loaded, "The words of a stranger") || k.activations(k.childFolder("t1.c0")) != nil {
		t.Errorf("%+v: %s", r, loaded)
	}
}

// If policy requires approval for a skill, the model also needs it to pass the skill to a subagent.
func TestSkillsGivenToASubagentAreAskedFor(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{"yes": true, "no": false} {
		files := named("plain", "open")
		files["policy.yaml"] = "version: 1\nskills: [{ask: plain}]\n"
		files["config.yaml"] = "policy: policy.yaml\nskills: [{path: skills, tier: user}]\nsubagents: {allow: [default]}\nallow_tools: [default]\n"
		k := newKin(t, files)
		k.parent = once(delegate(`{"task":"Look.","skills":["open","plain"]}`))
		seen := ""
		k.child = func(_ string, _ int, r *modeltest.Request) modeltest.Turn {
			seen = prompt(r)
			return modeltest.Turn{Text: "Looked."}
		}
		k.parks()
		if seen != "" {
			t.Fatalf("it began with %v before anybody said yes", k.activations(k.childFolder("t1.c0")))
		}
		k.want(0, "runs", "answer", "latest", answer)
		k.want(0, "run", "--resume", "latest")
		if got := strings.Contains(seen, "The instructions of plain."); got != want {
			t.Errorf("%s: it has the skill: %v", answer, got)
		}
		k.want(0, "audit", "verify", "latest")
	}
}
