package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/cli"
)

// pair holds the results of the default and the reference for one skill: the
// first error of each, "" for a valid skill.
type pair struct{ Default, Reference string }

// Tests the differences listed in docs/internal/conformance.md, case by case.
func TestDefaultAndReferenceDifferWhereThePageSaysSo(t *testing.T) {
	t.Parallel()
	const head = "name: w\ndescription: Counts words. Use when a text is long.\n"
	const start, open = "SKILL.md must start with YAML frontmatter (---)", "SKILL.md frontmatter not properly closed with ---"
	const yaml, tools = "Invalid YAML in frontmatter", "Field 'allowed-tools' must be a string"
	block := func(more string) string { return "---\n" + head + more + "---\nbody\n" }
	tests := map[string]struct {
		text string
		want pair
	}{
		"neither":                {block("license: MIT\n"), pair{"", ""}},
		"dashes in a value":      {"---\nname: w\ndescription: Counts --- and more.\ncolour: blue\n---\n", pair{"Unexpected fields in frontmatter: colour", ""}},
		"dashes in an odd value": {"---\nname: w\ndescription: 'Counts --- use when it is long.'\n---\n", pair{"", yaml}},
		"no closing line":        {"---\n" + head + "\n# a --- b\n", pair{open, ""}},
		"text on the first line": {"--- # x\n" + head + "---\n", pair{start, ""}},
		"byte order mark":        {"\ufeff" + block(""), pair{"", start}},
		"lone carriage returns":  {strings.ReplaceAll(block(""), "\n", "\r"), pair{start, ""}},
		"flow map":               {block("metadata: {a: b}\n"), pair{"", yaml}},
		"uneven maps":            {"---\n" + head + "metadata:\n  a:\n      b: c\n  d:\n    e: f\n---\n", pair{"Field 'metadata' must be a mapping of strings to strings", yaml}},
		"null as description":    {"---\nname: w\ndescription: null\n---\n", pair{"Field 'description' must be a non-empty string", ""}},
		"very long frontmatter":  {block("license: |\n  " + strings.Repeat("x", 70_000) + "\n"), pair{"no closing --- line in the first 65536 bytes", ""}},
		"list of tools":          {block("allowed-tools:\n  - Read\n"), pair{tools, ""}},
		"tools with commas":      {block("allowed-tools: Read, Write\n"), pair{"", ""}},
		"license is a map":       {block("license:\n  a: b\n"), pair{"Field 'license' must be a string", ""}},
		"metadata is text":       {block("metadata: a\n"), pair{"Field 'metadata' must be a mapping of strings to strings", ""}},
		"metadata is nested":     {block("metadata:\n  a:\n    - b\n"), pair{"Field 'metadata' must be a mapping of strings to strings", ""}},
		"compatibility is empty": {block("compatibility: ''\n"), pair{"Field 'compatibility' must be a non-empty string", ""}},
		"unknown field":          {block("colour: x\n"), pair{"Unexpected fields in frontmatter: colour", "Unexpected fields in frontmatter: colour"}},
		"not utf-8 in the body":  {block("") + "\xff", pair{"byte 0xff in the body is not UTF-8", "is not UTF-8; the reference validator ends with an exception"}},
		"control character":      {block("license: a\a\n"), pair{yaml, "SKILL.md frontmatter holds the control character U+0007"}},
		"block merge key":        {block("metadata:\n  <<:\n    a: b\n"), pair{yaml, yaml}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "w")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			got := pair{firstError(t, filepath.Dir(dir)), firstError(t, filepath.Dir(dir), "--reference")}
			want := pair{cut(got.Default, tt.want.Default), cut(got.Reference, tt.want.Reference)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// cut returns got if it contains want, else want.
func cut(got, want string) string {
	if want != "" && strings.Contains(got, want) {
		return got
	}
	return want
}

// firstError runs `validate w` in a folder.
func firstError(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	args := append([]string{"validate", "--json", "w"}, flags...)
	code := cli.Main(t.Context(), args, nil, cli.IO{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: dir})
	var doc struct {
		OK      bool
		Results []struct{ Errors []string }
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || len(doc.Results) != 1 {
		t.Fatalf("%v: %s%s", err, out.String(), errs.String())
	}
	found := doc.Results[0].Errors
	if doc.OK != (code == 0) || doc.OK != (len(found) == 0) {
		t.Errorf("exit %d, ok %v, errors %q", code, doc.OK, found)
	}
	if len(found) == 0 {
		return ""
	}
	return found[0]
}
