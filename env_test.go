package metier_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"metier"
	"metier/event"
	"metier/event/eventtest"
	"metier/filetool"
	"metier/internal/testenv"
	"metier/policy"
	"metier/record"
	"metier/settings"
	"metier/source/local"
)

// The profiles with their own tests, and the default profile.
const (
	cfHarness   = "cf-harness"
	keen        = "keen"
	runtimeProf = "agent-runtime"
	project     = "project-skills"
)

// fixture is a workspace with a skills root, and sessions over them.
type fixture struct {
	t       testing.TB
	dir     string // the workspace, links resolved
	profile string
	set     settings.Settings
	roots   []metier.Mount
	log     record.Log
	blobs   record.Blobs
	config  func(*metier.Config) // final change of a session's configuration
	trace   *trace               // the files that the sources were asked to open; nil: not traced
	*metier.Session
	calls int
}

// newFixture writes files below the workspace; skills/ is the root.
func newFixture(t testing.TB, profile string, files map[string]string) *fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	layer, err := settings.Profile(profile)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := settings.Resolve(layer)
	if err != nil {
		t.Fatal(err)
	}
	mem := record.NewMemory()
	w := &fixture{t: t, dir: dir, profile: profile, set: set, log: mem, blobs: mem}
	for name, text := range files {
		w.put(name, text)
	}
	return w
}

// open builds the snapshot of skills/ and opens a session.
func (w *fixture) open() *fixture {
	w.t.Helper()
	w.Session = w.session()
	return w
}

// opened is newFixture and open.
func opened(t testing.TB, profile string, files map[string]string) *fixture {
	t.Helper()
	return newFixture(t, profile, files).open()
}

