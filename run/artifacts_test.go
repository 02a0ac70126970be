package run_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/jsonschema-go/jsonschema"

	"metier"
	"metier/event"
	"metier/internal/digest"
	"metier/model"
	"metier/policy"
	"metier/record"
	"metier/registry"
	"metier/run"
	"metier/settings"
	"metier/skillmd"
)

// files reads every artifact of a folder.
func files(t *testing.T, f *run.Folder) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	ok(t, filepath.WalkDir(f.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".json" || d.Name()[0] == '.' {
			return err
		}
		rel, err := filepath.Rel(f.Dir(), path)
		if err != nil {
			return err
		}
		out[filepath.ToSlash(rel)], err = os.ReadFile(path)
		return err
	}))
	return out
}

func schema(t *testing.T, name string) *jsonschema.Resolved {
	t.Helper()
	raw := run.Schema(name)
	if raw == nil {
		t.Fatalf("no schema of %s", name)
	}
	var s jsonschema.Schema
	ok(t, json.Unmarshal(raw, &s))
	return must[*jsonschema.Resolved](t)(s.Resolve(nil))
}

func valid(t *testing.T, name string, b []byte) {
	t.Helper()
	var v any
	ok(t, json.Unmarshal(b, &v))
	if err := schema(t, name).Validate(v); err != nil {
		t.Errorf("%s does not validate: %v\n%s", name, err, b)
	}
}

// real is a folder with the artifacts of a real session and of a run with a
// model, a question, a script and a child.
func real(t *testing.T) *run.Folder {
	t.Helper()
	f, a := create(t, t.TempDir(), "real", nil)
	work(t, f, skillsFolder(t), a.now, counter("id"))
	a.begin()
	a.add(event.ToolsOffered{Digest: "d", Names: []string{"write_file"}, Tools: a.json([]model.ToolSpec{}), System: a.text("Be brief."), Catalog: a.text("<catalog/>")})
	a.turn(1)
	script := a.json(map[string]any{"skill": "alpha", "path": "scripts/count.ts", "args": []string{"-x"}, "cwd": "/workspace/sub"})
	ran := a.executed("t1.c9")
	a.add(event.ToolCallStarted{ID: "t1.c9", Tool: "run_skill_script", Effect: policy.SideEffect, Args: script},
		event.PackagesRequested{Call: "t1.c9", SkillID: "skills:alpha", Path: "scripts/count.ts", Runtime: "deno", Packages: []string{"lodash"}}, ran,
		event.ToolResult{ID: "t1.c9", Tool: "run_skill_script", Content: a.json([]model.Part{}), Label: policy.Label{Role: policy.Context}},
		event.PolicyDecided{Call: "t1.c10", Tool: "run_skill_script", Actor: policy.ByModel, Effect: policy.SideEffect, Outcome: policy.Deny, Code: "script_not_allowlisted", Args: script, Stage: "call"},
		event.ToolResult{ID: "t1.c10", Tool: "run_skill_script", Code: "script_not_allowlisted", Content: a.json([]model.Part{}), Label: policy.Label{Role: policy.Context}},
		event.ToolCallStarted{ID: "t1.c11", Tool: "bash", Effect: policy.SideEffect, Args: a.json(map[string]string{"command": "ls"})},
		event.CommandExecuted{Execution: a.executed("t1.c11").Execution},
		event.PolicyDecided{Call: "t1.c11", Tool: "bash", Actor: policy.ByModel, Effect: policy.SideEffect, Outcome: policy.Deny, Code: "rule_denied", Args: a.json(map[string]string{"command": "ls"}), Stage: "program"},
		event.ToolResult{ID: "t1.c11", Tool: "bash", Content: a.json([]model.Part{}), Label: policy.Label{Role: policy.Context}},
		event.ApprovalRequested{Call: "t1.c4", ID: "q1", Code: "path_outside", Binds: "b", Scopes: []string{"once"}, Text: a.text("read outside?")},
		event.ApprovalAnswered{ID: "q1", Call: "t1.c4", Binds: "b", Allow: true, Scope: "once", By: "user"},
		event.ApprovalRequested{Call: "t1.c5", ID: "q2", Code: "path_outside", Binds: "c", Scopes: []string{"once"}, Text: a.text("and here?")},
		event.ToolCallStarted{ID: "t1.c6", Tool: "read_file", Effect: policy.Read},
		event.ChildEnded{ID: "t1.c7", Run: "child", Head: record.Head{}},
		event.SkillDrifted{SkillID: "skills:beta", Path: "SKILL.md", Was: "sha256:1", Now: "", Choice: "warn"})
	ok(t, f.Project(t.Context()))
	return f
}

