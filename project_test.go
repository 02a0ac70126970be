package metier_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/event"
	"metier/internal/digest"
	"metier/internal/testenv"
	"metier/policy"
	"metier/settings"
)

func projectFiles() map[string]string {
	return map[string]string{
		"skills/my-skill/SKILL.md":        "---\nname: My Skill\ndescription: Use when testing.\n---\n\n# Canary body\n",
		"skills/my-skill/references/a.md": "line one\n<b>\n",
		"skills/my-skill/pic.bin":         "\x00",
		"skills/my-skill/big.txt":         strings.Repeat("x", 128_001),
	}
}

// envelope decodes the reply of a skill tool.
func envelope(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return m
}

func keys(m map[string]any) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// refusal checks the reply {ok: false, error}.
func (w *fixture) refusal(name string, a args, says ...string) {
	w.t.Helper()
	o := w.model(name, a)
	m := envelope(w.t.(*testing.T), o.Text())
	reason, _ := m["error"].(string)
	if m["ok"] != false || !slices.Equal(keys(m), []string{"error", "ok"}) || reason == "" || o.Code() == "" {
		w.t.Errorf("%s %v: code %q, %v", name, a, o.Code(), m)
	}
	mentions(w.t, reason, says...)
}

// req: E-001, E-002
func TestPromptHoldsOnlyAnIndex(t *testing.T) {
	t.Parallel()
	files := projectFiles()
	long := "Canary body\n" + strings.Repeat("One line of it.\n", 20_000) + "The end.\n"
	files["skills/next/SKILL.md"] = "---\nname: next\ndescription: Use when more is tested.\n---\n" + long
	w := opened(t, project, files)
	system := w.preview().System
	_, index, _ := strings.Cut(system, "Available skills:")
	if diff := cmp.Diff("- My Skill: Use when testing.\n- next: Use when more is tested.", strings.TrimSpace(index)); diff != "" {
		t.Error(diff)
	}
	silent(t, system, "Canary body", "SKILL.md", w.dir, "my-skill", "references")
	m := envelope(t, w.works("skills.load", args{"name": "My Skill"}).Text())
	if m["ok"] != true || m["content"] != "\n# Canary body\n" {
		t.Errorf("%v", m)
	}
	if m = envelope(t, w.works("skills.load", args{"name": "next"}).Text()); m["content"] != long {
		t.Errorf("of %d bytes %d are given", len(long), len(m["content"].(string)))
	}
}

// req: E-007, E-067
func TestSkillToolsOnlyRead(t *testing.T) {
	t.Parallel()
	w := opened(t, project, projectFiles())
	w.put("secret", "canary-secret")
	w.link(w.at("secret"), "skills/my-skill/leak")
	before := tree(t, w.dir)
	for _, name := range []string{settings.ToolLoadSkill, settings.ToolReadSkillResource} {
		if s, offered := w.spec(name); !offered || s.Effect != policy.Read {
			t.Errorf("%s: offered %v, %+v", name, offered, s)
		}
	}
	w.works("skills.load", args{"name": "My Skill"})
	w.works("skills.readFile", args{"name": "My Skill", "path": "references/a.md"})
	w.refusal("skills.readFile", args{"name": "My Skill", "path": "../new"})
	w.refusal("skills.readFile", args{"name": "My Skill", "path": "/etc/passwd"})
	w.refusal("skills.readFile", args{"name": "My Skill", "path": "leak"})
	w.refusal("skills.readFile", args{"name": "My Skill", "path": "references/a.md", "content": "x"})
	silent(t, w.said(), "canary-secret")
	for _, e := range events[event.ToolCallStarted](w) {
		if e.Effect != policy.Read {
			t.Errorf("%+v", e)
		}
	}
	if after := tree(t, w.dir); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// tree lists a folder with the digests of its files.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var s strings.Builder
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		s.WriteString(p)
		if d.Type().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			s.WriteString(" " + digest.Bytes(b))
		}
		s.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.String()
}

