package skillmd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFrontmatterIsFoundBehindWhatDoesNotBelongThere(t *testing.T) {
	t.Parallel()
	block := "---\nname: a\ndescription: b\n---\n"
	late := func(line int) []spot { return []spot{{Warning, CodeFrontmatterNotFirst, line, 1}} }
	fenced := func(line int) []spot { return []spot{{Warning, CodeFencedFrontmatter, line, 1}} }
	none := []spot{{Warning, CodeNoFrontmatter, 1, 1}}
	tests := map[string]struct {
		src  string
		want outcome
	}{
		"blank lines":              {"\n \t\r\n" + block + "c", outcome{true, "a", "c", 7, late(1)}},
		"comment":                  {"<!-- x -->\n" + block + "c", outcome{true, "a", "c", 6, late(1)}},
		"comment over lines":       {"\n<!-- x\n---\nname: no\n---\n\n-->\n" + block + "c", outcome{true, "a", "c", 12, late(2)}},
		"heading":                  {"# Title\n\n" + block + "c", outcome{true, "a", "c", 7, late(1)}},
		"mark and comment":         {"\ufeff<!-- x -->\r\n" + block + "c", outcome{true, "a", "c", 6, late(1)}},
		"only a name":              {"\n---\n\nx: y\nname: a\n---\nc", outcome{true, "a", "c", 7, late(1)}},
		"whole file in a fence":    {"```markdown\n" + block + "c\n```\n", outcome{true, "a", "c\n```\n", 6, fenced(1)}},
		"block in a fence":         {"```yaml\n" + block + "```\nc\n", outcome{true, "a", "c\n", 7, fenced(1)}},
		"longer fence":             {"# T\n~~~~\n" + block + "~~~~\nc\n", outcome{true, "a", "c\n", 8, fenced(1)}},
		"fence ends the file":      {"```\n" + block + "```", outcome{true, "a", "", 7, fenced(1)}},
		"comment, broken value":    {"<!-- x -->\n---\nname: a\ndescription: b: c\n---\nd", outcome{true, "a", "d", 6, append(late(1), spot{Warning, CodeUnquotedColon, 4, 15})}},
		"comment, refused":         {"<!-- x -->\n---\nname: &a b\n---\nd", outcome{true, "", "d", 5, append(late(1), spot{Error, CodeAnchor, 3, 7})}},
		"comment, duplicate":       {"<!-- x -->\n---\nname: a\nname: b\n---\nd", outcome{true, "", "d", 6, append(late(1), spot{Error, CodeDuplicateKey, 4, 1})}},
		"rules in the text":        {"# Title\n\n---\n\nText: more\n\n---\n", outcome{false, "", "# Title\n\n---\n\nText: more\n\n---\n", 1, none}},
		"rules, a name after text": {"# Title\n---\nText\nname: a\n---\n", outcome{false, "", "# Title\n---\nText\nname: a\n---\n", 1, none}},
		"rules, other keys":        {"# Title\n---\nkey: a\n---\n", outcome{false, "", "# Title\n---\nkey: a\n---\n", 1, none}},
		"late and never closed":    {"# Title\n---\nname: a\n\n# T\n", outcome{false, "", "# Title\n---\nname: a\n\n# T\n", 1, none}},
		"text first":               {"Text\n" + block, outcome{false, "", "Text\n" + block, 1, none}},
		"text after a comment":     {"<!-- x --> y\n" + block, outcome{false, "", "<!-- x --> y\n" + block, 1, none}},
		"comment never closed":     {"<!-- x\n" + block, outcome{false, "", "<!-- x\n" + block, 1, none}},
		"fence around something":   {"```sh\nrun\n```\n" + block, outcome{false, "", "```sh\nrun\n```\n" + block, 1, none}},
		"too many lines before":    {strings.Repeat("\n", 65) + block, outcome{false, "", strings.Repeat("\n", 65) + block, 1, none}},
		"many lines before":        {strings.Repeat("\n", 64) + block + "c", outcome{true, "a", "c", 69, late(1)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, diags := Parse([]byte(tt.src))
			got := outcome{d.Front.Present, d.Front.Name, string(d.Body), d.BodyLine, spots(diags)}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			checkEverywhere(t, []byte(tt.src))
		})
	}
}