// req
func TestEveryArtifactMatchesItsSchema(t *testing.T) {
	t.Parallel()
	f := real(t)
	seen := map[string]bool{}
	for name, b := range files(t, f) {
		valid(t, name, b)
		if !bytes.HasSuffix(b, []byte("}\n")) || !bytes.HasPrefix(b, []byte("{\n  \"type\"")) {
			t.Errorf("%s is not indented by two spaces with a newline at the end", name)
		}
		if strings.HasPrefix(name, "tool-outputs/") {
			name = "tool-output.json"
		}
		seen[strings.TrimSuffix(name, ".json")] = true
	}
	for _, name := range run.Schemas() {
		if !seen[name] {
			t.Errorf("no artifact of schema %s was written", name)
		}
	}
	reg := readJSON[map[string]any](t, f, run.FileRegistry)
	if reg["type"] != "cf-harness.skill-registry" || reg["version"] != 1.0 || reg["generatedAt"] == "" {
		t.Errorf("registry is of type %v version %v, generated %v", reg["type"], reg["version"], reg["generatedAt"])
	}
	described, front := map[string]any{}, map[string]any{}
	for _, s := range reg["skills"].([]any) {
		sk := s.(map[string]any)
		described[sk["name"].(string)], front[sk["name"].(string)] = sk["description"], sk["frontmatter"]
	}
	if diff := cmp.Diff(map[string]any{"alpha": "Use when counting to one.", "beta": "Use when counting to two."}, described); diff != "" {
		t.Errorf("descriptions in the registry (-want +got):\n%s", diff)
	}
	want := map[string]any{"alpha": map[string]any{"name": "alpha", "description": "Use when counting to one."}, "beta": map[string]any{"name": "beta", "description": "Use when counting to two.", "license": "MIT", "metadata": map[string]any{"author": "Ada"}}}
	if diff := cmp.Diff(want, front); diff != "" {
		t.Errorf("frontmatter in the registry (-want +got):\n%s", diff)
	}
	acts := readJSON[run.Activations](t, f, run.FileActivations)
	if acts.Type != "cf-harness.skill-activations" || acts.Version != 1 || len(acts.Activations) != 2 || acts.Activations[0].CFCPromptRole != "context" {
		t.Errorf("activations: %+v", acts)
	}
}

// The registry lists each file of a skill with its path on the host and in the sandbox, its size,
// digest, and kind of content.
//
// req: A-039
func TestRegistry_DescribesEachFile(t *testing.T) {
	t.Parallel()
	f := real(t)
	checked := 0
	kinds := map[string]string{"references/guide.md": "reference", "assets/logo.bin": "asset", "templates/page.txt": "template", "scripts/count.ts": "script", "notes.txt": "other"}
	list := readJSON[registry.List](t, f, run.FileRegistry)
	for _, s := range list.Skills {
		for _, r := range s.Resources {
			host := filepath.Join(list.Roots[0].Path, s.Name, filepath.FromSlash(r.Path))
			b := must[[]byte](t)(os.ReadFile(host))
			want := registry.Resource{Path: r.Path, Kind: kinds[r.Path], ResourcePath: host, SandboxResourcePath: path.Join(list.SandboxSkillsRoot, s.Name, r.Path),
				SizeBytes: int64(len(b)), Digest: digest.Bytes(b), ContentKind: "text", Script: r.Script, Diagnostics: []skillmd.Diagnostic{}}
			if bytes.IndexByte(b, 0) >= 0 {
				want.ContentKind = "binary"
			}
			if diff := cmp.Diff(want, r); diff != "" {
				t.Errorf("%s (-want +got):\n%s", r.Path, diff)
			}
			checked++
		}
	}
	if checked != 5 {
		t.Errorf("%d files", checked)
	}
}

// req: A-155
func TestActivationsSayWhatWasActivatedWhenAndByWhom(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "acts", nil)
	root := must[string](t)(filepath.EvalSymlinks(skillsFolder(t)))
	work(t, f, root, a.now, counter("id"))
	ok(t, f.Project(t.Context()))
	shown := path.Join(metier.WorkspacePath, filepath.Base(root)) // the workspace is the folder above
	var at []string                                               // of the activations, as the record has them
	for en, err := range f.Log().Read(t.Context(), 1) {
		ok(t, err)
		if en.Type == "skill.activated" {
			at = append(at, en.At.UTC().Format(time.RFC3339Nano))
		}
	}
	if len(at) != 2 || at[0] == at[1] {
		t.Fatalf("activated at %v", at)
	}
	type said struct{ Name, Source, RunID, Path, Digest, At, Role string }
	var got, want []said
	for _, x := range readJSON[run.Activations](t, f, run.FileActivations).Activations {
		got = append(got, said{x.Name, x.Source, x.RunID, filepath.ToSlash(x.SkillPath), x.Digest, x.ActivatedAt, x.CFCPromptRole})
	}
	for i, x := range []said{{Name: "alpha", Source: "cli-preload"}, {Name: "beta", Source: "model-tool"}} {
		x.RunID, x.Path, x.At, x.Role = "acts", path.Join(shown, x.Name, "SKILL.md"), at[i], "context"
		x.Digest = digest.Bytes(must[[]byte](t)(os.ReadFile(filepath.Join(root, x.Name, "SKILL.md"))))
		want = append(want, x)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("activations (-want +got):\n%s", d)
	}
}

