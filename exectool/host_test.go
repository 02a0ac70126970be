package exectool_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"metier/event"
	"metier/exectool"
	"metier/policy"
	"metier/sandbox/unconfined"
	"metier/settings"
)

// hosted is a fixture whose profile runs scripts on the host.
type hosted struct {
	*fixture
	host *exectool.Host
	on   *counting // the host
}

func newHosted(t *testing.T, su setup, h *exectool.Host, files map[string]string) *hosted {
	t.Helper()
	w := &hosted{host: h, on: &counting{Sandbox: unconfined.New(nil)}}
	t.Cleanup(func() { w.on.Close() })
	h.Sandbox = w.on
	more := su.options
	su.options = func(o *exectool.Options) {
		if o.Host = h; more != nil {
			more(o)
		}
	}
	w.fixture = newFixture(t, su, files)
	return w
}

// denies checks that a call is refused and that nothing ran, in the sandbox or
// on the host.
func (w *hosted) denies(code, text string, o interface {
	Code() string
	Text() string
}) {
	w.t.Helper()
	if o.Code() != code || !strings.Contains(o.Text(), text) {
		w.t.Errorf("%q, want %s with %q: %s", o.Code(), code, text, o.Text())
	}
	if n := len(w.on.jobs) + len(w.box.jobs); n > 0 {
		w.t.Errorf("%s: %d programs ran", code, n)
	}
}

// req: A-087
func TestProfileScriptsRunOnTheHost(t *testing.T) {
	t.Parallel()
	linux(t)
	here, err := os.Readlink("/proc/self/ns/pid") // what only the host has
	if err != nil {
		t.Fatal(err)
	}
	const show = "#!/bin/bash\nreadlink /proc/self/ns/pid; echo \"$CF_HARNESS_SKILL_SCRIPT_EXECUTION_TARGET $PWD\"\n"
	for _, profile := range []string{settings.DefaultProfile, cfHarness} {
		w := newHosted(t, setup{profile: profile}, &exectool.Host{Scripts: []string{"demo:scripts/host.sh"}}, demo(map[string]string{"scripts/host.sh": show, "scripts/box.sh": show, "scripts/host.sh.sh": show}))
		if r := w.ran("scripts/host.sh"); r.Stdout != here+"\nhost "+w.dir+"\n" || r.Level != "L0" {
			t.Errorf("%s, on the host: %+v", profile, r)
		}
		if o := w.run("scripts/box.sh"); !strings.Contains(o.Text(), "sandbox /workspace") || strings.Contains(o.Text(), here) || len(w.box.jobs) != 1 || len(w.on.jobs) != 1 {
			t.Errorf("%s, in the sandbox: %s", profile, o.Text())
		}
		if o := w.run("scripts/host.sh.sh"); !strings.Contains(o.Text(), "sandbox /workspace") || len(w.box.jobs) != 2 || len(w.on.jobs) != 1 {
			t.Errorf("%s, a path that begins with an allowed one: %s", profile, o.Text())
		}
		ran := events[event.ScriptExecuted](w.fixture)
		if len(ran) != 3 || ran[0].Target != "host" || ran[0].Network != "host" || ran[0].Backend != unconfined.Name || ran[1].Target != "sandbox" || ran[1].Network != "" {
			t.Errorf("%s: the record says %+v", profile, ran)
		}
	}
	w := newHosted(t, setup{options: func(o *exectool.Options) { o.Host = nil }}, &exectool.Host{Scripts: []string{"demo:scripts/host.sh"}}, demo(map[string]string{"scripts/host.sh": show}))
	if w.run("scripts/host.sh"); len(w.on.jobs) != 0 || len(w.box.jobs) != 1 {
		t.Error("a run without such a profile puts a script on the host")
	}
}

