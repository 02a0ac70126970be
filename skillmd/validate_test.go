package skillmd

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
)

// faults returns the errors of a validation, in order.
func faults(diags []Diagnostic) []string {
	out := []string{}
	for _, d := range diags {
		if d.Severity == Error {
			out = append(out, d.Detail)
		}
	}
	return out
}

// codesOf returns "severity code" of each finding that is not an error.
func codesOf(diags []Diagnostic) []string {
	out := []string{}
	for _, d := range diags {
		if d.Severity != Error {
			out = append(out, string(d.Severity)+" "+d.Code)
		}
	}
	return out
}

const (
	goodDesc   = "description: Counts the words of a text. Use when somebody asks for a number of words.\n"
	onlyFields = "Only ['allowed-tools', 'compatibility', 'description', 'license', 'metadata', 'name'] are allowed."
	badChars   = "contains invalid characters. Only letters, digits, and hyphens are allowed."
)

func validated(front, folder string) []Diagnostic {
	return Validate([]byte("---\n"+front+"---\n# Words\n"), Folder{Name: folder})
}

// req: C-014, C-015, C-072
func TestNamesAreJudgedByTheSpecification(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 65)
	namesJudged(t, map[string]namedFolder{
		"plain":              {"word-count", "word-count", []string{}},
		"digits":             {"2fa-3", "2fa-3", []string{}},
		"ends of the ranges": {"az-09", "az-09", []string{}},
		"digits of others":   {"a-٣", "a-٣", []string{}},
		"64 characters":      {long[1:], long[1:], []string{}},
		"65 characters":      {long, long, []string{"Skill name '" + long + "' exceeds 64 character limit (65 chars)"}},
		"64 of three bytes":  {strings.Repeat("字", 64), strings.Repeat("字", 64), []string{}},
		"64 when composed":   {strings.Repeat("e\u0301", 64), "", []string{}},
		"66 when expanded":   {strings.Repeat("\ufb01", 33), "", []string{"Skill name '" + strings.Repeat("fi", 33) + "' exceeds 64 character limit (66 chars)"}},
		"wide upper case":    {"\uff37", "", []string{"Skill name 'W' must be lowercase"}},
		"raised upper case":  {"\u1d2c", "", []string{"Skill name 'A' must be lowercase"}},
		"upper case inside":  {"woRd", "woRd", []string{"Skill name 'woRd' must be lowercase"}},
		"upper case":         {"Word", "Word", []string{"Skill name 'Word' must be lowercase"}},
		"upper cyrillic":     {"НАВЫК", "НАВЫК", []string{"Skill name 'НАВЫК' must be lowercase"}},
		"hyphen first":       {"-a", "-a", []string{"Skill name cannot start or end with a hyphen"}},
		"hyphen last":        {"a-", "a-", []string{"Skill name cannot start or end with a hyphen"}},
		"two hyphens":        {"a--b", "a--b", []string{"Skill name cannot contain consecutive hyphens"}},
		"underscore":         {"a_b", "a_b", []string{"Skill name 'a_b' " + badChars}},
		"blank inside":       {"a b", "a b", []string{"Skill name 'a b' " + badChars}},
		"dots":               {"..", "..", []string{"Skill name '..' " + badChars}},
		"chinese":            {"字数", "字数", []string{}},
		"hindi":              {"हिन्दी", "हिन्दी", []string{}},
		"lone mark":          {"\u0301a", "\u0301a", []string{"Skill name '\u0301a' " + badChars}},
		"nothing":            {"", "a", []string{"Field 'name' must be a non-empty string"}},
		"null":               {"~", "a", []string{"Field 'name' must be a non-empty string"}},
		"a list":             {"[a]", "a", []string{"Field 'name' must be a non-empty string"}},
		"escape, bidi":       {`"a\e\u202e"`, "a", []string{"Skill name 'a\x1b\u202e' " + badChars, "Directory name 'a' must match skill name 'a\x1b\u202e'"}},
	})
	if diff := cmp.Diff([]string{"warning " + CodeNamePortable}, codesOf(validated("name: हिन्दी\n"+goodDesc, ""))); diff != "" {
		t.Error(diff)
	}
}