// A skill that is activated again, and a file that is read again, are listed again.
//
// req: A-009
func TestEachActivationReadAndExecutionIsListed(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "again", nil)
	work(t, f, skillsFolder(t), a.now, counter("id"))
	a.add(event.SkillActivated{Call: "t2.c1", SkillID: "skills:alpha", Name: "alpha", Hash: digest.Bytes([]byte("changed")), DigestChanged: true, ActivationSource: "user-explicit"},
		event.ResourceRead{Call: "t2.c2", SkillID: "skills:alpha", Name: "alpha", Path: "references/guide.md", Status: "read"},
		event.ScriptExecuted{SkillID: "skills:alpha", Name: "alpha", Path: "scripts/run.sh", Entry: "alpha:scripts/run.sh", Execution: event.Execution{Call: "t2.c3", Status: "executed"}},
		event.ScriptExecuted{SkillID: "skills:alpha", Name: "alpha", Path: "scripts/run.sh", Entry: "alpha:scripts/run.sh", Execution: event.Execution{Call: "t2.c4", Status: "executed"}})
	ok(t, f.Project(t.Context()))
	var acts, reads, scripts []string
	for _, x := range readJSON[run.Activations](t, f, run.FileActivations).Activations {
		acts = append(acts, x.Name+" "+x.Source)
	}
	for _, x := range readJSON[run.Reads](t, f, run.FileReads).Reads {
		reads = append(reads, x.OutputID+" "+x.Path+" "+x.Status)
	}
	if d := cmp.Diff([]string{"alpha cli-preload", "beta model-tool", "alpha user-explicit"}, acts); d != "" {
		t.Errorf("activations (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"t1.c2 references/guide.md read", "t1.c3 assets/logo.bin binary", "t1.c4 references/none.md error", "t1.c5  error", "t2.c2 references/guide.md read"}, reads); d != "" {
		t.Errorf("reads (-want +got):\n%s", d)
	}
	for _, x := range readJSON[run.Scripts](t, f, run.FileScripts).Executions {
		scripts = append(scripts, x.OutputID+" "+x.Entry+" "+x.Status)
	}
	if d := cmp.Diff([]string{"t2.c3 alpha:scripts/run.sh executed", "t2.c4 alpha:scripts/run.sh executed"}, scripts); d != "" {
		t.Errorf("executions (-want +got):\n%s", d)
	}
}

// required walks a value along its schema and calls use for every object with
// its required names.
func required(s, root map[string]any, v any, path string, use func(path string, object map[string]any, names []string)) {
	switch v := v.(type) {
	case map[string]any:
		if options, ok := s["anyOf"].([]any); ok {
			s, _ = options[len(options)-1].(map[string]any)
		}
		s = referred(s, root)
		var names []string
		for _, n := range list(s["required"]) {
			names = append(names, n.(string))
		}
		use(path, v, names)
		props, _ := s["properties"].(map[string]any)
		for name, sub := range props {
			if x, ok := v[name]; ok {
				required(sub.(map[string]any), root, x, path+"."+name, use)
			}
		}
	case []any:
		if options, ok := s["anyOf"].([]any); ok {
			s, _ = options[len(options)-1].(map[string]any)
		}
		if items, ok := s["items"].(map[string]any); ok {
			for i, x := range v {
				required(items, root, x, fmt.Sprintf("%s[%d]", path, i), use)
			}
		}
	}
}

func referred(s, root map[string]any) map[string]any {
	r, ok := s["$ref"].(string)
	if !ok {
		return s
	}
	defs, _ := root["$defs"].(map[string]any)
	s, _ = defs[strings.TrimPrefix(r, "#/$defs/")].(map[string]any)
	return s
}

func list(v any) []any { l, _ := v.([]any); return l }

func TestAnArtifactWithoutARequiredFieldDoesNotValidate(t *testing.T) {
	t.Parallel()
	f := real(t)
	dropped := map[string]int{}
	for name, b := range files(t, f) {
		var doc any
		var s map[string]any
		ok(t, json.Unmarshal(b, &doc))
		ok(t, json.Unmarshal(run.Schema(name), &s))
		resolved := schema(t, name)
		required(s, s, doc, name, func(path string, object map[string]any, names []string) {
			for _, n := range names {
				was, there := object[n]
				if !there {
					t.Errorf("%s.%s is required and not there", path, n)
					continue
				}
				delete(object, n)
				if resolved.Validate(doc) == nil {
					t.Errorf("%s validates without %s", path, n)
				}
				object[n] = was
				dropped[name]++
			}
		})
	}
	for _, name := range []string{run.FileRegistry, run.FileActivations, run.FileReads, run.FileScripts, run.FilePolicySnapshot, run.FilePolicyTrace,
		run.FileTranscript, run.FileState, run.FileReport} {
		if dropped[name] < 5 {
			t.Errorf("only %d fields of %s were tried", dropped[name], name)
		}
	}
}

