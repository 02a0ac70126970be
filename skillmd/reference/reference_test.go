package reference

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
)

// skill writes folder/file with the lines of a frontmatter and returns the folder. file "" writes
// nothing, text that begins with "raw:" is written unchanged.
func skill(t *testing.T, folder, file, front string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), folder)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, file, front)
	return dir
}

func write(t *testing.T, dir, file, front string) {
	t.Helper()
	if file == "" {
		return
	}
	text, raw := strings.CutPrefix(front, "raw:")
	if !raw {
		text = "---\n" + front + "\n---\n# Heading\n"
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const about = "\ndescription: Counts the words of a text."

// The cases of the reference's own test_validator.py, with our own fixtures.
//
// req: C-001, C-093
func TestValidateAsTheReferenceTestsItself(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		folder, front string
		want          string // part of the one message; "" for a valid skill
		more          int    // number of further messages
	}{
		"20 valid":                {"word-count", "name: word-count" + about, "", 0},
		"no name":                 {"word-count", "license: MIT" + about, "Missing required field in frontmatter: name", 0},
		"no description":          {"word-count", "name: word-count\nlicense: MIT", "Missing required field in frontmatter: description", 0},
		"24 upper case":           {"WordCount", "name: WordCount" + about, "lowercase", 0},
		"upper case inside":       {"wordCount", "name: wordCount" + about, "lowercase", 0},
		"25 name too long":        {strings.Repeat("b", 70), "name: " + strings.Repeat("b", 70) + about, "exceeds 64 character limit (70 chars)", 0},
		"26 hyphen first":         {"-word-count", "name: -word-count" + about, "cannot start or end with a hyphen", 0},
		"hyphen last":             {"word-count-", "name: word-count-" + about, "cannot start or end with a hyphen", 0},
		"27 two hyphens":          {"word--count", "name: word--count" + about, "consecutive hyphens", 0},
		"28 underscore":           {"word_count", "name: word_count" + about, "invalid characters", 0},
		"29 folder of other name": {"elsewhere", "name: word-count" + about, "Directory name 'elsewhere' must match skill name 'word-count'", 0},
		"30 unknown field":        {"word-count", "name: word-count\ncolour: blue" + about, "Unexpected fields in frontmatter: colour. Only ['allowed-tools', 'compatibility', 'description', 'license', 'metadata', 'name'] are allowed.", 0},
		"31 all optional fields":  {"word-count", "name: word-count\nlicense: MIT\nmetadata:\n  author: Jo" + about, "", 0},
		"32 allowed-tools":        {"word-count", "name: word-count\nallowed-tools: Bash(wc:*) Read" + about, "", 0},
		"33 chinese":              {"字数", "name: 字数" + about, "", 0},
		"34 russian, hyphen":      {"счёт-слов", "name: счёт-слов" + about, "", 0},
		"35 russian":              {"счёт", "name: счёт" + about, "", 0},
		"36 russian, upper case":  {"СЧЁТ", "name: СЧЁТ" + about, "lowercase", 0},
		"37 description too long": {"word-count", "name: word-count\ndescription: " + strings.Repeat("d", 1100), "Description exceeds 1024 character limit (1100 chars)", 0},
		"38 compatibility":        {"word-count", "name: word-count\ncompatibility: Needs wc." + about, "", 0},
		"39 compatibility long":   {"word-count", "name: word-count\ncompatibility: " + strings.Repeat("c", 550) + about, "Compatibility exceeds 500 character limit (550 chars)", 0},
		"40 composed, decomposed": {"caf\u00e9", "name: cafe\u0301" + about, "", 0},
		"40 the other way round":  {"cafe\u0301", "name: caf\u00e9" + about, "", 0},
		"description longest":     {"word-count", "name: word-count\ndescription: " + strings.Repeat("d", 1024), "", 0},
		"description one more":    {"word-count", "name: word-count\ndescription: " + strings.Repeat("d", 1025), "Description exceeds 1024 character limit (1025 chars)", 0},
		"compatibility longest":   {"word-count", "name: word-count\ncompatibility: " + strings.Repeat("c", 500) + about, "", 0},
		"compatibility one more":  {"word-count", "name: word-count\ncompatibility: " + strings.Repeat("c", 501) + about, "Compatibility exceeds 500 character limit (501 chars)", 0},
		"name in spaces":          {"word-count", "name: \"  word-count \"" + about, "", 0},
		"long name in spaces":     {strings.Repeat("b", 64), "name: \" " + strings.Repeat("b", 64) + " \"" + about, "", 0},
		"name in separators":      {"word-count", `name: "\x1c\x1dword-count\x1e\x1f"` + about, "", 0}, // white space in Python
		"name of separators":      {"word-count", `name: "\x1c\x1f"` + about, "Field 'name' must be a non-empty string", 0},
		"description of them":     {"word-count", "name: word-count\ndescription: \"\\x1d \\x1e\"", "Field 'description' must be a non-empty string", 0},
		"40 wide folder":          {"\uff57", "name: w" + about, "", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := At("", skill(t, tt.folder, "SKILL.md", tt.front)).Validate()
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case tt.want == "" && len(got) != 0, tt.want != "" && len(got) != 1+tt.more:
				t.Errorf("messages: %q", got)
			case !strings.Contains(strings.Join(got, "\n"), tt.want):
				t.Errorf("%q does not hold %q", got, tt.want)
			}
		})
	}
}

