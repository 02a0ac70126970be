package metier_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/settings"
)

// TestParseSettingsJudge checks that each parse setting changes the outcome for a skill that
// violates the specification.
func TestParseSettingsJudge(t *testing.T) {
	t.Parallel()
	repaired := "---\nname: odd\ndescription: Use when: asked\n---\n"
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		text  string // SKILL.md of the folder "odd"
		set   map[string]string
		state metier.Status
		code  string // diagnostic, "" for none
	}{
		"bad name is noted":              {skillFile("Odd", ""), nil, metier.Loaded, "invalid-name"},
		"bad name is refused":            {skillFile("Odd", ""), map[string]string{"validation": "strict"}, metier.Refused, "invalid-name"},
		"bad name is let pass":           {skillFile("Odd", ""), map[string]string{"validation": "minimal"}, metier.Loaded, ""},
		"other folder is noted":          {skillFile("even", ""), nil, metier.Loaded, "name-directory-mismatch"},
		"other folder is refused":        {skillFile("even", ""), map[string]string{"identity": "equal"}, metier.Refused, "name-directory-mismatch"},
		"missing name takes the folder":  {"---\ndescription: d\n---\n", nil, metier.Loaded, "missing-name"},
		"missing name is refused":        {"---\ndescription: d\n---\n", map[string]string{"missing_name": "reject"}, metier.Refused, "missing-name"},
		"first paragraph describes":      {"---\nname: odd\n---\nDoes it.\n", nil, metier.Loaded, "missing-description"},
		"nothing describes":              {"---\nname: odd\n---\n", nil, metier.Refused, "missing-description"},
		"folder describes":               {"---\nname: odd\n---\n", map[string]string{"missing_description": "folder"}, metier.Loaded, "missing-description"},
		"missing description is refused": {"---\nname: odd\n---\nDoes it.\n", map[string]string{"missing_description": "reject"}, metier.Refused, "missing-description"},
		"plain Markdown is refused":      {"Does it.\n", map[string]string{"no_frontmatter": "reject"}, metier.Refused, "no-frontmatter"},
		"plain Markdown is a skill":      {"Does it.\n", map[string]string{"no_frontmatter": "plain", "missing_name": "reject"}, metier.Loaded, "no-frontmatter"},
		"description at the limit":       {"---\nname: odd\ndescription: " + long(1024) + "\n---\n", nil, metier.Loaded, ""},
		"long description is noted":      {"---\nname: odd\ndescription: " + long(1025) + "\n---\n", nil, metier.Loaded, "description-too-long"},
		"long description is refused":    {"---\nname: odd\ndescription: " + long(1025) + "\n---\n", map[string]string{"validation": "strict"}, metier.Refused, "description-too-long"},
		"compatibility at the limit":     {skillFile("odd", "", "compatibility: "+long(500)), nil, metier.Loaded, ""},
		"long compatibility is noted":    {skillFile("odd", "", "compatibility: "+long(501)), nil, metier.Loaded, "compatibility-too-long"},
		"long compatibility is refused":  {skillFile("odd", "", "compatibility: "+long(501)), map[string]string{"validation": "strict"}, metier.Refused, "compatibility-too-long"},
		"compatibility has more room":    {skillFile("odd", "", "compatibility: "+long(501)), map[string]string{"validation": "strict", "compatibility_max": "600"}, metier.Loaded, ""},
		"unknown field is refused":       {skillFile("odd", "", "colour: red"), map[string]string{"unknown_fields": "reject"}, metier.Refused, "unexpected-field"},
		"known extension passes":         {skillFile("odd", "", "model: m"), map[string]string{"unknown_fields": "reject"}, metier.Loaded, ""},
		"no extension is known":          {skillFile("odd", "", "model: m"), map[string]string{"unknown_fields": "reject", "known_extensions": "none"}, metier.Refused, "unexpected-field"},
		"repaired value is noted":        {repaired, nil, metier.Loaded, "unquoted-colon"},
		"repaired value passes":          {repaired, map[string]string{"validation": "minimal"}, metier.Loaded, "unquoted-colon"},
		"repaired value is refused":      {repaired, map[string]string{"validation": "strict"}, metier.Refused, "unquoted-colon"},
		"comment before is noted":        {"<!-- c -->\n" + skillFile("odd", ""), nil, metier.Loaded, "frontmatter-not-first"},
		"comment before is refused":      {"<!-- c -->\n" + skillFile("odd", ""), map[string]string{"validation": "strict"}, metier.Refused, "frontmatter-not-first"},
		"comment before is no plain":     {"<!-- c -->\n" + skillFile("odd", ""), map[string]string{"no_frontmatter": "plain"}, metier.Loaded, "frontmatter-not-first"},
		"code fence is noted":            {"```\n" + skillFile("odd", "") + "```\n", nil, metier.Loaded, "fenced-frontmatter"},
		"missing closing line is noted":  {"---\nname: odd\ndescription: d\n\n# Odd\n", nil, metier.Loaded, "closing-line-missing"},
		"no closing line is refused":     {"---\nname: odd\ndescription: d\nText.\n", nil, metier.Refused, "unclosed-frontmatter"},
		"broken beyond repair":           {"---\nname: odd\ndescription: \"d\n---\n", nil, metier.Refused, "invalid-yaml"},
		"misspelt field is suggested":    {skillFile("odd", "", "user-invokable: false"), nil, metier.Loaded, "misspelt-field"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, "default", map[string]string{"skills/odd/SKILL.md": c.text})
			for _, r := range settings.Table() {
				if v, ok := c.set[r.Name]; ok {
					if err := r.Set(&w.set, v); err != nil {
						t.Fatal(err)
					}
				}
			}
			all := w.snapshot().All()
			if len(all) != 1 {
				t.Fatalf("%d entries", len(all))
			}
			codes := []string{}
			for _, d := range all[0].Diagnostics {
				codes = append(codes, d.Code)
			}
			if all[0].State != c.state || c.code == "" && len(codes) > 0 || c.code != "" && !slices.Contains(codes, c.code) {
				t.Errorf("state %s, diagnostics %q; want %s, %q", all[0].State, codes, c.state, c.code)
			}
		})
	}
}