// req: A-036
func TestRegistryHasOneResourceListPerSkill(t *testing.T) {
	t.Parallel()
	f := real(t)
	var reg struct {
		Skills []struct {
			Name      string
			Resources []struct{ Path, Kind, ContentKind string }
		}
	}
	ok(t, json.Unmarshal(must[[]byte](t)(os.ReadFile(f.Path(run.FileRegistry))), &reg))
	got := map[string][]string{}
	for _, s := range reg.Skills {
		if s.Resources == nil {
			t.Errorf("skill %s has no resources array", s.Name)
		}
		for _, r := range s.Resources {
			got[s.Name] = append(got[s.Name], r.Path+" "+r.Kind+" "+r.ContentKind)
		}
	}
	want := map[string][]string{"alpha": {"assets/logo.bin asset binary", "notes.txt other text", "references/guide.md reference text",
		"scripts/count.ts script text", "templates/page.txt template text"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(reg.Skills) != 2 {
		t.Errorf("%d skills, want 2", len(reg.Skills))
	}
}

func TestRegistryShowsFilesIndexedOnFirstUse(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "lazy", nil)
	a.open("cli-preload")
	entry := registry.Skill{ID: "skills:alpha", Name: "alpha", State: "loaded", Tier: "project", Digest: digest.Bytes([]byte(skillText)), Tree: digest.Bytes([]byte("tree")), Indexed: true,
		Resources:   []registry.Resource{{Path: "notes.txt", Kind: "other", Digest: digest.Bytes(nil), ContentKind: "text", Diagnostics: []metier.Diagnostic{}}},
		Frontmatter: json.RawMessage(`{}`), Diagnostics: []metier.Diagnostic{}}
	a.add(event.ResourcesIndexed{SkillID: "skills:alpha", Digest: entry.Digest, Tree: entry.Tree, Files: 1, Registry: a.json(entry)})
	ok(t, f.Project(t.Context()))
	b := must[[]byte](t)(os.ReadFile(f.Path(run.FileRegistry)))
	valid(t, run.FileRegistry, b)
	if !bytes.Contains(b, []byte(`"path": "notes.txt"`)) {
		t.Errorf("the file is not in the registry:\n%s", b)
	}
}

// req
func TestEveryReadIsRecordedWithBothDigests(t *testing.T) {
	t.Parallel()
	f := real(t)
	type line struct{ Output, Path, Status, Code string }
	var got []line
	for _, r := range readJSON[run.Reads](t, f, run.FileReads).Reads {
		l := line{r.OutputID, r.Path, r.Status, ""}
		if r.Error != nil {
			l.Code = r.Error.Code
		}
		got = append(got, l)
		if r.CFCPromptRole != "context" {
			t.Errorf("%s has role %s", r.OutputID, r.CFCPromptRole)
		}
	}
	want := []line{{"t1.c2", "references/guide.md", "read", ""}, {"t1.c3", "assets/logo.bin", "binary", ""},
		{"t1.c4", "references/none.md", "error", "resource_not_indexed"}, {"t1.c5", "", "error", "invalid_arguments"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	list := readJSON[registry.List](t, f, run.FileRegistry)
	fields := func(path, kind, content string) run.Read {
		file := filepath.Join(list.Roots[0].Path, "alpha", filepath.FromSlash(path))
		b := must[[]byte](t)(os.ReadFile(file))
		sum, size, same := digest.Bytes(b), int64(len(b)), true
		return run.Read{RunID: f.ID(), SkillName: "alpha", SkillID: "skills:alpha", Path: path, CFCPromptRole: "context", Kind: &kind, ResourcePath: &file,
			SandboxResourcePath: new(list.SandboxSkillsRoot + "/alpha/" + path), RegistryDigest: &sum, ObservedDigest: &sum, DigestMatchesRegistry: &same,
			RegistrySizeBytes: &size, ObservedSizeBytes: &size, ContentKind: &content, Diagnostics: json.RawMessage("[]")}
	}
	text, logo := fields("references/guide.md", "reference", "text"), fields("assets/logo.bin", "asset", "binary")
	text.OutputID, text.Status, text.MaxBytes, text.Truncated = "t1.c2", "read", 3, true
	logo.OutputID, logo.Status, logo.MaxBytes = "t1.c3", "binary", 64000
	missing := run.Read{OutputID: "t1.c4", RunID: f.ID(), SkillName: "alpha", SkillID: "skills:alpha", Path: "references/none.md", Status: "error", CFCPromptRole: "context",
		Kind: text.Kind, MaxBytes: 64000, Diagnostics: json.RawMessage("[]"), Error: &run.Failure{Code: "resource_not_indexed"}}
	for i, want := range []run.Read{text, logo, missing} {
		all := map[string]run.Read{"reads": readJSON[run.Reads](t, f, run.FileReads).Reads[i],
			"tool output": readJSON[run.Output](t, f, "tool-outputs/"+want.OutputID+"-read_skill_resource.json").Reads[0]}
		for name, got := range all {
			if _, err := time.Parse(time.RFC3339, got.ReadAt); err != nil {
				t.Errorf("%s of %s: %v", name, want.OutputID, err)
			}
			if got.Error != nil && got.Error.Message == "" {
				t.Errorf("%s of %s has no message", name, want.OutputID)
			}
			if d := cmp.Diff(want, got, cmpopts.IgnoreFields(run.Read{}, "ReadAt", "Error.Message")); d != "" {
				t.Errorf("%s of %s: %s", name, want.OutputID, d)
			}
		}
	}
	out := readJSON[run.Output](t, f, "tool-outputs/t1.c2-read_skill_resource.json")
	if len(out.Reads) != 1 || out.Reads[0].RegistryDigest == nil || out.Reads[0].ObservedDigest == nil || *out.Reads[0].RegistryDigest != *out.Reads[0].ObservedDigest {
		t.Errorf("the tool output does not hold both digests: %+v", out.Reads)
	}
	binary := readJSON[run.Output](t, f, "tool-outputs/t1.c3-read_skill_resource.json").Reads
	if sum := digest.Bytes([]byte("\x00\x9f\x92\x96")); len(binary) != 1 || *binary[0].RegistryDigest != sum || *binary[0].ObservedDigest != sum {
		t.Errorf("the tool output of a binary file: %+v", binary)
	}
	refused := readJSON[run.Output](t, f, "tool-outputs/t1.c4-read_skill_resource.json").Reads
	if len(refused) != 1 || refused[0].Error == nil || refused[0].Error.Code != "resource_not_indexed" {
		t.Errorf("the tool output of a refused read: %+v", refused)
	}
	if r := out.Reads[0]; !r.Truncated || r.MaxBytes != 3 || *r.ResourcePath == "" || *r.SandboxResourcePath == "" {
		t.Errorf("read %+v", r)
	}
}

// req
func TestSkillArtifactsLieUnderTheRunRoot(t *testing.T) {
	t.Parallel()
	f := real(t)
	for _, name := range []string{"skill-registry.json", "skill-activations.json"} {
		b := must[[]byte](t)(os.ReadFile(filepath.Join(f.Dir(), name)))
		valid(t, name, b)
	}
	entries := must[[]os.DirEntry](t)(os.ReadDir(f.Dir()))
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") {
			t.Errorf("%s was left behind", e.Name())
		}
	}
	idle, a := create(t, t.TempDir(), "idle", nil) // even if no skill was used
	a.add(event.SessionOpened{Session: "idle", Build: "test"}, event.SkillsDiscovered{Loaded: 1, Registry: a.json(registry.List{SkillsRoot: "/w/skills", Roots: []registry.Root{{Label: "skills", Tier: "project", Path: "/w/skills"}},
		Skills: []registry.Skill{{ID: "skills:alpha", Name: "alpha"}}})})
	ok(t, idle.Project(t.Context()))
	if acts := readJSON[run.Activations](t, idle, run.FileActivations); acts.Version != 1 || len(acts.Activations) != 0 {
		t.Errorf("%+v", acts)
	}
	if reg := readJSON[run.Registry](t, idle, run.FileRegistry); len(reg.Skills) != 1 {
		t.Errorf("%+v", reg)
	}
}

// req: A-151
func TestPolicySnapshotHoldsWhatMattersForTrust(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "snap", nil)
	act := a.open("cli-preload")
	ok(t, f.Project(t.Context()))
	valid(t, run.FilePolicySnapshot, must[[]byte](t)(os.ReadFile(f.Path(run.FilePolicySnapshot))))
	s := readJSON[run.PolicySnapshot](t, f, run.FilePolicySnapshot)
	want := []run.LoadedSkill{{Name: "alpha", SkillID: "skills:alpha", Digest: act.Hash, Tree: act.Tree, Tier: "project", Source: "cli-preload", InjectedAsContext: true}}
	if d := cmp.Diff(want, s.LoadedSkills); d != "" {
		t.Error(d)
	}
	if s.SkillsRoot != "/w/skills" || !s.InjectedAsContext || s.EnforcementMode != "observe" || s.CatalogMode.Format != "xml" || s.CatalogMode.Place != "tool" {
		t.Errorf("snapshot: %+v", s)
	}
	if d := cmp.Diff([]string{"alpha:scripts/a.sh"}, s.AllowedScripts); d != "" {
		t.Error(d)
	}
	if len(s.Diagnostics) != 1 || !strings.Contains(string(s.Diagnostics[0]), "skill-scan-outside-root") {
		t.Errorf("diagnostics of trust: %s", s.Diagnostics)
	}
	if d := cmp.Diff([]string{"beta"}, s.DeniedSkills); d != "" {
		t.Error(d)
	}

	// What happened to trust during the run is in it too.
	a.add(event.SkillDrifted{SkillID: "skills:alpha", Path: "/workspace/skills/alpha/SKILL.md", Was: "sha256:a", Now: "sha256:b", Choice: "warn"}, event.SkillDrifted{SkillID: "skills:gone", Path: "/g", Was: "sha256:c"},
		event.SkillSuspected{SkillID: "skills:alpha", Path: "SKILL.md", Kind: "override", Offset: 7}, event.SkillSuspected{SkillID: "skills:alpha", Path: "SKILL.md", Kind: "prompt", Offset: 9, Blocked: true})
	ok(t, f.Project(t.Context()))
	var found []string
	for _, raw := range readJSON[run.PolicySnapshot](t, f, run.FilePolicySnapshot).Diagnostics[1:] {
		var d metier.Diagnostic
		ok(t, json.Unmarshal(raw, &d))
		found = append(found, fmt.Sprintf("%s %s %s: %s", d.Severity, d.Code, d.Path, d.Detail))
	}
	if d := cmp.Diff([]string{
		"warning " + run.CodeDrift + " /workspace/skills/alpha/SKILL.md: skills:alpha was sha256:a and is sha256:b; chosen: warn",
		"warning " + run.CodeDrift + " /g: skills:gone was sha256:c and is gone; chosen: nothing yet",
		"warning " + run.CodeSuspect + " SKILL.md: skills:alpha reads like an injection (override) at byte 7; delivered",
		"warning " + run.CodeSuspect + " SKILL.md: skills:alpha reads like an injection (prompt) at byte 9; not delivered",
	}, found); d != "" {
		t.Errorf("diagnostics of trust (-want +got):\n%s", d)
	}

	// One text that is not context is too many, whatever follows it.
	odd, later := act, act
	odd.Call, odd.Role, later.Call = "load2", policy.DirectCommand, "load3"
	a.add(odd, later)
	ok(t, f.Project(t.Context()))
	s = readJSON[run.PolicySnapshot](t, f, run.FilePolicySnapshot)
	var each []bool
	for _, l := range s.LoadedSkills {
		each = append(each, l.InjectedAsContext)
	}
	if d := cmp.Diff([]bool{true, false, true}, each); d != "" || s.InjectedAsContext {
		t.Errorf("injected as context: %v %s", s.InjectedAsContext, d)
	}
}