// req: C-074
func TestValidate_ComposesFolderAndName(t *testing.T) {
	t.Parallel()
	const composed, decomposed = "caf\u00e9", "cafe\u0301"
	for folder, want := range map[string][]string{composed: nil, decomposed: nil, "cafe": {"Directory name 'cafe' must match skill name '" + composed + "'"}} {
		for _, name := range []string{composed, decomposed} {
			got, err := At("", skill(t, folder, "SKILL.md", "name: "+name+about)).Validate()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("folder %+q, name %+q (-want +got):\n%s", folder, name, diff)
			}
		}
	}
}

// The cases of test_validator.py about what is no skill at all.
//
// req: C-001, C-093
func TestValidateAPathThatIsNoSkill(t *testing.T) {
	t.Parallel()
	empty := skill(t, "empty", "", "")
	file := filepath.Join(skill(t, "notes", "notes.txt", "raw:x"), "notes.txt")
	for path, want := range map[string]string{
		filepath.Join(empty, "nothing"): "Path does not exist: " + filepath.Join(empty, "nothing"), // 21
		file:                            "Not a directory: " + file,                                // 22
		empty:                           "Missing required file: SKILL.md",                         // 23
	} {
		got, err := At("", path).Validate()
		if diff := cmp.Diff([]string{want}, got); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	}
}

