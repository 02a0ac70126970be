package skillmd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func front(t *testing.T, fields string) (Front, []Diagnostic) {
	t.Helper()
	d, diags := Parse([]byte("---\n" + fields + "\n---\n"))
	if !d.Front.Present {
		t.Fatalf("no frontmatter: %v", diags)
	}
	return d.Front, diags
}

// Every known field, allowed-tools in all its shapes.
//
// req: C-089
func TestTypedViews(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	tests := map[string]struct {
		src  string
		want Front
	}{
		"name and description": {"name:  a-b \ndescription: >\n  One\n  two.\n",
			Front{Name: "a-b", HasName: true, Description: "One two.", HasDescription: true}},
		"norway and numbers":     {"name: no\ndescription: 1.10", Front{Name: "no", HasName: true, Description: "1.10", HasDescription: true}},
		"boolean as name":        {"name: true", Front{Name: "true", HasName: true}},
		"blank and null":         {"name: '  '\ndescription:", Front{}},
		"spelled null":           {"name: null\ndescription: ~", Front{}},
		"quoted null":            {"name: 'null'", Front{Name: "null", HasName: true}},
		"license, compatibility": {"license: MIT\ncompatibility: git", Front{License: "MIT", Compatibility: "git"}},
		"tools, blanks":          {"allowed-tools: Bash(git:*) Bash(jq -r *) Read", tools("Bash(git:*)", "Bash(jq -r *)", "Read")},
		"tools, commas":          {"allowed-tools: Read, Bash(npm run *, x),Write", tools("Read", "Bash(npm run *, x)", "Write")},
		"tools, flow list":       {"allowed-tools: [Read, Bash(git:*), 'Edit']", tools("Read", "Bash(git:*)", "Edit")},
		"tools, block list":      {"allowed-tools:\n  - Read\n  - Bash(git add *)\n  - Grep, Glob", tools("Read", "Bash(git add *)", "Grep", "Glob")},
		"tools, folded":          {"allowed-tools: >\n  Read\n  Write", tools("Read", "Write")},
		"tools, nested brackets": {"allowed-tools: 'Bash(f(a, b) [c d]) mcp__x__*'", tools("Bash(f(a, b) [c d])", "mcp__x__*")},
		"tools, open bracket":    {"allowed-tools: 'Read Bash(git Write'", tools("Read", "Bash(git Write")},
		"tools, stray bracket":   {"allowed-tools: 'Read) Write'", tools("Read)", "Write")},
		"tools, all shapes": {"allowed-tools: 'Read, Bash(git:*), Bash(npm run *) Task(a, b) Bash(*) read mcp__server__tool mcp__x__* stitch*:* /open'",
			tools("Read", "Bash(git:*)", "Bash(npm run *)", "Task(a, b)", "Bash(*)", "read", "mcp__server__tool", "mcp__x__*", "stitch*:*", "/open")},
		"tools, blanks and commas": {"allowed-tools: ' Read ,  , Write,, Edit '", tools("Read", "Write", "Edit")},
		"tools, list in quotes":    {"allowed-tools: [\"Bash(git add, git rm)\", 'Read Write']", tools("Bash(git add, git rm)", "Read", "Write")},
		"tools, literal text":      {"allowed-tools: |\n  Read\n  Bash(a b)\n", tools("Read", "Bash(a b)")},
		"tools, list at the edge":  {"allowed-tools:\n- Read\n- Write", tools("Read", "Write")},
		"tools, one word":          {"allowed-tools: true", tools("true")},
		"tools, empty text":        {"allowed-tools: ''", tools()},
		"tools, nothing":           {"allowed-tools:", tools()},
		"tools, empty list":        {"allowed-tools: []", tools()},
		"when_to_use":              {"when_to_use: a", Front{WhenToUse: "a"}},
		"when-to-use":              {"when-to-use: a", Front{WhenToUse: "a"}},
		"hint text":                {"argument-hint: '[a] <b>'", Front{ArgumentHint: "[a] <b>"}},
		"hint list":                {"argument-hint: [file, n]", Front{ArgumentHint: "[file, n]"}},
		"model, context, agent":    {"model: opus\ncontext: fork\nagent: plan", Front{Model: "opus", Context: "fork", Agent: "plan"}},
		"arguments":                {"arguments: [issue, branch]", Front{Arguments: []string{"issue", "branch"}}},
		"arguments text":           {"arguments: issue branch", Front{Arguments: []string{"issue", "branch"}}},
		"effort, shell":            {"effort: high\nshell: bash", Front{Effort: "high", Shell: "bash"}},
		"hooks": {"hooks:\n  PreToolUse:\n    - matcher: Bash", Front{Hooks: []Field{{"PreToolUse",
			Value{Kind: List, List: []Value{{Kind: Map, Map: []Field{{"matcher", Value{Text: "Bash"}, 4, 7}}}}}, 3, 3}}}},
		"location is no field":  {"location: /elsewhere/SKILL.md", Front{}},
		"flags":                 {"disable-model-invocation: true\nuser-invocable: false", Front{DisableModelInvocation: true, UserInvocable: &no}},
		"flags, other spelling": {"disable-model-invocation: 'True'\nuser-invocable: TRUE", Front{DisableModelInvocation: true, UserInvocable: &yes}},
		"flags, nothing":        {"disable-model-invocation:\nuser-invocable:", Front{}},
		"paths":                 {"paths: 'src/**, {a,b}/*.go'", Front{Paths: []string{"src/**", "{a,b}/*.go"}}},
		"paths list":            {"paths:\n  - 'my dir/*'\n  - b", Front{Paths: []string{"my dir/*", "b"}}},
		"platforms":             {"platforms: [linux, macos]", Front{Platforms: []string{"linux", "macos"}}},
		"platforms text":        {"platforms: linux macos", Front{Platforms: []string{"linux", "macos"}}},
		"dependencies":          {"dependencies: python>=3.8, pandas >= 2", Front{Dependencies: []string{"python>=3.8", "pandas >= 2"}}},
		"dependencies list":     {"dependencies: [a, b]", Front{Dependencies: []string{"a", "b"}}},
		"dependencies map":      {"dependencies:\n  python: [a, b]\n  node: '20'\n  jq:", Front{Dependencies: []string{"python: a", "python: b", "node: 20", "jq"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, diags := front(t, tt.src)
			tt.want.Present = true
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(Front{}, "Fields"), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if diags != nil {
				t.Error(diags)
			}
			if len(got.Fields) == 0 {
				t.Error("no Fields")
			}
		})
	}
}

func tools(patterns ...string) Front {
	return Front{AllowedTools: patterns, AllowedToolsDeclared: true}
}

// The shape of a typical skill, no value converted.
//
// req: C-095
func TestExampleOfAWholeHead(t *testing.T) {
	t.Parallel()
	d, diags := Parse([]byte("---\nname: invoice-check\ndescription: Checks invoices against orders.\nlicense: Proprietary\n" +
		"compatibility: Needs the order export under /data\nallowed-tools: Read Write Bash(csvcut:*) Bash(jq:*) Bash(git add:*)\n" +
		"metadata:\n  author: example\n  version: \"1.0\"\n---\n\n# Invoices\n\n- Compare totals.\n"))
	if diags != nil {
		t.Error(diags)
	}
	got := d.Front
	if diff := cmp.Diff([]string{"Read", "Write", "Bash(csvcut:*)", "Bash(jq:*)", "Bash(git add:*)"}, got.AllowedTools); diff != "" {
		t.Error(diff)
	}
	want := []Field{{"author", Value{Text: "example"}, 8, 3}, {"version", Value{Text: "1.0"}, 9, 3}}
	if diff := cmp.Diff(want, got.Metadata); diff != "" {
		t.Error(diff)
	}
	if got.Name != "invoice-check" || got.Description != "Checks invoices against orders." || got.License != "Proprietary" ||
		got.Compatibility != "Needs the order export under /data" || string(d.Body) != "\n# Invoices\n\n- Compare totals.\n" {
		t.Errorf("%+v, body %q", got, d.Body)
	}
}

func TestMetadataKeepsOrderNestingAndDependencies(t *testing.T) {
	t.Parallel()
	f, diags := front(t, "metadata:\n  z: 1.0\n  a: {c: [x, 'true', true]}\n  dependencies: [p, q]\ndependencies: r")
	if diags != nil {
		t.Error(diags)
	}
	text := func(s string) Value { return Value{Text: s} }
	want := []Field{
		{"z", text("1.0"), 3, 3},
		{"a", Value{Kind: Map, Map: []Field{{"c", Value{Kind: List, List: []Value{text("x"), text("true"), {Kind: Bool, Text: "true"}}}, 4, 7}}}, 4, 3},
		{"dependencies", Value{Kind: List, List: []Value{text("p"), text("q")}}, 5, 3},
	}
	if diff := cmp.Diff(want, f.Metadata); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"p", "q", "r"}, f.Dependencies); diff != "" {
		t.Error(diff)
	}
}

