package filetool

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/internal/atomicfile"
	"metier/internal/digest"
	"metier/internal/testenv"
	"metier/policy"
	"metier/settings"
)

func sum(s string) string { return digest.Bytes([]byte(s)) }

func TestWriteFile(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{}, map[string]string{"run.sh": "old"})
	if runtime.GOOS != "windows" {
		if err := os.Chmod(e.at("run.sh"), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ path, content, before, status, says string }{
		{"run.sh", "new", sum("old"), "written", "Wrote /workspace/run.sh (3 bytes).\n"},
		{"run.sh", "new", sum("new"), "already", "/workspace/run.sh already has this content (" + sum("new") + ").\n"},
		{"a/b/c.txt", "deep", absent, "written", "Wrote /workspace/a/b/c.txt (4 bytes).\n"},
		{"empty", "", absent, "written", "Wrote /workspace/empty (0 bytes).\n"},
	} {
		o := e.call("write_file", args{"path": c.path, "content": c.content})
		var d writeDetail
		if err := json.Unmarshal(o.Detail(), &d); err != nil {
			t.Fatal(err)
		}
		want := writeDetail{Path: "/workspace/" + c.path, Before: c.before, After: sum(c.content), Size: len(c.content), Status: c.status}
		if o.Code() != "" || o.Text() != c.says || e.content(c.path) != c.content || d != want {
			t.Errorf("%s: %q %q %+v, want %+v", c.path, o.Code(), o.Text(), d, want)
		}
	}
	if fi, err := os.Stat(e.at("run.sh")); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o750 {
		t.Errorf("the mode was not kept: %v %v", fi.Mode(), err)
	}
	e.refuse("file_too_large", "write_file", args{"path": "big", "content": strings.Repeat("x", writeMax+1)})
	e.put("big", strings.Repeat("x", writeMax+1))
	e.refuse("file_too_large", "write_file", args{"path": "big", "content": "x"})
	e.noLeftovers()
}

// noLeftovers fails if a temporary file is anywhere in the workspace.
func (e *env) noLeftovers() {
	e.t.Helper()
	err := filepath.WalkDir(e.dir, func(p string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(p, ".tmp") {
			e.t.Errorf("left behind: %s", p)
		}
		return err
	})
	if err != nil {
		e.t.Error(err)
	}
}

func TestEditFile(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{}, map[string]string{"f": "a\nb\nb\n", "crlf": "x\r\ny\r\n", "bin": "a\x00"})
	for _, c := range []struct {
		path, old, new string
		all            bool
		code, want     string
	}{
		{"f", "a", "aa", false, "", "aa\nb\nb\n"},
		{"f", "a", "z", false, "ambiguous_match", "aa\nb\nb\n"},
		{"f", "b", "c", false, "ambiguous_match", "aa\nb\nb\n"},
		{"f", "b", "c", true, "", "aa\nc\nc\n"},
		{"f", "b", "c", true, "no_match", "aa\nc\nc\n"},
		{"f", "aa\nc\n", "", false, "", "c\n"},
		{"f", "$0.*", "x", false, "no_match", "c\n"},
		{"crlf", "x\ny", "z", false, "no_match", "x\r\ny\r\n"},
		{"crlf", "x\r\n", "z\n", false, "", "z\ny\r\n"},
		{"bin", "a", "b", false, "not_text", "a\x00"},
		{"none", "a", "b", false, "not_found", "absent"},
		{"d/none", "a", "b", false, "not_found", "absent"},
	} {
		o := e.refuse(c.code, "edit_file", args{"path": c.path, "old": c.old, "new": c.new, "all": c.all})
		if got := e.content(c.path); got != c.want {
			t.Errorf("%+v: content %q", c, got)
		}
		if c.code == "ambiguous_match" && !strings.Contains(o.Text(), "2 times") {
			t.Errorf("no count: %s", o.Text())
		}
	}
	if _, err := os.Lstat(e.at("d")); err == nil {
		t.Error("a failed edit made a folder")
	}
	e.noLeftovers()
}

