package yaml

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sketch writes a tree as "kind/style@line:column" with texts, so that a table can contain
// it.
func sketch(n *Node) string {
	styles := [...]string{"plain", "single", "double", "literal", "folded", "flow", "block"}
	head := fmt.Sprintf("%s@%d:%d", styles[n.Style], n.Line, n.Column)
	switch n.Kind {
	case Map:
		parts := make([]string, 0, len(n.Entries))
		for _, e := range n.Entries {
			parts = append(parts, fmt.Sprintf("%s@%d:%d=%s", e.Key.Text, e.Key.Line, e.Key.Column, sketch(e.Value)))
		}
		return head + "{" + strings.Join(parts, " ") + "}"
	case List:
		parts := make([]string, 0, len(n.Items))
		for _, item := range n.Items {
			parts = append(parts, sketch(item))
		}
		return head + "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprintf("%s=%q", head, n.Text)
}

func TestParseKeepsSourceText(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ src, want string }{
		"float":         {"a: 1.10", `block@1:1{a@1:1=plain@1:4="1.10"}`},
		"date":          {"a: 2024-01-01", `block@1:1{a@1:1=plain@1:4="2024-01-01"}`},
		"norway":        {"a: no", `block@1:1{a@1:1=plain@1:4="no"}`},
		"octal":         {"a: 0o14\nb: 010", `block@1:1{a@1:1=plain@1:4="0o14" b@2:1=plain@2:4="010"}`},
		"big number":    {"a: 123456789012345678901234567890", `block@1:1{a@1:1=plain@1:4="123456789012345678901234567890"}`},
		"sexagesimal":   {"a: 12:30:45", `block@1:1{a@1:1=plain@1:4="12:30:45"}`},
		"single quotes": {"a: 'it''s'", `block@1:1{a@1:1=single@1:4="it's"}`},
		"double quotes": {`a: "x\ty"`, `block@1:1{a@1:1=double@1:4="x\ty"}`},
		"literal":       {"a: |\n  x\n  y\n", `block@1:1{a@1:1=literal@1:4="x\ny\n"}`},
		"folded":        {"a: >-\n  x\n  y\n", `block@1:1{a@1:1=folded@1:4="x y"}`},
		"continued":     {"a: one\n  two\nb: x", `block@1:1{a@1:1=plain@1:4="one two" b@3:1=plain@3:4="x"}`},
		"flow":          {"a: [b, {c: d}]", `block@1:1{a@1:1=flow@1:4[plain@1:5="b" flow@1:8{c@1:9=plain@1:12="d"}]}`},
		"block list":    {"a:\n  - b\n  - c", `block@1:1{a@1:1=block@2:3[plain@2:5="b" plain@3:5="c"]}`},
		"wide columns":  {"a: [é, ü, b]", `block@1:1{a@1:1=flow@1:4[plain@1:5="é" plain@1:8="ü" plain@1:11="b"]}`},
		"crlf":          {"a: b\r\nc: d\r\n", `block@1:1{a@1:1=plain@1:4="b" c@2:1=plain@2:4="d"}`},
		"quoted merge":  {`"<<": a`, `block@1:1{<<@1:1=plain@1:7="a"}`},
		"bom":           {"\ufeffa: b", `block@1:1{a@1:1=plain@1:4="b"}`},
		"empty":         {"", `plain@1:1=""`},
		"comments only": {"# a\n\n# b\n", `plain@1:1=""`},
		"no value":      {"a:", `block@1:1{a@1:1=plain@1:3=""}`},
		"number key":    {"1: a", `block@1:1{1@1:1=plain@1:4="a"}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, err := Parse([]byte(tt.src), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, sketch(n)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	laughs := "a: &a [x, x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
	tests := map[string]struct {
		src          string
		code         Code
		line, column int
	}{
		"billion laughs":      {laughs, Anchor, 1, 4},
		"self alias":          {"a: &a [*a]", Anchor, 1, 4},
		"alias":               {"a: 1\nb: *c", Alias, 2, 4},
		"bold value":          {"a: **x** y", Alias, 1, 4},
		"anchor on key":       {"&k a: b", Anchor, 1, 1},
		"binary tag":          {"a: !!binary eA==", Tag, 1, 4},
		"string tag":          {"a: !!str x", Tag, 1, 4},
		"python tag":          {"a: !!python/object:os.system x", Tag, 1, 4},
		"local tag":           {"a: !x [b]", Tag, 1, 4},
		"bare tag":            {"a: ! b", Tag, 1, 4},
		"tag on key":          {"!!str a: b", Tag, 1, 1},
		"merge key":           {"x: 1\n<<: {a: 1}", MergeKey, 2, 1},
		"duplicate key":       {"a: 1\nb: 2\n\"a\": 3", DuplicateKey, 3, 1},
		"nested duplicate":    {"x: {a: 1, a: 2}", DuplicateKey, 1, 11},
		"list key":            {"? [a]\n: b", ComplexKey, 1, 3},
		"second document":     {"a: 1\n---\nb: 2", SecondDocument, 2, 1},
		"document after end":  {"a: 1\n...\nb: 2", SecondDocument, 3, 1},
		"directive":           {"# c\n%YAML 1.1\n---\na: 1", Directive, 2, 1},
		"nul":                 {"a: b\nc: \x00", NUL, 2, 4},
		"bell":                {"é: \a", ControlCharacter, 1, 4},
		"escape":              {"a: \x1b[0m", ControlCharacter, 1, 4},
		"non-character":       {"a: \uffff", ControlCharacter, 1, 4},
		"latin 1":             {"a: caf\xe9", NotUTF8, 1, 7},
		"surrogate bytes":     {"a: \xed\xa0\x80", NotUTF8, 1, 4},
		"colon in value":      {"a: b\nc: use when: d", Syntax, 2, 12},
		"unclosed list":       {"a: [1,2\n", Syntax, 2, 1},
		"backtick":            {"a: `b`", Syntax, 1, 4},
		"tab indent":          {"a:\n\tb: c", Syntax, 2, 1},
		"surrogate escapes":   {`a: "\ud83e\udde0"`, Syntax, 1, 7},
		"deep flow":           {strings.Repeat("[", 60_000), TooDeep, 1, 33},
		"deep flow map":       {strings.Repeat("{a: ", 100), TooDeep, 1, 129},
		"deep block":          {strings.Repeat("- ", 100) + "a", TooDeep, 1, 65},
		"deep mixed":          {strings.Repeat("- ", 20) + strings.Repeat("[", 20) + strings.Repeat("]", 20), TooDeep, 1, 53},
		"too large":           {"a: " + strings.Repeat("x", 64<<10), TooLarge, 1, 1},
		"too many":            {"a: [" + strings.Repeat("x,", 9000) + "]", TooManyNodes, 1, 16383},
		"unknown alias first": {"*a", Alias, 1, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, err := Parse([]byte(tt.src), nil)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, %v; want %s", n, err, tt.code)
			}
			got := Error{Line: e.Line, Column: e.Column, Code: e.Code}
			if diff := cmp.Diff(Error{Line: tt.line, Column: tt.column, Code: tt.code}, got); diff != "" {
				t.Errorf("%s\n%s", e.Msg, diff)
			}
			if len(e.Msg) > 300 {
				t.Errorf("message of %d bytes", len(e.Msg))
			}
		})
	}
}

func TestParseDepthCountsCollections(t *testing.T) {
	t.Parallel()
	nest := func(n int) []byte { return []byte(strings.Repeat("[", n) + "a" + strings.Repeat("]", n)) }
	if _, err := Parse(nest(DefaultMaxDepth), nil); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := Parse(nest(DefaultMaxDepth+1), nil); err == nil {
		t.Error("over the limit: accepted")
	}
	if _, err := Parse(nest(5), &Options{MaxDepth: 4}); err == nil {
		t.Error("over a limit of 4: accepted")
	}
}

func TestParseFirstLineShiftsEveryPosition(t *testing.T) {
	t.Parallel()
	o := &Options{FirstLine: 10}
	n, err := Parse([]byte("a: b\nc: [d]\n"), o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sketch(n), `block@10:1{a@10:1=plain@10:4="b" c@11:1=flow@11:4[plain@11:5="d"]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for src, want := range map[string]string{
		"a: b\na: c":    `11:1: key "a" is already set on line 10`,
		"a: b\nc: d: e": `11:5: ": " inside an unquoted value; put the value in quotes`,
		"a: b\nc: \x01": "11:4: control character U+0001",
		"a: b\n---\nc:": "11:1: a second YAML document; exactly one is allowed",
		"a: 'b\nc: d\n": "12:1: found unexpected end of stream while scanning a quoted scalar that starts on line 10",
	} {
		if _, err := Parse([]byte(src), o); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", src, err, want)
		}
	}
}

func TestParseKeepsNoReferenceToItsInput(t *testing.T) {
	t.Parallel()
	src := []byte("name: value\nlist: [a, 'b', \"c\"]\ntext: |\n  line\n")
	n, err := Parse(src, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := sketch(n)
	for i := range src {
		src[i] = '#'
	}
	if got := sketch(n); got != before {
		t.Errorf("tree changed with its input:\n%s\n%s", before, got)
	}
}

func TestNullAndBool(t *testing.T) {
	t.Parallel()
	type reading struct{ Null, Bool, Value bool }
	tests := map[string]reading{
		"a:":           {Null: true},
		"a: ~":         {Null: true},
		"a: NULL":      {Null: true},
		"a: 'null'":    {},
		"a: nil":       {},
		"a: true":      {Bool: true, Value: true},
		"a: False":     {Bool: true},
		"a: 'true'":    {},
		"a: yes":       {},
		"a: on":        {},
		"a: [true]":    {},
		"a: |\n  true": {},
	}
	for src, want := range tests {
		n, err := Parse([]byte(src), nil)
		if err != nil {
			t.Fatal(err)
		}
		v := n.Entries[0].Value
		got := reading{Null: v.Null()}
		got.Value, got.Bool = v.Bool()
		if got != want {
			t.Errorf("%q: got %+v, want %+v", src, got, want)
		}
	}
}
