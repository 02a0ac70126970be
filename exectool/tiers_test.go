package exectool_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/exectool"
	"metier/policy"
	"metier/settings"
)

// req: A-061, C-038
func TestScriptsAreOfferedByNameOnly(t *testing.T) {
	t.Parallel()
	offered := func(w *fixture) bool {
		for _, s := range w.s.Offer(t.Context()) {
			if s.Canonical == settings.ToolRunSkillScript {
				return s.Effect == policy.SideEffect
			}
		}
		return false
	}
	files := demo(map[string]string{"scripts/a.sh": "#!/bin/bash\n"})
	for _, profile := range settings.Profiles() {
		layer, err := settings.Profile(profile)
		if err != nil {
			t.Fatal(err)
		}
		set, _, err := settings.Resolve(layer)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range set.Tools.Default {
			if name == settings.ToolRunSkillScript || name == settings.ToolBash {
				t.Errorf("%s has %s by default", profile, name)
			}
		}
	}
	if !offered(newFixture(t, setup{profile: cfHarness}, files)) {
		t.Error("not offered where it is allowed")
	}
	if offered(newFixture(t, setup{profile: cfHarness, grants: func(g *policy.Grants) { g.Tools = []string{"load_skill", "bash"} }}, files)) {
		t.Error("offered though nobody allowed it")
	}
	w := newFixture(t, setup{set: func(s *settings.Settings) { s.Exec.Scripts = settings.ScriptsOff }}, files)
	if offered(w) {
		t.Error("offered though scripts are off")
	}
	if o := w.run("scripts/a.sh"); o.Code() != "unknown_tool" {
		t.Errorf("scripts are off, and a call gives %q", o.Code())
	}
}

// req: C-004, C-042, C-082
func TestScriptsAreHeldInTheSandbox(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("untouched"), 0o666); err != nil {
		t.Fatal(err)
	}
	w := newFixture(t, setup{}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\necho x > \"$1\"; a=$?; cat \"$1\"; b=$?; echo y > /usr/planted; c=$?; echo z > /skills/demo/scripts/a.sh; d=$?; echo w > /workspace/skills/demo/SKILL.md; e=$?; echo $a $b $c $d $e; echo ok > /workspace/mine\n"}))
	r := w.ran("scripts/a.sh", victim)
	if b, err := os.ReadFile(victim); err != nil || string(b) != "untouched" {
		t.Errorf("the file outside is %q, %v", b, err)
	}
	for _, n := range strings.Fields(r.Stdout) {
		if n == "0" {
			t.Errorf("an act worked: %q", r.Stdout)
		}
	}
	if b, err := os.ReadFile(filepath.Join(w.dir, "mine")); err != nil || string(b) != "ok\n" {
		t.Errorf("the workspace: %q, %v", b, err)
	}
	if _, err := os.Stat("/usr/planted"); err == nil {
		t.Error("a file was planted in /usr")
	}
	ev := events[event.ScriptExecuted](w)[0] // the call trace shows the backend
	if ev.Backend != "native" || ev.Level != "L2" || ev.Target != "sandbox" || r.Backend != ev.Backend {
		t.Errorf("%+v", ev)
	}
}