// The folder has the name of the skill, in any composition.
//
// req: C-019, C-074
func TestFoldersAreJudgedByTheSpecification(t *testing.T) {
	t.Parallel()
	namesJudged(t, map[string]namedFolder{
		"slash":              {"a/b", "b", []string{"Skill name 'a/b' " + badChars, "Directory name 'b' must match skill name 'a/b'"}},
		"wide letters":       {"\uff57\uff4f", "wo", []string{}},
		"composed elsewhere": {"cafe\u0301", "caf\u00e9", []string{}},
		"composed here":      {"caf\u00e9", "cafe\u0301", []string{}},
		"other folder":       {"a", "b", []string{"Directory name 'b' must match skill name 'a'"}},
		"folder not known":   {"a", "", []string{}},
	})
}

// namedFolder is a name, the folder it is in, and the errors.
type namedFolder struct {
	name, folder string
	want         []string
}

func namesJudged(t *testing.T, tests map[string]namedFolder) {
	t.Helper()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diags := validated("name: "+tt.name+"\n"+goodDesc, tt.folder)
			if diff := cmp.Diff(tt.want, faults(diags)); diff != "" {
				t.Error(diff)
			}
			for _, d := range diags {
				want := CodeInvalidName
				switch {
				case strings.HasPrefix(d.Detail, "Field"):
					want = CodeMissingName
				case strings.HasPrefix(d.Detail, "Directory"):
					want = CodeNameMismatch
				}
				if d.Severity == Error && d.Code != want {
					t.Errorf("%s has the code %s, want %s", d.Detail, d.Code, want)
				}
			}
		})
	}
}

// req: C-017, C-071, C-089
func TestFieldsAreJudgedByTheSpecification(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return strings.Repeat("é", n) }
	fieldsJudged(t, map[string]fieldCase{
		"all six":                 {goodDesc + "license: MIT\ncompatibility: any\nallowed-tools: Bash(wc:*) Read\nmetadata: {a: b, v: 1.0}\n", []string{}},
		"dashes in a value":       {"description: use --- when\n", []string{}},
		"other fields":            {goodDesc + "zeta: 1\nalpha:\n  b: c\n", []string{"Unexpected fields in frontmatter: alpha, zeta. " + onlyFields}},
		"fields of others":        {goodDesc + "version: 1.0\nwhen_to_use: asked\nmodel: m\nLicense: MIT\nallowed_tools: Read\n", []string{"Unexpected fields in frontmatter: License, allowed_tools, model, version, when_to_use. " + onlyFields}},
		"dependencies, triggers":  {goodDesc + "dependencies: jq\ntriggers: a\n", []string{"Unexpected fields in frontmatter: dependencies, triggers. " + onlyFields}},
		"compatibility of 500":    {goodDesc + "compatibility: " + text(500) + "\n", []string{}},
		"compatibility of 501":    {goodDesc + "compatibility: " + text(501) + "\n", []string{"Compatibility exceeds 500 character limit (501 chars)"}},
		"compatibility empty":     {goodDesc + "compatibility: ''\n", []string{"Field 'compatibility' must be a non-empty string"}},
		"compatibility is a map":  {goodDesc + "compatibility: {a: b}\n", []string{"Field 'compatibility' must be a string"}},
		"license is a list":       {goodDesc + "license: [MIT]\n", []string{"Field 'license' must be a string"}},
		"allowed-tools is a list": {goodDesc + "allowed-tools: [Read]\n", []string{"Field 'allowed-tools' must be a string"}},
		"metadata is text":        {goodDesc + "metadata: a\n", []string{"Field 'metadata' must be a mapping of strings to strings"}},
		"metadata is nothing":     {goodDesc + "metadata:\n", []string{}},
		"metadata is nested":      {goodDesc + "metadata:\n  a: b\n  c: [d]\n  e: {f: g}\n", []string{"Field 'metadata' must be a mapping of strings to strings; 'c' holds a list", "Field 'metadata' must be a mapping of strings to strings; 'e' holds a map"}},
	})
	if diff := cmp.Diff([]string{"Missing required field in frontmatter: name"}, faults(validated(goodDesc, "w"))); diff != "" {
		t.Error(diff)
	}
}

// req: C-016, C-073
func TestDescriptionsAreJudgedByTheSpecification(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return strings.Repeat("é", n) }
	fieldsJudged(t, map[string]fieldCase{
		"description of 1":       {"description: d\n", []string{}},
		"description of 1024":    {"description: " + text(1024) + "\n", []string{}},
		"description of 1025":    {"description: " + text(1025) + "\n", []string{"Description exceeds 1024 character limit (1025 chars)"}},
		"no description":         {"", []string{"Missing required field in frontmatter: description"}},
		"description of nothing": {"description: '  '\n", []string{"Field 'description' must be a non-empty string"}},
		"description of null":    {"description:\n", []string{"Field 'description' must be a non-empty string"}},
		"description is a list":  {"description: [a]\n", []string{"Field 'description' must be a non-empty string"}},
	})
}

