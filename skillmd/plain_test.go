package skillmd

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
)

// checkPlain makes the library read what plain accepted, and reports whether plain
// accepted it.
func checkPlain(t *testing.T, text []byte) bool {
	t.Helper()
	if _, ok := plain(text, 2); !ok {
		return false
	}
	got, found := parseFront(text, 2)
	want, asked := parseYAML(text, 2)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%q (-library +plain):\n%s", text, diff)
	}
	if diff := cmp.Diff(asked, found); diff != "" {
		t.Errorf("%q: findings (-library +plain):\n%s", text, diff)
	}
	return true
}

// plainTexts are read without the library.
var plainTexts = map[string]string{
	"texts":                    "name: a\ndescription: Does b (c:d), e#f; g\u00a0é 🧠.\nx.y_z-1:   spaced  out   \n",
	"quotes":                   "a: 'b: c # d \\n'\nb: \"it's: d # e\"\nc: ''\nd: \"\"\ne: 'true'\n",
	"numbers and dates":        "a: 1.10\nb: 2024-01-01\nc: 0o14\nd: 12:30:45\ne: .5\nf: =\ng: <<\nh: <b>\n",
	"kinds":                    "a: true\nb: False\nc: null\nd: NULL\ne: yes\nf:\ng: truer\n",
	"a flag":                   "disable-model-invocation: true\nuser-invocable: \"false\"\n",
	"findings about fields":    "name:\n  a: b\nallowed_tools: Read\nuser-invocable: often\nmetadata: a\n",
	"no value at the end":      "name: a\nmetadata:\n\n \n",
	"a map":                    "name: a\nmetadata:\n    a: b\n\n    c: 'd: e'\n    f:\n    version: \"1.10\"\nlicense: MIT\n",
	"a list":                   "allowed-tools:\n  - Read\n  -   'Bash(git: *)'\n\n  - true\nname: a\n",
	"a list at the edge":       "paths:\n- a/**\n- b\nname: a\n",
	"a literal text":           "a: |\n  b: c # d\n    e  \n\n  - f\n\n\nname: g\n",
	"a stripped text":          "a: |-\n b\n c\n\nb: >-\n  d\n  e\n",
	"a folded text":            "a: >\n  b \n  c\n\n  d\n\n\n  e: f\nname: g\n\n",
	"a text over lines at end": "a: >\n  b\n\n\n",
	"windows line ends":        "name: a\r\n\r\nx: |\r\n  b\r\n\r\n  c\r\ny: >\r\n  d\r\n  e\r\nz:\r\n  - f\r\n",
	"a flow list":              "a: [b, c d, 'e, f', \"g] h\", 1.0, true, null]\nb: []\nc: [ ]\nd: [[e], [f, {g: h}]]\n",
	"a flow map":               "a: {b: c, \"d\":e, \"<<\": x, 'f': 'it''s', g: [h], i: {}}\nmetadata: {\"é\": {\"x\": \"🦞\", \"y\": [\"z\"]}, \"k\":\"v\"}  \n",
	"escaped quotes":           "a: \"b \\\"c\\\" \\\\ d\"\nb: 'it''s'\nc: ''''\nd: [\"e\\\"\", 'f''']\n",
	"levels":                   "m:\n  a:\n    b: c\n    d:\n      e: |\n        f\n      g: [h]\n  i:\n    - j\n    - k\n  l:\n  n: >-\n   o\n   p\nq: r\n",
	"a null below":             "m:\n  a:\n    b:\nc: d\n",
	"a prefix of two keys":     "a: b\nab: c\nmetadata:\n  a: b\n  ab: c\n",
}