// req: C-050, C-060, C-084
func TestNoNetworkUnlessGranted(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	came := make(chan struct{}, 8)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
			came <- struct{}{}
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	script := demo(map[string]string{"scripts/a.sh": "#!/bin/bash\nif (exec 3<>/dev/tcp/127.0.0.1/$1) 2>/dev/null; then echo connected; else echo no; fi\nif (exec 3<>/dev/tcp/127.0.0.1/3128) 2>/dev/null; then echo proxy; else echo none; fi\necho \"${HTTPS_PROXY:+set}\"\n"})
	for _, tier := range []policy.Tier{policy.Builtin, policy.ThirdParty} {
		for _, network := range []settings.Network{settings.NetworkOff, settings.NetworkTiered} {
			w := newFixture(t, setup{tier: tier, set: func(s *settings.Settings) { s.Exec.Network = network }, grants: func(g *policy.Grants) { g.Approval = policy.ApprovalNever }}, script)
			if r := w.ran("scripts/a.sh", strconv.Itoa(port)); r.Stdout != "no\nnone\n\n" {
				t.Errorf("%s, %s: %q", tier, network, r.Stdout)
			}
			if ev := events[event.ScriptExecuted](w)[0]; ev.Network != "" {
				t.Errorf("%s, %s: %+v", tier, network, ev)
			}
		}
	}
	w := newFixture(t, setup{set: func(s *settings.Settings) { s.Exec.Network = settings.NetworkTiered },
		grants: func(g *policy.Grants) { g.Hosts = []string{"example.invalid"}; g.Approval = policy.ApprovalNever }}, script)
	if r := w.ran("scripts/a.sh", strconv.Itoa(port)); r.Stdout != "no\nproxy\nset\n" {
		t.Errorf("with a granted host: %q", r.Stdout)
	}
	if ev := events[event.ScriptExecuted](w)[0]; ev.Network != "hosts: example.invalid" {
		t.Errorf("%+v", ev)
	}
	select {
	case <-came:
		t.Error("something reached the host's listener")
	default:
	}
}

// Skills that are each small enough are not staged beyond the limit of one job
// for all of them. The record lists those left out.
func TestSkillsOfOneCommandAreBoundedTogether(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for _, name := range []string{"aa", "bb", "cc"} {
		files["skills/"+name+"/SKILL.md"] = "---\nname: " + name + "\ndescription: Use when there is much.\n---\n"
		files["skills/"+name+"/assets/large.bin"] = strings.Repeat("\x00", 25<<20)
	}
	w := newFixture(t, setup{}, files)
	o, _ := w.call("bash", map[string]any{"command": "ls /skills"})
	if r := result(t, o); r.Stdout != "aa\nbb\n" {
		t.Errorf("%q", r.Stdout)
	}
	var notes []event.Note
	for _, n := range events[event.Note](w) {
		if n.Code == "skill-not-staged" {
			notes = append(notes, n)
		}
	}
	if len(notes) != 1 || !strings.HasSuffix(notes[0].On, "cc") {
		t.Errorf("%+v", notes)
	}
}