// TestBrokenFilesAreRefusedWhereValidationIsStrict includes a file that a lenient profile accepts
// with a warning.
//
// req: C-018, C-070
func TestBrokenFilesAreRefusedWhereValidationIsStrict(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"skills/aliased/SKILL.md":  "---\nname: aliased\ndescription: {a: *b}\n---\n",
		"skills/colon/SKILL.md":    "---\nname: colon\ndescription: Use when: asked\n---\n",
		"skills/good/SKILL.md":     skillFile("good", ""),
		"skills/missing/SKILL.md":  "# Missing\n\nText.\n",
		"skills/quoted/SKILL.md":   "---\nname: quoted\ndescription: \"a\n---\n",
		"skills/twice/SKILL.md":    "---\nname: twice\nname: twice\ndescription: a\n---\n",
		"skills/unclosed/SKILL.md": "---\nname: unclosed\ndescription: a\n\n# Unclosed\n\nText.\n",
		"skills/cut/SKILL.md":      "---\nname: cut\ndescription: a\n",
		"skills/four/SKILL.md":     "---\nname: four\ndescription: a\n----\n",
	}
	judged := func(profile string) map[string]string {
		codes := map[string]string{}
		for _, sk := range newFixture(t, profile, files).snapshot().All() {
			code := string(sk.State)
			for _, d := range sk.Diagnostics {
				if sk.State == metier.Refused && d.Severity == "error" {
					code = d.Code
					break
				}
			}
			codes[sk.ID.Path] = code
		}
		return codes
	}
	want := map[string]string{"good": "loaded", "aliased": "yaml-alias-refused", "quoted": "invalid-yaml", "twice": "duplicate-key",
		"colon": "unquoted-colon", "missing": "no-frontmatter", "unclosed": "closing-line-missing", "cut": "unclosed-frontmatter", "four": "unclosed-frontmatter"}
	if diff := cmp.Diff(want, judged("agent-runtime")); diff != "" {
		t.Errorf("strict: %s", diff)
	}
	for _, repaired := range []string{"colon", "missing", "unclosed"} { // "missing" uses the folder's name and its first paragraph
		want[repaired] = "loaded"
	}
	if diff := cmp.Diff(want, judged("default")); diff != "" {
		t.Errorf("lenient: %s", diff)
	}
}

// TestChangedFileIsJudgedAtActivationAsItWasAtDiscovery checks that an edit that needs a repair is
// accepted only with lenient validation.
func TestChangedFileIsJudgedAtActivationAsItWasAtDiscovery(t *testing.T) {
	t.Parallel()
	for validation, refused := range map[string]bool{"lenient": false, "strict": true} {
		w := newFixture(t, "default", map[string]string{"skills/odd/SKILL.md": skillFile("odd", "before\n")})
		for _, r := range settings.Table() {
			if r.Name == "validation" {
				if err := r.Set(&w.set, validation); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.open()
		w.put("skills/odd/SKILL.md", "---\nname: odd\ndescription: Use when: asked\n---\nafter\n")
		got := w.model("load_skill", args{"name": "odd"})
		if strings.Contains(got.Text(), "after") == refused || refused != (got.Code() == "skill_broken") {
			t.Errorf("%s: %s %s", validation, got.Code(), got.Text())
		}
	}
}
