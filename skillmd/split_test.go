package skillmd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// outcome is the expected result for one file: the codes with their positions, whether frontmatter
// was found, and the body.
type outcome struct {
	Present  bool
	Name     string
	Body     string
	BodyLine int
	Diags    []spot
}

type spot struct {
	Severity     Severity
	Code         string
	Line, Column int
}

func spots(diags []Diagnostic) []spot {
	var out []spot
	for _, d := range diags {
		out = append(out, spot{d.Severity, d.Code, d.Line, d.Column})
	}
	return out
}

// req: B-008, A-173
func TestParseFindsTheFrontmatter(t *testing.T) {
	t.Parallel()
	none := []spot{{Warning, CodeNoFrontmatter, 1, 1}}
	unclosed := []spot{{Error, CodeUnclosedFrontmatter, 1, 1}}
	empty := []spot{{Error, CodeEmptyFile, 0, 0}}
	tests := map[string]struct {
		src  string
		want outcome
	}{
		"plain":                    {"---\nname: a\n---\nbody\n", outcome{true, "a", "body\n", 4, nil}},
		"no body":                  {"---\nname: a\n---\n", outcome{true, "a", "", 4, nil}},
		"closing line at the end":  {"---\nname: a\n---", outcome{true, "a", "", 4, nil}},
		"blanks after both lines":  {"--- \t\nname: a\n---  \nb", outcome{true, "a", "b", 4, nil}},
		"crlf":                     {"---\r\nname: a\r\n---\r\nb\r\n", outcome{true, "a", "b\r\n", 4, nil}},
		"mixed line ends":          {"---\r\nname: a\nx: y\r\n---\nb\r\nc\n", outcome{true, "a", "b\r\nc\n", 5, nil}},
		"byte order mark":          {"\ufeff---\nname: a\n---\nb", outcome{true, "a", "b", 4, nil}},
		"rules in the body":        {"---\nname: a\n---\nb\n---\nc\n\n---\n", outcome{true, "a", "b\n---\nc\n\n---\n", 4, nil}},
		"rule is the first line":   {"---\nname: a\n---\n---\nb", outcome{true, "a", "---\nb", 4, nil}},
		"dashes inside a value":    {"---\nname: a --- b\nx: '---'\n---\nc", outcome{true, "a --- b", "c", 5, nil}},
		"dashes start a line":      {"---\nname: |\n  ---\n  x\ny: z\n---\nc", outcome{true, "---\nx", "c", 7, nil}},
		"four dashes":              {"---\nname: |-\n  a\n  ----\n---\nc", outcome{true, "a\n----", "c", 6, nil}},
		"dots inside":              {"---\nname: a\n...\n---\nc", outcome{true, "a", "c", 5, nil}},
		"comments only":            {"---\n# x\n---\nb", outcome{true, "", "b", 4, []spot{{Warning, CodeFrontmatterEmpty, 1, 1}}}},
		"nothing inside":           {"---\n---\nb", outcome{true, "", "b", 3, []spot{{Warning, CodeFrontmatterEmpty, 1, 1}}}},
		"absent":                   {"# Title\n\ntext\n", outcome{false, "", "# Title\n\ntext\n", 1, none}},
		"absent, rules in body":    {"text\n---\nname: a\n---\n", outcome{false, "", "text\n---\nname: a\n---\n", 1, none}},
		"blank before the line":    {" ---\nname: a\n---\n", outcome{false, "", " ---\nname: a\n---\n", 1, none}},
		"text after the dashes":    {"--- x\nname: a\n---\n", outcome{false, "", "--- x\nname: a\n---\n", 1, none}},
		"byte order mark, absent":  {"\ufefftext", outcome{false, "", "text", 1, none}},
		"only the opening line":    {"---", outcome{false, "", "---", 1, unclosed}},
		"two dashes":               {"--", outcome{false, "", "--", 1, none}},
		"unclosed":                 {"---\nname: a\nText.\n", outcome{false, "", "---\nname: a\nText.\n", 1, unclosed}},
		"closed by an inner rule":  {"---\nname: a\n ---\n", outcome{false, "", "---\nname: a\n ---\n", 1, unclosed}},
		"closed by four dashes":    {"---\nname: a\n----\n", outcome{false, "", "---\nname: a\n----\n", 1, unclosed}},
		"empty":                    {"", outcome{false, "", "", 1, empty}},
		"white space only":         {" \n\t\r\n", outcome{false, "", " \n\t\r\n", 1, empty}},
		"byte order mark only":     {"\ufeff", outcome{false, "", "", 1, empty}},
		"lone carriage return":     {"---\rname: a\r---\r", outcome{false, "", "---\rname: a\r---\r", 1, none}},
		"carriage return in value": {"---\nname: a\r---\rb: c\n---\n", outcome{true, "", "", 4, []spot{{Error, CodeSecondDocument, 3, 1}}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, diags := Parse([]byte(tt.src))
			got := outcome{d.Front.Present, d.Front.Name, string(d.Body), d.BodyLine, spots(diags)}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			checkWhole(t, []byte(tt.src))
		})
	}
}

