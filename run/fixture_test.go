package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"metier"
	"metier/event"
	"metier/internal/digest"
	"metier/model"
	"metier/policy"
	"metier/record"
	"metier/registry"
	"metier/run"
	"metier/settings"
	"metier/source/local"
)

// clock advances by a second each time it is read.
func clock() func() time.Time {
	at := time.Date(2031, 5, 4, 10, 0, 0, 0, time.UTC)
	return func() time.Time { at = at.Add(time.Second); return at }
}

// counter returns ids that differ between folders if their prefixes differ.
func counter(prefix string) func() string {
	n := 0
	return func() string { n++; return fmt.Sprintf("%s%04d", prefix, n) }
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code string, kind metier.Kind) *metier.Error {
	t.Helper()
	e, isErr := errors.AsType[*metier.Error](err)
	if !isErr || e.Code != code || e.Kind != kind {
		t.Fatalf("got error %v (code %s, kind %s), want code %s, kind %s", err, metier.CodeOf(err), metier.KindOf(err), code, kind)
	}
	if e.Hint == "" {
		t.Errorf("%s names no way out: %v", code, err)
	}
	return e
}

// skillsFolder is a root with two skills and every kind of file.
func skillsFolder(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"alpha/SKILL.md":            "---\nname: alpha\ndescription: Use when counting to one.\n---\nCount to one, <slowly> & well.\n",
		"alpha/references/guide.md": "one is one\n",
		"alpha/assets/logo.bin":     "\x00\x9f\x92\x96",
		"alpha/templates/page.txt":  "{{one}}\n",
		"alpha/scripts/count.ts":    "console.log(1)\n",
		"alpha/notes.txt":           "other\n",
		"beta/SKILL.md":             "---\nname: beta\ndescription: Use when counting to two.\nlicense: MIT\nmetadata:\n  author: Ada\n---\nCount to two.\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		ok(t, os.MkdirAll(filepath.Dir(path), 0o755))
		ok(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

// work is what a session does in these tests: the operator preloads alpha, the
// user sends a message, the model loads beta and reads three files, one of
// which is missing, and calls a tool that it may not use.
func work(t *testing.T, f *run.Folder, skills string, now func() time.Time, newID func() string, change ...func(*settings.Settings)) {
	t.Helper()
	ctx := t.Context()
	layer := must[settings.Layer](t)(settings.Profile("cf-harness"))
	set, origins, err := settings.Resolve(layer)
	ok(t, err)
	for _, c := range change {
		c(&set)
	}
	src := must[*local.Source](t)(local.New(skills, nil))
	snap := must[*metier.Snapshot](t)(metier.Build(ctx, []metier.Mount{{Label: "skills", Tier: policy.Project, Source: src, Root: skills}},
		set.Parse, set.Names, set.Read.IndexRoot, true))
	s := must[*metier.Session](t)(metier.Open(ctx, metier.Config{ID: f.ID(), By: "operator", Build: "test", Log: f.Log(), Blobs: f.Blobs(), Snapshot: snap,
		Settings: set, Origins: settings.Snapshot(set, origins), Now: now, NewID: newID, View: metier.View{Paths: set.Catalog.Paths, Workspace: filepath.Dir(skills)},
		Grants: policy.Grants{Mode: policy.Observe, Narrow: policy.NarrowNarrow, Merge: policy.MergeUnion, Tools: []string{"load_skill", "read_skill_resource"}, Scripts: []string{"alpha:scripts/count.ts"}}}))
	must[metier.Activation](t)(s.Activate(ctx, "alpha", "cli-preload"))
	must[policy.Slot](t)(s.Send(ctx, metier.Input{Parts: []model.Part{model.Text("count")}, Role: policy.DirectCommand, Surface: "cli", By: "user"}))
	for i, c := range []metier.Call{
		{Tool: "load_skill", Args: json.RawMessage(`{"name":"beta"}`)},
		{Tool: "read_skill_resource", Args: json.RawMessage(`{"skill":"alpha","path":"references/guide.md","maxBytes":3}`)},
		{Tool: "read_skill_resource", Args: json.RawMessage(`{"skill":"alpha","path":"assets/logo.bin"}`)},
		{Tool: "read_skill_resource", Args: json.RawMessage(`{"skill":"alpha","path":"references/none.md"}`)},
		{Tool: "read_skill_resource", Args: json.RawMessage(`{"skill":7}`)},
		{Tool: "bash", Args: json.RawMessage(`{"command":"ls"}`)},
	} {
		c.ID, c.Actor, c.By = fmt.Sprintf("t1.c%d", i+1), policy.ByModel, "model"
		must[metier.Observation](t)(s.Call(ctx, c))
	}
	ok(t, s.Close(ctx))
}

// author writes events by hand.
type author struct {
	t   *testing.T
	f   *run.Folder
	now func() time.Time
	n   int
}

func (a *author) add(evs ...event.Event) {
	a.t.Helper()
	for _, e := range evs {
		a.n++
		head := must[record.Head](a.t)(a.f.Log().Head(a.t.Context()))
		en := must[record.Entry](a.t)(event.New(e, fmt.Sprintf("%s@%d.%d", e.Type(), head.Seq, a.n), "tester", a.now()))
		must[record.Head](a.t)(a.f.Log().Append(a.t.Context(), head, en))
	}
}

func (a *author) blob(media string, v any) record.Ref {
	a.t.Helper()
	b, isText := v.(string)
	if !isText {
		b = string(must[[]byte](a.t)(json.Marshal(v)))
	}
	return must[record.Ref](a.t)(a.f.Blobs().Put(a.t.Context(), media, []byte(b)))
}

func (a *author) text(s string) record.Ref { return a.blob("text/plain; charset=utf-8", s) }
func (a *author) json(v any) record.Ref    { return a.blob("application/json", v) }

const skillText = "---\nname: alpha\ndescription: Use when counting.\n---\nCount.\n"

// open starts a session with one indexed skill that it activates.
func (a *author) open(source string) event.SkillActivated {
	a.t.Helper()
	sum := digest.Bytes([]byte(skillText))
	a.add(
		event.SessionOpened{Session: a.f.ID(), Build: "test", Settings: a.json(json.RawMessage(`{"version":1,"settings":[{"name":"catalog_format","value":"xml","layer":"profile"},{"name":"catalog_place","value":"tool","layer":"flag"}]}`)),
			Grants: a.json(policy.Grants{Mode: policy.Observe, Tools: []string{"read_file"}, Scripts: []string{"alpha:scripts/a.sh"}, Denied: []string{"beta"}})},
		event.SkillsDiscovered{Loaded: 1, Registry: a.json(registry.List{SkillsRoot: "/w/skills", SandboxSkillsRoot: "/workspace/skills",
			Roots: []registry.Root{{Label: "skills", Tier: "project", Path: "/w/skills"}}, Others: []registry.Other{},
			Diagnostics: []metier.Diagnostic{{Severity: "warning", Code: "skill-scan-outside-root", Detail: "a link leaves the root"}, {Severity: "advice", Code: "description-no-use", Detail: "say when"}},
			Skills: []registry.Skill{{ID: "skills:alpha", Name: "alpha", Description: "Use when counting.", Tier: "project", State: "loaded", SkillPath: "/w/skills/alpha/SKILL.md",
				SkillDir: "/w/skills/alpha", SandboxSkillPath: "/workspace/skills/alpha/SKILL.md", SandboxSkillDir: "/workspace/skills/alpha", Digest: sum,
				Resources: []registry.Resource{}, Frontmatter: json.RawMessage(`{"name":"alpha"}`), Diagnostics: []metier.Diagnostic{}}}})})
	act := event.SkillActivated{Call: "load1", SkillID: "skills:alpha", Name: "alpha", Hash: sum, Tree: digest.Bytes([]byte("tree")), Source: policy.Project, ActivationSource: source,
		SessionID: a.f.ID(), TaskID: "load1", Path: "/workspace/skills/alpha/SKILL.md", Dir: "/workspace/skills/alpha", HostPath: "/w/skills/alpha/SKILL.md",
		Text: a.text("<skill_context name=\"alpha\">\nCount.\n</skill_context>\n"), Original: a.blob("text/markdown", skillText), Role: policy.Context}
	a.add(event.PolicyDecided{Call: "load1", Tool: "load_skill", Actor: policy.ByOperator, Effect: policy.Read, Outcome: policy.Allow, Code: "cfc_observe_read", Args: a.json(map[string]string{"name": "alpha"}), Stage: "call"},
		event.ToolCallStarted{ID: "load1", Tool: "load_skill", Effect: policy.Read, Args: a.json(map[string]string{"name": "alpha"})}, act,
		event.ToolResult{ID: "load1", Tool: "load_skill", Content: a.json([]model.Part{{Kind: model.PartResult, Call: "load1", Text: "<skill_context name=\"alpha\">\nCount.\n</skill_context>\n"}}), Label: policy.Label{Role: policy.Context, Mediated: true}})
	return act
}

// turn is one reply with one write call.
func (a *author) turn(n int) {
	a.t.Helper()
	op, call := fmt.Sprintf("t%d.m", n), fmt.Sprintf("t%d.c1", n)
	cost := int64(2500)
	args := a.json(map[string]string{"path": "/workspace/out.txt", "content": "x"})
	a.add(event.ModelStarted{ID: op, Request: digest.Bytes([]byte(op))},
		event.ModelReplied{ID: op, Message: a.json(model.Message{Role: model.RoleAssistant, Parts: []model.Part{model.Text("writing"), {Kind: model.PartCall, Call: call, Tool: "write_file", Args: json.RawMessage(`{}`)}}}),
			Calls: []event.CallRef{{ID: call, Tool: "write_file", Args: args}}, Usage: event.Usage{Input: 100, Output: 10, CacheRead: 5, CostMicroUSD: &cost}, Stop: "tools", Model: "m-1"},
		event.PolicyDecided{Call: call, Tool: "write_file", Actor: policy.ByModel, Effect: policy.Write, Outcome: policy.Warn, Code: "write_file_observe_requires_direct_command", Rule: "enforcement_mode=observe", Args: args, Stage: "call"},
		event.ToolCallStarted{ID: call, Tool: "write_file", Effect: policy.Write, Args: args, Intent: a.json(map[string]string{"path": "/workspace/out.txt", "before": "absent", "after": digest.Bytes([]byte("x"))})},
		event.ToolResult{ID: call, Tool: "write_file", Content: a.json([]model.Part{{Kind: model.PartResult, Call: call, Text: "written"}}), Label: policy.Label{Role: policy.Context, Mediated: true}})
}

// begin starts the run of the agent.
func (a *author) begin() {
	a.add(event.RunStarted{Run: a.f.ID(), Rules: 1, Model: "scripted:x", Spec: a.json(map[string]int{"maxTurns": 3})},
		event.Input{ID: "said-" + a.f.ID(), Slot: policy.Slot{Role: policy.DirectCommand, Origin: "user", Surface: "cli"}, Content: a.json(model.UserText("please write"))})
}

func create(t *testing.T, root, id string, o *run.Options) (*run.Folder, *author) {
	t.Helper()
	if o == nil {
		o = &run.Options{}
	}
	if o.Now == nil {
		o.Now = clock()
	}
	f := must[*run.Folder](t)(run.Create(root, id, o))
	t.Cleanup(func() { _ = f.Close() })
	return f, &author{t: t, f: f, now: o.Now}
}

func readJSON[T any](t *testing.T, f *run.Folder, name string) T {
	t.Helper()
	var v T
	ok(t, json.Unmarshal(must[[]byte](t)(os.ReadFile(f.Path(name))), &v))
	return v
}

func appendRaw(t *testing.T, f *run.Folder, en record.Entry) {
	t.Helper()
	head := must[record.Head](t)(f.Log().Head(context.Background()))
	must[record.Head](t)(f.Log().Append(t.Context(), head, en))
}