// req: A-152
func TestPolicySnapshotNamesTheActivationSource(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"cli-preload", "model-tool", "user-explicit", "subagent-inherit"} {
		f, a := create(t, t.TempDir(), source, nil)
		a.open(source)
		ok(t, f.Project(t.Context()))
		if got := readJSON[run.PolicySnapshot](t, f, run.FilePolicySnapshot).ActivationSources; !cmp.Equal(got, []string{source}) {
			t.Errorf("activation sources %v, want %s", got, source)
		}
		if got := readJSON[run.Activations](t, f, run.FileActivations).Activations[0].Source; got != source {
			t.Errorf("activation has source %s, want %s", got, source)
		}
	}
	f, a := create(t, t.TempDir(), "several", nil) // in the order of their first use, each once
	act := a.open("model-tool")
	for i, source := range []string{"cli-preload", "model-tool", "user-explicit", "cli-preload"} {
		act.Call, act.ActivationSource = fmt.Sprintf("more%d", i), source
		a.add(act)
	}
	ok(t, f.Project(t.Context()))
	if d := cmp.Diff([]string{"model-tool", "cli-preload", "user-explicit"}, readJSON[run.PolicySnapshot](t, f, run.FilePolicySnapshot).ActivationSources); d != "" {
		t.Error(d)
	}
}

