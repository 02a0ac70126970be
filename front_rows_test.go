package metier_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"metier"
	"metier/registry"
	"metier/settings"
	"metier/skillmd"
)

// judged reads skills under a profile: folder to the text of its SKILL.md.
func judged(t *testing.T, profile string, texts map[string]string) (*fixture, map[string]metier.Skill) {
	t.Helper()
	files := map[string]string{}
	for folder, text := range texts {
		files["skills/"+folder+"/SKILL.md"] = text
	}
	w := newFixture(t, profile, files)
	out := map[string]metier.Skill{}
	for _, sk := range w.snapshot().All() {
		out[sk.ID.Path] = sk
	}
	return w, out
}

// found returns the codes of a skill's findings of a severity.
func found(sk metier.Skill, severity skillmd.Severity) []string {
	var out []string
	for _, d := range sk.Diagnostics {
		if d.Severity == severity {
			out = append(out, d.Code)
		}
	}
	return out
}

// catalogNames returns the skills that a session with the fixture's settings shows its
// model.
func (w *fixture) catalogNames() []string {
	w.t.Helper()
	var out []string
	for _, e := range w.open().Catalog(w.t.Context()).Entries {
		out = append(out, e.Name)
	}
	return out
}

// registry returns the registry of the fixture's snapshot, as in the artifact.
func (w *fixture) registry() registry.List {
	w.t.Helper()
	return w.snapshot().Registry(metier.View{Paths: w.set.Catalog.Paths, Workspace: w.dir})
}