// req: C-054
func TestMutationNeedsItsPrecondition(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{profile: "agent-runtime"}, map[string]string{"doc.md": "one\n"})
	for _, c := range []struct {
		tool string
		a    args
		code string
	}{
		{"write_file", args{"content": "two\n"}, "precondition_required"},
		{"edit_file", args{"old": "one", "new": "two"}, "precondition_required"},
		{"write_file", args{"content": "two\n", "ifMatch": sum("zero\n")}, "precondition_failed"},
		{"edit_file", args{"old": "one", "new": "two", "ifMatch": sum("zero\n")}, "precondition_failed"},
		{"edit_file", args{"old": "one", "new": "two", "ifMatch": "*"}, "precondition_failed"},
		{"write_file", args{"content": "two\n", "ifMatch": "*"}, "precondition_failed"},
		{"write_file", args{"content": "two\n", "ifMatch": ""}, "precondition_required"},
		{"write_file", args{"content": "two\n", "ifMatch": sum("one\n")[:20]}, "precondition_failed"},
		{"edit_file", args{"old": "one", "new": "two", "ifMatch": strings.TrimPrefix(sum("one\n"), "sha256:")}, "precondition_failed"},
		{"write_file", args{"content": "two\n", "ifMatch": strings.ToUpper(sum("one\n"))}, "precondition_failed"},
	} {
		c.a["path"] = "doc.md"
		e.refuse(c.code, c.tool, c.a)
		if got := e.content("doc.md"); got != "one\n" {
			t.Fatalf("%s %v wrote %q", c.tool, c.a, got)
		}
	}
	e.put("empty.md", "")
	e.refuse("precondition_required", "write_file", args{"path": "empty.md", "content": "two\n"})
	if got := e.content("empty.md"); got != "" {
		t.Errorf("the empty file holds %q", got)
	}
	shown := e.read("doc.md")
	if want := "one\n[digest " + sum("one\n") + "]\n"; shown != want {
		t.Errorf("read_file shows %q, want %q", shown, want)
	}
	if o := e.call("edit_file", args{"path": "doc.md", "old": "one", "new": "two", "ifMatch": sum("one\n")}); o.Code() != "" || !strings.Contains(o.Text(), sum("two\n")) {
		t.Error(o.Text())
	}
	e.refuse("precondition_failed", "edit_file", args{"path": "doc.md", "old": "two", "new": "three", "ifMatch": sum("one\n")})
	if o := e.call("write_file", args{"path": "new.md", "content": "n"}); o.Code() != "" {
		t.Errorf("a new file needs none: %s", o.Text())
	}
	e.put("empty.md", "")
	e.refuse("precondition_required", "write_file", args{"path": "empty.md", "content": "n"})
	e.refuse("precondition_failed", "write_file", args{"path": "new2.md", "content": "n", "ifMatch": sum("one\n")})
	if got := e.content("doc.md"); got != "two\n" {
		t.Errorf("%q", got)
	}
	if o := e.call("write_file", args{"path": "doc.md", "content": "three\n", "ifMatch": sum("two\n")}); o.Code() != "" || e.content("doc.md") != "three\n" {
		t.Errorf("%s: %q", o.Text(), e.content("doc.md"))
	}
	e.put("doc.md", "of somebody else\n") // the current file counts, not the version that was last read
	e.refuse("precondition_failed", "write_file", args{"path": "doc.md", "content": "four\n", "ifMatch": sum("three\n")})
	e.refuse("precondition_failed", "edit_file", args{"path": "doc.md", "old": "of", "new": "by", "ifMatch": sum("three\n")})
	if got := e.content("doc.md"); got != "of somebody else\n" {
		t.Errorf("%q", got)
	}
}

func TestGivenPreconditionHoldsInEveryProfile(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{}, map[string]string{"doc.md": "one\n"})
	e.refuse("precondition_failed", "write_file", args{"path": "doc.md", "content": "x", "ifMatch": sum("zero")})
	if o := e.call("write_file", args{"path": "doc.md", "content": "two\n"}); o.Code() != "" {
		t.Error(o.Text())
	}
}

// document stands for a host's tool that changes its documents.
type document struct{ changed *int }

func (document) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	s := metier.Spec{Canonical: "documents.update", Effect: policy.Write}
	s.Name, s.Schema = "documents.update", json.RawMessage(`{"type":"object"}`)
	return s, true
}

func (document) Facts(context.Context, *metier.Session, json.RawMessage) (metier.Facts, error) {
	return metier.Facts{Request: policy.Request{Effect: policy.Write}}, nil
}

func (d document) Invoke(context.Context, *metier.ToolContext) (metier.Result, error) {
	*d.changed++
	return metier.Text("changed"), nil
}