// req: A-090
func TestHostScriptsGetNamedVariables(t *testing.T) {
	t.Setenv("METIER_TEST_SECRET", "canary-of-the-parent")
	const show = "#!/bin/bash\nenv | sort; cat \"$SKILL_SCRIPT\" >&2; ls \"$SKILL_DIR\" >&2\n"
	for _, profile := range []string{settings.DefaultProfile, cfHarness} {
		w := newHosted(t, setup{profile: profile, options: func(o *exectool.Options) { o.Secrets = secretsOf("demo", "TOKEN", "of-the-skill-and-not-granted") }},
			&exectool.Host{Scripts: []string{"demo:scripts/env.sh"}, Path: []string{"/opt/tools/bin", "relative/bin"}}, demo(map[string]string{"scripts/env.sh": show}))
		r := w.ran("scripts/env.sh")
		got := map[string]string{}
		for line := range strings.SplitSeq(strings.TrimSpace(r.Stdout), "\n") {
			k, v, _ := strings.Cut(line, "=")
			got[k] = v
		}
		for _, k := range []string{"PWD", "SHLVL", "_", "OLDPWD"} { // set by bash
			delete(got, k)
		}
		for k, want := range map[string]string{"LANG": "C.UTF-8", "TERM": "dumb", "CF_HARNESS_RUN_ID": "run-1", "SKILL_NAME": "demo", "CF_HARNESS_SKILL_SCRIPT_EXECUTION_TARGET": "host"} {
			if got[k] != want {
				t.Errorf("%s: %s=%q, want %q", profile, k, got[k], want)
			}
			delete(got, k)
		}
		if p := got["PATH"]; !strings.HasPrefix(p, "/usr/") || !strings.HasSuffix(p, ":/opt/tools/bin") || strings.Contains(p, "relative") {
			t.Errorf("%s: PATH=%s", profile, p)
		}
		for _, k := range []string{"HOME", "TMPDIR", "SKILL_DIR", "SKILL_SCRIPT"} { // their paths on the host
			if !filepath.IsAbs(got[k]) || strings.HasPrefix(got[k], "/skills") || got[k] == "/tmp" || strings.HasPrefix(got[k], w.dir) {
				t.Errorf("%s: %s=%s", profile, k, got[k])
			}
			delete(got, k)
		}
		if delete(got, "PATH"); len(got) > 0 {
			t.Errorf("%s: more is visible: %v", profile, got)
		}
		if r.Stderr != show+"SKILL.md\nscripts\n" {
			t.Errorf("%s: the files of the skill: %s", profile, r.Stderr)
		}
	}
}

// req: A-091
func TestHostScriptsWorkInTheWorkspace(t *testing.T) {
	t.Parallel()
	files := demo(map[string]string{"scripts/pwd.sh": "#!/bin/bash\npwd -P\n"})
	files[".metier/runs/r1/run-state.json"], files["data/x"], files[".metier-notes/x"] = "{}", "", ""
	for _, profile := range []string{settings.DefaultProfile, cfHarness, "agent-harness"} {
		make := func() *hosted {
			w := newHosted(t, setup{profile: profile}, &exectool.Host{Scripts: []string{"demo:scripts/pwd.sh"}}, files)
			for link, to := range map[string]string{"records": ".metier/runs", "out": os.TempDir(), "alias": "data"} {
				if err := os.Symlink(to, filepath.Join(w.dir, link)); err != nil {
					t.Fatal(err)
				}
			}
			return w
		}
		w := make()
		for _, dir := range []string{".metier", ".metier/runs", "/workspace/.metier/runs/r1", "records", "records/r1", "out", "nothing-there"} {
			o, _ := w.call("run_skill_script", exectool.Script{Skill: "demo", Path: "scripts/pwd.sh", Cwd: dir})
			w.denies("permission_denied", "the working folder", o)
		}
		for _, dir := range []string{"..", "/tmp", "/skills/demo", "/"} {
			o, _ := w.call("run_skill_script", exectool.Script{Skill: "demo", Path: "scripts/pwd.sh", Cwd: dir})
			w.denies("cwd_outside", "", o)
		}
		for asked, want := range map[string]string{"": "", ".": "", "data": "/data", "alias": "/data", "/workspace/data": "/data", ".metier-notes": "/.metier-notes"} {
			o, _ := w.call("run_skill_script", exectool.Script{Skill: "demo", Path: "scripts/pwd.sh", Cwd: asked})
			if r := result(t, o); r.Stdout != w.dir+want+"\n" {
				t.Errorf("%s, %q: %s", profile, asked, o.Text())
			}
		}
	}
	w := newHosted(t, setup{options: func(o *exectool.Options) { o.Workspace = nil }}, &exectool.Host{Scripts: []string{"demo:scripts/pwd.sh"}}, files)
	w.denies("permission_denied", "there is no workspace", w.run("scripts/pwd.sh"))
}