func TestParseRefusesABrokenFrontmatter(t *testing.T) {
	t.Parallel()
	nul, notUTF8 := spot{Error, CodeNUL, 2, 8}, spot{Error, CodeNotUTF8, 2, 8}
	tests := map[string]struct {
		front string
		want  spot
	}{
		"list":             {"- a\n- b", spot{Error, CodeFrontmatterNotMap, 2, 1}},
		"text":             {"\njust words", spot{Error, CodeFrontmatterNotMap, 3, 1}},
		"colon in a list":  {"name: a\ntags:\n- b\n- use when: b: c", spot{Error, CodeInvalidYAML, 5, 14}},
		"unclosed list":    {"name: [a", spot{Error, CodeInvalidYAML, 3, 1}},
		"unclosed quote":   {"name: \"a\nb: c", spot{Error, CodeInvalidYAML, 4, 1}},
		"merge conflict":   {"name: a\n<<<<<<< x\nb: c", spot{Error, CodeInvalidYAML, 3, 1}},
		"nul":              {"name: a\x00", nul},
		"bell":             {"name: a\a", spot{Error, CodeControlCharacter, 2, 8}},
		"latin 1":          {"name: a\xe9", notUTF8},
		"duplicate key":    {"name: a\nx: b\nname: c", spot{Error, CodeDuplicateKey, 4, 1}},
		"duplicate inside": {"metadata:\n  a: b\n  a: c", spot{Error, CodeDuplicateKey, 4, 3}},
		"complex key":      {"? [a]\n: b", spot{Error, CodeComplexKey, 2, 3}},
		"anchor":           {"name: &x a", spot{Error, CodeAnchor, 2, 7}},
		"alias":            {"x: &b c\ndescription: *b", spot{Error, CodeAnchor, 2, 4}},
		"nested alias":     {"metadata: {x: *b}", spot{Error, CodeAlias, 2, 15}},
		"self alias":       {"a: &a [*a]", spot{Error, CodeAnchor, 2, 4}},
		"tag":              {"name: !!python/object:x {}", spot{Error, CodeTag, 2, 7}},
		"directive":        {"%YAML 1.1\nname: a", spot{Error, CodeDirective, 2, 1}},
		"merge key":        {"name: a\n<<: {b: c}", spot{Error, CodeMergeKey, 3, 1}},
		"second document":  {"name: a\n--- b", spot{Error, CodeSecondDocument, 3, 1}},
		"deep":             {"a: " + strings.Repeat("[", 40_000), spot{Error, CodeTooDeep, 2, 36}},
		"many values":      {"a: [" + strings.Repeat("b,", 9000) + "]", spot{Error, CodeTooManyValues, 2, 16383}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := []byte("---\n" + tt.front + "\n---\nthe body\n")
			d, diags := Parse(src)
			if diff := cmp.Diff([]spot{tt.want}, spots(diags)); diff != "" {
				t.Error(diff)
			}
			if !d.Front.Present || d.Front.Fields != nil || d.Front.Name != "" {
				t.Errorf("fields were taken from it: %+v", d.Front)
			}
			if string(d.Body) != "the body\n" {
				t.Errorf("body %q", d.Body)
			}
			for _, g := range diags {
				if g.Detail == "" {
					t.Error("no detail")
				}
			}
			checkWhole(t, src)
		})
	}
}