// The cases of test_parser.py.
//
// req: C-001, C-093
func TestReadAsTheReferenceTestsItself(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		file, front string
		want        string // the JSON on one line, or part of the error
	}{
		"1 valid":                    {"SKILL.md", "name: word-count" + about, `{ "name": "word-count", "description": "Counts the words of a text." }`},
		"2 no frontmatter":           {"SKILL.md", "raw:# Only a heading", "must start with YAML frontmatter"},
		"3 not closed":               {"SKILL.md", "raw:---\nname: word-count\n", "not properly closed"},
		"4 yaml broken":              {"SKILL.md", "name: [word" + about, "Invalid YAML in frontmatter: "},
		"5 a list":                   {"SKILL.md", "- a\n- b", "must be a YAML mapping"},
		"6 license":                  {"SKILL.md", "name: w\nlicense: MIT\ndescription: d", `{ "name": "w", "description": "d", "license": "MIT" }`},
		"7 metadata is text":         {"SKILL.md", "name: w\ndescription: d\nmetadata:\n  author: Jo Doe\n  version: 1.0", `{ "name": "w", "description": "d", "metadata": { "author": "Jo Doe", "version": "1.0" } }`},
		"8 empty folder":             {"", "", "SKILL.md not found in "},
		"9 no name":                  {"SKILL.md", "description: d", "Missing required field in frontmatter: name"},
		"10 no description":          {"SKILL.md", "name: w", "Missing required field in frontmatter: description"},
		"12, 14 lower-case skill.md": {"skill.md", "name: w\ndescription: d", `{ "name": "w", "description": "d" }`},
		"15 allowed-tools":           {"SKILL.md", "name: w\ndescription: d\nallowed-tools: Bash(jq:*) Bash(git:*)", `{ "name": "w", "description": "d", "allowed-tools": "Bash(jq:*) Bash(git:*)" }`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := At("", skill(t, "w", tt.file, tt.front)).Properties()
			got := strings.Join(strings.Fields(string(p.JSON())), " ")
			if err != nil {
				got = err.Error()
			}
			if got != tt.want && (err == nil || !strings.Contains(got, tt.want)) {
				t.Errorf("got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Cases 11 to 13 of test_parser.py.
//
// req: C-001, C-093
func TestFindPrefersUpperCase(t *testing.T) {
	t.Parallel()
	dir := skill(t, "w", "skill.md", "name: lower\ndescription: d")
	if got := Find(dir); filepath.Base(got) != "skill.md" { // 12
		t.Errorf("found %q", got)
	}
	write(t, dir, "SKILL.md", "name: upper\ndescription: d")
	p, err := At("", dir).Properties()
	if got := Find(dir); filepath.Base(got) != "SKILL.md" || p.Name != "upper" || err != nil { // 11
		t.Errorf("found %q, read %q, %v", got, p.Name, err)
	}
	if got := Find(skill(t, "x", "Skill.md", "name: x\ndescription: d")); got != "" && filepath.Base(got) != "SKILL.md" { // 13
		t.Errorf("found %q", got)
	}
}

// The cases of test_prompt.py.
//
// req: C-001, C-093
func TestPromptAsTheReferenceTestsItself(t *testing.T) {
	t.Parallel()
	got, err := Prompt(nil)
	if got != "<available_skills>\n</available_skills>" || err != nil { // 16
		t.Errorf("no skill: %q, %v", got, err)
	}
	one := At("", skill(t, "w", "SKILL.md", "name: w\ndescription: Counts words"))
	two := At("", skill(t, "x", "SKILL.md", `name: "x<'y'>"`+"\ndescription: Use <a> & \"b\" or 'c'"))
	got, err = Prompt([]Skill{one, two})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n<name>\nw\n</name>\n<description>\nCounts words\n</description>\n<location>\n/", // 17
		"<name>\nx&lt;&#x27;y&#x27;&gt;\n</name>",
		"\nUse &lt;a&gt; &amp; &quot;b&quot; or &#x27;c&#x27;\n</description>\n<location>", // 19
		"/x/SKILL.md\n</location>\n</skill>\n</available_skills>",
	} {
		if !strings.Contains(filepath.ToSlash(got), want) {
			t.Errorf("%s\ndoes not hold %q", got, want)
		}
	}
	if n := strings.Count(got, "<skill>\n"); n != 2 { // 18
		t.Errorf("%d skills", n)
	}
	if _, err := Prompt([]Skill{one, At("", t.TempDir())}); err == nil || !strings.HasPrefix(err.Error(), "SKILL.md not found in ") {
		t.Errorf("a folder with no skill: %v", err)
	}
}

func TestAFolderThatCannotBeSearchedIsCalledThat(t *testing.T) {
	t.Parallel()
	if !testenv.OrdinaryUser(t) {
		return
	}
	dir := skill(t, "x", "SKILL.md", "name: x\ndescription: d")
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	if messages, err := At("", dir).Validate(); !os.IsPermission(err) {
		t.Errorf("%v, %v", messages, err)
	}
	if _, err := At("", dir).Properties(); !os.IsPermission(err) {
		t.Error(err)
	}
}
