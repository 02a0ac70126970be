package harness_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/harness"
	"metier/internal/testenv"
	"metier/settings"
	"metier/skillmd"
)

// req: D-015, D-037
func TestSkillsAndReferencesAreFoundAtAnyDepth(t *testing.T) {
	t.Parallel()
	h := load(t, map[string]string{
		"HARNESS.md":           selfText,
		"skills/flat/SKILL.md": skillText("flat", "At the top."), "skills/a/SKILLS.md": summaryText("group a"), "skills/a/b/SKILLS.md": summaryText("group b"),
		"skills/a/b/c/SKILLS.md": summaryText("group c"), "skills/a/b/c/deep/SKILL.md": skillText("Deep One", "Far down."), "skills/a/b/c/deep/inner/SKILL.md": "is a file of deep",
		"references/one.md": "---\ndescription: The first.\n---\ntext\n", "references/g/REFERENCES.md": summaryText("references of g"), "references/g/two.csv": "a,b\n",
	}, nil)
	if h.Name != "Data Desk" || h.Description != "Answers questions about data." || h.Body != "# Data Desk\n\nUse the skills.\n" || h.Layout != harness.V1 || h.Err() != nil {
		t.Errorf("%+v", h)
	}
	if d := cmp.Diff([]string{"skills/a/b/c/deep", "skills/flat"}, paths(h.Skills())); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"references/g/two.csv", "references/one.md"}, paths(h.References())); d != "" {
		t.Error(d)
	}
	if n := h.At("skills/a/b/c/deep"); n.Name != "Deep One" || n.Description != "Far down." || n.File != "SKILL.md" {
		t.Errorf("%+v", n)
	}
	if n := h.At("skills/a/b"); n.Kind != harness.Group || n.Description != "group b" || len(n.Children) != 1 {
		t.Errorf("%+v", n)
	}
	if errs := codes(h, skillmd.Error); len(errs) > 0 {
		t.Error(errs)
	}
	h = load(t, map[string]string{"HARNESS.md": selfText, "skills/1/2/3/4/5/6/7/8/9/10/far/SKILL.md": skillText("far", "Farther down.")}, v1())
	if d := cmp.Diff([]string{"skills/1/2/3/4/5/6/7/8/9/10/far"}, paths(h.Skills())); d != "" {
		t.Error(d)
	}
}

// req: D-038, D-021
func TestReferencesAreAllFilesButSummariesAndFolders(t *testing.T) {
	t.Parallel()
	h := load(t, map[string]string{
		"HARNESS.md": selfText, "references/REFERENCES.md": summaryText("all"), "references/a.md": summaryText("a"), "references/logo.png": "\x89PNG\r\n\x1a\n\x00",
		"references/sub/REFERENCES.md": summaryText("sub"), "references/sub/t.py": "print(1)\n", "references/sub/x/y/z.csv": "1\n", "references/.hidden": "h", "references/none/": "",
	}, v1())
	want := []string{"references/.hidden", "references/a.md", "references/logo.png", "references/sub/t.py", "references/sub/x/y/z.csv"}
	if d := cmp.Diff(want, paths(h.References())); d != "" {
		t.Error(d)
	}
}