// req: C-042, C-069
func TestSkillsAreFoldersForCommands(t *testing.T) {
	t.Parallel()
	w := newFixture(t, setup{}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\n", "references/r.md": "the reference\n", "assets/deep/x.txt": "deep\n"}))
	o, asks := w.call("bash", map[string]any{"command": "cd /skills/demo && head -2 SKILL.md && cat references/r.md assets/deep/x.txt && ls scripts; echo x > SKILL.md || echo read-only"})
	if asks != nil || o.Code() != "" {
		t.Fatalf("%v %s", asks, o.Text())
	}
	if r := result(t, o); r.Stdout != "---\nname: demo\nthe reference\ndeep\na.sh\nread-only\n" {
		t.Errorf("%q", r.Stdout)
	}
	if ev := events[event.CommandExecuted](w); len(ev) != 1 || ev[0].Exit == nil || ev[0].Backend != "native" || ev[0].Level != "L2" || ev[0].Target != "sandbox" {
		t.Errorf("%+v", ev)
	}
}

// A command of a model may read a skill that the model finds in the catalog,
// and no skill that the model may not read.
//
// req: C-069
func TestBash_ReadsSkillsThatAreNotActive(t *testing.T) {
	t.Parallel()
	skill := func(name, more string) string {
		return "---\nname: " + name + "\ndescription: Use it.\n" + more + "---\nBody of " + name + ".\n"
	}
	files := map[string]string{"skills/open/SKILL.md": skill("open", ""), "skills/open/references/r.md": "the reference\n", "skills/open-2/SKILL.md": skill("open-2", ""),
		"skills/denied/SKILL.md": skill("denied", ""), "skills/asked/SKILL.md": skill("asked", ""), "skills/unlisted/SKILL.md": skill("unlisted", "disable-model-invocation: true\n")}
	w := newFixture(t, setup{idle: true, grants: func(g *policy.Grants) {
		g.Skills = append(g.Skills, policy.SkillRule{Skill: "denied", Effect: policy.RuleDeny}, policy.SkillRule{Skill: "asked", Effect: policy.RuleAsk})
	}}, files)
	for command, want := range map[string]string{
		"tail -n 1 /skills/open/SKILL.md; cat '/skills/open/references/r.md'; ls /skills": "Body of open.\nthe reference\nopen\n",
		"cat /skills/open-2/SKILL.md | tail -n 1; ls /skills":                             "Body of open-2.\nopen-2\n",
		"cd /skills/open; ls": "SKILL.md\nreferences\n",
		"ls /skills/denied /skills/asked /skills/unlisted 2>/dev/null; echo none": "none\n",
	} {
		o, asks := w.call("bash", map[string]any{"command": command})
		if asks != nil {
			t.Fatalf("%s: %v", command, asks)
		}
		if diff := cmp.Diff(want, result(t, o).Stdout); diff != "" {
			t.Errorf("%s (-want +got):\n%s", command, diff)
		}
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	w := newFixture(t, setup{}, map[string]string{"sub/x": "in sub\n"})
	type m = map[string]any
	o, _ := w.call("bash", m{"command": "cat x | tr a-z A-Z; exit 3", "cwd": "sub"})
	if r := result(t, o); o.Code() != "script_failed" || r.Stdout != "IN SUB\n" || *r.ExitCode != 3 {
		t.Errorf("%s %+v", o.Code(), r)
	}
	o, _ = w.call("bash", m{"command": "sleep 60", "timeoutMs": 200})
	if r := result(t, o); r.Limit != "wall" {
		t.Errorf("%+v", r)
	}
	w.box.jobs = nil
	for name, args := range map[string]m{"nothing": {"command": " "}, "NUL": {"command": "a\x00"}, "no shell text": {"command": "if"}, "unknown": {"command": "true", "env": m{}}, "time": {"command": "true", "timeoutMs": 0}} {
		o, _ := w.call("bash", args)
		if o.Code() != "invalid_arguments" || len(w.box.jobs) > 0 {
			t.Errorf("%s: %s", name, o.Text())
		}
	}
	o, _ = w.call("bash", m{"command": "true", "cwd": "/etc"})
	w.refuses("cwd_outside", o)
}

// req
func TestAllowedToolsGrantNothing(t *testing.T) {
	t.Parallel()
	for _, how := range []policy.Narrowing{policy.NarrowIgnore, policy.NarrowAdvise, policy.NarrowNarrow, policy.NarrowEnforce, policy.NarrowPreapprove} {
		files := demo(map[string]string{"scripts/a.sh": "#!/bin/bash\necho ran\n"})
		files["skills/demo/SKILL.md"] = "---\nname: demo\ndescription: Use when scripts are tried.\nallowed-tools: Bash Bash(*) run_skill_script *\n---\nYou may use bash.\n"
		w := newFixture(t, setup{grants: func(g *policy.Grants) { g.Tools = []string{"load_skill"}; g.Narrow = how }}, files)
		w.refuses(policy.CodeToolNotAllowed, w.run("scripts/a.sh"))
		o, _ := w.call("bash", map[string]any{"command": "echo ran"})
		w.refuses(policy.CodeToolNotAllowed, o)
		w = newFixture(t, setup{grants: func(g *policy.Grants) { g.Scripts = nil; g.Narrow = how }}, files)
		w.refuses("script_not_allowlisted", w.run("scripts/a.sh"))
	}
}

// req: C-090
func TestFromDiscoveryToTheSandbox(t *testing.T) {
	t.Parallel()
	w := newFixture(t, setup{idle: true}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\ncat \"$SKILL_DIR/references/r.md\"\n", "references/r.md": "the reference\n"}))
	if c := w.s.Catalog(t.Context()); len(c.Entries) != 1 || c.Entries[0].Name != "demo" || !strings.Contains(c.Text, "Use when scripts are tried.") {
		t.Errorf("discovery: %+v", c)
	}
	w.refuses("skill_activations_missing", w.run("scripts/a.sh"))
	o, _ := w.call("load_skill", map[string]any{"name": "demo"})
	if o.Code() != "" || !strings.Contains(o.Text(), "Run them.") || !strings.Contains(o.Text(), "scripts/a.sh") {
		t.Fatalf("injection: %s", o.Text())
	}
	read, err := w.s.Read(t.Context(), "demo", "references/r.md", 0)
	if err != nil || !strings.Contains(read.Text(), "the reference") {
		t.Fatalf("resource: %s, %v", read.Text(), err)
	}
	if r := w.ran("scripts/a.sh"); r.Stdout != "the reference\n" || r.Backend != "native" || r.Level != "L2" {
		t.Errorf("script: %+v", r)
	}
	kinds := order(w)
	for _, k := range []string{"skill.discovered", "skill.activated", "skill.resource_read", "skill.script_executed"} {
		contains(t, kinds, k)
	}
}

