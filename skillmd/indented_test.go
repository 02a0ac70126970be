package skillmd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An indented field must not become text of the field above it, neither when a skill is read nor when it is fixed.
func TestRepair_RefusesIndentedFields(t *testing.T) {
	t.Parallel()
	const (
		ofName = "description is indented, so it is part of the value of name and not a field; remove the indentation, or quote the value of name"
		ofText = "license is indented, so it is part of the value of description and not a field; remove the indentation, or quote the value of description"
	)
	for name, tt := range map[string]struct {
		front        string
		line, column int
		detail       string
	}{
		"tab below a name":           {"name: x\n\tdescription: y", 3, 2, ofName},
		"spaces below a name":        {"name: x\n  description: y", 3, 3, ofName},
		"space and tab below a name": {"name: x\n \tdescription: y", 3, 3, ofName},
		"below an empty name":        {"name:\n\tdescription: y", 3, 2, ofName},
		"colon in its value":         {"name: x\n\tdescription: Use: y\nlicense: MIT: z", 3, 2, ofName},
		"tab below a description":    {"name: x\ndescription: y\n\tlicense: MIT", 4, 2, ofText},
		"spaces below a description": {"name: x\ndescription: Use: y\n  more\n  license: MIT", 5, 3, ofText},
		"below text with brackets":   {"name: x\ndescription: [Beta] y\n\tlicense: MIT", 4, 2, ofText},
		"unknown field after a tab":  {"description: y\n\tversion: 2", 3, 2, "version is indented, so it is part of the value of description and not a field; remove the indentation, or quote the value of description"},
		"a field twice, after a tab": {"name: x\ndescription: y\n\tname: z", 4, 2, "name is indented, so it is part of the value of description and not a field; remove the indentation, or quote the value of description"},
		"tab before the first field": {"\tname: x\n\tdescription: y", 2, 1, "the line is indented with a tab, which YAML does not allow; indent it with spaces; if name is a field, remove the tab"},
		"tab below a quoted name":    {"name: \"x\"\n\tdescription: y", 3, 1, "the line is indented with a tab, which YAML does not allow; indent it with spaces; if description is a field, remove the tab"},
		"tabs in a text over lines":  {"name: x\ndescription: >\n\tdoes it\n\twell", 4, 1, "the line is indented with a tab, which YAML does not allow; indent it with spaces"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := []byte("---\n" + tt.front + "\n---\nthe body\n")
			want := []Diagnostic{{Severity: Error, Code: CodeInvalidYAML, Line: tt.line, Column: tt.column, Detail: tt.detail}}
			f := Open(src)
			if done := f.Fix(); len(done) > 0 || string(f.Bytes()) != string(src) {
				t.Errorf("fixed %v:\n%s", done, f.Bytes())
			}
			if diff := cmp.Diff(want, f.Diagnostics()); diff != "" {
				t.Error(diff)
			}
			checkWhole(t, src)
		})
	}
}

// Tabs below a map lose no field: the map is kept as text, and the finding names the tabs.
func TestRepair_ReportsTabsInMaps(t *testing.T) {
	t.Parallel()
	for front, want := range map[string]string{
		"metadata:\n\tauthor: me\n\tversion: 1":   "author: me\n\tversion: 1",
		"metadata:\n  author: me\n\tversion: 1":   "author: me\n\tversion: 1",
		"metadata:\n\tauthor: me\n  version: 1":   "author: me\n  version: 1",
		"metadata:\n \tauthor: me\n \tversion: 1": "author: me\n \tversion: 1",
	} {
		d, diags := Parse([]byte("---\nname: x\n" + front + "\nlicense: MIT\n---\nthe body\n"))
		if v, _ := d.Front.Lookup("metadata"); v.Text != want || d.Front.License != "MIT" {
			t.Errorf("%q: metadata %q, license %q", front, v.Text, d.Front.License)
		}
		if len(diags) != 1 || diags[0].Detail != "the value of metadata is indented with tabs, which YAML does not allow; it was kept as text; indent it with spaces" {
			t.Errorf("%q: %v", front, diags)
		}
	}
}

// What is plainly prose stays text.
func TestRepair_KeepsIndentedProse(t *testing.T) {
	t.Parallel()
	for front, want := range map[string]string{
		"name: x\ndescription: y\n\tNote: z":           "y Note: z",
		"name: x\ndescription: Use when: y\n  name: z": "Use when: y name: z",
		"name: x\ndescription: y\n  triggers: z":       "y triggers: z",
	} {
		if d, diags := Parse([]byte("---\n" + front + "\n---\nthe body\n")); d.Front.Description != want {
			t.Errorf("%q: %q, %v", front, d.Front.Description, diags)
		}
	}
}
