package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rogpeppe/go-internal/testscript"

	"metier/cli"
)

// harnessCommands are the commands of scripts about harnesses.
var harnessCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){"example": example}

// example copies one of our examples, including file modes: example NAME TO. Records that runs left in
// it are not copied.
func example(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: example NAME TO")
	}
	from, to := filepath.Join("..", "examples", args[0]), ts.MkAbs(args[1])
	ts.Check(copyTree(from, to))
	ts.Check(filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".metier" {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chmod(filepath.Join(to, rel), info.Mode().Perm())
	}))
}

// A harness is served over the Model Context Protocol like other skills.
func TestHarnessIsServed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	desk := filepath.Join(p.home, "desk")
	if err := copyTree(filepath.Join("..", "examples", "sales-desk"), desk); err != nil {
		t.Fatal(err)
	}
	c := p.serves("--harness", desk)
	if names := c.tools(); !slices.Contains(names, "list_content") || !slices.Contains(names, "load_skill") || !slices.Contains(names, "load_reference") {
		t.Errorf("%v", names)
	}
	text, ok, data := c.call("list_content", map[string]any{"path": "skills/writing"})
	if !ok || !strings.Contains(text, "skills/writing/short-report (skill)") || data["total"] != float64(1) {
		t.Errorf("%t %s %v", ok, text, data)
	}
	for path, name := range map[string]string{".": ".", "figures": "skills/figures", "writing/short-report": "skills/writing/short-report"} {
		if text, ok, data := c.call("load_skill", map[string]any{"path": path}); !ok || data["name"] != name || text == "" {
			t.Errorf("%s: %t %s %v", path, ok, text, data)
		}
	}
	if text, ok, data := c.call("load_reference", map[string]any{"path": "data/columns.csv"}); !ok || !strings.Contains(text, "what was paid in euros") || data["status"] != "read" {
		t.Errorf("%t %s %v", ok, text, data)
	}
	if text, ok, _ := c.call("load_reference", map[string]any{"path": "../HARNESS.md"}); ok || !strings.Contains(text, "harness_path_invalid") {
		t.Errorf("%t %s", ok, text)
	}
}

// shownSchema is what a loaded harness has.
const shownSchema = `{"type": "object", "required": ["name", "description", "body", "layout", "skills", "references", "tree"], "properties": {
	"name": {"type": "string", "minLength": 1}, "description": {"type": "string", "minLength": 1}, "body": {"type": "string"}, "layout": {"enum": ["v1", "v2"]},
	"skills": {"type": "array", "items": {"type": "object", "required": ["name", "description", "path"], "additionalProperties": false,
		"properties": {"name": {"type": "string", "minLength": 1}, "description": {"type": "string", "minLength": 1}, "path": {"type": "string", "pattern": "^[^/]"}}}},
	"references": {"type": "array", "items": {"type": "object", "required": ["filename", "description", "path"], "additionalProperties": false,
		"properties": {"filename": {"type": "string", "pattern": "^[^/]+$"}, "description": {"type": "string"}, "path": {"type": "string", "pattern": "^[^/]"}}}}}}`

// req: D-040
func TestShownHarnessFitsItsSchema(t *testing.T) {
	t.Parallel()
	var schema jsonschema.Schema
	if err := json.Unmarshal([]byte(shownSchema), &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]int{"sales-desk": {4, 4}, "release-desk": {1, 2}} {
		var out, errs bytes.Buffer
		dir := t.TempDir()
		at, err := filepath.Abs(filepath.Join("..", "examples", name))
		if err != nil {
			t.Fatal(err)
		}
		if code := cli.Main(t.Context(), []string{"harness", "show", at, "--json"}, []string{"HOME=" + dir}, cli.IO{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: dir}); code != 0 {
			t.Fatalf("%d %s", code, errs.String())
		}
		var doc map[string]any
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s, r := doc["skills"].([]any), doc["references"].([]any); len(s) != want[0] || len(r) != want[1] {
			t.Errorf("%s: %d skills, %d references", name, len(s), len(r))
		}
		if name != "sales-desk" {
			continue
		}
		if body, _ := doc["body"].(string); !strings.HasPrefix(strings.TrimSpace(body), "# Sales Desk") {
			t.Errorf("body %q", body)
		}
		if d := cmp.Diff([]any{"Sales Desk", "Answers questions about a shop's orders from its CSV files.", "v1"}, []any{doc["name"], doc["description"], doc["layout"]}); d != "" {
			t.Errorf("harness (-want +got):\n%s", d)
		}
		reference := func(path, description string) any {
			return map[string]any{"filename": filepath.Base(path), "path": path, "description": description}
		}
		wantRefs := []any{reference("references/data/columns.csv", ""), reference("references/data/rates.py", ""), reference("references/style/logo.png", ""),
			reference("references/style/tone.md", "How the desk writes to people. Read it before you answer somebody outside of the shop.")}
		if d := cmp.Diff(wantRefs, doc["references"]); d != "" {
			t.Errorf("references (-want +got):\n%s", d)
		}
		var named []string
		for _, s := range doc["skills"].([]any) {
			named = append(named, fmt.Sprint(s.(map[string]any)["name"], ": ", s.(map[string]any)["path"]))
		}
		if d := cmp.Diff([]string{"Find Gaps: skills/figures/checks/find-gaps", "Count Rows: skills/figures/count-rows", "Sum Orders: skills/figures/sum-orders", "Short Report: skills/writing/short-report"}, named); d != "" {
			t.Errorf("skills (-want +got):\n%s", d)
		}
	}
}
