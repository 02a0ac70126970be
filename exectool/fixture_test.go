package exectool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"metier"
	"metier/event"
	"metier/event/eventtest"
	"metier/exectool"
	"metier/internal/testenv"
	"metier/policy"
	"metier/record"
	"metier/sandbox"
	"metier/sandbox/native"
	"metier/settings"
	"metier/source/local"
)

const (
	cfHarness    = "cf-harness"
	agentRuntime = "agent-runtime"
	agentHarness = "agent-harness"
	projectOnly  = "project-skills"
)

// fixture is a workspace with skills in it and a session over both, with the real
// sandbox.
type fixture struct {
	t     *testing.T
	dir   string
	s     *metier.Session
	log   *record.Memory
	box   *counting
	blobs *refusing
	calls int
	out   string // the text given to Output
}

// counting is the sandbox, and how often it was asked to run.
type counting struct {
	sandbox.Sandbox
	jobs   []sandbox.Job
	before func(sandbox.Job) // a job is about to run
}

func (c *counting) Run(ctx context.Context, j sandbox.Job) (sandbox.Result, error) {
	c.jobs = append(c.jobs, j)
	if c.before != nil {
		c.before(j)
	}
	return c.Sandbox.Run(ctx, j)
}

// refusing stores no content of one media type.
type refusing struct {
	record.Blobs
	media string
}

func (r *refusing) Put(ctx context.Context, media string, b []byte) (record.Ref, error) {
	if media == r.media {
		return record.Ref{}, errors.New("no space is left")
	}
	return r.Blobs.Put(ctx, media, b)
}

// setup is what a test changes about its fixture.
type setup struct {
	profile string
	tier    policy.Tier // of the skills; "": builtin, whose scripts need no approval
	set     func(*settings.Settings)
	grants  func(*policy.Grants)
	options func(*exectool.Options)
	local   *local.Options
	source  func(metier.Source) metier.Source // of the skills
	idle    bool                              // nothing is activated
}

// linux skips on other systems, which have no sandbox.
func linux(t testing.TB) {
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "the native sandbox is Linux's")
	}
}

