package agent_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"metier"
	"metier/agent"
	"metier/filetool"
	"metier/model"
	"metier/model/modeltest"
	"metier/model/openai"
	"metier/policy"
	"metier/record"
	"metier/settings"
	"metier/source/local"
)

// fixture is one agent over real folders. Its model is a stand-in that speaks a
// provider's wire format and keeps every request.
type fixture struct {
	t      *testing.T
	ws     string
	global string // a root outside the workspace, found if it exists
	server *modeltest.Server
	set    settings.Settings
	grants []string
	denied []string // skills that the operator denied
	off    []string // skills that the user disabled
	mode   string
	output string
	prompt agent.Prompt
	more   []metier.Tool // in addition to the file tools
	log    *record.Memory
	slow   record.Log // a log to use instead of the session's
	sess   *metier.Session
}

func newFixture(t *testing.T, profile string, values map[string]string) *fixture {
	t.Helper()
	layer, err := settings.Profile(profile)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := settings.Resolve(layer, settings.Layer{Name: "test", Operator: true, Values: values})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t: t, ws: ws, server: modeltest.OpenAI(t), set: set, grants: set.Tools.Default, log: record.NewMemory()}
}

func (w *fixture) file(name, text string) {
	w.t.Helper()
	p := filepath.Join(w.ws, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) skill(name, description, body string) {
	w.file(".agents/skills/"+name+"/SKILL.md", "---\nname: "+name+"\ndescription: "+description+"\n---\n"+body)
}

func (w *fixture) snapshot(ctx context.Context) (*metier.Snapshot, error) {
	root := filepath.Join(w.ws, ".agents", "skills")
	src, err := local.New(root, &local.Options{Scan: w.set.Discover.Scan, Optional: true})
	if err != nil {
		return nil, err
	}
	mounts := []metier.Mount{{Label: "project", Tier: policy.Project, Kind: "project", Source: src, Root: root,
		Off: func(_ *metier.Head, _ metier.ID, name string) (string, bool) {
			return "a file", slices.Contains(w.off, name)
		}}}
	if _, err := os.Stat(w.global); w.global != "" && err == nil {
		if src, err = local.New(w.global, nil); err != nil {
			return nil, err
		}
		mounts = append(mounts, metier.Mount{Label: "global", Tier: policy.User, Kind: "user", Source: src, Root: w.global})
	}
	return metier.Build(ctx, mounts, w.set.Parse, w.set.Names, w.set.Read.IndexRoot, w.set.Discover.ResourceIndex == settings.ResourceIndexStart)
}

// run sends the prompt and drives the agent. It loads skills first.
func (w *fixture) run(prompt string, skills ...string) agent.Outcome {
	w.t.Helper()
	out, err := agent.Run(w.t.Context(), w.prepare(prompt, skills...))
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// prepare opens the session, sends the prompt and returns what Run takes.
func (w *fixture) prepare(prompt string, skills ...string) agent.Config {
	w.t.Helper()
	ctx := w.t.Context()
	snap, err := w.snapshot(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	files, err := filetool.OpenWorkspace(w.ws, &filetool.WorkspaceOptions{Home: "-"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { files.Close() })
	view := metier.View{Paths: w.set.Catalog.Paths, Workspace: w.ws}
	var log record.Log = w.log
	if w.slow != nil {
		log = w.slow
	}
	w.sess, err = metier.Open(ctx, metier.Config{ID: "s", By: "test", Log: log, Blobs: w.log, Snapshot: snap, Settings: w.set, View: view,
		Tools:   append(filetool.Files(files, filetool.Options{View: view, Guard: w.set.Policy.GuardAllow, ActivateOnRead: w.set.Activate.Ways.Has(settings.WayReadFile)}), w.more...),
		Grants:  policy.Grants{Mode: policy.Mode(w.set.Policy.Mode), Tools: w.grants, Denied: w.denied, Narrow: policy.NarrowIgnore, Merge: policy.MergeIntersection},
		Refresh: w.snapshot})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range skills {
		if _, err := w.sess.Activate(ctx, s, "cli-preload"); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := w.sess.Send(ctx, metier.Input{ID: "prompt", Parts: []model.Part{model.Text(prompt)}, Role: policy.DirectCommand, Surface: "cli"}); err != nil {
		w.t.Fatal(err)
	}
	spec := agent.Spec{Run: "r", Model: "openai:stand-in", Mode: w.mode, MaxTurns: 12}
	if w.output != "" {
		spec.Output = json.RawMessage(w.output)
	}
	now := make(chan time.Time)
	close(now)
	return agent.Config{Session: w.sess, Log: w.log, Blobs: w.log, Model: openai.New("stand-in", &openai.Options{BaseURL: w.server.URL, Key: modeltest.Key}),
		By: "test", Spec: spec, Prompt: w.prompt, After: func(time.Duration) <-chan time.Time { return now }}
}

// system returns the system prompt of each request, in order.
func (w *fixture) system() []string {
	var out []string
	for _, r := range w.server.Requests() {
		out = append(out, r.System)
	}
	return out
}

func (w *fixture) tools(request int) []string {
	var out []string
	for _, t := range w.server.Requests()[request].Tools {
		out = append(out, t.Name)
	}
	return out
}

func call(tool, args string) modeltest.Turn {
	return modeltest.Turn{Calls: []modeltest.Call{{Tool: tool, Args: args}}}
}

func want(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in:\n%s", p, text)
		}
	}
}