// req: A-115
func TestTranscriptOfAResumedRunHoldsTheSkillBlockOnce(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, a := create(t, root, "r", nil)
	act := a.open("cli-preload")
	a.begin()
	a.turn(1)
	act.Call, act.SkillID, act.Name, act.Text = "t1.c2", "skills:beta", "beta", a.text("<skill_context name=\"beta\">\nCount.\n</skill_context>\n")
	a.add(act)
	ok(t, f.Project(t.Context()))
	ok(t, f.Close())
	f = must[*run.Folder](t)(run.Open(root, "r", &run.Options{Now: clock()}))
	defer f.Close()
	r := must[run.Restored](t)(f.Restore(t.Context()))
	a.f = f
	renewed := act // beta was loaded again after its file changed
	renewed.Call, renewed.Hash, renewed.Text, renewed.DigestChanged = "t1.c3", digest.Bytes([]byte("renewed")), a.text("Count again.\n"), true
	a.add(event.RunResumed{Run: "r", Verified: len(r.Active)}, renewed)
	a.turn(2)
	ok(t, f.Project(t.Context()))
	b := must[[]byte](t)(os.ReadFile(f.Path(run.FileTranscript)))
	for _, name := range []string{"alpha", "beta"} { // preloaded, and loaded in a turn
		if n := bytes.Count(b, []byte(`<skill_context name=\"`+name+`\">`)); n != 1 {
			t.Errorf("the block of %s is in the transcript %d times, want once", name, n)
		}
	}
	st := readJSON[run.State](t, f, run.FileState)
	if len(st.Activations) != 2 || st.Activations[0].Name != "alpha" || st.Resumes != 1 {
		t.Errorf("resume state: %+v", st)
	}
	tr := readJSON[run.Transcript](t, f, run.FileTranscript)
	want := []run.ActiveVersion{{SkillID: "skills:alpha", Name: "alpha", Digest: st.Activations[0].Digest}, {SkillID: "skills:beta", Name: "beta", Digest: renewed.Hash}}
	if d := cmp.Diff(want, st.Activations); d != "" {
		t.Errorf("activations of the resume state (-want +got):\n%s", d)
	}
	if len(tr.Turns) != 2 || tr.Turns[1].ActiveSkills[0].Digest == "" || !cmp.Equal(want, tr.Turns[1].ActiveSkills) {
		t.Errorf("turns: %+v", tr.Turns)
	}
}

// req: A-127
func TestDigestIsInArtifactsAndNotInTheReply(t *testing.T) {
	t.Parallel()
	for _, show := range []settings.ShowDigest{settings.ShowDigestYes, settings.ShowDigestNo} {
		f, a := create(t, t.TempDir(), "show-"+string(show), nil)
		work(t, f, skillsFolder(t), a.now, counter("id"), func(s *settings.Settings) { s.Activate.ShowDigest = show })
		ok(t, f.Project(t.Context()))
		out := readJSON[run.Output](t, f, "tool-outputs/t1.c1-load_skill.json")
		if len(out.Activations) != 1 || out.Activations[0].Digest == "" {
			t.Fatalf("no activation in the tool output: %+v", out.Activations)
		}
		if told := strings.Contains(string(out.Content), out.Activations[0].Digest); told != (show == settings.ShowDigestYes) {
			t.Errorf("with show_digest=%s, the model was told the digest: %t", show, told)
		}
	}
}