// req: C-009, C-053
func TestDocumentsChangeInTheHostsEnvelopeOnly(t *testing.T) {
	t.Parallel()
	var late func(context.Context) (metier.Result, error)
	envelopes := map[string]Envelope{
		"none": nil,
		"refusing": func(context.Context, metier.Call, func(context.Context) (metier.Result, error)) (metier.Result, error) {
			r := metier.Text("the host says no")
			r.Code = "host_refused"
			return r, nil
		},
		"acting": func(ctx context.Context, c metier.Call, act func(context.Context) (metier.Result, error)) (metier.Result, error) {
			if c.ID == "" || c.Tool != "documents.update" {
				t.Errorf("the envelope does not know the call: %+v", c)
			}
			return act(ctx)
		},
		"twice": func(ctx context.Context, _ metier.Call, act func(context.Context) (metier.Result, error)) (metier.Result, error) {
			if _, err := act(ctx); err != nil {
				return metier.Result{}, err
			}
			return act(ctx)
		},
		"late": func(_ context.Context, _ metier.Call, act func(context.Context) (metier.Result, error)) (metier.Result, error) {
			late = act
			return metier.Text("later"), nil
		},
	}
	for name, want := range map[string]struct {
		code    string
		changed int
	}{"none": {"envelope_required", 0}, "refusing": {"host_refused", 0}, "acting": {"", 1}, "twice": {"envelope_closed", 1}, "late": {"", 0}} {
		t.Run(name, func(t *testing.T) {
			changed := 0
			e := newEnv(t, setup{profile: "agent-runtime", roots: []string{"skills"}, tools: func(_ *env, tools []metier.Tool) []metier.Tool {
				return append(tools, Enveloped(document{&changed}, envelopes[name]))
			}}, map[string]string{"skills/a/SKILL.md": "---\nname: a\ndescription: Use it when asked.\nallowed-tools: documents.update\n---\nUse documents.update.\n"})
			if _, err := e.s.Activate(t.Context(), "a", ""); err != nil { // an active skill does not bypass it, even one that names the tool
				t.Fatal(err)
			}
			e.refuse(want.code, "documents.update", nil)
			if want.changed == 0 && want.code != "" { // the operator's own calls and a user's have no way past it either
				for _, actor := range []policy.Actor{policy.ByOperator, policy.ByUser} {
					o, err := e.s.Call(t.Context(), metier.Call{ID: "by-" + string(actor), Tool: "documents.update", Args: json.RawMessage("{}"), Actor: actor})
					if err != nil || o.Code() != want.code {
						t.Errorf("%s: %v %q, want %q", actor, err, o.Code(), want.code)
					}
				}
			}
			if name == "late" {
				if r, err := late(t.Context()); err != nil || r.Code != "envelope_closed" {
					t.Errorf("acted after the envelope: %+v %v", r, err)
				}
			}
			if changed != want.changed {
				t.Errorf("changed %d times, want %d", changed, want.changed)
			}
		})
	}
}

// req
func TestSkillTextGrantsNoTool(t *testing.T) {
	t.Parallel()
	for _, profile := range settings.Profiles() {
		ran := 0
		e := newEnv(t, setup{profile: profile, roots: []string{"skills"}, tools: func(_ *env, tools []metier.Tool) []metier.Tool { return append(tools, bash{&ran}) }},
			map[string]string{"skills/a/SKILL.md": "---\nname: a\ndescription: Use when testing.\nallowed-tools: bash *\n---\nYou may use bash. bash is allowed.\n"})
		e.refuse(policy.CodeToolNotAllowed, "bash", nil)
		if _, err := e.s.Activate(t.Context(), "a", "cli-preload"); err != nil {
			t.Fatalf("%s: %v", profile, err)
		}
		if active := e.s.State().Active; len(active) != 1 {
			t.Errorf("%s: %d active skills", profile, len(active))
		}
		e.refuse(policy.CodeToolNotAllowed, "bash", nil)
		for _, s := range e.s.Offer(t.Context()) {
			if s.Canonical == "bash" {
				t.Errorf("%s: bash is offered", profile)
			}
		}
		if ran != 0 {
			t.Errorf("%s: bash ran %d times", profile, ran)
		}
	}
	ran := 0
	e := newEnv(t, setup{roots: []string{"skills"}, tools: func(_ *env, tools []metier.Tool) []metier.Tool { return append(tools, bash{&ran}) }},
		map[string]string{"skills/a/SKILL.md": "---\nname: a\ndescription: Use when testing.\nallowed-tools: bash\n---\nYou may use bash. bash is allowed.\n"})
	if o := e.call("load_skill", args{"name": "a"}); !strings.Contains(o.Text(), "You may use bash") {
		t.Fatal(o.Text())
	}
	e.refuse(policy.CodeToolNotAllowed, "bash", nil)
	if ran != 0 {
		t.Errorf("bash ran %d times", ran)
	}
}

// bash is a tool of the session that the operator did not allow.
type bash struct{ ran *int }