// otherTexts are left to the library, some because it reads them in its own way, others because it
// refuses them.
var otherTexts = map[string]string{
	"nothing": "", "blank": "\n \n", "no line end": "a: b", "only a CR": "a: b\rc: d\n", "a CR at the end": "a: b\r",
	"a tab": "a:\tb\n", "a tab in a text": "a: |\n  b\tc\n", "NUL": "a: \x00\n", "escape": "a: \x1b[0m\n", "DEL": "a: \x7f\n",
	"NEL": "a: b\u0085c: d\n", "LS": "a: b\u2028c: d\n", "PS": "a: b\u2029c: d\n", "a mark in front": "\ufeffa: b\n",
	"a mark in a line": "a: b\n\ufeffc: d\n", "not UTF-8": "a: caf\xe9\n", "a non-character": "a: \uffff\n",
	"a comment": "# a\nb: c\n", "a comment behind": "a: b # c\n", "a comment behind quotes": "a: 'b' # c\n", "a comment for a value": "a: #b\n",
	"colon in a value": "a: b: c\n", "colon at the end": "a: b:\n", "text behind quotes": "a: 'b' c\n", "an open quote": "a: 'b\n",
	"one quote": "a: \"\n", "an escape": "a: \"b\\tc\"\n", "open quote escaped": "a: \"b\\\"\n", "two quotes": "a: \"b\" \"c\"\n",
	"an anchor": "a: &b c\n", "an alias": "a: *b\n", "bold text": "a: **b** c\n", "a tag": "a: !!str b\n",
	"a directive": "%YAML 1.2\n---\na: b\n", "a backtick": "a: `b`\n", "an at sign": "a: @b\n",
	"a percent sign": "a: %b\n", "a dash": "a: -1\n", "a question mark": "a: ? b\n", "a null sign": "a: ~\nb: ,\n",
	"a document mark": "a: b\n--- c\n", "a document end": "a: b\n...\n", "a second document": "a: b\n---\nc: d\n", "a merge key": "<<:\n  a: b\n",
	"a key in quotes": "'a': b\n", "a key with a blank": "a b: c\n", "a key with a colon": "a:b: c\n", "a number for a key": "1: a\n",
	"a key of other letters": "é: a\n", "a complex key": "? a\n: b\n", "no key": ": a\n", "no colon": "a\n", "a key twice": "a: b\nc: d\na: e\n",
	"a nested key twice": "m:\n  a: b\n  a: c\n", "a line that goes on": "a: b\n  c\n", "a line that goes on after a blank": "a: b\n\n  c\n",
	"a quoted line that goes on": "a: 'b\n  c'\n", "a value on the next line": "a:\n  b\n", "an indented map": "  a: b\n  c: d\n",
	"a list at the top": "- a\n- b\n", "a nested line that goes on": "m:\n  a: b\n    c\n", "a nested line too far left": "m:\n  a: b\n c: d\n",
	"a list in a map":      "m:\n  a:\n  - b\n",
	"an item that goes on": "a:\n  - b\n    c\n", "an empty item": "a:\n  - \n  - b\n", "a bare dash": "a:\n  -\n  - b\n", "a map in a list": "a:\n  - b: c\n",
	"a list in a list": "a:\n  - - b\n", "a key among items": "a:\n  - b\n  c: d\n", "an item among keys": "a:\n  b: c\n  - d\n", "an item after a value": "a: b\n- c\n",
	"a list with a comment": "a:\n  # b\n  - c\n", "kept line ends": "a: |+\n  b\n\n", "a given indentation": "a: |2\n   b\n", "text behind the mark": "a: > b\n",
	"a comment behind the mark": "a: | # b\n  c\n", "a blank first line": "a: |\n\n  b\n", "a line of blanks": "a: |\n  b\n   \n  c\n",
	"a short line of blanks": "a: |\n  b\n \n  c\n", "a text without lines": "a: |\nb: c\n", "a text without lines at the end": "a: |\n", "a folded line further right": "a: >\n  b\n    c\n  d\n",
	"a comma at the end": "a: [b, ]\n", "two commas": "a: [b,, c]\n", "a list that goes on": "a: [b,\n  c]\n", "text behind a list": "a: [b] c\n",
	"a comment behind a list": "a: [b] # c\n", "an alias in a list": "a: [*b]\n", "a pair in a list": "a: [b: c]\n", "a key alone": "a: {b}\n",
	"a key without a value": "a: {b:}\n", "no blank behind a word": "a: {b:c}\n", "a key twice in a map": "a: {b: c, b: d}\n", "a merge key in a map": "a: {<<: b}\n",
	"a word with a hash": "a: [b #c]\n", "a dash in a list": "a: [-1]\n", "a bracket too many": "a: [b]]\n", "an open bracket": "a: [b\n",
	"an address": "a: [http://b]\n", "another escape": "a: \"b\\u00e9\"\n", "a long key": "a: {" + strings.Repeat("b", 120) + ": c}\n",
	"a list at its key, below": "m:\n  a:\n  - b\n  c: d\n", "a column between": "m:\n  a:\n      b: c\n    d: e\n",
	"too deep": "a:\n b:\n  c:\n   d:\n    e:\n     f:\n      g:\n       h:\n        i:\n         j: k\n", "too deep in brackets": "a: " + strings.Repeat("[", 12) + strings.Repeat("]", 12) + "\n",
	"too many values":          "a: [" + strings.Repeat("b, ", 2100) + "c]\n",
	"a text line too far left": "a: |\n   b\n c\n", "a text of blanks": "a: |\n   \n",
}

func TestPlainFrontmatterReadsAsTheLibraryDoes(t *testing.T) {
	t.Parallel()
	for name, text := range plainTexts {
		if !checkPlain(t, []byte(text)) {
			t.Errorf("%s: %q is left to the library", name, text)
		}
	}
}

func TestWhatIsNotPlainIsLeftToTheLibrary(t *testing.T) {
	t.Parallel()
	for name, text := range otherTexts {
		if fields, ok := plain([]byte(text), 2); ok {
			t.Errorf("%s: %q is plain: %+v", name, text, fields)
		}
	}
	var many strings.Builder
	for i := range plainLines {
		fmt.Fprintf(&many, "k%d: v\n", i)
	}
	if !checkPlain(t, []byte(many.String())) {
		t.Errorf("%d lines are left to the library", plainLines)
	}
	for name, text := range map[string]string{"lines": many.String() + "\n", "bytes": "a: " + strings.Repeat("b", MaxHead) + "\n"} {
		if _, ok := plain([]byte(text), 2); ok {
			t.Errorf("too many %s are plain", name)
		}
	}
}