// req: C-030, C-064
func TestActivationEventHasHashSourceAndSession(t *testing.T) {
	t.Parallel()
	f := real(t)
	acts := readJSON[run.Activations](t, f, run.FileActivations).Activations
	for _, a := range acts {
		if a.SkillID == "" || !strings.HasPrefix(a.Digest, "sha256:") || a.Tier != "project" || a.SessionID != "real" || a.ActivatedAt == "" || a.TaskID == "" {
			t.Errorf("activation %+v", a)
		}
	}
	n := 0
	for en, err := range f.Log().Read(t.Context(), 1) {
		ok(t, err)
		if en.Type != "skill.activated" {
			continue
		}
		var e event.SkillActivated
		ok(t, json.Unmarshal(en.Data, &e))
		a := acts[n]
		want := run.Activation{Name: e.Name, SkillID: e.SkillID, Source: e.ActivationSource, Tier: string(e.Source), SessionID: e.SessionID, TaskID: e.TaskID, OutputID: e.Call, Digest: e.Hash, Tree: e.Tree, ActivatedAt: en.At.Format(time.RFC3339Nano)}
		got := run.Activation{Name: a.Name, SkillID: a.SkillID, Source: a.Source, Tier: a.Tier, SessionID: a.SessionID, TaskID: a.TaskID, OutputID: a.OutputID, Digest: a.Digest, Tree: a.Tree, ActivatedAt: a.ActivatedAt}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the event and the artifact: %s", diff)
		}
		n++
		var data map[string]any
		ok(t, json.Unmarshal(en.Data, &data))
		for _, field := range []string{"skillId", "hash", "source", "sessionId"} {
			if s, _ := data[field].(string); s == "" {
				t.Errorf("the event lacks %s: %s", field, en.Data)
			}
		}
		if en.At.IsZero() {
			t.Error("the event has no time")
		}
	}
	if n != 2 {
		t.Errorf("%d activation events, want 2", n)
	}
}

func TestARunWithoutSkillsHasNoSkillArtifacts(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "plain", nil)
	a.add(event.SessionOpened{Session: "plain"}, event.SkillsDiscovered{Registry: a.json(map[string]any{"skillsRoot": "", "roots": []any{}, "skills": []any{}, "diagnostics": []any{}, "others": []any{}})})
	a.begin()
	ok(t, f.Project(t.Context()))
	for name := range files(t, f) {
		if strings.HasPrefix(name, "skill-") {
			t.Errorf("%s was written", name)
		}
	}
	must[run.Restored](t)(f.Restore(t.Context()))
}

// If a read differs from the registry, the list of reads and the tool output contain both digests.
//
// req
func TestRead_ChangedFileHasBothDigests(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "changed", nil)
	a.open("cli-preload")
	a.begin()
	was, now := digest.Bytes([]byte("was")), digest.Bytes([]byte("is now"))
	same, size, found := false, int64(3), int64(6)
	a.add(event.ResourceRead{Call: "t1.c1", SkillID: "skills:alpha", Name: "alpha", Path: "references/guide.md", Kind: "reference", Status: "read", ContentKind: "text",
		RegistryDigest: was, ObservedDigest: now, Matches: &same, RegistrySize: &size, ObservedSize: &found, MaxBytes: 9, Role: policy.Context},
		event.ToolResult{ID: "t1.c1", Tool: "read_skill_resource", Content: a.json([]model.Part{}), Label: policy.Label{Role: policy.Context}})
	ok(t, f.Project(t.Context()))
	for name, reads := range map[string][]run.Read{run.FileReads: readJSON[run.Reads](t, f, run.FileReads).Reads,
		"tool-outputs": readJSON[run.Output](t, f, "tool-outputs/t1.c1-read_skill_resource.json").Reads} {
		if len(reads) != 1 {
			t.Fatalf("%s has %d reads", name, len(reads))
		}
		r := reads[0]
		got := []any{*r.RegistryDigest, *r.ObservedDigest, *r.DigestMatchesRegistry, *r.RegistrySizeBytes, *r.ObservedSizeBytes}
		if diff := cmp.Diff([]any{was, now, false, size, found}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The output of a call that read a skill's file has its origin and both digests, whatever the tool.
//
// req
func TestOutput_HasTheProvenanceOfReads(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"read_skill_resource", "load_skill", "load_content"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			f, a := create(t, t.TempDir(), "reads", nil)
			a.open("cli-preload")
			a.begin()
			sum, same, size := digest.Bytes([]byte("text")), true, int64(4)
			label := policy.Label{Role: policy.Context, Origin: "skills:alpha", Tier: policy.Project, Mediated: true}
			a.add(event.ResourceRead{Call: "t1.c1", SkillID: "skills:alpha", Name: "alpha", Path: "references/guide.md", Kind: "reference", Status: "read", ContentKind: "text",
				RegistryDigest: sum, ObservedDigest: sum, Matches: &same, RegistrySize: &size, ObservedSize: &size, MaxBytes: 9, Role: policy.Context},
				event.ToolResult{ID: "t1.c1", Tool: tool, Content: a.json([]model.Part{}), Label: label})
			ok(t, f.Project(t.Context()))
			out := readJSON[run.Output](t, f, "tool-outputs/t1.c1-"+tool+".json")
			if diff := cmp.Diff(label, out.Label); diff != "" {
				t.Errorf("label (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff("context", out.CFCPromptRole); diff != "" {
				t.Errorf("role (-want +got):\n%s", diff)
			}
			var got [][]string
			for _, r := range out.Reads {
				got = append(got, []string{*r.RegistryDigest, *r.ObservedDigest})
			}
			if diff := cmp.Diff([][]string{{sum, sum}}, got); diff != "" {
				t.Errorf("digests (-want +got):\n%s", diff)
			}
		})
	}
}