func (w *fixture) session() *metier.Session {
	w.t.Helper()
	s, err := w.try()
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *fixture) try() (*metier.Session, error) {
	w.t.Helper()
	view := metier.View{Paths: w.set.Catalog.Paths, Workspace: w.dir}
	ws, err := filetool.OpenWorkspace(w.dir, &filetool.WorkspaceOptions{Home: "-"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { ws.Close() })
	files := filetool.Files(ws, filetool.Options{View: view, IfMatch: w.set.Tools.IfMatch, Guard: w.set.Policy.GuardAllow, ActivateOnRead: w.set.Activate.Ways.Has(settings.WayReadFile)})
	c := metier.Config{ID: "s1", By: "tester", Log: w.log, Blobs: w.blobs, Snapshot: w.snapshot(), Tools: files, Settings: w.set, View: view, Batch: true,
		Grants: policy.Grants{Mode: policy.Mode(w.set.Policy.Mode), Tools: w.set.Tools.Default, Narrow: policy.Narrowing(w.set.Policy.AllowedTools), Merge: policy.Merge(w.set.Policy.Merge)}}
	if w.config != nil {
		w.config(&c)
	}
	return metier.Open(w.t.Context(), c)
}

func (w *fixture) snapshot() *metier.Snapshot {
	w.t.Helper()
	mounts := w.roots
	if root := w.at("skills"); mounts == nil && exists(root) {
		mounts = []metier.Mount{w.mount("skills", policy.Project)}
	}
	n, err := metier.Build(w.t.Context(), mounts, w.set.Parse, w.set.Names, w.set.Read.IndexRoot, w.set.Discover.ResourceIndex == settings.ResourceIndexStart)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *fixture) mount(dir string, tier policy.Tier) metier.Mount {
	w.t.Helper()
	d := w.set.Discover
	src, err := local.New(w.at(dir), &local.Options{Scan: d.Scan, FileNames: d.FileNames, Symlinks: d.Symlinks, MaxDepth: d.MaxDepth, MaxDirs: d.MaxDirs, MaxResourceFiles: d.MaxResources})
	if err != nil {
		w.t.Fatal(err)
	}
	m := metier.Mount{Label: strings.ReplaceAll(dir, "/", "-"), Tier: tier, Source: src, Root: w.at(dir)}
	if w.trace != nil {
		m.Source = tracedSource{src, w.trace}
	}
	return m
}

func exists(p string) bool { _, err := os.Lstat(p); return err == nil }

func (w *fixture) at(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

func (w *fixture) put(name, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.at(name)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.at(name), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// link replaces name by a symlink.
func (w *fixture) link(target, name string) {
	w.t.Helper()
	if err := os.RemoveAll(w.at(name)); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Symlink(target, w.at(name)); err != nil {
		testenv.Skip(w.t, "symlinks need a privilege here: "+err.Error())
	}
}

// skillFile is a SKILL.md with extra frontmatter lines.
func skillFile(name, body string, front ...string) string {
	return "---\nname: " + name + "\ndescription: Use when testing " + name + ".\n" + strings.Join(append(front, ""), "\n") + "---\n" + body
}

type args map[string]any

// model calls a tool as the model does.
func (w *fixture) model(name string, a args) metier.Observation {
	w.t.Helper()
	o, err := w.ask(name, a)
	if err != nil {
		w.t.Fatalf("%s %v: %v", name, a, err)
	}
	return o
}

func (w *fixture) ask(name string, a args) (metier.Observation, error) {
	w.t.Helper()
	raw, err := json.Marshal(a)
	if err != nil {
		w.t.Fatal(err)
	}
	w.calls++
	return w.Call(w.t.Context(), metier.Call{ID: fmt.Sprintf("c%d", w.calls), Tool: name, Args: raw})
}

// works is model for a call that has to succeed.
func (w *fixture) works(name string, a args) metier.Observation {
	w.t.Helper()
	o := w.model(name, a)
	if o.Code() != "" {
		w.t.Fatalf("%s %v: %s", name, a, o.Text())
	}
	return o
}

// fails is model for a call that has to fail with a code.
func (w *fixture) fails(code, name string, a args) metier.Observation {
	w.t.Helper()
	o := w.model(name, a)
	if o.Code() != code {
		w.t.Errorf("%s %v: code %q, want %q: %s", name, a, o.Code(), code, o.Text())
	}
	return o
}

// activate activates a skill as the operator does.
func (w *fixture) activate(name string, arguments ...string) (metier.Activation, string) {
	w.t.Helper()
	a, err := w.Activate(w.t.Context(), name, "cli-preload", arguments...)
	if err != nil {
		w.t.Fatal(err)
	}
	return a, w.blob(a.Text)
}

func (w *fixture) blob(r record.Ref) string {
	w.t.Helper()
	b, err := w.blobs.Open(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// events returns the events of one type in the log.
func events[T event.Event](w *fixture) []T {
	w.t.Helper()
	return eventtest.All[T](w.t, w.log)
}

func one[T event.Event](w *fixture) T {
	w.t.Helper()
	all := events[T](w)
	if len(all) != 1 {
		w.t.Fatalf("%d events of %T, want 1: %+v", len(all), *new(T), all)
	}
	return all[0]
}

// last returns the newest event of a type.
func last[T event.Event](w *fixture) T {
	w.t.Helper()
	all := events[T](w)
	if len(all) == 0 {
		w.t.Fatalf("no event %T", *new(T))
	}
	return all[len(all)-1]
}

// said returns everything that models were shown: the content of every returned
// call.
func (w *fixture) said() string {
	w.t.Helper()
	var s strings.Builder
	for _, r := range events[event.ToolResult](w) {
		s.WriteString(w.blob(r.Content))
	}
	return s.String()
}

// spec returns a tool as it is offered now.
func (w *fixture) spec(name string) (metier.Spec, bool) {
	w.t.Helper()
	all := w.Session.Offer(w.t.Context())
	i := slices.IndexFunc(all, func(s metier.Spec) bool { return s.Canonical == name })
	if i < 0 {
		return metier.Spec{}, false
	}
	return all[i], true
}

// schema is the part of a tool's schema that tests read.
type schema struct {
	Properties map[string]struct {
		Type string   `json:"type"`
		Enum []string `json:"enum"`
	} `json:"properties"`
	Required             []string `json:"required"`
	AdditionalProperties *bool    `json:"additionalProperties"`
}

func schemaOf(t testing.TB, s metier.Spec) (out schema, props []string) {
	t.Helper()
	if err := json.Unmarshal(s.Schema, &out); err != nil {
		t.Fatal(err)
	}
	if out.AdditionalProperties == nil || *out.AdditionalProperties {
		t.Errorf("%s takes unknown keys: %s", s.Name, s.Schema)
	}
	for p := range out.Properties {
		props = append(props, p)
	}
	sort.Strings(props)
	return out, props
}

// reading is the detail of a read.
func reading(t testing.TB, o metier.Observation) metier.Reading {
	t.Helper()
	var r metier.Reading
	if err := json.Unmarshal(o.Detail(), &r); err != nil {
		t.Fatalf("%v: %s", err, o.Detail())
	}
	return r
}

func wantError(t testing.TB, err error, code string, kind metier.Kind) *metier.Error {
	t.Helper()
	e, is := errors.AsType[*metier.Error](err)
	if !is || e.Code != code || e.Kind != kind {
		t.Fatalf("error %v (code %s, kind %s), want code %s, kind %s", err, metier.CodeOf(err), metier.KindOf(err), code, kind)
	}
	return e
}

func mentions(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in:\n%s", p, text)
		}
	}
}

func silent(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			t.Errorf("%q is in:\n%s", p, text)
		}
	}
}

// trace records every file that a session makes its sources open.
type trace struct {
	mu    sync.Mutex
	opens []string
}

func (t *trace) add(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.opens = append(t.opens, s)
}

// taken returns what was opened since the last call.
func (t *trace) taken() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.opens
	t.opens = nil
	return out
}

type tracedSource struct {
	metier.Source
	t *trace
}

func (s tracedSource) List(ctx context.Context) iter.Seq2[*metier.Head, error] {
	return s.Source.List(ctx)
}

func (s tracedSource) Open(ctx context.Context, p string) (metier.Bundle, error) {
	b, err := s.Source.Open(ctx, p)
	return tracedBundle{b, s.t, p}, err
}

type tracedBundle struct {
	metier.Bundle
	t *trace
	p string
}

func (b tracedBundle) Manifest(ctx context.Context) (metier.Manifest, error) {
	b.t.add(b.p + "/*")
	return b.Bundle.Manifest(ctx)
}

func (b tracedBundle) Open(ctx context.Context, file string) (io.ReadCloser, error) {
	b.t.add(b.p + "/" + file)
	return b.Bundle.Open(ctx, file)
}

// tick is a clock that advances by a second on each call.
func tick() func() time.Time {
	var mu sync.Mutex
	at := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		at = at.Add(time.Second)
		return at
	}
}