func TestFront_Requires(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"pdf >=1.2 <2, docx":                         {"pdf >=1.2 <2", "docx"},
		"[pdf ^1, acme/skills#docx]":                 {"pdf ^1", "acme/skills#docx"},
		"{pdf: '>=1.2 <2', docx: 2, xml: }":          {"pdf >=1.2 <2", "docx 2", "xml"},
		"{skills: [pdf, docx], bins: [jq], env: {}}": {"pdf", "docx"},
		"": nil,
	} {
		f, _ := front(t, "metadata:\n  requires: "+text)
		if diff := cmp.Diff(want, f.Requires); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	if f, _ := front(t, "requires: pdf"); f.Requires != nil {
		t.Errorf("requires outside metadata gives %q", f.Requires)
	}
	_, diags := front(t, "metadata:\n  requires:\n    bins: [jq]")
	if len(diags) != 1 || diags[0].Code != CodeFieldType || diags[0].Line != 4 || !strings.HasPrefix(diags[0].Detail, "metadata.requires.bins must be a version") {
		t.Errorf("a list of programs: %+v", diags)
	}
}

func TestFieldsOfTheWrongKindAreReportedAndKept(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"name: [a, b]":                     "name must be text, not a list; the value is kept but has no effect",
		"description: {a: b}":              "description must be text, not a map; the value is kept but has no effect",
		"compatibility: [a]":               "compatibility must be text, not a list; the value is kept but has no effect",
		"compatibility: {a: [b]}":          "compatibility must be text, not a map; the value is kept but has no effect",
		"hooks: often":                     "hooks must be a map, not text; the value is kept but has no effect",
		"metadata: text":                   "metadata must be a map, not text; the value is kept but has no effect",
		"allowed-tools: {Read: true}":      "allowed-tools must be text or a list of texts, not a map; the value is kept but has no effect",
		"allowed-tools: [{Bash: git}]":     "allowed-tools must be a list of texts, not a map; the value is kept but has no effect",
		"user-invocable: maybe":            "user-invocable must be true or false, not text; the value is kept but has no effect",
		"disable-model-invocation: [true]": "disable-model-invocation must be true or false, not a list; the value is kept but has no effect",
		"argument-hint: [[a]]":             "argument-hint must be text, not a list; the value is kept but has no effect",
	}
	for src, want := range tests {
		f, diags := front(t, "x: y\n"+src)
		if diff := cmp.Diff([]Diagnostic{{Severity: Warning, Code: CodeFieldType, Detail: want, Line: 3, Column: 1}}, diags); diff != "" {
			t.Errorf("%s: %s", src, diff)
		}
		if len(f.Fields) != 2 || f.HasName || f.HasDescription || len(f.AllowedTools) != 0 || f.UserInvocable != nil {
			t.Errorf("%s: %+v", src, f)
		}
		if f.AllowedToolsDeclared != (src[0] == 'a' && src[1] == 'l') {
			t.Errorf("%s: declared %v", src, f.AllowedToolsDeclared)
		}
	}
}