// req
func TestTranscript_RefersToLongResults(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "long", nil)
	a.open("cli-preload")
	a.begin()
	long := strings.Repeat("long line\n", 500)
	result := func(call, text string) event.ToolResult {
		return event.ToolResult{ID: call, Tool: "read_skill_resource", Content: a.json([]model.Part{{Kind: model.PartResult, Call: call, Text: text}}), Label: policy.Label{Role: policy.Context, Mediated: true}}
	}
	act := event.SkillActivated{Call: "t1.c3", SkillID: "skills:alpha", Name: "alpha", Hash: digest.Bytes([]byte("new")), DigestChanged: true, Source: policy.Project, ActivationSource: "model-tool",
		HostPath: "/w/skills/alpha/SKILL.md", Text: a.text(long), Original: a.text(long), Role: policy.Context}
	a.add(result("t1.c1", "short"), result("t1.c2", long), act, result("t1.c3", long))
	ok(t, f.Project(t.Context()))
	b := must[[]byte](t)(os.ReadFile(f.Path(run.FileTranscript)))
	valid(t, run.FileTranscript, b)
	type told struct {
		Call, In string
		Has      bool
	}
	var got []told
	for _, m := range readJSON[run.Transcript](t, f, run.FileTranscript).Messages {
		if strings.HasPrefix(m.Call, "t1.") && m.Role == "tool" {
			got = append(got, told{m.Call, m.ContentIn, string(m.Content) != "null"})
		}
	}
	want := []told{{"t1.c1", "", true}, {"t1.c2", "tool-outputs/t1.c2-read_skill_resource.json", false}, {"t1.c3", "", true}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
	out := readJSON[run.Output](t, f, "tool-outputs/t1.c2-read_skill_resource.json")
	if !strings.Contains(string(out.Content), strings.Repeat(`long line\n`, 500)) {
		t.Error("the file of tool-outputs does not have the result")
	}
	whole := must[run.Transcript](t)(run.Conversation(t.Context(), f))
	if n := strings.Count(string(must[[]byte](t)(json.Marshal(whole))), strings.Repeat(`long line\n`, 500)); n != 2 {
		t.Errorf("the transcript as it is read has %d of 2 long results", n)
	}
	if got := problems(t, f); len(got) != 0 {
		t.Errorf("problems: %q", got)
	}
}

func TestErasedContentStandsAsAGap(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "gap", nil)
	a.open("cli-preload")
	a.begin()
	secret := a.json(model.UserText("forget me"))
	a.add(event.Input{ID: "x", Slot: policy.Slot{Role: policy.Context}, Content: secret})
	ok(t, f.Blobs().(record.Eraser).Erase(t.Context(), secret))
	ok(t, f.Project(t.Context()))
	b := must[[]byte](t)(os.ReadFile(f.Path(run.FileTranscript)))
	valid(t, run.FileTranscript, b)
	msgs := readJSON[run.Transcript](t, f, run.FileTranscript).Messages
	var gap run.Gap
	ok(t, json.Unmarshal(msgs[len(msgs)-1].Content, &gap))
	if !gap.Erased || gap.Digest != secret.Digest {
		t.Errorf("gap %+v", gap)
	}
	rep := must[run.VerifyReport](t)(run.Verify(t.Context(), f))
	if !rep.OK || rep.Record.Blobs.Erased != 1 {
		t.Errorf("an erased blob speaks against the record: %+v", rep)
	}
}

func TestToolOutputNamesAreSafeAndDistinct(t *testing.T) {
	t.Parallel()
	f, a := create(t, t.TempDir(), "names", nil)
	a.add(event.SessionOpened{Session: "names"})
	long := strings.Repeat("x", 400)
	for _, id := range []string{"a/b", "a_b", "A_b", "../../etc", "..", long} {
		a.add(event.ToolResult{ID: id, Tool: "read_file", Content: a.json([]model.Part{})})
	}
	ok(t, f.Project(t.Context()))
	entries := must[[]os.DirEntry](t)(os.ReadDir(f.Path("tool-outputs")))
	lower := map[string]bool{}
	for _, e := range entries {
		lower[strings.ToLower(e.Name())] = true
		if len(e.Name()) > 255 || strings.Trim(e.Name(), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
			t.Errorf("name %q", e.Name())
		}
	}
	if len(lower) != 6 {
		t.Errorf("%d files for 6 calls: %v", len(lower), entries)
	}
	if !lower["a_b-read_file.json"] {
		t.Errorf("the plain form is missing: %v", entries)
	}
}