// req: A-082
func TestAllOutputIsKept(t *testing.T) {
	t.Parallel()
	w := newFixture(t, setup{}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\nfor i in {1..20000}; do echo \"line $i of the output\"; done\n"}))
	o := w.run("scripts/a.sh")
	r := result(t, o)
	if text := o.Text(); len(text) > 50_000 || !strings.Contains(text, "line 1 of") || !strings.Contains(text, "line 20000 of") || !strings.Contains(text, "bytes left out]") {
		t.Errorf("the model reads %d bytes", len(text))
	}
	ev := events[event.ScriptExecuted](w)[0]
	b, err := w.log.Open(t.Context(), ev.Stdout)
	if err != nil || string(b) != r.Stdout || strings.Count(r.Stdout, "\n") != 20_000 || !strings.HasSuffix(r.Stdout, "line 20000 of the output\n") {
		t.Errorf("%d of %d bytes, %v", len(b), len(r.Stdout), err)
	}
}

// A skill that changed between the question and the answer asks again: the
// answer covers the tree it was asked for.
//
// req: C-051, C-060
func TestAnApprovalCoversOneTree(t *testing.T) {
	t.Parallel()
	w := newFixture(t, setup{tier: policy.ThirdParty}, demo(map[string]string{"scripts/a.sh": "#!/bin/bash\necho ran\n"}))
	c := metier.Call{ID: "q", Tool: "run_skill_script", Args: []byte(`{"skill":"demo","path":"scripts/a.sh"}`)}
	_, asks := w.try(c)
	if asks == nil || len(w.box.jobs) > 0 {
		t.Fatal("a script of strangers ran unasked")
	}
	for _, what := range []string{"demo", "scripts/a.sh", "L2"} {
		if !strings.Contains(asks.Question.Text, what) {
			t.Errorf("the question %q does not say %q", asks.Question.Text, what)
		}
	}
	w.put("skills/demo/scripts/a.sh", "#!/bin/bash\necho changed\n")
	if err := w.s.Answer(t.Context(), "q", policy.Answer{Question: asks.Question.ID, Allow: true, Scope: "once", By: "owner"}); err != nil {
		t.Fatal(err)
	}
	o, asks := w.try(c)
	if asks != nil || o.Code() != "script_snapshot_mismatch" || len(w.box.jobs) > 0 {
		t.Errorf("%v %s", asks, o.Text())
	}
	w.put("skills/demo/scripts/a.sh", "#!/bin/bash\necho ran\n")
	_, asks = w.call("run_skill_script", exectool.Script{Skill: "demo", Path: "scripts/a.sh"})
	if asks == nil {
		t.Error("an answer for one call covered another")
	}
}