// A name alone does not allow files to run on the host: a third-party skill
// also has to be the one that was approved.
//
// req: A-087
func TestNameOfASkillIsNotItsFiles(t *testing.T) {
	t.Parallel()
	files := demo(map[string]string{"scripts/a.sh": "#!/bin/bash\necho ran\n"})
	plain := func(g *policy.Grants) { g.Approval = policy.ApprovalNever }
	for _, tier := range []policy.Tier{policy.Builtin, policy.Org, policy.Project, policy.User, policy.ThirdParty} {
		for name, approve := range map[string]func(tree string) []policy.ApprovedScript{
			"nothing": func(string) []policy.ApprovedScript { return nil },
			"this tree": func(tree string) []policy.ApprovedScript {
				return []policy.ApprovedScript{{Entry: "demo:scripts/a.sh", Tree: tree}}
			},
			"by ID": func(tree string) []policy.ApprovedScript {
				return []policy.ApprovedScript{{Entry: "r:demo:scripts/a.sh", Tree: tree}}
			},
			"another tree": func(tree string) []policy.ApprovedScript {
				return []policy.ApprovedScript{{Entry: "demo:scripts/a.sh", Tree: tree[:len(tree)-1] + "x"}}
			},
			"for a sandbox": func(tree string) []policy.ApprovedScript {
				return []policy.ApprovedScript{{Entry: "demo:scripts/a.sh", Tree: tree, Level: "L2"}}
			},
			"for the host": func(tree string) []policy.ApprovedScript {
				return []policy.ApprovedScript{{Entry: "demo:scripts/a.sh", Tree: tree, Level: "L0"}}
			},
			"no tree": func(string) []policy.ApprovedScript { return []policy.ApprovedScript{{Entry: "demo:scripts/a.sh"}} },
			"other scripts": func(tree string) []policy.ApprovedScript {
				return []policy.ApprovedScript{{Entry: "demo:scripts/b.sh", Tree: tree}}
			},
			"by ID, listed by ID": func(tree string) []policy.ApprovedScript {
				return []policy.ApprovedScript{{Entry: "r:demo:scripts/a.sh", Tree: tree}}
			},
			"by name, listed by ID": func(tree string) []policy.ApprovedScript {
				return []policy.ApprovedScript{{Entry: "demo:scripts/a.sh", Tree: tree}}
			},
		} {
			h := &exectool.Host{Scripts: []string{"demo:scripts/a.sh"}}
			if strings.HasSuffix(name, "listed by ID") {
				h.Scripts = []string{"r:demo:scripts/a.sh"}
			}
			w := newHosted(t, setup{tier: tier, grants: plain}, h, files)
			sk, err := w.s.Snapshot().Find("demo")
			if err != nil {
				t.Fatal(err)
			}
			if sk, err = w.s.Snapshot().Index(t.Context(), sk); err != nil {
				t.Fatal(err)
			}
			h.Approved = approve(string(sk.Tree))
			hint, approved := "the operator can approve the script demo:scripts/a.sh", []string{"this tree", "by ID", "for the host", "by ID, listed by ID", "by name, listed by ID"}
			if tier == policy.Project || tier == policy.ThirdParty { // their names prove nothing
				hint, approved = "the operator can list the script in the profile and approve it as r:demo:scripts/a.sh", []string{"by ID, listed by ID"}
			}
			if tier == policy.Builtin || tier == policy.Org || slices.Contains(approved, name) {
				w.ran("scripts/a.sh")
			} else {
				w.denies("permission_denied", hint, w.run("scripts/a.sh"))
			}
		}
	}
}