// Every value of a few characters and every block of a few lines, from characters with a meaning:
// the library reads what plain accepts in the same way.
func TestEveryShortPlainTextReadsAsTheLibraryDoes(t *testing.T) {
	t.Parallel()
	taken, tried := 0, 0
	try := func(text string) {
		tried++
		if checkPlain(t, []byte(text)) {
			taken++
		}
	}
	combine([]string{"b", " ", "'", "\"", "\\", "[", "]", "{", "}", ",", ":", "#", "-"}, 4, func(v string) { try("a: " + v + "\n") })
	combine([]string{"b", " ", "\"", "[", "]", "{", "}", ",", ":"}, 5, func(v string) { try("a: " + v + "\n") })
	combine([]string{"\n", "a:\n", "b: c\n", "- d\n", " a:\n", " b: c\n", " - d\n", "  b: c\n", "  - d\n", "a: |\n", " a: >-\n", " e\n", "  f\n"}, 4, try)
	t.Logf("%d of %d texts are plain", taken, tried)
	if taken*1000 < tried {
		t.Error("too few texts are plain to say anything")
	}
}

// combine returns every text of at most n parts.
func combine(parts []string, n int, try func(string)) {
	var grow func(text string, n int)
	grow = func(text string, n int) {
		for _, p := range parts {
			try(text + p)
			if n > 1 {
				grow(text+p, n-1)
			}
		}
	}
	grow("", n)
}

// Compares both ways on the corpus' skills. At least plainShare percent must not need the library.
func TestPlainCorpus(t *testing.T) {
	t.Parallel()
	const plainShare = 90
	dir := testenv.Corpus(t)
	heads, taken := 0, 0
	for _, v := range testenv.Verdicts[verdict](t, dir) {
		src := readSkill(t, filepath.Join(dir, filepath.FromSlash(v.Dir)), v)
		s := split(src, true)
		if !s.closed {
			continue
		}
		heads++
		if checkPlain(t, src[s.start:s.end]) {
			taken++
		}
	}
	if taken*100 < heads*plainShare {
		t.Errorf("%d of %d frontmatters are plain, want %d%%", taken, heads, plainShare)
	}
	t.Logf("%d of %d frontmatters are plain", taken, heads)
}

// FuzzPlain: the library reads what plain accepts as the same Front with the same findings, and
// nothing of it points into the text.
func FuzzPlain(f *testing.F) {
	for _, texts := range []map[string]string{plainTexts, otherTexts} {
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			f.Add([]byte(texts[name]))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		checkPlain(t, in)
		text := append(bytes.Clone(in), '\n') // most texts of the fuzzer have no line end, which is never plain
		if !checkPlain(t, text) {
			return
		}
		front, _ := parseFront(text, 2)
		before := front.JSON()
		clear(text)
		if !bytes.Equal(before, front.JSON()) {
			t.Fatal("the frontmatter changed with the text's bytes")
		}
	})
}

// plainHead is typicalHead as most skills would write it: each value on one line, no list in
// brackets.
const plainHead = `name: release-notes
description: Writes release notes from merged changes and groups them by area. Use when the user asks for a changelog, for release notes, or for a summary of what changed between two versions.
license: Apache-2.0
compatibility: needs git 2.40 or newer
allowed-tools: Bash(git log:*) Bash(git diff:*) Read
metadata:
  author: example
  version: "1.10"
  tags: git, notes
`

// BenchmarkParseFront reads one frontmatter without and with the library; "refused" is the cost of
// plain when it does not accept the text.
func BenchmarkParseFront(b *testing.B) {
	text := []byte(plainHead)
	late := []byte(plainHead + "x: *a\n")
	if _, ok := plain(text, 2); !ok {
		b.Fatal("not plain")
	}
	for _, way := range []struct {
		name string
		run  func()
	}{
		{"plain", func() { parseFront(text, 2) }},
		{"library", func() { parseYAML(text, 2) }},
		{"refused", func() { plain(late, 2) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				way.run()
			}
		})
	}
}

// BenchmarkParseCorpus reads all frontmatters of the corpus once, normally and with only the
// library.
func BenchmarkParseCorpus(b *testing.B) {
	dir := testenv.Corpus(b)
	var heads [][]byte
	for _, v := range testenv.Verdicts[verdict](b, dir) {
		src := readSkill(b, filepath.Join(dir, filepath.FromSlash(v.Dir)), v)
		if s := split(src, true); s.closed {
			heads = append(heads, src[s.start:s.end])
		}
	}
	for name, read := range map[string]func([]byte, int) (Front, []Diagnostic){"plain": parseFront, "library": parseYAML} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for _, h := range heads {
					read(h, 2)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(heads)), "ns/head")
		})
	}
}
