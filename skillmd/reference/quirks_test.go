package reference

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// req: C-093
func TestQuirksOfTheReference(t *testing.T) {
	t.Parallel()
	const ok = "---\nname: w\ndescription: d\n"
	const invalid = "Invalid YAML in frontmatter"
	tests := map[string]struct {
		text string
		want []string
	}{
		"dashes in a value end the block":    {"---\nname: w\ndescription: d --- e\ncolour: x\n---\n", nil},
		"closed by a rule in the body":       {"---\nname: w\ndescription: |\n  d\n\n  x ---y\n", nil},
		"opening line with more on it":       {"--- {}\n---\n", []string{invalid}},
		"four dashes open":                   {"----\nname: w\n---", []string{invalid}},
		"byte order mark":                    {"\ufeff" + ok + "---\n", []string{"SKILL.md must start with YAML frontmatter (---)"}},
		"blank line first":                   {"\n" + ok + "---\n", []string{"SKILL.md must start with YAML frontmatter (---)"}},
		"crlf":                               {strings.ReplaceAll(ok+"---\n", "\n", "\r\n"), nil},
		"lone carriage returns":              {strings.ReplaceAll(ok+"---\n", "\n", "\r"), nil},
		"flow list":                          {ok + "allowed-tools: [a, b]\n---\n", []string{invalid}},
		"flow map":                           {ok + "metadata: {}\n---\n", []string{invalid}},
		"anchor":                             {ok + "license: &a MIT\n---\n", []string{invalid}},
		"alias":                              {ok + "license: **MIT**\n---\n", []string{invalid}},
		"tag":                                {ok + "license: !!str MIT\n---\n", []string{invalid}},
		"duplicate key":                      {ok + "name: w\n---\n", []string{invalid}},
		"uneven maps":                        {ok + "metadata:\n  a:\n      b: c\n  d:\n    e: f\n---\n", []string{invalid}},
		"even maps":                          {ok + "metadata:\n  a:\n    b: c\n  d:\n    e: f\n---\n", nil},
		"nothing inside":                     {"---\n---\n", []string{"SKILL.md frontmatter must be a YAML mapping"}},
		"text":                               {"---\njust words\n---\n", []string{"SKILL.md frontmatter must be a YAML mapping"}},
		"name is a list":                     {"---\nname:\n  - w\ndescription: d\n---\n", []string{"Field 'name' must be a non-empty string"}},
		"name is empty":                      {"---\nname:\ndescription: ''\n---\n", []string{"Field 'name' must be a non-empty string", "Field 'description' must be a non-empty string"}},
		"null is a name":                     {"---\nname: null\ndescription: d\n---\n", []string{"Directory name 'w' must match skill name 'null'"}},
		"empty compatibility":                {ok + "compatibility: ''\n---\n", nil},
		"compatibility is a map":             {ok + "compatibility:\n  os: any\n---\n", []string{"Field 'compatibility' must be a string"}},
		"other types are not looked at":      {ok + "allowed-tools:\n  - a\nlicense:\n  x: y\nmetadata: text\n---\n", nil},
		"wide name":                          {"---\nname: \uff57\ndescription: d\n---\n", nil},
		"combining mark":                     {"---\nname: \u0939\u093f\ndescription: d\n---\n", []string{"Skill name '\u0939\u093f' contains invalid characters. Only letters, digits, and hyphens are allowed.", "Directory name 'w' must match skill name '\u0939\u093f'"}},
		"every rule about a name":            {"---\nname: --A_\ndescription: d\n---\n", []string{"Skill name '--A_' must be lowercase", "Skill name cannot start or end with a hyphen", "Skill name cannot contain consecutive hyphens", "Skill name '--A_' contains invalid characters. Only letters, digits, and hyphens are allowed.", "Directory name 'w' must match skill name '--A_'"}},
		"description counts what is cut":     {"---\nname: w\ndescription: |\n  " + strings.Repeat("é", 1024) + "\n---\n", []string{"Description exceeds 1024 character limit (1025 chars)"}},
		"unknown fields are sorted":          {ok + "zeta: 1\nalpha: 2\n---\n", []string{"Unexpected fields in frontmatter: alpha, zeta. Only ['allowed-tools', 'compatibility', 'description', 'license', 'metadata', 'name'] are allowed."}},
		"a comment and a number":             {"---\n# c\nname: w # c\ndescription: 1.0\n---\n", nil},
		"control characters after the end":   {ok + "---\n\x00\x1b", nil},
		"deeper than the reference can read": {ok + "metadata:\n  " + strings.Repeat("- ", 200) + "a\n---\n", []string{invalid}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := At("", skill(t, "w", "SKILL.md", "raw:"+tt.text)).Validate()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(class(tt.want), class(got)); diff != "" {
				t.Errorf("%q\n%s", got, diff)
			}
		})
	}
}