// req, E-016
func TestFilesAreClassedByTheirFirstFolder(t *testing.T) {
	t.Parallel()
	files := map[string]string{"skills/unit/SKILL.md": skillFile("unit", "")}
	want := map[string]metier.ResourceKind{
		"references/a.md": metier.Reference, "assets/deep/b.png": metier.Asset, "templates/c.txt": metier.Template, "scripts/deep/d.sh": metier.Script,
		"notes/e.md": metier.Other, "f.md": metier.Other, "notes/scripts/g.sh": metier.Other, "Scripts/h.sh": metier.Other, "scripts.md": metier.Other,
		"references-2/i.md": metier.Other, "asset/j.png": metier.Other, "references/scripts/k.sh": metier.Reference, "templates/assets/l.png": metier.Template,
	}
	for p := range want {
		files["skills/unit/"+p] = "x"
	}
	files["skills/zeta/SKILL.md"] = skillFile("zeta", "")
	for _, name := range []string{"references", "assets", "templates", "scripts"} { // files with the names of the folders
		files["skills/zeta/"+name] = "x"
	}
	for _, profile := range []string{cfHarness, project} {
		w := newFixture(t, profile, files)
		snap := w.snapshot()
		sk, err := snap.Index(t.Context(), snap.All()[0])
		if err != nil || sk.State != metier.Loaded {
			t.Fatalf("%s: %s %v", profile, sk.State, err)
		}
		got := map[string]metier.ResourceKind{}
		for _, r := range sk.Resources {
			if r.Path != "SKILL.md" {
				got[r.Path] = r.Kind
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", profile, diff)
		}
		named, err := snap.Index(t.Context(), snap.All()[1])
		if err != nil || len(named.Resources) < 4 {
			t.Fatalf("%s: %+v %v", profile, named.Resources, err)
		}
		for _, r := range named.Resources {
			if r.Kind != metier.Other {
				t.Errorf("%s: the file %s is of the kind %s", profile, r.Path, r.Kind)
			}
		}
	}
}

// A file without frontmatter has a finding that says so. The profile decides its state.
//
// req: A-022, B-060
func TestAFileWithoutFrontmatterFollowsTheProfile(t *testing.T) {
	t.Parallel()
	for profile, want := range map[string]metier.Status{cfHarness: metier.Refused, keen: metier.Loaded, runtimeProf: metier.Refused, project: metier.Refused, "agent-harness": metier.Refused, "default": metier.Loaded} {
		w, all := judged(t, profile, map[string]string{"plain": "# Plain\n\nDoes plain things.\n", "usual": skillFile("usual", "")})
		sk := all["plain"]
		if want == metier.Loaded {
			if diff := cmp.Diff("Does plain things.", sk.Description); diff != "" {
				t.Errorf("%s: description (-want +got):\n%s", profile, diff)
			}
		}
		if !slices.ContainsFunc(w.registry().Diagnostics, func(d metier.Diagnostic) bool {
			return d.Code == "no-frontmatter" && d.Path == w.at("skills/plain/SKILL.md")
		}) {
			t.Errorf("%s: the registry has no finding about the file: %+v", profile, w.registry().Diagnostics)
		}
		broken := found(sk, skillmd.Error)
		if codes := slices.Concat(broken, found(sk, skillmd.Warning)); sk.State != want || !slices.Contains(codes, "no-frontmatter") {
			t.Errorf("%s: %s, %v; want %s", profile, sk.State, codes, want)
		}
		if says := len(broken) > 0; says != (want == metier.Refused) {
			t.Errorf("%s: %s with the errors %v", profile, sk.State, broken)
		}
		if usual := all["usual"]; usual.State != metier.Loaded || len(usual.Diagnostics) > 0 {
			t.Errorf("%s: with frontmatter it is %s, %+v", profile, usual.State, usual.Diagnostics)
		}
	}
}

// req
func TestWithoutNameOrDescriptionASkillIsNotInTheCatalog(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{cfHarness, runtimeProf} {
		w, all := judged(t, profile, map[string]string{
			"noname": "---\ndescription: Use when asked.\n---\n", "nodesc": "---\nname: nodesc\n---\nText.\n", "blank": "---\nname: blank\ndescription: '  '\n---\n",
			"list": "---\nname: list\ndescription: [a, b]\n---\n", "cut": "---\nname: cut\ndescription: \"no end\n---\n", "null": "---\nname:\ndescription: Use when asked.\n---\n", "map": "---\nname: map\ndescription: {a: b}\n---\n", "good": skillFile("good", ""),
			"blankname": "---\nname: ' '\ndescription: Use when asked.\n---\n", "listname": "---\nname: [a]\ndescription: Use when asked.\n---\n",
		})
		r := w.registry()
		for folder, code := range map[string]string{"noname": "missing-name", "null": "missing-name", "blankname": "missing-name", "listname": "missing-name", "nodesc": "missing-description", "blank": "missing-description", "list": "missing-description",
			"map": "missing-description", "cut": "invalid-yaml"} {
			sk := all[folder]
			i := slices.IndexFunc(sk.Diagnostics, func(d metier.Diagnostic) bool { return d.Code == code && d.Severity == skillmd.Error })
			if sk.State != metier.Refused || i < 0 || sk.Diagnostics[i].Path != w.at("skills/"+folder+"/SKILL.md") {
				t.Errorf("%s: %s: %s %+v, want an error %s with its path", profile, folder, sk.State, sk.Diagnostics, code)
			}
			if !slices.ContainsFunc(r.Diagnostics, func(d metier.Diagnostic) bool {
				return d.Code == code && d.Severity == skillmd.Error && d.Path == w.at("skills/"+folder+"/SKILL.md")
			}) {
				t.Errorf("%s: the registry has no %s of %s: %+v", profile, code, folder, r.Diagnostics)
			}
		}
		if got := w.catalogNames(); !slices.Equal(got, []string{"good"}) {
			t.Errorf("%s: the catalog has %q", profile, got)
		}
		if len(r.Skills) != 1 || len(r.Others) != 9 || r.Skills[0].Name != "good" {
			t.Errorf("%s: the registry has %+v and %+v", profile, r.Skills, r.Others)
		}
	}
}

// req
func TestResourcesAreSortedWithoutTheRootFileAndScriptsSayWhatRunsThem(t *testing.T) {
	t.Parallel()
	byEnding := map[string]string{".js": "deno", ".mjs": "deno", ".mts": "deno", ".rb": "ruby", ".go": "go", ".pl": "perl", ".ps1": "pwsh", ".sh": "unknown"}
	files := map[string]string{
		"skills/unit/SKILL.md": skillFile("unit", ""), "skills/unit/scripts/run": "#!/bin/bash\necho\n", "skills/unit/scripts/tool.ts": "x\n",
		"skills/unit/scripts/what": "x\n", "skills/unit/scripts/bare": "x\n", "skills/unit/scripts/b.py": "x\n", "skills/unit/scripts/crlf": "#!/bin/bash\r\necho\r\n",
		"skills/unit/scripts/env": "#!/usr/bin/env -S deno run --allow-read\n", "skills/unit/scripts/node.ts": "#!/usr/bin/env node\n", "skills/unit/scripts/awk": "#!/usr/bin/awk -f\n",
		"skills/unit/scripts/a.py": "#!/usr/bin/env python3\n", "skills/unit/scripts-2/z": "x", "skills/unit/deep/SKILL.md": "x",
		"skills/unit/B.md": "x", "skills/unit/a.md": "x", "skills/unit/a/é.md": "x", "skills/unit/a/z.md": "x", "skills/unit/a-b": "x",
	}
	for ending := range byEnding {
		files["skills/unit/scripts/plain"+ending] = "x\n"
	}
	byShebang := map[string]string{"sh": "sh", "ruby": "ruby", "perl": "perl", "pwsh": "pwsh", "python": "python3"}
	for program := range byShebang {
		files["skills/unit/scripts/with-"+program] = "#!/usr/bin/" + program + "\n"
	}
	w := newFixture(t, cfHarness, files)
	for _, name := range []string{"run", "bare"} {
		if err := os.Chmod(w.at("skills/unit/scripts/"+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got := w.registry()
	var sk registry.Skill
	for _, s := range got.Skills {
		if s.Name == "unit" {
			sk = s
		}
	}
	var paths []string
	scripts := map[string]registry.Script{}
	for _, r := range sk.Resources {
		paths = append(paths, r.Path)
		if r.Script != nil {
			scripts[r.Path] = *r.Script
		}
	}
	if want := []string{"B.md", "a-b", "a.md", "a/z.md", "a/é.md"}; len(paths) != 30 || !slices.Equal(paths[:5], want) || !slices.IsSorted(paths) {
		t.Errorf("paths %q", paths)
	}
	if !slices.Contains(paths, "deep/SKILL.md") {
		t.Errorf("a SKILL.md below the folder is a file like others: %q", paths)
	}
	if slices.Contains(paths, "SKILL.md") || !sk.Indexed {
		t.Errorf("indexed %v: %q", sk.Indexed, paths)
	}
	want := map[string]registry.Script{
		"scripts/run":     {Executable: runtime.GOOS != "windows", Shebang: "#!/bin/bash", Runtime: "bash"},
		"scripts/tool.ts": {Runtime: "deno"},
		"scripts/what":    {Runtime: "unknown"},
		"scripts/b.py":    {Runtime: "python3"},
		"scripts/env":     {Shebang: "#!/usr/bin/env -S deno run --allow-read", Runtime: "deno"},
		"scripts/node.ts": {Shebang: "#!/usr/bin/env node", Runtime: "node"},
		"scripts/awk":     {Shebang: "#!/usr/bin/awk -f", Runtime: "shebang"},
		"scripts/bare":    {Executable: runtime.GOOS != "windows", Runtime: "unknown"},
		"scripts/a.py":    {Shebang: "#!/usr/bin/env python3", Runtime: "python3"},
		"scripts/crlf":    {Shebang: "#!/bin/bash", Runtime: "bash"},
	}
	for ending, runtime := range byEnding {
		want["scripts/plain"+ending] = registry.Script{Runtime: runtime}
	}
	for program, runtime := range byShebang {
		want["scripts/with-"+program] = registry.Script{Shebang: "#!/usr/bin/" + program, Runtime: runtime}
	}
	if diff := cmp.Diff(want, scripts); diff != "" {
		t.Error(diff)
	}
}

// claudeFields are the fields that Claude Code knows.
var claudeFields = []string{"when_to_use: When asked.", "argument-hint: '[file]'", "arguments: [file]", "model: opus", "effort: high", "context: fork", "agent: plan",
	"shell: bash", "user-invocable: true", "paths: ['src/**']", "hooks:\n  PreToolUse:\n    - matcher: Bash"}

// Claude Code's fields are recognized and typed. They do not change what a skill may do.
//
// req: A-189
func TestFieldsOfClaudeCodeAreTypedAndHaveNoAuthority(t *testing.T) {
	t.Parallel()
	_, all := judged(t, cfHarness, map[string]string{"bare": skillFile("bare", ""), "rich": skillFile("rich", "", claudeFields...),
		"off": skillFile("off", "", "disable-model-invocation: true"), "inner": skillFile("inner", "", "user-invocable: false")})
	f := all["rich"].Head.Front
	yes := true
	want := skillmd.Front{Present: true, Name: "rich", HasName: true, Description: "Use when testing rich.", HasDescription: true, WhenToUse: "When asked.",
		ArgumentHint: "[file]", Arguments: []string{"file"}, Model: "opus", Effort: "high", Context: "fork", Agent: "plan", Shell: "bash", UserInvocable: &yes,
		Paths: []string{"src/**"}, Hooks: f.Hooks}
	if diff := cmp.Diff(want, f, cmpopts.IgnoreFields(skillmd.Front{}, "Fields")); diff != "" || len(f.Hooks) != 1 || f.Hooks[0].Key != "PreToolUse" {
		t.Errorf("%s%+v", diff, f.Hooks)
	}
	if _, other := judged(t, cfHarness, map[string]string{"other": skillFile("other", "", "when-to-use: With hyphens.")}); other["other"].Head.Front.WhenToUse != "With hyphens." {
		t.Errorf("when-to-use gives %q", other["other"].Head.Front.WhenToUse)
	}
	for name, may := range map[string][2]bool{"bare": {true, true}, "rich": {true, true}, "off": {false, true}, "inner": {true, false}} { // the model, the user
		if diff := cmp.Diff(may, [2]bool{all[name].ModelInvocable, all[name].UserInvocable}); diff != "" {
			t.Errorf("who may load %s: %s", name, diff)
		}
	}
	if !all["off"].Head.Front.DisableModelInvocation {
		t.Error("disable-model-invocation is not read")
	}
	for _, sk := range all {
		if len(sk.Diagnostics) > 0 {
			t.Errorf("%s: %+v", sk.Name, sk.Diagnostics)
		}
		s, bare := sk.Subject(), all["bare"].Subject()
		s.ID, s.Name, s.Tree, s.Digest = bare.ID, bare.Name, bare.Tree, bare.Digest
		if diff := cmp.Diff(bare, s); diff != "" {
			t.Errorf("%s may do something else: %s", sk.Name, diff)
		}
	}
	// Where unknown fields are refused, these are known.
	w := newFixture(t, cfHarness, map[string]string{"skills/rich/SKILL.md": skillFile("rich", "", claudeFields...), "skills/odd/SKILL.md": skillFile("odd", "", "x-foo: bar")})
	w.set.Parse.UnknownFields = "reject"
	for _, sk := range w.snapshot().All() {
		if want := map[string]metier.Status{"rich": metier.Loaded, "odd": metier.Refused}[sk.ID.Path]; sk.State != want {
			t.Errorf("%s: %s %+v", sk.Name, sk.State, sk.Diagnostics)
		}
	}
}

// req: B-009, B-010, B-014
func TestWhatIsMinorIsWarnedOfAndLoads(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70)
	w, all := judged(t, keen, map[string]string{
		"folder": skillFile("other", ""), long: skillFile(long, ""), "upper": skillFile("Upper_Case", ""), "edge": skillFile("-edge--", ""),
		"words": "---\nname: words\ndescription: " + strings.Repeat("x", 1025) + "\n---\n", "colon": "---\nname: colon\ndescription: Use when: asked.\n---\n",
		"compat": skillFile("compat", "", "compatibility: "+strings.Repeat("x", 501)), "case": skillFile("Case", ""), "naïve": skillFile("naïve", ""),
	})
	for folder, want := range map[string][]string{ // code and text, for each warning
		"folder": {"name-directory-mismatch", `the name is "other", but the folder is "folder"`},
		long:     {"invalid-name", "longer than 64 characters"},
		"upper":  {"invalid-name", "other than lowercase letters", "name-directory-mismatch", `the name is "Upper_Case", but the folder is "upper"`},
		"edge":   {"invalid-name", "begins or ends with a hyphen", "name-directory-mismatch", `the name is "-edge--", but the folder is "edge"`},
		"words":  {"description-too-long", "1025 characters, more than 1024"}, "colon": {"unquoted-colon", ""},
		"compat": {"compatibility-too-long", "501 characters, more than 500"},
		"case":   {"invalid-name", "other than lowercase letters", "name-directory-mismatch", `the name is "Case", but the folder is "case"`},
		"naïve":  {"invalid-name", "other than lowercase letters"},
	} {
		sk := all[folder]
		if sk.State != metier.Loaded || len(sk.Diagnostics) != len(want)/2 {
			t.Errorf("%s: %s %+v, want %q", folder, sk.State, sk.Diagnostics, want)
			continue
		}
		for i, d := range sk.Diagnostics {
			if d.Severity != skillmd.Warning || d.Code != want[2*i] || !strings.Contains(d.Detail, want[2*i+1]) {
				t.Errorf("%s: %+v, want a warning %q", folder, d, want[2*i:])
			}
		}
	}
	if diff := cmp.Diff([]string{"case", "colon", "compat", "edge", "folder", "naïve", "upper", "words", long}, w.catalogNames()); diff != "" {
		t.Errorf("the catalog (-want +got):\n%s", diff)
	}
}

// req: B-011, B-012, B-013
func TestLocationIsTheParsersAndOtherFieldsAreIgnored(t *testing.T) {
	t.Parallel()
	plain := skillFile("unit", "Text.\n")
	w, all := judged(t, keen, map[string]string{"unit": plain})
	v, others := judged(t, keen, map[string]string{"unit": skillFile("unit", "Text.\n", "location: /etc/passwd", "license: MIT", "x-foo: {bar: [baz]}", "version: 1.0", "path: ../..",
		"compatibility: Plan 9", "metadata: {name: other}", "allowed-tools: Bash(git:*)", "model: m", "hooks: {x: y}", "paths: [z]")})
	bare, sk := all["unit"], others["unit"]
	for _, s := range []metier.Skill{bare, sk} {
		loc := s.Head.Location
		if !filepath.IsAbs(loc) || filepath.Clean(loc) != loc || !strings.HasSuffix(loc, filepath.Join("skills", "unit", "SKILL.md")) || len(s.Diagnostics) > 0 {
			t.Errorf("location %q, %+v", loc, s.Diagnostics)
		}
	}
	if bare.Head.Location != w.at("skills/unit/SKILL.md") {
		t.Errorf("location %q", bare.Head.Location)
	}
	if diff := cmp.Diff(bare, sk, cmpopts.IgnoreUnexported(metier.Skill{}), cmpopts.IgnoreFields(metier.Skill{}, "Head", "Root", "Digest")); diff != "" {
		t.Errorf("the other fields have an effect: %s", diff)
	}
	if got, want := v.open().Catalog(t.Context()).Text, w.open().Catalog(t.Context()).Text; strings.ReplaceAll(got, v.dir, w.dir) != want {
		t.Errorf("the model is told\n%s\nwithout the fields\n%s", got, want)
	}
	if r := v.registry().Skills; len(r) != 1 || r[0].SkillPath != v.at("skills/unit/SKILL.md") || r[0].SkillDir != v.at("skills/unit") {
		t.Errorf("the registry has %+v", r)
	}
	if sk.Root == bare.Root || strings.Contains(sk.Head.Location, "passwd") {
		t.Error("not two skills")
	}
	v.works("read_file", args{"path": v.at("skills/unit/SKILL.md")})
	v.works("write_file", args{"path": "new.txt", "content": "allowed-tools has no effect\n"})
}

// req: B-009, B-010, B-015
func TestTheFolderStandsInForWhatIsMissing(t *testing.T) {
	t.Parallel()
	w, all := judged(t, keen, map[string]string{"noname": "---\ndescription: Does it.\n---\n", "nodesc": "---\nname: nodesc\n---\nA paragraph.\n", "none": "---\nx: y\n---\n",
		"blank": "---\nname: ''\ndescription: '  '\n---\n"})
	for folder, codes := range map[string][]string{"noname": {"missing-name"}, "nodesc": {"missing-description"}, "none": {"missing-name", "missing-description"}, "blank": {"missing-name", "missing-description"}} {
		sk := all[folder]
		if got := found(sk, skillmd.Warning); sk.State != metier.Loaded || !slices.Equal(got, codes) {
			t.Errorf("%s: %s %q, want %q", folder, sk.State, got, codes)
		}
		for _, d := range sk.Diagnostics {
			mentions(t, d.Detail, "the folder's name is used")
		}
	}
	text := w.open().Catalog(t.Context()).Text
	mentions(t, text, "- noname: Does it.", "- nodesc: nodesc", "- none: none", "- blank: blank")
}

// req: B-016
func TestBrokenYAMLIsToldToTheUserAndHurtsNoOtherSkill(t *testing.T) {
	t.Parallel()
	w, all := judged(t, keen, map[string]string{"bad": "---\nname: other\ndescription: [no end\n---\n", "good": skillFile("good", "")})
	const message = "Skill bad failed to load due to YAML parsing issue"
	if d := all["bad"].Diagnostics; all["bad"].State != metier.Refused || len(d) != 1 || d[0].Detail != message || d[0].Severity != skillmd.Error || d[0].Line == 0 {
		t.Errorf("%s %+v", all["bad"].State, d)
	}
	if got := w.catalogNames(); !slices.Equal(got, []string{"good"}) {
		t.Errorf("the catalog has %q", got)
	}
	v := opened(t, keen, map[string]string{"skills/bad/SKILL.md": "---\nname: other\ndescription: [no end\n---\n"})
	v.works("read_file", args{"path": v.at("skills/bad/SKILL.md")}) // as any file
	if active := v.State().Active; len(active) > 0 {
		t.Errorf("active: %+v", active)
	}
	for _, front := range []string{"name: bad\nname: bad", "- name\n- bad", "just words", "name: &x bad", "name: !!binary bad", "name: bad\n--- b", "name: \"bad", "name: bad\a"} {
		_, all := judged(t, keen, map[string]string{"bad": "---\n" + front + "\ndescription: Does it.\n---\n"})
		if d := all["bad"].Diagnostics; all["bad"].State != metier.Refused || len(d) != 1 || d[0].Detail != message {
			t.Errorf("%q: %s %+v", front, all["bad"].State, d)
		}
	}
	said := func(how settings.YAMLReport) string {
		w.set.Parse.YAMLReport = how
		all := w.snapshot().All()
		return all[slices.IndexFunc(all, func(sk metier.Skill) bool { return sk.ID.Path == "bad" })].Diagnostics[0].Detail
	}
	plain := said(settings.YAMLReportDiagnostic)
	if plain == "" || strings.Contains(plain, "failed to load") {
		t.Errorf("as a diagnostic: %q", plain)
	}
	if d := cmp.Diff(message+": "+plain, said(settings.YAMLReportBoth)); d != "" {
		t.Error(d)
	}
}

// req: C-014, C-015, C-072
func TestNamesUnderStrictRules(t *testing.T) {
	t.Parallel()
	names := map[string]bool{
		"a": true, "pdf-2-text": true, "0": true, "az-09": true, "a-b-c": true, strings.Repeat("a", 64): true, strings.Repeat("字", 64): true, "技能": true, "мой-навык": true, "a-٣": true, strings.Repeat("e\u0301", 64): true, strings.Repeat("\ufb01", 32): true,
		strings.Repeat("a", 65): false, strings.Repeat("字", 65): false, "Upper": false, "upPer": false, "-a": false, "a-": false, "a--b": false, "a_b": false, "a b": false, "a.b": false, "НАВЫК": false, "é!": false, "ᾈ": false, "\u1d2c": false, strings.Repeat("\ufb01", 33): false,
	}
	for name, ok := range names {
		_, all := judged(t, runtimeProf, map[string]string{name: skillFile("'"+name+"'", "")})
		if sk := all[name]; (sk.State == metier.Loaded) != ok || !ok && !slices.Contains(found(sk, skillmd.Error), "invalid-name") {
			t.Errorf("%q: %s %+v", name, sk.State, sk.Diagnostics)
		}
	}
}

// A folder has the name of its skill, in any composition.
//
// req: C-014, C-019, C-074
func TestFoldersUnderStrictRules(t *testing.T) {
	t.Parallel()
	const composed, decomposed = "caf\u00e9", "cafe\u0301"
	for _, tt := range []struct {
		folder, name string
		same         bool
	}{{composed, decomposed, true}, {decomposed, composed, true}, {"wo", "\uff57\uff4f", true}, {"\uff57\uff4f", "wo", true}, {"cafe", composed, false}, {decomposed, "cafe", false}} {
		w, all := judged(t, runtimeProf, map[string]string{tt.folder: skillFile(tt.name, "")})
		for _, sk := range all {
			if (sk.State == metier.Loaded) != tt.same || !tt.same && !slices.Equal(found(sk, skillmd.Error), []string{"name-directory-mismatch"}) {
				t.Errorf("folder %+q, name %+q: %s %+v", tt.folder, tt.name, sk.State, sk.Diagnostics)
			}
			for _, spelled := range []string{tt.folder, tt.name} { // either spelling finds the skill
				if got, err := w.snapshot().Find(spelled); tt.same && (err != nil || got.ID != sk.ID) {
					t.Errorf("%+q finds %v, %v", spelled, got.ID, err)
				}
			}
		}
	}
}

// Profiles that load a skill in spite of its folder's name do not warn of another composition either.
//
// req: C-074
func TestFolders_ComposedNamesMatchInEveryProfile(t *testing.T) {
	t.Parallel()
	const composed, decomposed = "caf\u00e9", "cafe\u0301"
	for _, profile := range []string{cfHarness, settings.DefaultProfile} {
		for folder, want := range map[string]int{decomposed: 0, "cafe": 1} {
			_, all := judged(t, profile, map[string]string{folder: skillFile(composed, "")})
			for _, sk := range all {
				got := 0
				for _, code := range found(sk, skillmd.Warning) {
					if code == "name-directory-mismatch" {
						got++
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s: mismatches of folder %+q (-want +got):\n%s", profile, folder, diff)
				}
			}
		}
	}
}

// req: C-016, C-073
func TestStrictRulesForDescriptions(t *testing.T) {
	t.Parallel()
	desc := func(n int) string { return "---\nname: unit\ndescription: '" + strings.Repeat("é", n) + "'\n---\n" }
	strictly(t, []strictCase{
		{desc(0), "missing-description", nil},
		{"---\nname: unit\n---\nText.\n", "missing-description", nil},
		{"---\nname: unit\ndescription: '   '\n---\nText.\n", "missing-description", nil},
		{desc(1), "", nil},
		{desc(1024), "", nil},
		{desc(1025), "description-too-long", []string{"1025", "1024"}},
	})
}

// req: C-017, C-071
func TestStrictRulesForFields(t *testing.T) {
	t.Parallel()
	strictly(t, []strictCase{
		{skillFile("unit", "", "x-foo: bar"), "unexpected-field", []string{"x-foo"}},
		{skillFile("unit", "", "x-foo: bar", "x-bar: {license: MIT}"), "unexpected-field", []string{`"x-foo"`, `"x-bar"`}},
		{skillFile("unit", "", "License: MIT"), "unexpected-field", []string{`"License"`}},
		{skillFile("unit", "", "allowed_tools: Read"), "unexpected-field", []string{`"allowed_tools"`}},
		{skillFile("unit", "", "disable-model-invocation: true"), "unexpected-field", []string{`"disable-model-invocation"`}},
		{skillFile("unit", "", "version: '1'"), "unexpected-field", []string{"version"}},
		{skillFile("unit", "", "model: m", "effort: e", "context: c", "agent: a", "hooks: h", "paths: p", "shell: s", "tags: t", "author: a", "when_to_use: w", "argument-hint: h", "arguments: a", "user-invocable: true", "platforms: p", "dependencies: jq"),
			"unexpected-field", []string{`"model"`, `"effort"`, `"context"`, `"agent"`, `"hooks"`, `"paths"`, `"shell"`, `"tags"`, `"author"`, `"when_to_use"`, `"argument-hint"`, `"arguments"`, `"user-invocable"`, `"platforms"`, `"dependencies"`}},
		{skillFile("unit", "", "license: MIT", "compatibility: c", "metadata: {a: b}", "allowed-tools: Read"), "", nil},
	})
}

// req: C-019
func TestStrictRulesForTheFolder(t *testing.T) {
	t.Parallel()
	strictly(t, []strictCase{
		{skillFile("other", ""), "name-directory-mismatch", []string{`the name is "other"`, `the folder is "unit"`}},
		{skillFile("Unit", ""), "name-directory-mismatch", []string{`the name is "Unit"`, `the folder is "unit"`}},
		{skillFile("unit-2", ""), "name-directory-mismatch", []string{`the name is "unit-2"`, `the folder is "unit"`}},
		{skillFile("un", ""), "name-directory-mismatch", []string{`the name is "un"`, `the folder is "unit"`}},
	})
}

// strictCase is a SKILL.md in the folder unit, and why it is refused: a code, "" if it
// loads, and what the details mention.
type strictCase struct {
	text, code string
	says       []string
}

func strictly(t *testing.T, cases []strictCase) {
	t.Helper()
	for _, tt := range cases {
		_, all := judged(t, runtimeProf, map[string]string{"unit": tt.text})
		sk := all["unit"]
		if tt.code == "" {
			if sk.State != metier.Loaded || len(sk.Diagnostics) > 0 {
				t.Errorf("%.60q: %s %+v", tt.text, sk.State, sk.Diagnostics)
			}
			continue
		}
		var said []string
		for _, d := range sk.Diagnostics {
			if d.Code == tt.code && d.Severity == skillmd.Error {
				said = append(said, d.Detail)
			}
		}
		if sk.State != metier.Refused || len(said) == 0 {
			t.Errorf("%.60q: %s %+v, want %s", tt.text, sk.State, sk.Diagnostics, tt.code)
			continue
		}
		mentions(t, strings.Join(said, "\n"), tt.says...)
	}
}

// req: E-017, E-018
func TestProjectSkillsNeedNameAndDescription(t *testing.T) {
	t.Parallel()
	w, all := judged(t, project, map[string]string{
		"noname": "---\ndescription: Use when asked.\n---\nText.\n", "nodesc": "---\nname: nodesc\n---\nText.\n",
		"blankname": "---\nname: ' '\ndescription: Use when asked.\n---\nText.\n", "blankdesc": "---\nname: blankdesc\ndescription: ''\n---\nText.\n",
		"folded": "---\nname: folded\ndescription: >\n  One\n  two.\n\n  Three.\n---\nText.\n", "stripped": "---\nname: stripped\ndescription: >-\n    One\n    two.\n---\nText.\n",
		"clipped": "---\nname: clipped\ndescription: |\n  One\n\n    two.\n---\nText.\n", "literal": "---\nname: literal\ndescription: |-\n  One\n  two.\n---\nText.\n",
	})
	if got := w.catalogNames(); !slices.Equal(got, []string{"clipped", "folded", "literal", "stripped"}) {
		t.Errorf("listed: %q", got)
	}
	for folder, want := range map[string]string{"folded": "One two.\nThree.", "literal": "One\ntwo.", "stripped": "One two.", "clipped": "One\n\n  two."} {
		if got := all[folder].Description; got != want {
			t.Errorf("%s: %q, want %q", folder, got, want)
		}
	}
}

// req: E-019
func TestTheRestOfTheFileIsTheBody(t *testing.T) {
	t.Parallel()
	const short = "\r\n# Title  \n\n---\nname: no\n---\n\ttab \u00a0 é\n```\n---\n```\nno line end"
	for name, body := range map[string]string{"short": short, "with empty lines at its end": short + "\n\n\r\n\n", "after an empty line": "\n\n" + short, "long": short + strings.Repeat("\r\nA line of many.", 20_000)} {
		w := opened(t, project, map[string]string{"skills/unit/SKILL.md": "---\nname: unit\ndescription: Use when asked.\n---\n" + body})
		content, _ := envelope(t, w.works("skills.load", args{"name": "unit"}).Text())["content"].(string)
		if content != body {
			t.Errorf("%s: content of %d bytes, want %d: %.100q", name, len(content), len(body), content)
		}
		raw, err := os.ReadFile(w.at("skills/unit/SKILL.md"))
		if err != nil {
			t.Fatal(err)
		}
		if d, _ := skillmd.Parse(raw); string(d.Body) != body {
			t.Errorf("%s: body of %d bytes, want %d: %.100q", name, len(d.Body), len(body), d.Body)
		}
	}
	const spaced = "  First line.\n\nLast line.  \n\n\n"
	w := opened(t, project, map[string]string{"skills/spaced/SKILL.md": "---\nname: spaced\ndescription: Use when asked.\n---\n" + spaced})
	if diff := cmp.Diff(any(spaced), envelope(t, w.works("skills.load", args{"name": "spaced"}).Text())["content"]); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
	if d, _ := skillmd.Parse([]byte("---\nname: a\n---\n\n" + spaced)); string(d.Body) != "\n"+spaced {
		t.Errorf("body %q", d.Body)
	}
}

// Unknown fields are in the registry's record unchanged.
func TestUnknownFieldsAreInTheRegistry(t *testing.T) {
	t.Parallel()
	w, _ := judged(t, cfHarness, map[string]string{"unit": skillFile("unit", "", "x-foo: {b: [1.10, no], a: 2024-01-01}", "version: 1.0")})
	var got map[string]json.RawMessage
	if err := json.Unmarshal(w.registry().Skills[0].Frontmatter, &got); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%s %s", got["x-foo"], got["version"]) != `{"b":["1.10","no"],"a":"2024-01-01"} "1.0"` {
		t.Errorf("%s", got)
	}
}