// The other gates come before the rules of the host: here no browser is shared,
// which would refuse everything.
func TestHostRulesAreTheLastGate(t *testing.T) {
	t.Parallel()
	files := demo(map[string]string{"scripts/a.sh": "#!/bin/bash\n", "scripts/b.sh": "#!/bin/bash\n", "scripts/c.rb": "#!/usr/bin/env ruby\n", "scripts/changed.sh": "#!/bin/bash\n", "scripts/rel.sh": "#!/bin/bash\nsource ./x.sh\n"})
	h := func() *exectool.Host {
		return &exectool.Host{Leased: true, Scripts: []string{"demo:scripts/a.sh", "demo:scripts/c.rb", "demo:scripts/changed.sh", "demo:scripts/none.sh", "demo:scripts/rel.sh", "demo:scripts/b.sh"}}
	}
	w := newHosted(t, setup{profile: cfHarness, idle: true}, h(), files)
	w.denies("skill_activations_missing", "", w.run("scripts/a.sh"))
	w = newHosted(t, setup{profile: cfHarness, grants: func(g *policy.Grants) {
		g.Scripts = slices.DeleteFunc(g.Scripts, func(s string) bool { return s == "demo:scripts/b.sh" })
		g.Scripts = append(g.Scripts, "demo:scripts/none.sh")
	}}, h(), files)
	w.put("skills/demo/scripts/changed.sh", "#!/bin/bash\necho other bytes\n")
	for _, tt := range [][2]string{{"../a.sh", "script_path_invalid"}, {"scripts/b.sh", "script_not_allowlisted"}, {"scripts/none.sh", "script_not_indexed"}, {"scripts/changed.sh", "script_snapshot_mismatch"},
		{"scripts/c.rb", "unsupported_runtime"}, {"scripts/rel.sh", "unsupported_runtime"}, {"scripts/a.sh", "permission_denied"}} {
		w.denies(tt[1], "", w.run(tt[0]))
	}
}

// Wall time and output limit a script on the host like in the sandbox.
func TestHostScriptsAreBounded(t *testing.T) {
	t.Parallel()
	w := newHosted(t, setup{}, &exectool.Host{Scripts: []string{"demo:scripts/long.sh", "demo:scripts/much.sh"}}, demo(map[string]string{
		"scripts/long.sh": "#!/bin/bash\nsleep 600 & echo $! > child; wait\n", "scripts/much.sh": "#!/bin/bash\nyes\n"}))
	ms := 1500
	o, _ := w.call("run_skill_script", exectool.Script{Skill: "demo", Path: "scripts/long.sh", MS: &ms})
	if o.Code() != "script_limit" || !strings.Contains(o.Text(), "Ended at a limit: wall") {
		t.Errorf("%s %s", o.Code(), o.Text())
	}
	b, err := os.ReadFile(filepath.Join(w.dir, "child"))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile("/proc/" + strings.TrimSpace(string(b)) + "/cmdline"); err == nil && strings.Contains(string(b), "sleep") {
		t.Error("what the script started lives on")
	}
	if o = w.run("scripts/much.sh"); o.Code() != "script_limit" || !result(t, o).Truncated {
		t.Errorf("%s %.200s", o.Code(), o.Text())
	}
}

// The tool description tells the model which scripts run where, in words that
// stay the same.
func TestModelIsToldOfTheHost(t *testing.T) {
	t.Parallel()
	h := &exectool.Host{Scripts: []string{"demo:scripts/b.sh", "demo:scripts/a.sh"}, Leased: true}
	w := newHosted(t, setup{profile: cfHarness}, h, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\n"}))
	about := func() string {
		for _, spec := range w.s.Offer(t.Context()) {
			if spec.Name == "run_skill_script" {
				return spec.Description
			}
		}
		return ""
	}
	if text := about(); !strings.Contains(text, "demo:scripts/a.sh, demo:scripts/b.sh. They need a browser, but this run has no browser session") {
		t.Error(text)
	}
	h.Browser = leased(t, "http://127.0.0.1:1", "http://127.0.0.1:8", time.Hour)
	if text := about(); !strings.Contains(text, "can only reach http://127.0.0.1:8.") || !strings.Contains(text, "--cdp") || strings.Contains(text, h.Browser.Endpoint()) {
		t.Error(text)
	}
}
