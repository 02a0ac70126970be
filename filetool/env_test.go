package filetool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"metier"
	"metier/event"
	"metier/event/eventtest"
	"metier/internal/testenv"
	"metier/policy"
	"metier/record"
	"metier/settings"
	"metier/source/local"
)

// env is a workspace, a home and a session over real folders.
type env struct {
	t         testing.TB
	dir, home string // workspace and home
	out       string // a folder that is neither
	ws        *Workspace
	s         *metier.Session
	log       *record.Memory
	calls     int
}

// setup is what a test changes about its env.
type setup struct {
	profile  string
	roots    []string                                    // roots of skills, as for env.at; a missing one is not a root
	symlinks settings.Symlinks                           // in roots, where they lead into the workspace
	options  func(e *env, o *WorkspaceOptions)           // before the workspace is opened
	files    func(o *Options)                            // before the tools are created
	tools    func(e *env, t []metier.Tool) []metier.Tool // what the session gets
	set      func(s *settings.Settings)
	deny     []string // tools that are not granted
}

func newEnv(t testing.TB, su setup, files map[string]string) *env {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e := &env{t: t, dir: filepath.Join(top, "work"), home: filepath.Join(top, "home"), out: filepath.Join(top, "out"), log: record.NewMemory()}
	for _, d := range []string{e.dir, e.home, e.out} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		e.put(name, content)
	}
	o := WorkspaceOptions{Home: e.home}
	if su.options != nil {
		su.options(e, &o)
	}
	if e.ws, err = OpenWorkspace(e.dir, &o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.ws.Close() })
	e.open(su)
	return e
}

func (e *env) open(su setup) {
	e.t.Helper()
	ctx := e.t.Context()
	profile := su.profile
	if profile == "" {
		profile = settings.DefaultProfile
	}
	layer, err := settings.Profile(profile)
	if err != nil {
		e.t.Fatal(err)
	}
	set, _, err := settings.Resolve(layer)
	if err != nil {
		e.t.Fatal(err)
	}
	if su.set != nil {
		su.set(&set)
	}
	if set.Catalog.Paths == settings.PathsAuto {
		set.Catalog.Paths = settings.PathsSandbox
	}
	view := metier.View{Paths: set.Catalog.Paths, Workspace: e.dir}
	o := Options{View: view, IfMatch: set.Tools.IfMatch, Guard: set.Policy.GuardAllow, ActivateOnRead: set.Activate.Ways.Has(settings.WayReadFile)}
	if su.files != nil {
		su.files(&o)
	}
	tools := Files(e.ws, o)
	if su.tools != nil {
		tools = su.tools(e, tools)
	}
	build := func(ctx context.Context) (*metier.Snapshot, error) {
		var mounts []metier.Mount
		for i, r := range su.roots {
			r = e.at(r)
			if _, err := os.Stat(r); err != nil {
				continue // like roots that are searched for, not named
			}
			src, err := local.New(r, &local.Options{Symlinks: su.symlinks, AllowedRoots: []string{e.dir}})
			if err != nil {
				return nil, err
			}
			mounts = append(mounts, metier.Mount{Label: fmt.Sprintf("r%d", i), Tier: policy.User, Source: src, Root: r})
		}
		return metier.Build(ctx, mounts, set.Parse, set.Names, set.Read.IndexRoot, false)
	}
	snap, err := build(ctx)
	if err != nil {
		e.t.Fatal(err)
	}
	granted := []string{settings.ToolReadFile, settings.ToolListFiles, settings.ToolSearchFiles, settings.ToolWriteFile, settings.ToolEditFile,
		settings.ToolLoadSkill, settings.ToolReadSkillResource, "documents.update"}
	granted = slices.DeleteFunc(granted, func(n string) bool { return slices.Contains(su.deny, n) })
	e.s, err = metier.Open(ctx, metier.Config{ID: "s", Log: e.log, Blobs: e.log, Snapshot: snap, Tools: tools, Settings: set, View: view, Refresh: build,
		Grants: policy.Grants{Mode: policy.Disabled, Tools: granted, Narrow: policy.NarrowIgnore, Merge: policy.MergeIntersection}})
	if err != nil {
		e.t.Fatal(err)
	}
}

// at maps a test's path: HOME/… and OUT/… outside the workspace, else inside.
func (e *env) at(name string) string {
	switch {
	case strings.HasPrefix(name+"/", "HOME/"):
		return filepath.Join(e.home, filepath.FromSlash(name[4:]))
	case strings.HasPrefix(name+"/", "OUT/"):
		return filepath.Join(e.out, filepath.FromSlash(name[3:]))
	}
	return filepath.Join(e.dir, filepath.FromSlash(name))
}

// path returns at in the form that a model would write.
func (e *env) path(name string) string { return filepath.ToSlash(e.at(name)) }

func (e *env) put(name, content string) {
	e.t.Helper()
	p := e.at(name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) link(target, name string) {
	e.t.Helper()
	p := e.at(name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Symlink(target, p); err != nil {
		if runtime.GOOS == "windows" {
			testenv.Skip(e.t, fmt.Sprintf("symlinks need a privilege here: %v", err))
		}
		e.t.Fatal(err)
	}
}

func (e *env) content(name string) string {
	e.t.Helper()
	b, err := os.ReadFile(e.at(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "absent"
	}
	if err != nil {
		e.t.Fatal(err)
	}
	return string(b)
}

type args map[string]any

// try calls a tool as the model does.
func (e *env) try(tool string, a args) (metier.Observation, error) {
	e.t.Helper()
	if a == nil {
		a = args{}
	}
	b, err := json.Marshal(a)
	if err != nil {
		e.t.Fatal(err)
	}
	e.calls++
	return e.s.Call(e.t.Context(), metier.Call{ID: fmt.Sprintf("c%d", e.calls), Tool: tool, Args: b})
}

// call is try without a question.
func (e *env) call(tool string, a args) metier.Observation {
	e.t.Helper()
	o, err := e.try(tool, a)
	if err != nil {
		e.t.Fatalf("%s %v: %v", tool, a, err)
	}
	return o
}

// read reads a file and expects success.
func (e *env) read(p string) string {
	e.t.Helper()
	o := e.call("read_file", args{"path": p})
	if o.Code() != "" {
		e.t.Fatalf("read_file %s: %s", p, o.Text())
	}
	return o.Text()
}

// refuse expects a call to fail with a code, with or without a question.
func (e *env) refuse(code, tool string, a args) metier.Observation {
	e.t.Helper()
	o, err := e.try(tool, a)
	if q, ok := errors.AsType[*metier.NeedsApproval](err); ok {
		if code != "ask" {
			e.t.Errorf("%s %v asks %q, want %s", tool, a, q.Question.Text, code)
		}
		return o
	}
	if err != nil {
		e.t.Fatal(err)
	}
	if o.Code() != code {
		e.t.Errorf("%s %v: code %q, want %q: %s", tool, a, o.Code(), code, o.Text())
	}
	return o
}

// events returns the events of a type in the log.
func events[T event.Event](e *env) []T {
	e.t.Helper()
	return eventtest.All[T](e.t, e.log)
}

func skillText(name string) string {
	return "---\nname: " + name + "\ndescription: Use when testing " + name + ".\n---\nBody of " + name + ".\n"
}