// req: C-093
func TestWhatCrashesTheReferenceIsAnError(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"---\nname: w\a\n---\n":                            "control character U+0007 on line 2",
		"---\nname: w\u0080\n---\n":                        "control character U+0080 on line 2",
		"---\nname: w\n---\ncaf\xe9":                       "is not UTF-8",
		"---\n" + strings.Repeat("#", maxFile) + "\n---\n": "is longer than",
	} {
		got, err := At("", skill(t, "w", "SKILL.md", "raw:"+text)).Validate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %q, %v", text, got, err)
		}
		if _, again := At("", skill(t, "w", "SKILL.md", "raw:"+text)).Properties(); again == nil {
			t.Errorf("%.30q: properties", text)
		}
	}
	dir := skill(t, "w", "", "")
	if err := os.Mkdir(filepath.Join(dir, "SKILL.md"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := At("", dir).Validate(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %q, %v", got, err)
	}
}

// req: C-093
func TestPathsAreThoseOfPathlib(t *testing.T) {
	t.Parallel()
	base := filepath.Dir(skill(t, "w", "SKILL.md", "name: w\ndescription: d"))
	for path, want := range map[string]string{
		".":               `Not found`,
		"w":               "",
		"w/":              "",
		"./w/.":           "",
		"w//SKILL.md":     "",
		"w/../w":          "",
		"w/skill.MD":      `Path does not exist: w/skill.MD`,
		"nothing/./here/": "Path does not exist: nothing/here",
	} {
		got, err := At(base, filepath.FromSlash(path)).Validate()
		switch {
		case err != nil:
			t.Error(err)
		case path == ".":
			want = "Missing required file: SKILL.md"
		case path == "w/skill.MD" && runtime.GOOS != "linux": // if letter case does not matter
			continue
		}
		if g := filepath.ToSlash(strings.Join(got, "\n")); g != want {
			t.Errorf("%s: %q, want %q", path, g, want)
		}
	}
	// The name of "." is empty, and that of a bare SKILL.md's folder too.
	for _, path := range []string{".", "SKILL.md"} {
		got, _ := At(filepath.Join(base, "w"), path).Validate()
		if diff := cmp.Diff([]string{"Directory name '' must match skill name 'w'"}, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	for in, want := range map[string]string{"": ".", "/": "/", "//": "//", "///a//b/": "/a/b", "//a": "//a", "a/..": "a/.."} {
		if runtime.GOOS == "windows" {
			break
		}
		if got := pure(in); got != want {
			t.Errorf("pure(%q) is %q, want %q", in, got, want)
		}
	}
}

// req: C-093
func TestPropertiesArePrintedAsPythonPrintsThem(t *testing.T) {
	t.Parallel()
	front := "name: ' w '\ndescription: \"é \U0001F47D \\t\\\"\\\\\"\nlicense:\n  - a\n  - b: c\nmetadata:\n  a:\n    it's: \"q\"\n    x:\n      - 'say \"hi\"'\n      - both ' and \"\n  b: ' kept '\n  c:\n    - \"\u00a0\\n\\\\\"\n"
	p, err := At("", skill(t, "w", "SKILL.md", front)).Properties()
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "name": "w",
  "description": "\u00e9 \ud83d\udc7d \t\"\\",
  "license": [
    "a",
    {
      "b": "c"
    }
  ],
  "metadata": {
    "a": "{\"it's\": 'q', 'x': ['say \"hi\"', 'both \\' and \"']}",
    "b": " kept ",
    "c": "['\\xa0\\n\\\\']"
  }
}`
	if diff := cmp.Diff(want, string(p.JSON())); diff != "" {
		t.Error(diff)
	}
}