// req: E-032, E-033, E-035
func TestLoadAnswersWithNameAndContent(t *testing.T) {
	t.Parallel()
	w := opened(t, project, projectFiles())
	spec, _ := w.spec(settings.ToolLoadSkill)
	sch, props := schemaOf(t, spec)
	if spec.Name != "skills.load" || !slices.Equal(props, []string{"name"}) || !slices.Equal(sch.Required, []string{"name"}) || sch.Properties["name"].Type != "string" {
		t.Errorf("%s %s", spec.Name, spec.Schema)
	}
	m := envelope(t, w.works("skills.load", args{"name": "My Skill"}).Text())
	if !slices.Equal(keys(m), []string{"content", "name", "ok", "skillDirectory", "source"}) || m["ok"] != true || m["name"] != "My Skill" || m["source"] != "fs" || m["skillDirectory"] != "skills/my-skill" {
		t.Errorf("%v", m)
	}
	if content := m["content"].(string); content != "\n# Canary body\n" {
		t.Errorf("content %q", content)
	}
	if diff := cmp.Diff("skills/my-skill", m["skillDirectory"]); diff != "" {
		t.Errorf("skillDirectory: %s", diff)
	}
	w.refusal("skills.load", args{"name": "My Skill", "file_path": "references/a.md"}, "file_path")
	spelled := envelope(t, opened(t, project, projectFiles()).works("skills.load", args{"name": " my SKILL"}).Text()) // the reply has the skill's own name
	if diff := cmp.Diff(m, spelled); diff != "" {
		t.Errorf("by another spelling of the name (-want +got):\n%s", diff)
	}
	w = opened(t, project, map[string]string{"skills/lines/SKILL.md": "---\r\nname: lines\r\ndescription: Use when testing.\r\n---\r\n\r\nFirst\r\n\n---\n\nsecond: part\n---\n"})
	if content := envelope(t, w.works("skills.load", args{"name": "lines"}).Text())["content"]; content != "\r\nFirst\r\n\n---\n\nsecond: part\n---\n" {
		t.Errorf("content %q", content)
	}

	// A skill that is not a local file has the name of its source.
	w = newFixture(t, project, projectFiles())
	db := w.mount("skills", policy.Project)
	db.Label, db.Source, db.Root = "db", stored{db.Source}, ""
	w.roots = []metier.Mount{db}
	m = envelope(t, w.open().works("skills.load", args{"name": "My Skill"}).Text())
	if diff := cmp.Diff(map[string]any{"ok": true, "name": "My Skill", "source": "db", "skillDirectory": nil, "content": "\n# Canary body\n"}, m); diff != "" {
		t.Error(diff)
	}
}

// stored is a source of skills that are not local files.
type stored struct{ metier.Source }

func (s stored) List(ctx context.Context) iter.Seq2[*metier.Head, error] {
	return func(yield func(*metier.Head, error) bool) {
		for h, err := range s.Source.List(ctx) {
			if h != nil {
				remote := *h
				remote.Location, remote.Remote = "", true
				h = &remote
			}
			if !yield(h, err) {
				return
			}
		}
	}
}

// req: E-034
func TestLoadFailureIsAnEnvelope(t *testing.T) {
	t.Parallel()
	w := opened(t, project, projectFiles())
	w.refusal("skills.load", args{"name": "other"}, "other", "My Skill")
	w.refusal("skills.load", args{"nam": "My Skill"}, "nam")
	w.refusal("skills.load", args{"name": ""})
	w.refusal("skills.load", args{"name": "My Skill", "other": 1}, "other")
	w.refusal("skills.load", args{"name": 7}, "name")
	denied := newFixture(t, project, projectFiles())
	denied.config = func(c *metier.Config) { c.Grants.Denied = []string{"My Skill"} }
	denied.open()
	denied.refusal("skills.load", args{"name": "My Skill"}, "denied")

	gone := opened(t, project, projectFiles())
	if err := os.Remove(gone.at("skills/my-skill/SKILL.md")); err != nil {
		t.Fatal(err)
	}
	gone.refusal("skills.load", args{"name": "My Skill"}, "SKILL.md")

	asking := newFixture(t, project, projectFiles())
	asking.config = func(c *metier.Config) {
		c.Grants.Skills = []policy.SkillRule{{Effect: policy.RuleAsk, Skill: "My Skill"}}
	}
	asking.open()
	load := metier.Call{ID: "load", Tool: "skills.load", Args: json.RawMessage(`{"name":"My Skill"}`)}
	_, err := asking.Call(t.Context(), load)
	question, is := errors.AsType[*metier.NeedsApproval](err)
	if !is {
		t.Fatalf("it asks nothing: %v", err)
	}
	asking.answer("load", question.Question, false, "once")
	o, err := asking.Call(t.Context(), load)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"ok": false, "error": "refused: the call was not approved"}, envelope(t, o.Text())); diff != "" {
		t.Errorf("the reply to a load that a person refused (-want +got):\n%s", diff)
	}
}