// req: D-023, D-024, D-039
func TestOnlyMarkdownSaysWhatItIs(t *testing.T) {
	t.Parallel()
	front := "---\ndescription: Says what it is.\n---\ntext\n"
	h := load(t, map[string]string{
		"HARNESS.md": selfText, "references/a.md": front, "references/b.md": "no frontmatter\n", "references/c.txt": front, "references/d.markdown": front, "references/e": front, "references/f.md.txt": front,
	}, v1())
	for path, want := range map[string]string{"a.md": "Says what it is.", "b.md": "", "c.txt": "", "d.markdown": "", "e": "", "f.md.txt": ""} {
		if got := h.At("references/" + path).Description; got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// req: D-041
func TestGroupFileWins(t *testing.T) {
	t.Parallel()
	h := load(t, map[string]string{"HARNESS.md": selfText, "skills/both/SKILLS.md": summaryText("a group"), "skills/both/SKILL.md": skillText("both", "a skill"), "skills/both/in/SKILL.md": skillText("in", "inside")}, v1())
	if n := h.At("skills/both"); n.Kind != harness.Group || n.File != "SKILLS.md" || n.Description != "a group" {
		t.Errorf("%+v", n)
	}
	if d := cmp.Diff([]string{"skills/both/in"}, paths(h.Skills())); d != "" {
		t.Error(d)
	}
	if got := codes(h, skillmd.Warning); !slices.Equal(got, []string{"harness-both-files skills/both"}) {
		t.Error(got)
	}
}

func TestAutoChoosesTheLayout(t *testing.T) {
	t.Parallel()
	base := map[string]string{"HARNESS.md": selfText, "skills/a/SKILL.md": skillText("a", "does a"), "references/r.md": summaryText("r")}
	for name, tt := range map[string]struct {
		more []string
		want harness.Layout
	}{
		"skills and references":        {nil, harness.V1},
		"a file at the top":            {[]string{"README.md", "x"}, harness.V1},
		"a hidden folder":              {[]string{".git/config", "x"}, harness.V1},
		"detectors":                    {[]string{".leaf-detectors", detect}, harness.V2},
		"another folder":               {[]string{"tools/x.md", "x"}, harness.V2},
		"a leaf file":                  {[]string{"skills/g/deep/.harnessleaf", ""}, harness.V2},
		"a leaf file inside of a leaf": {[]string{"skills/a/.harnessleaf", ""}, harness.V1},
	} {
		if h := load(t, with(base, tt.more...), nil); h.Layout != tt.want {
			t.Errorf("%s: %s", name, h.Layout)
		}
		if h := load(t, with(base, tt.more...), v1()); h.Layout != harness.V1 {
			t.Errorf("%s: v1 was asked for, and it is %s", name, h.Layout)
		}
	}
}

// The behaviors that the tests of harnesses-ref, generation 2, check: how a tree is read.
//
// req: D-015, D-020
func TestSecondLayout(t *testing.T) {
	t.Parallel()
	min := map[string]string{"HARNESS.md": selfText}
	for name, tt := range map[string]struct {
		files map[string]string
		want  []string // path, kind, type, file, description
	}{
		"a minimal harness has no folders": {min, nil},
		"a skill by its detector":          {with(min, ".leaf-detectors", detect, "skills/q/SKILL.md", skillText("Q", "queries")), []string{"skills group   ", "skills/q leaf skill SKILL.md queries"}},
		"without detectors SKILL.md is content": {with(min, "skills/q/SKILL.md", skillText("Q", "queries")),
			[]string{"skills group   ", "skills/q group   ", "skills/q/SKILL.md document  SKILL.md queries"}},
		"content has its description": {with(min, "docs/a.md", "---\ndescription: what a is\n---\n"), []string{"docs group   ", "docs/a.md document  a.md what a is"}},
		"a routing file describes its folder": {with(min, "tools/TOOLS.md", summaryText("tools"), "tools/db/TOOLS.md", summaryText("databases")),
			[]string{"tools group  TOOLS.md tools", "tools/db group  TOOLS.md databases"}},
		"routing files have the name of the top": {with(min, "my-stuff/a/b/MY-STUFF.md", summaryText("deep"), "my-stuff/a/A.md", "---\ndescription: content\n---\n"),
			[]string{"my-stuff group   ", "my-stuff/a group   ", "my-stuff/a/A.md document  A.md content", "my-stuff/a/b group  MY-STUFF.md deep"}},
		".harnessleaf stops": {with(min, "kb/x/.harnessleaf", "", "kb/x/a.md", "a", "kb/x/y/b.md", "b"), []string{"kb group   ", "kb/x leaf leaf  "}},
		"a skill stops, its scripts are its own": {with(min, ".leaf-detectors", detect, "s/q/SKILL.md", skillText("Q", "queries"), "s/q/scripts/run.sh", "#!/bin/sh\n"),
			[]string{"s group   ", "s/q leaf skill SKILL.md queries"}},
		"another detector stops and is no skill": {with(min, ".leaf-detectors", "# ours\n\nresource=RESOURCE.md\n", "r/x/RESOURCE.md", "---\ndescription: a resource\n---\n", "r/x/SKILL.md", skillText("Q", "q")),
			[]string{"r group   ", "r/x leaf resource RESOURCE.md a resource"}},
		".harnessleaf wins over detectors": {with(min, ".leaf-detectors", detect, "s/q/SKILL.md", skillText("Q", "q"), "s/q/.harnessleaf", ""), []string{"s group   ", "s/q leaf leaf  "}},
		"the first detector wins":          {with(min, ".leaf-detectors", "a=x/y.txt\nb=z.md\n", "t/q/x/y.txt", "", "t/q/z.md", "z"), []string{"t group   ", "t/q leaf a x/y.txt "}},
		"hidden names are no content":      {with(min, "d/.env", "S=1", "d/.x/a.md", "a", "d/b.txt", "b"), []string{"d group   ", "d/b.txt document  b.txt "}},
	} {
		h := load(t, tt.files, v2())
		var got []string
		for _, n := range h.All() {
			got = append(got, strings.Join([]string{n.Path, string(n.Kind), n.Type, n.File, n.Description}, " "))
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if h.Err() != nil {
			t.Errorf("%s: %v", name, h.Err())
		}
	}
}

// req: D-033
func TestHarnessFileIsNeeded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files      map[string]string
		code, text string
	}{
		"no file":        {map[string]string{"skills/": ""}, "harness-missing", "Missing required file: HARNESS.md"},
		"no frontmatter": {map[string]string{"HARNESS.md": "# Title\n"}, "no-frontmatter", ""},
		"never closed":   {map[string]string{"HARNESS.md": "---\nname: a\n"}, "unclosed-frontmatter", ""},
		"bad YAML":       {map[string]string{"HARNESS.md": "---\nname: [a\n---\n"}, "invalid-yaml", ""},
		"no name":        {map[string]string{"HARNESS.md": "---\ndescription: d\n---\n"}, "missing-name", "HARNESS.md: Missing required field in frontmatter: name"},
		"no description": {map[string]string{"HARNESS.md": "---\nname: n\n---\n"}, "missing-description", "HARNESS.md: Missing required field in frontmatter: description"},
		"blank name":     {map[string]string{"HARNESS.md": "---\nname: ' '\ndescription: d\n---\n"}, "missing-name", ""},
		"blank text":     {map[string]string{"HARNESS.md": "---\nname: n\ndescription: ' '\n---\n"}, "missing-description", ""},
		"only a version": {map[string]string{"HARNESS.md": "---\nversion: 1\n---\n"}, "missing-description", "HARNESS.md: Missing required field in frontmatter: description"},
		"empty":          {map[string]string{"HARNESS.md": ""}, "empty-file", ""},
	} {
		for _, o := range []*harness.Options{v1(), v2()} {
			h := load(t, tt.files, o)
			d, ok := find(h.Findings(skillmd.Error), tt.code)
			if !ok || d.Path != "HARNESS.md" || tt.text != "" && d.Detail != tt.text {
				t.Errorf("%s: %+v", name, h.Diagnostics)
			}
			if err := h.Err(); metier.CodeOf(err) != map[bool]string{true: "harness_missing", false: "harness_invalid"}[name == "no file"] || metier.KindOf(err) != map[bool]metier.Kind{true: metier.NotFound, false: metier.Invalid}[name == "no file"] {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// req: D-034
func TestSkillsOfAHarnessAreJudged(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text, code string
	}{
		"good":              {skillText("Query Database", "queries"), ""},
		"no name":           {"---\ndescription: d\n---\n", "missing-name"},
		"no description":    {"---\nname: n\n---\n", "missing-description"},
		"blank name":        {"---\nname: ' '\ndescription: d\n---\n", "missing-name"},
		"blank description": {"---\nname: n\ndescription: ''\n---\n", "missing-description"},
		"no frontmatter":    {"# a\n", "no-frontmatter"},
		"bad YAML":          {"---\nname: [a\n---\n", "invalid-yaml"},
		"read after repair": {"---\nname: a\ndescription: Use it: always.\n---\n", "unquoted-colon"},
	} {
		for layout, o := range map[string]*harness.Options{"v1": v1(), "v2": v2()} {
			h := load(t, map[string]string{"HARNESS.md": selfText, ".leaf-detectors": detect, "skills/q/SKILL.md": tt.text}, o)
			got := codes(h, skillmd.Error)
			if tt.code == "" && len(got) > 0 || tt.code != "" && !slices.Contains(got, tt.code+" skills/q/SKILL.md") {
				t.Errorf("%s, %s: %v", name, layout, got)
			}
			if h.Err() != nil {
				t.Errorf("%s: a harness loads whatever its skills are: %v", name, h.Err())
			}
		}
	}
	h := load(t, map[string]string{"HARNESS.md": selfText, ".leaf-detectors": "skill=meta.json\n", "s/q/meta.json": "{}"}, v2())
	if got := codes(h, skillmd.Error); !slices.Equal(got, []string{"harness-skill-file s/q"}) {
		t.Error(got)
	}
	h = load(t, map[string]string{"HARNESS.md": selfText, "skills/q/SKILL.md": skillText("Query Database", "queries")}, v1())
	if got := codes(h, skillmd.Advice); !slices.Equal(got, []string{"name-not-portable skills/q/SKILL.md"}) || len(h.Findings(skillmd.Warning)) > 0 {
		t.Errorf("%v", h.Diagnostics)
	}
}

// req: D-016, D-035
func TestGroupsWithoutSummaryAreReported(t *testing.T) {
	t.Parallel()
	one := map[string]string{"HARNESS.md": selfText, "skills/data-access/q/SKILL.md": skillText("q", "queries"), "skills/top/SKILL.md": skillText("top", "t"), "skills/top/scripts/a": "", "references/g/x.csv": "1",
		"skills/full/SKILLS.md": summaryText("full"), "skills/full/z/SKILL.md": skillText("z", "in a group with its summary"), "references/h/REFERENCES.md": summaryText("h"), "references/h/in/y.csv": "1",
		"skills/full/a/SKILLS.md": summaryText("a"), "skills/full/a/b/SKILLS.md": summaryText("b"), "skills/full/a/b/deep/c/SKILL.md": skillText("c", "in a deep group")}
	h := load(t, one, v1())
	want := []string{"harness-group-summary references/g", "harness-group-summary references/h/in", "harness-group-summary skills/data-access", "harness-group-summary skills/full/a/b/deep"}
	if d := cmp.Diff(want, codes(h, skillmd.Warning)); d != "" || len(h.Findings(skillmd.Error)) > 0 {
		t.Errorf("%v %s", h.Diagnostics, d)
	}
	for path, file := range map[string]string{"skills/data-access": "SKILLS.md", "references/g": "REFERENCES.md"} {
		if i := slices.IndexFunc(h.Diagnostics, func(d metier.Diagnostic) bool { return d.Path == path && strings.Contains(d.Detail, file) }); i < 0 {
			t.Errorf("%s is not named for %s: %v", file, path, h.Diagnostics)
		}
	}
	two := map[string]string{"HARNESS.md": selfText, ".leaf-detectors": detect, "tools/database/q/SKILL.md": skillText("q", "queries"), "skills/data-access/r/SKILL.md": skillText("r", "reads"), "kb/leaf/.harnessleaf": "", "kb/leaf/deep/x": ""}
	h = load(t, two, nil)
	want = []string{"harness-group-summary skills/data-access", "harness-group-summary tools/database"}
	if d := cmp.Diff(want, codes(h, skillmd.Warning)); d != "" || len(h.Findings(skillmd.Error)) > 0 {
		t.Errorf("%v %s", h.Diagnostics, d)
	}
	if d, _ := find(h.Diagnostics, "harness-group-summary"); !strings.Contains(d.Detail, "SKILLS.md") {
		t.Error(d)
	}
	h = load(t, one, &harness.Options{Layout: harness.V1, Summary: settings.GroupSummaryError})
	if d := cmp.Diff([]string{"harness-group-summary references/g", "harness-group-summary references/h/in", "harness-group-summary skills/data-access", "harness-group-summary skills/full/a/b/deep"}, codes(h, skillmd.Error)); d != "" {
		t.Error(d)
	}
}

// The reference validator of v1 rejects a Markdown reference without a description, that of v2
// warns.
func TestUndescribedMarkdown(t *testing.T) {
	t.Parallel()
	files := map[string]string{"HARNESS.md": selfText, "references/a.md": "text\n", "references/b.csv": "1\n"}
	if got := codes(load(t, files, v1()), skillmd.Error); !slices.Equal(got, []string{"harness-description references/a.md"}) {
		t.Error(got)
	}
	h := load(t, files, v2())
	if got := codes(h, skillmd.Warning); !slices.Equal(got, []string{"harness-description references/a.md"}) || len(h.Findings(skillmd.Error)) > 0 {
		t.Error(h.Diagnostics)
	}
}

// req: D-020
func TestEachLevelHasItsSummary(t *testing.T) {
	t.Parallel()
	files := map[string]string{"HARNESS.md": selfText, "skills/SKILLS.md": summaryText("zero"), "skills/a/SKILLS.md": summaryText("one"), "skills/a/b/SKILLS.md": summaryText("two"), "skills/a/b/c/SKILLS.md": summaryText("three"),
		"skills/a/b/c/x/SKILL.md": skillText("x", "the leaf")}
	h := load(t, files, v1())
	for path, want := range map[string]string{"skills": "zero", "skills/a": "one", "skills/a/b": "two", "skills/a/b/c": "three"} {
		if n := h.At(path); n == nil || n.Description != want || n.File != "SKILLS.md" {
			t.Errorf("%s: %+v", path, n)
		}
	}
	if len(h.Diagnostics) > 0 {
		t.Error(h.Diagnostics)
	}
	d := openDesk(t, write(t, files)) // and each is returned by itself
	for _, path := range []string{"a", "a/b", "a/b/c"} {
		d.gives("load_skill", path, files["skills/"+path+"/SKILLS.md"])
	}
}

// The three harnesses of the corpus, with the verdicts of the reference validator.
//
// req: D-016, D-037
func TestCorpusHarnesses(t *testing.T) {
	t.Parallel()
	base := filepath.Join(testenv.Corpus(t), "agentharnesses+agentharnesses", "examples")
	for name, tt := range map[string]struct {
		skills   []string
		warnings []string
	}{
		"data-analyst-assistant":         {[]string{"skills/data-access/query-database", "skills/data-access/read-spreadsheet"}, []string{"harness-group-summary skills/data-access"}},
		"software-development-assistant": {[]string{"skills/read-codebase", "skills/run-tests"}, []string{}},
		"writing-publishing-assistant":   {[]string{"skills/draft-post", "skills/search-posts"}, []string{}},
	} {
		h, err := harness.Load(t.Context(), filepath.Join(base, name), nil)
		if err != nil || h.Err() != nil {
			t.Fatalf("%s: %v, %v", name, err, h.Err())
		}
		if h.Layout != harness.V1 || h.Name == "" || h.Description == "" || strings.TrimSpace(h.Body) == "" {
			t.Errorf("%s: %+v", name, h)
		}
		if d := cmp.Diff(tt.skills, paths(h.Skills())); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if d := cmp.Diff(tt.warnings, codes(h, skillmd.Warning)); d != "" || len(h.Findings(skillmd.Error)) > 0 {
			t.Errorf("%s: %s %v", name, d, h.Findings(skillmd.Error))
		}
	}
}