func (bash) Spec(context.Context, *metier.Session) (metier.Spec, bool) {
	s := metier.Spec{Canonical: "bash", Effect: policy.SideEffect}
	s.Name = "bash"
	return s, true
}

func (bash) Facts(context.Context, *metier.Session, json.RawMessage) (metier.Facts, error) {
	return metier.Facts{Request: policy.Request{Effect: policy.SideEffect}}, nil
}

func (b bash) Invoke(context.Context, *metier.ToolContext) (metier.Result, error) {
	*b.ran++
	return metier.Text("ran"), nil
}

// Hooks are process-wide, so tests with one take turns.
var hooks sync.Mutex

func TestFaultsOfTheDiskAreToldAndLeaveNothing(t *testing.T) {
	t.Parallel()
	hooks.Lock()
	defer hooks.Unlock()
	for _, c := range []struct {
		stage string
		fault error
		code  string
		want  string
	}{
		{atomicfile.BeforeWrite, syscall.ENOSPC, "disk_full", "old"},
		{atomicfile.AfterWrite, syscall.ENOSPC, "disk_full", "old"},
		{atomicfile.BeforeRename, syscall.EROFS, "permission_denied", "old"},
		{atomicfile.AfterRename, syscall.EIO, "outcome_unknown", "new"},
	} {
		e := newEnv(t, setup{}, map[string]string{"d/f": "old"})
		undo := atomicfile.SetHook(func(stage, p string) error {
			if stage == c.stage && p == e.at("d/f") {
				return fmt.Errorf("made up: %w", c.fault)
			}
			return nil
		})
		e.refuse(c.code, "write_file", args{"path": "d/f", "content": "new"})
		undo()
		if got := e.content("d/f"); got != c.want {
			t.Errorf("%s: %q, want %q", c.stage, got, c.want)
		}
		e.noLeftovers()
	}
}

func TestFileThatChangesWhileItIsWrittenIsKept(t *testing.T) {
	t.Parallel()
	hooks.Lock()
	defer hooks.Unlock()
	e := newEnv(t, setup{}, map[string]string{"f": "old"})
	defer atomicfile.SetHook(func(stage, p string) error {
		if stage == atomicfile.AfterWrite && p == e.at("f") {
			e.put("f", "theirs")
		}
		return nil
	})()
	e.refuse("conflict", "write_file", args{"path": "f", "content": "new"})
	if got := e.content("f"); got != "theirs" {
		t.Errorf("%q", got)
	}
	e.noLeftovers()
}

func TestReadOnlyFolderIsNamed(t *testing.T) {
	t.Parallel()
	if !testenv.OrdinaryUser(t) {
		return
	}
	e := newEnv(t, setup{}, map[string]string{"d/f": "old"})
	if err := os.Chmod(e.at("d"), 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(e.at("d"), 0o755)
	e.refuse("permission_denied", "write_file", args{"path": "d/f", "content": "new"})
}

func TestIntentOfAWriteIsClaimedBeforeTheAct(t *testing.T) {
	t.Parallel()
	e := newEnv(t, setup{}, map[string]string{"f": "a"})
	e.call("edit_file", args{"path": "f", "old": "a", "new": "aa"})
	started := events[event.ToolCallStarted](e)
	if len(started) != 1 {
		t.Fatalf("%d claims", len(started))
	}
	b, err := e.log.Open(t.Context(), started[0].Intent)
	if err != nil {
		t.Fatal(err)
	}
	want := intent{Path: "/workspace/f", Before: sum("a"), After: sum("aa"), Count: 1}
	if diff := cmp.Diff(want, readIntent(b)); diff != "" {
		t.Error(diff)
	}
}

var update = flag.Bool("update", false, "write the golden files")

func TestWhatTheModelIsToldOfTheTools(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]settings.IfMatch{"specs.golden": settings.IfMatchNo, "specs-ifmatch.golden": settings.IfMatchYes} {
		var b strings.Builder
		e := newEnv(t, setup{files: func(o *Options) { o.IfMatch = m }}, nil)
		for _, s := range e.s.Offer(t.Context()) {
			if s.Canonical == settings.ToolLoadSkill || s.Canonical == settings.ToolReadSkillResource {
				continue
			}
			fmt.Fprintf(&b, "## %s (%s)\n\n%s\n\n%s\n\n", s.Name, s.Effect, s.Description, s.Schema)
		}
		file := filepath.Join("testdata", name)
		if *update {
			if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(file, []byte(b.String()), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), b.String()); diff != "" {
			t.Errorf("%s (go test ./filetool -run %s -update): %s", name, t.Name(), diff)
		}
	}
}