// req: E-036
func TestSkillDirectoryIsRelativeToTheRepository(t *testing.T) {
	t.Parallel()
	w := opened(t, project, projectFiles())
	m := envelope(t, w.works("skills.load", args{"name": "My Skill"}).Text())
	if m["skillDirectory"] != "skills/my-skill" {
		t.Errorf("%v", m)
	}
	e := one[event.SkillActivated](w)
	silent(t, w.said()+e.Path+e.Dir, w.dir)
	if e.Path != "skills/my-skill/SKILL.md" {
		t.Errorf("%+v", e)
	}

	// A root anywhere in the repository: the whole path from its top.
	w = newFixture(t, project, map[string]string{"apps/web/skills/deep/SKILL.md": skillFile("deep", "Deep.\n")})
	w.roots = []metier.Mount{w.mount("apps/web/skills", policy.Project)}
	w.open()
	m = envelope(t, w.works("skills.load", args{"name": "deep"}).Text())
	if m["skillDirectory"] != "apps/web/skills/deep" {
		t.Errorf("%v", m)
	}
}

// req: E-038, E-039, E-040
func TestReadFileAnswersWithPathAndContent(t *testing.T) {
	t.Parallel()
	w := opened(t, project, projectFiles())
	spec, _ := w.spec(settings.ToolReadSkillResource)
	sch, props := schemaOf(t, spec)
	if spec.Name != "skills.readFile" || !slices.Equal(props, []string{"name", "path"}) || !slices.Equal(sch.Required, []string{"name", "path"}) ||
		sch.Properties["name"].Type != "string" || sch.Properties["path"].Type != "string" {
		t.Errorf("%s %s", spec.Name, spec.Schema)
	}
	m := envelope(t, w.works("skills.readFile", args{"name": "My Skill", "path": "references/a.md"}).Text())
	if !slices.Equal(keys(m), []string{"content", "name", "ok", "path"}) || m["ok"] != true || m["name"] != "My Skill" || m["path"] != "references/a.md" || m["content"] != "line one\n<b>\n" {
		t.Errorf("%v", m)
	}
	if diff := cmp.Diff(m, envelope(t, w.works("skills.readFile", args{"name": "my skill ", "path": "references/a.md"}).Text())); diff != "" {
		t.Errorf("by another spelling of the name (-want +got):\n%s", diff)
	}
	w.refusal("skills.readFile", args{"name": "none", "path": "references/a.md"}, "none")
	w.refusal("skills.readFile", args{"name": "My Skill", "path": "references/none.md"}, "references/none.md")
	w.refusal("skills.readFile", args{"name": "My Skill", "path": "references"})
	w.refusal("skills.readFile", args{"name": "My Skill", "path": "references/"})
	w.refusal("skills.readFile", args{"name": "My Skill", "path": "."})
	w.refusal("skills.readFile", args{"name": "My Skill", "path": "pic.bin"}, "not text")
	w.refusal("skills.readFile", args{"name": "My Skill"})
	w.refusal("skills.readFile", args{"name": "My Skill", "path": "references/a.md", "content": "x"}, "content")
}