func TestFrontJSONIsInSourceOrderAndSourceText(t *testing.T) {
	t.Parallel()
	f, _ := front(t, "z: 1.10\nname: \"é<b>\\n\"\nwhen: 2024-01-01\non: true\noff: False\nquoted: 'true'\nnone:\nlist: [1, {b: c}]\nx-foo: {n: ~}\nempty: {}\nnil: []")
	want := `{"z":"1.10","name":"é\u003cb\u003e\n","when":"2024-01-01","on":true,"off":false,"quoted":"true","none":null,"list":["1",{"b":"c"}],"x-foo":{"n":null},"empty":{},"nil":[]}`
	if diff := cmp.Diff(want, string(f.JSON())); diff != "" {
		t.Error(diff)
	}
	if got := string((Front{}).JSON()); got != "{}" {
		t.Errorf("no fields: %s", got)
	}
	v, ok := f.Lookup("list")
	b, err := json.Marshal(v)
	if !ok || err != nil || string(b) != `["1",{"b":"c"}]` {
		t.Errorf("%s %v %v", b, ok, err)
	}
	if _, ok := f.Lookup("absent"); ok {
		t.Error("found an absent key")
	}
}

func TestDiagnosticJSONNames(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal([]Diagnostic{{Severity: Advice, Code: "c", Detail: "d"}, {Error, "c", "d", "p", 1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"severity":"advice","code":"c","detail":"d"},{"severity":"error","code":"c","detail":"d","path":"p","line":1,"column":2}]`
	if string(b) != want {
		t.Errorf("got %s", b)
	}
}
