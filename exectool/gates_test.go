package exectool_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"metier"
	"metier/event"
	"metier/exectool"
	"metier/policy"
	"metier/record"
	"metier/sandbox"
	"metier/settings"
	"metier/source/local"
)

// req
func TestGatesOfSession(t *testing.T) {
	t.Parallel()
	w := newFixture(t, setup{profile: cfHarness}, nil)
	w.refuses("skill_registry_missing", w.run("scripts/a.sh"))
	w = newFixture(t, setup{profile: cfHarness, idle: true}, map[string]string{"skills/broken/SKILL.md": "---\nname: broken\n---\n"}) // a registry without a usable skill
	w.refuses("skill_activations_missing", w.run("scripts/a.sh"))

	two := demo(map[string]string{"scripts/a.sh": "#!/bin/bash\n"})
	two["skills/other/SKILL.md"] = "---\nname: other\ndescription: Use when others are tried.\n---\n"
	two["skills/broken/SKILL.md"], two["skills/broken/scripts/a.sh"] = "---\nname: broken\n---\n", "#!/bin/bash\n"
	w = newFixture(t, setup{profile: cfHarness, idle: true, grants: func(g *policy.Grants) { g.Scripts = append(g.Scripts, "broken:scripts/a.sh", "nobody:scripts/a.sh") }}, two)
	w.refuses("skill_activations_missing", w.run("scripts/a.sh"))
	if _, err := w.s.Activate(t.Context(), "other", "cli-preload"); err != nil {
		t.Fatal(err)
	}
	w.refuses("skill_not_activated", w.run("scripts/a.sh"))
	for _, name := range []string{"nobody", "broken", "Demo"} {
		o, _ := w.call("run_skill_script", exectool.Script{Skill: name, Path: "scripts/a.sh"})
		w.refuses("skill_not_found", o)
	}
	if _, err := w.s.Activate(t.Context(), "demo", "cli-preload"); err != nil {
		t.Fatal(err)
	}
	w.ran("scripts/a.sh")
}