type fieldCase struct {
	front string // after the name
	want  []string
}

func fieldsJudged(t *testing.T, tests map[string]fieldCase) {
	t.Helper()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, faults(validated("name: w\n"+tt.front, "w"))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// req: C-070, C-018
func TestAFrontmatterThatIsNoneIsAnError(t *testing.T) {
	t.Parallel()
	const start, open = "SKILL.md must start with YAML frontmatter (---)", "SKILL.md frontmatter not properly closed with ---"
	const mapping, invalid = "SKILL.md frontmatter must be a YAML mapping", "Invalid YAML in frontmatter: "
	good := "---\nname: w\n" + goodDesc + "---\nbody\n"
	tests := map[string]struct{ text, want string }{
		"good":               {good, ""},
		"byte order mark":    {"\ufeff" + good, ""},
		"crlf":               {strings.ReplaceAll(good, "\n", "\r\n"), ""},
		"rules in the body":  {good + "---\nname: [\n---\n", ""},
		"missing":            {"# Words\n", start},
		"empty":              {"", start},
		"blank line first":   {"\n" + good, start},
		"comment first":      {"<!-- x -->\n" + good, start},
		"heading first":      {"# Words\n" + good, start},
		"fenced file":        {"```\n" + good + "```\n", start},
		"unclosed":           {"---\nname: w\n" + goodDesc + "# Words --- x\n", open},
		"nothing inside":     {"---\n---\n", mapping},
		"a list":             {"---\n- a\n---\n", mapping},
		"colon in a value":   {"---\nname: w\ndescription: use when: now\n---\n", invalid + `line 3, column 22: ": " inside an unquoted value; put the value in quotes`},
		"indented field":     {"---\nname: w\n  description: d\n---\n", invalid + "line 3, column 3: description is indented, so it is part of the value of name and not a field; remove the indentation, or quote the value of name"},
		"tab":                {"---\n\tname: w\n---\n", invalid + "line 2, column 1: the line is indented with a tab, which YAML does not allow; indent it with spaces; if name is a field, remove the tab"},
		"bold value":         {"---\nname: w\ndescription: **bold**\n---\n", invalid + "line 3, column 14: a value that starts with * is an alias, which is not allowed; put it in quotes"},
		"text after a list":  {"---\nname: w\n" + goodDesc + "license: [a] | b\n---\n", invalid + "line 4, column 16: did not find expected comment or line break while scanning a block scalar"},
		"duplicate":          {"---\nname: w\nname: x\n---\n", invalid + `line 3, column 1: key "name" is already set on line 2`},
		"surrogate escapes":  {"---\nname: w\ndescription: \"\\ud83e\\udde0\"\n---\n", invalid + "line 3, column 17: found invalid Unicode character escape code while scanning a quoted scalar"},
		"control character":  {"---\nname: w\a\n---\n", invalid + "line 2, column 8: control character U+0007"},
		"not utf-8 in front": {"---\nname: w\xff\n---\n", invalid + "line 2, column 8: byte 0xff is not UTF-8; save the file as UTF-8"},
		"not utf-8 in body":  {good + "\xff", "byte 0xff in the body is not UTF-8; save the file as UTF-8"},
		"too large":          {"---\n#" + strings.Repeat("x", MaxHead), "no closing --- line in the first 65536 bytes; move long text below the frontmatter"},
		"utf-16":             {"\xff\xfe-\x00-\x00-\x00\n\x00", "the file looks like UTF-16; save it as UTF-8"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(faults(Validate([]byte(tt.text), Folder{Name: "w"})), "\n"); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestAdviceIsGivenAndDoesNotMakeInvalid(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want []string
	}{
		"none":          {"---\nname: w\n" + goodDesc + "---\nbody\n", []string{}},
		"500 lines":     {"---\nname: w\n" + goodDesc + "---\n" + strings.Repeat("x\n", 496), []string{"advice " + CodeLongInstructions}},
		"499 lines":     {"---\nname: w\n" + goodDesc + "---\n" + strings.Repeat("x\n", 495), []string{}},
		"commas":        {"---\nname: w\n" + goodDesc + "allowed-tools: Read, Bash(a, b)\n---\n", []string{"warning " + CodeToolsSeparator}},
		"inner commas":  {"---\nname: w\n" + goodDesc + "allowed-tools: Read Bash(a, b)\n---\n", []string{}},
		"nul":           {"---\nname: w\n" + goodDesc + "---\na\x00", []string{"warning " + CodeNUL}},
		"short":         {"---\nname: w\ndescription: use when x\n---\n", []string{"advice " + CodeDescriptionShort}},
		"no use":        {"---\nname: w\ndescription: Counts the words of a text.\n---\n", []string{"advice " + CodeDescriptionWhen}},
		"use for":       {"---\nname: w\ndescription: Counts words. USE FOR texts of all kinds.\n---\n", []string{}},
		"if the user":   {"---\nname: w\ndescription: Counts words, if the user asks for it.\n---\n", []string{}},
		"several kinds": {"---\nname: w\ndescription: Counts\n---\n" + strings.Repeat("x\n", 500), []string{"advice " + CodeDescriptionShort, "advice " + CodeDescriptionWhen, "advice " + CodeLongInstructions}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diags := Validate([]byte(tt.text), Folder{Name: "w", Has: func(string) bool { return true }})
			if diff := cmp.Diff(tt.want, codesOf(diags)); diff != "" || len(faults(diags)) > 0 {
				t.Errorf("%q\n%s", faults(diags), diff)
			}
		})
	}
	for front, want := range map[string][]string{
		"name: w\nlicence: MIT\n": {"advice " + CodeMisspeltField},
		"nmae: w\n":               {"advice " + CodeMisspeltField},
		"name: w\ntags: x\n":      {}, // name is present
		"name: w\ncolour: x\n":    {},
	} {
		if diff := cmp.Diff(want, codesOf(validated(front+goodDesc, "w"))); diff != "" {
			t.Errorf("%s: %s", front, diff)
		}
	}
}

// req: A-026
func TestADescriptionWithoutAUseGetsAdvice(t *testing.T) {
	t.Parallel()
	diags := validated("name: w\ndescription: Counts the words of a text.\n", "w")
	if len(diags) != 1 || diags[0].Severity != Advice || diags[0].Code != CodeDescriptionWhen || diags[0].Line != 3 || !strings.Contains(diags[0].Detail, "does not say when to use the skill") {
		t.Errorf("%+v", diags)
	}
	// Each of these is a use, whatever its case.
	for _, text := range []string{"When a text has words, counts them.", "Use for the words of a text.", "USE TO count the words of a text.",
		"Counts words whenever there are any.", "Counts words if the user has a text.", "Counts the words of a text. Use when a text has words."} {
		if diags := validated("name: w\ndescription: "+text+"\n", "w"); len(diags) != 0 {
			t.Errorf("%s: a use is there: %+v", text, diags)
		}
	}
	for _, text := range []string{"Counts the words used by authors.", "Counts the words of a user.", "Counts words."} { // the last one is too short, too
		if got := codesOf(validated("name: w\ndescription: "+text+"\n", "w")); !slices.Contains(got, "advice "+CodeDescriptionWhen) {
			t.Errorf("%s: no use is there: %q", text, got)
		}
	}
	for _, field := range []string{"when_to_use", "when-to-use", "triggers"} {
		if got := codesOf(validated("name: w\ndescription: Counts the words of a text.\n"+field+": words\n", "w")); slices.Contains(got, "advice "+CodeDescriptionWhen) {
			t.Errorf("%s: a use is there: %q", field, got)
		}
	}
}

func TestLinksAreFollowedInsideTheFolderOnly(t *testing.T) {
	t.Parallel()
	there := map[string]bool{"references/a.md": true, "references": true, "my file.md": true, "LICENSE": true}
	tests := map[string]struct {
		body string
		want []string
	}{
		"there":                {"[a](references/a.md) ![b](./references/a.md#x) [c](<my file.md>) [d](my%20file.md \"t\") [e](references/)\n", []string{}},
		"broken":               {"see [a](references/b.md)\n", []string{`5 broken-link link "references/b.md" does not point to a file in the skill`}},
		"once":                 {"[a](x/b.md)\n[a](x/b.md)\n", []string{`5 broken-link link "x/b.md" does not point to a file in the skill`}},
		"definition":           {"\n[a]: x/b.md\n[^n]: x/c.md\n", []string{`6 broken-link link "x/b.md" does not point to a file in the skill`}},
		"leaves":               {"[a](../other/SKILL.md) [b](/etc/hosts) [c](references/../../x.md)\n", []string{`5 link-leaves-skill link "../other/SKILL.md" leaves the skill's folder; files outside it are not distributed with the skill`, `5 link-leaves-skill link "/etc/hosts" leaves the skill's folder; files outside it are not distributed with the skill`, `5 link-leaves-skill link "references/../../x.md" leaves the skill's folder; files outside it are not distributed with the skill`}},
		"addresses":            {"[a](https://x.org/a.md) [b](mailto:a@b.c) [c](#top) [d](//x.org/a) [e](url) [f]({base}/a.md) [g]()\n", []string{}},
		"in a code block":      {"```md\n[a](x/b.md)\n```\n~~~~\n[a](x/b.md)\n~~~\n[a](x/b.md)\n~~~~\n[c](x/c.md)\n", []string{`13 broken-link link "x/c.md" does not point to a file in the skill`}},
		"in a code span":       {"`[a](x/b.md)` and ``[a](`x`/c.md)``\n", []string{}},
		"code block in quotes": {"> ```\n> [a](x/b.md)\n> ```\n", []string{}},
		"named":                {"run `scripts/count.py` and `references/a.md`, `scripts/*.py`, `src/x.go`, `scripts/count.py`\n", []string{`5 missing-resource the skill has no file "scripts/count.py"`}},
		"parentheses":          {"[a](x(1).md)\n", []string{`5 broken-link link "x(1).md" does not point to a file in the skill`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := Folder{Name: "w", Has: func(p string) bool { return there[p] }}
			got := []string{}
			for _, d := range Validate([]byte("---\nname: w\n"+goodDesc+"---\n"+tt.body), in) {
				got = append(got, strings.TrimSpace(strings.Join([]string{strconv.Itoa(d.Line), d.Code, d.Detail}, " ")))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	many := strings.Builder{}
	for i := range 50 {
		many.WriteString("[a](x/" + strconv.Itoa(i) + ".md)\n")
	}
	diags := Validate([]byte("---\nname: w\n"+goodDesc+"---\n"+many.String()), Folder{Has: func(string) bool { return false }})
	if n := len(diags); n != mostFindings+1 || diags[n-1].Detail != "30 more of broken-link" {
		t.Errorf("%d findings, the last %+v", n, diags[n-1])
	}
}

func TestLinksFarDownAreNotLookedAtAndThatIsSaid(t *testing.T) {
	t.Parallel()
	link := "\n[a](x/b.md)\n"
	body := strings.Repeat("x", linkText-len(link)+1) + link
	for _, tt := range []struct{ body, want string }{{body[1:], CodeBrokenLink}, {body, CodeLinksUnseen}} {
		diags := Validate([]byte("---\nname: w\n"+goodDesc+"---\n"+tt.body), Folder{Has: func(string) bool { return false }})
		if len(diags) != 2 || diags[0].Code != CodeManyTokens || diags[1].Code != tt.want {
			t.Errorf("%v, want %s", diags, tt.want)
		}
	}
}

// On the corpus the default is never laxer than the reference, and stricter only about the types of
// values, which the reference does not check.
func TestCorpusIsJudgedAsTheReferenceDoesButForKnownReasons(t *testing.T) {
	t.Parallel()
	dir := testenv.Corpus(t)
	for _, v := range testenv.Verdicts[verdict](t, dir) {
		src := readSkill(t, filepath.Join(dir, filepath.FromSlash(v.Dir)), v)
		got := faults(Validate(src, Folder{Name: filepath.Base(v.Dir)}))
		if !v.OK && v.File != "" && len(got) == 0 {
			t.Errorf("%s: only the reference refuses it", v.Dir)
		}
		for _, g := range got {
			if v.OK && !strings.HasPrefix(g, "Field 'allowed-tools' must be a string") && !strings.HasPrefix(g, "Field 'metadata' must be a mapping") {
				t.Errorf("%s: the reference does not say: %.200q", v.Dir, g)
			}
		}
	}
}

func FuzzValidate(f *testing.F) {
	for _, s := range []string{"", "---\nname: a\n---\n[a](b.md)", "---\nmetadata: {a: [b]}\nx: y\n---\n```\n`scripts/a.py`"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, d := range Validate(src, Folder{Name: "a", Has: func(string) bool { return false }}) {
			if d.Code == "" || d.Detail == "" || d.Severity == "" || d.Line < 0 {
				t.Fatalf("incomplete: %+v", d)
			}
		}
	})
}