func TestFrontmatterIsClosedOnlyWhereThatIsEvident(t *testing.T) {
	t.Parallel()
	cut := func(line int, more ...spot) []spot {
		return append([]spot{{Warning, CodeClosingLineMissing, line, 1}}, more...)
	}
	unclosed := []spot{{Error, CodeUnclosedFrontmatter, 1, 1}}
	refused := func(line, column int) []spot { return []spot{{Error, CodeInvalidYAML, line, column}} }
	tests := map[string]struct {
		src  string
		want outcome
	}{
		"blank and heading":        {"---\nname: a\n\n# T\nx\n", outcome{true, "a", "# T\nx\n", 4, cut(4)}},
		"heading":                  {"---\nname: a\n# T\nx\n", outcome{true, "a", "# T\nx\n", 3, cut(3)}},
		"what may be a key":        {"---\nname: a\nx:\n  - b\n\nNote: c\nText.\n", outcome{false, "", "---\nname: a\nx:\n  - b\n\nNote: c\nText.\n", 1, unclosed}},
		"blank and text":           {"---\nname: a\nx:\n- b\n\nText, and\nNote: c\n", outcome{true, "a", "Text, and\nNote: c\n", 6, cut(6)}},
		"end of the file":          {"---\nname: a\ndescription: b", outcome{false, "", "---\nname: a\ndescription: b", 1, unclosed}},
		"and a colon":              {"---\nname: a\ndescription: b: c\n\n# T\n", outcome{true, "a", "# T\n", 5, cut(5, spot{Warning, CodeUnquotedColon, 3, 15})}},
		"by a rule of the body":    {"---\nname: a\n\n# T\nText.\n\n---\nMore.\n", outcome{true, "a", "# T\nText.\n\n---\nMore.\n", 4, cut(4)}},
		"a field after a heading":  {"---\nname: a\n\n# only reading\nallowed-tools: Read\n", outcome{false, "", "---\nname: a\n\n# only reading\nallowed-tools: Read\n", 1, unclosed}},
		"a field before the rule":  {"---\nname: a\n\n# T\nText.\nallowed-tools: Read\n---\nb", outcome{true, "", "b", 8, refused(6, 1)}},
		"a field behind a return":  {"---\nname: a\n\n# T\rallowed-tools: Read\n", outcome{false, "", "---\nname: a\n\n# T\rallowed-tools: Read\n", 1, unclosed}},
		"a field, spaced":          {"---\nname: a\n# T\nallowed-tools : Read\n\nx\n", outcome{false, "", "---\nname: a\n# T\nallowed-tools : Read\n\nx\n", 1, unclosed}},
		"a field, quoted, spaced":  {"---\nname: a\n# T\n\"x\\x2dy\" : b\n\nx\n", outcome{false, "", "---\nname: a\n# T\n\"x\\x2dy\" : b\n\nx\n", 1, unclosed}},
		"a field with a mark":      {"---\nname: a\n# T\n? user-invocable\n: false\n", outcome{false, "", "---\nname: a\n# T\n? user-invocable\n: false\n", 1, unclosed}},
		"a flag, indented":         {"---\nname: a\n# T\n  disable-model-invocation: true\n", outcome{false, "", "---\nname: a\n# T\n  disable-model-invocation: true\n", 1, unclosed}},
		"a flag with a tag":        {"---\nname: a\n# T\n!!str user-invocable: false\n", outcome{false, "", "---\nname: a\n# T\n!!str user-invocable: false\n", 1, unclosed}},
		"a flag with no blank":     {"---\nname: a\n# T\n- user-invocable:false\n", outcome{false, "", "---\nname: a\n# T\n- user-invocable:false\n", 1, unclosed}},
		"a spaced field, ruled":    {"---\nname: a\n\nfoo bar: baz: x\nallowed-tools : Read\n---\nb", outcome{true, "", "b", 7, refused(4, 13)}},
		"text with no blank":       {"---\nname: a\nText.\n", outcome{false, "", "---\nname: a\nText.\n", 1, unclosed}},
		"no name, no description":  {"---\nkey: a\n\n# T\n", outcome{false, "", "---\nkey: a\n\n# T\n", 1, unclosed}},
		"a closing line gone off":  {"---\nname: a\n ---\n", outcome{false, "", "---\nname: a\n ---\n", 1, unclosed}},
		"four dashes":              {"---\nname: a\n----\n\n# T\n", outcome{false, "", "---\nname: a\n----\n\n# T\n", 1, unclosed}},
		"an anchor":                {"---\nname: &a b\n\n# T\n", outcome{false, "", "---\nname: &a b\n\n# T\n", 1, unclosed}},
		"a duplicate":              {"---\nname: a\nname: b\n\n# T\n", outcome{false, "", "---\nname: a\nname: b\n\n# T\n", 1, unclosed}},
		"a comment in good fields": {"---\nname: a\n\n# T\nlicense: b\n---\nc", outcome{true, "a", "c", 7, nil}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, diags := Parse([]byte(tt.src))
			got := outcome{d.Front.Present, d.Front.Name, string(d.Body), d.BodyLine, spots(diags)}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			checkEverywhere(t, []byte(tt.src))
		})
	}
}

// checkEverywhere is checkWhole with every length of the input to ParseHead.
func checkEverywhere(t *testing.T, src []byte) {
	t.Helper()
	checkWhole(t, src)
	front, offset, _, diags := ParseHead(src, true)
	for n := range src {
		if f, o, enough, g := ParseHead(src[:n], false); enough && (o != offset || !cmp.Equal(f, front) || !cmp.Equal(g, diags)) {
			t.Fatalf("from %d bytes: offset %d %+v %v\nfrom all: offset %d %+v %v", n, o, f, g, offset, front, diags)
		}
	}
}

// A source may pass the first MaxHead bytes as the whole file.
func TestAtTheCapMoreOfTheFileChangesNothing(t *testing.T) {
	t.Parallel()
	fill := strings.Repeat("x", MaxHead)
	for name, src := range map[string]string{
		"unclosed":      "---\nname: a\n\n# T\n" + fill,
		"closing line":  "---\nname: a\n#" + fill[:MaxHead-len("---\nname: a\n#\n---")] + "\n---x\n",
		"heading first": "# T\n---\nname: a\n#" + fill,
		"fence":         "```\n---\nname: a\n#" + fill[:MaxHead-len("```\n---\nname: a\n#\n---\n")] + "\n---\n```\nb",
	} {
		d, diags := Parse([]byte(src))
		front, offset, enough, head := ParseHead([]byte(src[:MaxHead]), true)
		if !enough || src[offset:] != string(d.Body) || !cmp.Equal(front, d.Front) || !cmp.Equal(head, diags) {
			t.Errorf("%s: %d %v %v\n%v", name, offset, front.Name, head, diags)
		}
		checkWhole(t, []byte(src))
	}
}