// req: A-066
func TestGateOfPath(t *testing.T) {
	t.Parallel()
	w := newFixture(t, setup{profile: cfHarness}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\n", "references/x.sh": "#!/bin/bash\n"}))
	for _, p := range []string{"references/x.sh", "scripts/../x", "scripts/../references/x.sh", "scripts/./a.sh", "scripts//a.sh", "./scripts/a.sh", "/scripts/a.sh", "scripts", "scripts/", "",
		"../demo/scripts/a.sh", `scripts\a.sh`, "scripts/a.sh\x00", "Scripts/a.sh", "scripts/a.sh/", "C:scripts/a.sh", "scripts/%2e%2e/x/../../a"} {
		w.refuses("script_path_invalid", w.run(p))
	}
	w.ran("scripts/a.sh")
}

// req: A-067
func TestGateOfAllowlist(t *testing.T) {
	t.Parallel()
	for _, entries := range [][]string{nil, {"demo:scripts/b.sh"}, {"demo:scripts/*"}, {"demo:scripts"}, {"demo:scripts/"}, {"demo:*"}, {"*"}, {"demo"}, {"demo:scripts/a"}, {"demo:scripts/a.sh "}, {"Demo:scripts/a.sh"}, {"r:demo:scripts/a.sh.x"},
		{"demo:scripts/a.sh.x"}, {"demo:Scripts/A.sh"}, {"other:scripts/a.sh"}, {"a.sh"}, {"scripts/a.sh"}, {"demo:a.sh"}, {"demo:scripts/./a.sh"}, {"demo:scripts/?.sh"}} {
		w := newFixture(t, setup{profile: cfHarness, grants: func(g *policy.Grants) { g.Scripts = entries }}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\n", "scripts/b.sh": "#!/bin/bash\n"}))
		w.refuses("script_not_allowlisted", w.run("scripts/a.sh"))
	}
	w := newFixture(t, setup{profile: cfHarness, grants: func(g *policy.Grants) { g.Scripts = []string{"demo:scripts/a.sh"} }}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\n", "scripts/a.sh.x": "#!/bin/bash\n"}))
	w.refuses("script_not_allowlisted", w.run("scripts/a.sh.x"))
	w.ran("scripts/a.sh")
}

// req: A-068
func TestGateOfIndex(t *testing.T) {
	t.Parallel()
	all := func(g *policy.Grants) {
		g.Scripts = append(g.Scripts, "demo:scripts/late.sh", "demo:scripts/none.sh", "demo:scripts/A.sh")
	}
	w := newFixture(t, setup{profile: cfHarness, grants: all}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\n"}))
	w.put("skills/demo/scripts/late.sh", "#!/bin/bash\n")
	w.refuses("script_not_indexed", w.run("scripts/late.sh"))
	w.refuses("script_not_indexed", w.run("scripts/none.sh"))
	w.refuses("script_not_indexed", w.run("scripts/A.sh"))
	w = newFixture(t, setup{profile: "agent-harness"}, demo(map[string]string{"references/x.sh": "#!/bin/bash\n", "assets/x.sh": "#!/bin/bash\n", "templates/x.sh": "#!/bin/bash\n", "x.sh": "#!/bin/bash\n"}))
	for _, p := range []string{"references/x.sh", "assets/x.sh", "templates/x.sh", "x.sh"} { // the profile allows a path anywhere
		w.refuses("resource_not_script", w.run(p))
	}
}

// req: A-069, C-034, C-089
func TestGateOfContainment(t *testing.T) {
	t.Parallel()
	w := newFixture(t, setup{profile: cfHarness}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\n"}))
	p := filepath.Join(w.dir, "skills/demo/scripts/a.sh")
	outside := filepath.Join(t.TempDir(), "a.sh")
	if err := os.WriteFile(outside, []byte("#!/bin/bash\n"), 0o755); err != nil { // exactly the same bytes
		t.Fatal(err)
	}
	if err := os.Remove(p); err != nil {
		t.Fatal(err)
	}
	w.refuses("script_not_found", w.run("scripts/a.sh"))
	if err := os.Symlink(outside, p); err != nil {
		t.Fatal(err)
	}
	w.refuses("script_outside_root", w.run("scripts/a.sh"))
	if err := os.Remove(p); err != nil {
		t.Fatal(err)
	}
	w.put("skills/other/scripts/a.sh", "#!/bin/bash\n") // in the root, but not in the skill
	if err := os.Symlink("../../other/scripts/a.sh", p); err != nil {
		t.Fatal(err)
	}
	w.refuses("script_outside_root", w.run("scripts/a.sh"))
	if err := os.Remove(p); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(p, 0o755); err != nil {
		t.Fatal(err)
	}
	w.refuses("script_not_file", w.run("scripts/a.sh"))

	for _, folder := range []string{"scripts", ""} { // a folder above it leads out
		w := newFixture(t, setup{profile: cfHarness}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\n"}))
		at, moved := filepath.Join(w.dir, "skills/demo", folder), filepath.Join(t.TempDir(), "moved")
		if err := os.Rename(at, moved); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(moved, at); err != nil {
			t.Fatal(err)
		}
		w.refuses("script_outside_root", w.run("scripts/a.sh"))
	}
}

// req: A-070
func TestGateOfDigest(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, content string }{
		"one byte":                     {"scripts/a.sh", "#!/bin/bash\ntouch /workspace/canarx\n"},
		"longer":                       {"scripts/a.sh", "#!/bin/bash\ntouch /workspace/canary\n\n"},
		"shorter":                      {"scripts/a.sh", "#!/bin/bash\n"},
		"a file that it would include": {"scripts/lib.sh", "y=1\n"},
	} {
		w := newFixture(t, setup{}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\ntouch /workspace/canary\n", "scripts/lib.sh": "x=1\n"}))
		w.put("skills/demo/"+tt.file, tt.content)
		w.refuses("script_snapshot_mismatch", w.run("scripts/a.sh"))
		if _, err := os.Stat(filepath.Join(w.dir, "canary")); err == nil {
			t.Errorf("%s: it ran", name)
		}
	}
	w := newFixture(t, setup{profile: cfHarness}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\ntouch /workspace/canary\n"}))
	w.put("skills/demo/scripts/a.sh", "#!/bin/bash\ntouch /workspace/canarx\n")
	w.refuses("script_snapshot_mismatch", w.run("scripts/a.sh"))
}

// req: A-071
func TestGateOfRuntime(t *testing.T) {
	t.Parallel()
	w := newFixture(t, setup{profile: cfHarness}, demo(map[string]string{"scripts/a.py": "print(1)\n", "scripts/b.py": "#!/usr/bin/env python3\nprint(1)\n",
		"scripts/c.sh": "#!/usr/bin/env python3\nimport os\n"}))
	w.refuses("unsupported_runtime", w.run("scripts/a.py"))
	w.refuses("unsupported_runtime", w.run("scripts/b.py"))
	w.refuses("unsupported_runtime", w.run("scripts/c.sh"))
	staged := func(s *settings.Settings) { s.Exec.Stage = settings.StageTree } // which could run it
	w = newFixture(t, setup{profile: cfHarness, set: staged}, demo(map[string]string{"scripts/a.py": "print(1)\n", "scripts/b.py": "#!/usr/bin/env python3\nprint(1)\n"}))
	w.refuses("unsupported_runtime", w.run("scripts/a.py"))
	w.refuses("unsupported_runtime", w.run("scripts/b.py"))
	w = newFixture(t, setup{}, demo(map[string]string{"scripts/a.py": "import sys; sys.path.insert(0, ''); import b; print(b.x)\n", "scripts/b.py": "x = 'sibling'\n"}))
	if r := w.ran("scripts/a.py"); r.Stdout != "sibling\n" || r.Runtime != "python" {
		t.Errorf("where it is allowed: %+v", r)
	}
}

// The gates are checked in a fixed order, whatever else is wrong.
//
// req
func TestOrderOfGates(t *testing.T) {
	t.Parallel()
	files := demo(map[string]string{"scripts/a.py": "x\n"})
	w := newFixture(t, setup{profile: cfHarness, idle: true, grants: func(g *policy.Grants) { g.Scripts = nil }}, files)
	o, _ := w.call("run_skill_script", exectool.Script{Skill: "nobody", Path: "../x", Cwd: "/"})
	w.refuses("script_path_invalid", o)
	o, _ = w.call("run_skill_script", exectool.Script{Skill: "nobody", Path: "scripts/none.py", Cwd: "/"})
	w.refuses("skill_activations_missing", o)
	if _, err := w.s.Activate(t.Context(), "demo", "cli-preload"); err != nil {
		t.Fatal(err)
	}
	o, _ = w.call("run_skill_script", exectool.Script{Skill: "demo", Path: "scripts/none.py", Cwd: "/"})
	w.refuses("script_not_allowlisted", o) // does not disclose whether it exists
	w = newFixture(t, setup{profile: cfHarness, grants: func(g *policy.Grants) { g.Scripts = append(g.Scripts, "demo:scripts/none.py") }}, files)
	o, _ = w.call("run_skill_script", exectool.Script{Skill: "demo", Path: "scripts/none.py", Cwd: "/"})
	w.refuses("script_not_indexed", o)
	w.put("skills/demo/scripts/a.py", "y\n")
	o, _ = w.call("run_skill_script", exectool.Script{Skill: "demo", Path: "scripts/a.py", Cwd: "/"})
	w.refuses("script_snapshot_mismatch", o)
	w.put("skills/demo/scripts/a.py", "x\n")
	o, _ = w.call("run_skill_script", exectool.Script{Skill: "demo", Path: "scripts/a.py", Cwd: "/"})
	w.refuses("unsupported_runtime", o)
}

// req
func TestWorkingFolder(t *testing.T) {
	t.Parallel()
	files := demo(map[string]string{"scripts/pwd.sh": "#!/bin/bash\npwd\n"})
	files["sub/dir/x"] = ""
	w := newFixture(t, setup{profile: cfHarness}, files)
	if r := w.ran("scripts/pwd.sh"); r.Stdout != "/workspace\n" {
		t.Errorf("by default %q", r.Stdout)
	}
	for cwd, want := range map[string]string{"sub": "/workspace/sub", "/workspace/sub/dir": "/workspace/sub/dir", "sub/../sub/dir": "/workspace/sub/dir", ".": "/workspace", "/workspace": "/workspace"} {
		o, _ := w.call("run_skill_script", exectool.Script{Skill: "demo", Path: "scripts/pwd.sh", Cwd: cwd})
		if r := result(t, o); r.Stdout != want+"\n" {
			t.Errorf("%s: %q", cwd, r.Stdout)
		}
	}
	w.box.jobs = nil
	for _, cwd := range []string{"/", "/tmp", "..", "sub/../..", "/workspaces", "/workspace/../etc", w.dir, `..\..`, "/skills/demo", "sub\x00"} {
		o, _ := w.call("run_skill_script", exectool.Script{Skill: "demo", Path: "scripts/pwd.sh", Cwd: cwd})
		w.refuses("cwd_outside", o)
	}
	w = newFixture(t, setup{set: func(s *settings.Settings) { s.Exec.Cwd = settings.CwdWorkspace }}, files) // the skill is elsewhere
	o, _ := w.call("run_skill_script", exectool.Script{Skill: "demo", Path: "scripts/pwd.sh", Cwd: "/skills/demo"})
	w.refuses("cwd_outside", o)
	if r := w.ran("scripts/pwd.sh"); r.Stdout != "/workspace\n" {
		t.Errorf("script_cwd=workspace: %q", r.Stdout)
	}
	w = newFixture(t, setup{set: func(s *settings.Settings) { s.Exec.Cwd = settings.CwdCall }}, files) // a call may name the skill's folder
	for cwd, want := range map[string]string{"": "/workspace", "sub": "/workspace/sub", "/skills/demo": "/skills/demo", "/skills/demo/scripts": "/skills/demo/scripts"} {
		o, _ := w.call("run_skill_script", exectool.Script{Skill: "demo", Path: "scripts/pwd.sh", Cwd: cwd})
		if r := result(t, o); r.Stdout != want+"\n" {
			t.Errorf("script_cwd=call, %q: %q", cwd, r.Stdout)
		}
	}
	w.box.jobs = nil
	for _, cwd := range []string{"/", "/tmp", "/skills", "/skills/demo/..", "/skills/demos", w.dir} {
		o, _ := w.call("run_skill_script", exectool.Script{Skill: "demo", Path: "scripts/pwd.sh", Cwd: cwd})
		w.refuses("cwd_outside", o)
	}
	w = newFixture(t, setup{profile: agentRuntime}, files)
	if r := w.ran("scripts/pwd.sh"); r.Stdout != "/skills/demo\n" {
		t.Errorf("script_cwd=skill: %q", r.Stdout)
	}
}

// req: A-147
func TestBothAllowlists(t *testing.T) {
	t.Parallel()
	files := demo(map[string]string{"scripts/a.sh": "#!/bin/bash\necho ran\n", "scripts/b.sh": "#!/bin/bash\n"})
	files["skills/other/SKILL.md"], files["skills/other/scripts/a.sh"] = "---\nname: other\ndescription: Use when others are tried.\n---\n", "#!/bin/bash\n"
	for _, tt := range []struct {
		tool, script bool
		code         string
	}{{false, false, policy.CodeToolNotAllowed}, {false, true, policy.CodeToolNotAllowed}, {true, false, "script_not_allowlisted"}, {true, true, ""}} {
		w := newFixture(t, setup{profile: cfHarness, grants: func(g *policy.Grants) {
			g.Tools = []string{"load_skill"}
			if tt.tool {
				g.Tools = append(g.Tools, "run_skill_script")
			}
			if !tt.script {
				g.Scripts = []string{"demo:scripts/b.sh", "other:scripts/a.sh"} // other scripts are allowed
			}
		}}, files)
		o := w.run("scripts/a.sh")
		if o.Code() != tt.code || (len(w.box.jobs) > 0) != (tt.code == "") || strings.Contains(o.Text(), "ran\n") != (tt.code == "") {
			t.Errorf("%+v: %s, %d jobs: %s", tt, o.Code(), len(w.box.jobs), o.Text())
		}
	}
}

// req: A-191
func TestStagedBeforeActivated(t *testing.T) {
	t.Parallel()
	w := newFixture(t, setup{}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\n", "references/r.md": "r"}))
	at := map[string]int{}
	for i, typ := range order(w) {
		if _, seen := at[typ]; !seen {
			at[typ] = i + 1
		}
	}
	if at["skill.discovered"] == 0 || at["skill.staged"] < at["skill.discovered"] || at["skill.activated"] < at["skill.staged"] {
		t.Errorf("%v", order(w))
	}
	st := events[event.Staged](w)
	if len(st) != 1 || st[0].Path != "/skills/demo" || st[0].Files != 3 || st[0].Bytes != 83 || st[0].SkillID != "r:demo" || st[0].Tree != string(events[event.SkillActivated](w)[0].Tree) || events[event.SkillActivated](w)[0].Path != "/workspace/skills/demo/SKILL.md" {
		t.Errorf("%+v %q", st, events[event.SkillActivated](w)[0].Path)
	}
}

// The gate checks the skill that is active, not one that has its name now.
//
// req: A-065
func TestGate_AnotherSkillOfTheName(t *testing.T) {
	t.Parallel()
	w := newFixture(t, setup{profile: cfHarness}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\necho ran\n"}))
	layer, err := settings.Profile(cfHarness)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := settings.Resolve(layer)
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(w.dir, "skills")
	src, err := local.New(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	build := func(ctx context.Context, label string) (*metier.Snapshot, error) {
		return metier.Build(ctx, []metier.Mount{{Label: label, Tier: policy.Builtin, Source: src, Root: root}}, set.Parse, set.Names, set.Read.IndexRoot, false)
	}
	first, err := build(t.Context(), "first")
	if err != nil {
		t.Fatal(err)
	}
	view := metier.View{Paths: settings.PathsSandbox, Workspace: w.dir}
	log := record.NewMemory()
	w.s, err = metier.Open(t.Context(), metier.Config{ID: "s", By: "owner", Log: log, Blobs: log, Snapshot: first, Settings: set, View: view,
		Tools: exectool.Tools(exectool.Options{Sandbox: w.box, Workspace: &sandbox.Workspace{Host: w.dir, Writable: true, ReadOnly: []string{"skills"}}, Exec: set.Exec,
			Name: "run_skill_script", View: view, Run: "run-1"}),
		Grants: policy.Grants{Mode: policy.Disabled, Tools: []string{"load_skill", "run_skill_script"}, Narrow: policy.NarrowIgnore, Merge: policy.MergeUnion,
			ScriptRule: policy.ScriptsExact, Scripts: []string{"demo:scripts/a.sh"}, Approval: policy.ApprovalNever},
		Refresh: func(ctx context.Context) (*metier.Snapshot, error) { return build(ctx, "second") }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.s.Activate(t.Context(), "demo", "cli-preload"); err != nil {
		t.Fatal(err)
	}
	w.ran("scripts/a.sh")
	w.box.jobs = nil
	if err := w.s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.refuses("skill_not_activated", w.run("scripts/a.sh"))
}