func newFixture(t *testing.T, su setup, files map[string]string) *fixture {
	t.Helper()
	linux(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &fixture{t: t, dir: dir, log: record.NewMemory()}
	w.blobs = &refusing{Blobs: w.log}
	for name, content := range files {
		w.put(name, content)
	}
	if su.profile == "" {
		su.profile = settings.DefaultProfile
	}
	layer, err := settings.Profile(su.profile)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := settings.Resolve(layer)
	if err != nil {
		t.Fatal(err)
	}
	if su.set != nil {
		su.set(&set)
	}
	if set.Catalog.Paths == settings.PathsAuto {
		set.Catalog.Paths = settings.PathsSandbox
	}
	box, err := native.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.box = &counting{Sandbox: box}
	t.Cleanup(func() { box.Close() })
	tier := su.tier
	if tier == "" {
		tier = policy.Builtin
	}
	root := filepath.Join(dir, "skills")
	var mounts []metier.Mount
	if _, err := os.Stat(root); err == nil {
		src, err := local.New(root, su.local)
		if err != nil {
			t.Fatal(err)
		}
		m := metier.Mount{Label: "r", Tier: tier, Source: src, Root: root}
		if su.source != nil {
			m.Source = su.source(src)
		}
		mounts = append(mounts, m)
	}
	snap, err := metier.Build(t.Context(), mounts, set.Parse, set.Names, set.Read.IndexRoot, false)
	if err != nil {
		t.Fatal(err)
	}
	view := metier.View{Paths: set.Catalog.Paths, Workspace: dir}
	x := set.Exec
	g := policy.Grants{Mode: policy.Disabled, Tools: []string{settings.ToolLoadSkill, settings.ToolRunSkillScript, settings.ToolBash}, Narrow: policy.Narrowing(set.Policy.AllowedTools), Merge: policy.Merge(set.Policy.Merge),
		ScriptRule: policy.ScriptRule(x.Scripts), Approval: policy.Approval(x.Approval), Network: policy.NetworkRule(x.Network)}
	for _, sk := range snap.All() {
		if sk, err = snap.Index(t.Context(), sk); err != nil {
			t.Fatal(err)
		}
		for _, r := range sk.Resources {
			g.Scripts = append(g.Scripts, sk.Name+":"+r.Path)
		}
	}
	if su.grants != nil {
		su.grants(&g)
	}
	o := exectool.Options{Sandbox: w.box, Workspace: &sandbox.Workspace{Host: dir, Writable: true, ReadOnly: []string{"skills"}, Hidden: []string{".metier"}}, Exec: x, Name: "run_skill_script", View: view, Run: "run-1",
		Limits: sandbox.Limits{Wall: 20 * time.Second}, Hosts: g.Hosts, Output: func(_, stream string, p []byte) { w.out += stream + ":" + string(p) }}
	if su.options != nil {
		su.options(&o)
	}
	w.s, err = metier.Open(t.Context(), metier.Config{ID: "s", By: "owner", Log: w.log, Blobs: w.blobs, Snapshot: snap, Tools: exectool.Tools(o), Settings: set, View: view, Grants: g})
	if err != nil {
		t.Fatal(err)
	}
	if !su.idle {
		for _, sk := range snap.All() {
			if _, err := w.s.Activate(t.Context(), sk.Name, "cli-preload"); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

// put writes a file of the workspace. A file that begins with #! is executable.
func (w *fixture) put(name, content string) {
	w.t.Helper()
	p := filepath.Join(w.dir, filepath.FromSlash(name))
	mode := os.FileMode(0o644)
	if strings.HasPrefix(content, "#!") {
		mode = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), mode); err != nil {
		w.t.Fatal(err)
	}
}

// demo is a skill of that name with scripts: path below the skill to content.
func demo(scripts map[string]string) map[string]string {
	files := map[string]string{"skills/demo/SKILL.md": "---\nname: demo\ndescription: Use when scripts are tried.\n---\nRun them.\n"}
	for p, c := range scripts {
		files["skills/demo/"+p] = c
	}
	return files
}

// call makes a call of the model. An error of the session fails the test,
// unless it is a question.
func (w *fixture) call(tool string, args any) (metier.Observation, *metier.NeedsApproval) {
	w.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		w.t.Fatal(err)
	}
	w.calls++
	return w.try(metier.Call{ID: fmt.Sprintf("c%d", w.calls), Tool: tool, Args: raw})
}

func (w *fixture) try(c metier.Call) (metier.Observation, *metier.NeedsApproval) {
	w.t.Helper()
	o, err := w.s.Call(w.t.Context(), c)
	if asks, is := err.(*metier.NeedsApproval); is {
		return o, asks
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return o, nil
}

// run runs a script of demo.
func (w *fixture) run(path string, args ...string) metier.Observation {
	w.t.Helper()
	o, asks := w.call("run_skill_script", exectool.Script{Skill: "demo", Path: path, Args: args})
	if asks != nil {
		w.t.Fatalf("asks %s", asks.Question.Text)
	}
	return o
}

// ran returns the result of a script that has to succeed.
func (w *fixture) ran(path string, args ...string) exectool.Result {
	w.t.Helper()
	o := w.run(path, args...)
	if o.Code() != "" {
		w.t.Fatalf("%s: %s\n%s", path, o.Code(), o.Text())
	}
	return result(w.t, o)
}

func result(t *testing.T, o metier.Observation) exectool.Result {
	t.Helper()
	var r exectool.Result
	if err := json.Unmarshal(o.Detail(), &r); err != nil {
		t.Fatalf("%v: %s", err, o.Text())
	}
	return r
}

// refuses checks that a call fails with a code, that nothing ran for it, and
// that no effect was left.
func (w *fixture) refuses(code string, o metier.Observation) {
	w.t.Helper()
	if o.Code() != code {
		w.t.Errorf("%q, want %s: %s", o.Code(), code, o.Text())
	}
	if len(w.box.jobs) > 0 {
		w.t.Errorf("%s: the sandbox was asked to run %q", code, w.box.jobs[len(w.box.jobs)-1].Argv)
	}
}

// events returns those of one type in the log.
func events[E event.Event](w *fixture) []E {
	w.t.Helper()
	return eventtest.All[E](w.t, w.log)
}

func order(w *fixture) []string {
	var out []string
	for en := range w.log.Read(w.t.Context(), 1) {
		out = append(out, en.Type)
	}
	return out
}

func contains(t *testing.T, list []string, want string) {
	t.Helper()
	if !slices.Contains(list, want) {
		t.Errorf("%q is not in %q", want, list)
	}
}