// req: E-042, E-043, E-044
func TestReadFileStaysInTheSkill(t *testing.T) {
	t.Parallel()
	w := opened(t, project, projectFiles())
	w.put("secret", "canary-secret")
	w.put("skills/secret", "canary-secret")
	for _, p := range []string{"/etc/passwd", w.at("skills/my-skill/references/a.md"), "//etc/passwd", `C:\x`, "C:/x", "c:x", "./C:/x",
		"../secret", "references/../../secret", "references/..", "..", `..\secret`, "references/../references/a.md", "references/../SKILL.md", "./references/../references/a.md"} {
		w.refusal("skills.readFile", args{"name": "My Skill", "path": p})
		if e := last[event.ResourceRead](w); e.Code != "resource_path_invalid" {
			t.Errorf("%q: %s", p, e.Code)
		}
	}
	w.link(w.at("secret"), "skills/my-skill/leak")
	w.link("../../secret", "skills/my-skill/references/leak")
	w.link(w.dir, "skills/my-skill/up")
	for _, p := range []string{"leak", "references/leak", "up/secret"} {
		w.refusal("skills.readFile", args{"name": "My Skill", "path": p})
		if e := last[event.ResourceRead](w); e.Code != "resource_outside_root" {
			t.Errorf("%q: %s", p, e.Code)
		}
	}
	silent(t, w.said(), "canary-secret")
}

// req: E-045
func TestReadFileHasALimit(t *testing.T) {
	t.Parallel()
	w := opened(t, project, projectFiles())
	w.refusal("skills.readFile", args{"name": "My Skill", "path": "big.txt"}, "128001 bytes", "128000")
	w.put("skills/my-skill/big.txt", strings.Repeat("x", 128_000))
	m := envelope(t, w.works("skills.readFile", args{"name": "My Skill", "path": "big.txt"}).Text())
	if len(m["content"].(string)) != 128_000 {
		t.Errorf("%d bytes", len(m["content"].(string)))
	}
}

// dependencies returns all packages that the code of the skill tools, also those of a harness, is
// built from.
func dependencies(t *testing.T) []string {
	t.Helper()
	gotool := testenv.NeedTool(t, "go", "golang-go")
	cmd := exec.CommandContext(t.Context(), gotool, "list", "-deps", testenv.ModulePath, testenv.ModulePath+"/source/local", testenv.ModulePath+"/source/embedded", testenv.ModulePath+"/harness")
	cmd.Dir = testenv.Module(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, testenv.ModulePath) || len(deps) < 50 {
		t.Fatalf("only %v", deps)
	}
	return deps
}

// req: E-065, A-054
func TestSkillToolsCannotStartAProcess(t *testing.T) {
	t.Parallel()
	deps := dependencies(t)
	for _, p := range []string{"os/exec", "plugin", testenv.ModulePath + "/sandbox"} {
		if slices.Contains(deps, p) {
			t.Errorf("the skill tools depend on %s", p)
		}
	}
	starts := regexp.MustCompile(`\b(StartProcess|ForkExec|CreateProcess\w*|(syscall|unix|windows)\.Exec\w*)\b`) // the parts that os/exec itself uses
	for _, p := range deps {
		rel, ours := strings.CutPrefix(p+"/", testenv.ModulePath+"/")
		if !ours {
			continue
		}
		files, err := filepath.Glob(filepath.Join(testenv.Module(t), filepath.FromSlash(rel), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", p, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if m := starts.Find(b); m != nil && !strings.HasSuffix(f, "_test.go") {
				t.Errorf("%s starts processes with %s", f, m)
			}
		}
	}
	for _, profile := range []string{cfHarness, settings.DefaultProfile} { // and they work with these
		w := opened(t, profile, guide())
		mentions(t, w.works(resourceCall, args{"skill": "guide", "path": "references/a.md"}).Text(), "canary-reference")
	}
}

// req: E-066
func TestSkillToolsCannotReachTheNetwork(t *testing.T) {
	t.Parallel()
	for _, p := range dependencies(t) {
		if p == "net" || strings.HasPrefix(p, "net/http") || p == "crypto/tls" {
			t.Errorf("the skill tools depend on %s", p)
		}
	}
	w := opened(t, project, projectFiles())
	w.works("skills.load", args{"name": "My Skill"})
	w.works("skills.readFile", args{"name": "My Skill", "path": "references/a.md"})
}