func TestParseReportsBytesThatAreNotText(t *testing.T) {
	t.Parallel()
	head := "---\nname: a\n---\n"
	tests := map[string]struct {
		src  string
		want []spot
	}{
		"latin 1 body":       {head + "ok\ncaf\xe9\n\xe9", []spot{{Warning, CodeNotUTF8, 5, 4}}},
		"nul in the body":    {head + "x\x00y\x00", []spot{{Warning, CodeNUL, 4, 2}}},
		"both":               {head + "é\x00\n\xff", []spot{{Warning, CodeNUL, 4, 2}, {Warning, CodeNotUTF8, 5, 1}}},
		"utf-16 le":          {"\xff\xfe-\x00-\x00-\x00\n\x00", []spot{{Error, CodeNotUTF8, 1, 1}}},
		"utf-16 be":          {"\xfe\xff\x00-\x00-\x00-\x00\n", []spot{{Error, CodeNotUTF8, 1, 1}}},
		"utf-16 le, no mark": {"-\x00-\x00-\x00\n\x00n\x00", []spot{{Error, CodeNotUTF8, 1, 1}}},
		"utf-16 be, no mark": {"\x00-\x00-\x00-\x00\n\x00n", []spot{{Error, CodeNotUTF8, 1, 1}}},
		"binary":             {"\x7fELF\x00\xff", []spot{{Warning, CodeNoFrontmatter, 1, 1}, {Warning, CodeNUL, 1, 5}, {Warning, CodeNotUTF8, 1, 6}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, diags := Parse([]byte(tt.src))
			if diff := cmp.Diff(tt.want, spots(diags)); diff != "" {
				t.Error(diff)
			}
			checkWhole(t, []byte(tt.src))
		})
	}
}

func TestFrontmatterMustCloseWithinTheCap(t *testing.T) {
	t.Parallel()
	file := func(size int) []byte { // whose closing line ends at offset size
		return []byte("---\nname: a\n#" + strings.Repeat("x", size-len("---\nname: a\n#\n---\n")) + "\n---\nbody")
	}
	d, diags := Parse(file(MaxHead))
	if d.Front.Name != "a" || string(d.Body) != "body" || diags != nil {
		t.Errorf("at the cap: %q, %v", d.Front.Name, diags)
	}
	over := file(MaxHead + 1)
	d, diags = Parse(over)
	if diff := cmp.Diff([]spot{{Error, CodeFrontmatterTooLarge, 1, 1}}, spots(diags)); diff != "" {
		t.Error(diff)
	}
	if d.Front.Present || len(d.Body) != len(over) {
		t.Errorf("over the cap: present %v, body of %d bytes", d.Front.Present, len(d.Body))
	}
	checkWhole(t, file(MaxHead))
	checkWhole(t, over)
	checkWhole(t, []byte("---"+strings.Repeat(" ", MaxHead)))
	checkWhole(t, []byte(strings.Repeat("\n", MaxHead+1)))
}

// checkWhole checks what must be true of every file: the parts recompose to it, and ParseHead,
// however little of the file it has, either asks for more or agrees with Parse.
func checkWhole(t *testing.T, src []byte) {
	t.Helper()
	d, diags := Parse(src)
	front, offset, enough, head := ParseHead(src, true)
	if !enough {
		t.Fatal("ParseHead wants more than the whole file")
	}
	if string(src[:offset])+string(d.Body) != string(d.Raw) || string(d.Raw) != string(src) {
		t.Fatalf("prefix of %d bytes and body of %d do not make the %d bytes of the file", offset, len(d.Body), len(src))
	}
	if want := 1 + strings.Count(string(src[:offset]), "\n"); d.BodyLine != want && !(offset == len(src) && d.BodyLine == want+1) {
		t.Fatalf("body starts at line %d, want %d", d.BodyLine, want)
	}
	if len(head) > len(diags) || !cmp.Equal(head, diags[:len(head):len(head)]) && len(head) > 0 || !cmp.Equal(front, d.Front) {
		t.Fatalf("ParseHead: %v %v\nParse: %v %v", front, head, d.Front, diags)
	}
	for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, len(src) / 2, offset - 1, offset, len(src) - 1, len(src), MaxHead - 1, MaxHead} {
		if n < 0 || n > len(src) {
			continue
		}
		f, o, ok, g := ParseHead(src[:n], false)
		if ok && (o != offset || !cmp.Equal(f, front) || !cmp.Equal(g, head)) {
			t.Fatalf("from %d bytes: offset %d %+v %v\nfrom all: offset %d %+v %v", n, o, f, g, offset, front, head)
		}
		if !ok && (n >= MaxHead || o != 0 || g != nil || f.Present) {
			t.Fatalf("from %d bytes: not enough, yet %d %+v %v", n, o, f, g)
		}
	}
}

func TestParseHeadAsksForMore(t *testing.T) {
	t.Parallel()
	src := "---\nname: a\n---\nbody"
	for n := range len(src) + 1 {
		front, offset, enough, _ := ParseHead([]byte(src[:n]), false)
		if want := n >= len("---\nname: a\n---\n"); enough != want {
			t.Errorf("%q: enough = %v", src[:n], enough)
		}
		if enough && (front.Name != "a" || src[offset:] != "body") {
			t.Errorf("%q: %q at %d", src[:n], front.Name, offset)
		}
	}
	if _, _, enough, _ := ParseHead([]byte("# Title\n\nText.\n"), false); !enough {
		t.Error("text before any --- needs no more")
	}
}
