package skillmd

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"metier/internal/yaml"
)

func FuzzSplit(f *testing.F) {
	f.Add([]byte("---\nname: a\n---\nb"), 9, true)
	f.Add([]byte("\ufeff---\r\nname: a\r\n--- \r\n"), 12, false)
	f.Add([]byte("---\n"), 4, true)
	f.Fuzz(func(t *testing.T, src []byte, n int, complete bool) {
		s := split(src, complete)
		switch {
		case complete && !s.enough:
			t.Fatal("a complete file is not enough")
		case s.closed && (s.start > s.end || s.end > s.body || s.body > len(src) || s.problem != nil):
			t.Fatalf("bad span %+v", s)
		case s.enough && !s.closed && s.problem == nil:
			t.Fatal("neither closed nor a problem")
		case s.closed && !isFence(firstLine(src[s.end:s.body])), s.closed && bytes.Contains(src[s.start:s.end], []byte("\n---\n")),
			s.closed && bytes.Count(src[s.end:s.body], []byte("\n")) > 1 && !bytes.Contains(src[s.end:s.body], []byte("```")) && !bytes.Contains(src[s.end:s.body], []byte("~~~")):
			t.Fatalf("closed at the wrong line: %q", src[s.start:s.body])
		}
		if n < 0 || n > len(src) {
			return
		}
		if head := split(src[:n], false); head.enough && !cmp.Equal(head, split(src, true), cmp.AllowUnexported(span{})) {
			t.Fatalf("%d bytes: %+v\nall: %+v", n, head, split(src, true))
		}
	})
}

func firstLine(b []byte) []byte {
	line, _, _ := nextLine(b, 0)
	return line
}

// FuzzRepair: a repair gives the same result however often and from however little of the file it
// is read. It changes no block that YAML accepts, and never hides what is refused for safety: with
// a line of that kind at its end, no block returns any field.
func FuzzRepair(f *testing.F) {
	for _, s := range []string{
		"name: a\ndescription: Use when: b\n  more: c", "description: **bold** x\nname: `b`", "argument-hint: [a] | \"b\"\nname: @c",
		"metadata: {\"a\": \"\\ud83e\\udde0\",, // x\n}\nallowed-tools: [Read], b", "allowed-tools: *\nx: &y z", "metadata:\n  a: b: c\nname: 'd'",
		"name: a\n\n# T\nText.\n", "metadata: {\"a\": [1],[2]}\r\nname: b: c\r", "description: [a) b: c\nallowed-tools: Read\nx: ]",
		"description: %0\n", "name: a\n\n# T\rallowed-tools: b",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		file := func(tail string) []byte { return []byte("---\n" + string(block) + tail + "\n---\nbody") }
		src := file("")
		checkWhole(t, src)
		d, diags := Parse(src)
		if again, same := Parse(src); !cmp.Equal(d, again) || !cmp.Equal(diags, same) {
			t.Fatal("not the same twice")
		}
		repaired := false
		for _, g := range diags {
			repaired = repaired || g.Repair()
		}
		s := split(src, true)
		strict, err := yaml.Parse(src[s.start:s.end], &yaml.Options{MaxBytes: MaxHead, FirstLine: 2})
		if err == nil && (repaired || strict.Kind == yaml.Map && !cmp.Equal(d.Front.Fields, fieldsOf(strict))) {
			t.Fatalf("YAML takes it, yet %v %+v", diags, d.Front.Fields)
		}
		if s.end != len(src)-len("\n---\nbody")+1 { // the block closes itself
			return
		}
		for _, tail := range []string{"\nzz: &anchor v", "\nzz: !!str v", "\n<<: {a: b}", "\nzz: 1\nzz: 2", "\n--- zz", "\n%YAML 1.1\n--- zz", "\nzz: \x00", "\nzz: \x1b[0m"} {
			if got, diags := Parse(file(tail)); got.Front.Fields != nil {
				t.Fatalf("with %q: %+v %v", tail, got.Front.Fields, diags)
			}
		}
		for _, first := range []string{"zz: &anchor v\n", "zz: !!str v\n", "<<: {a: b}\n", "%YAML 1.1\n", "zz: 1\nzz: 2\n", "zz: [*anchor]\n", "--- zz\n"} {
			if got, diags := Parse([]byte("---\n" + first + string(block) + "\n---\nbody")); got.Front.Fields != nil {
				t.Fatalf("with %q: %+v %v", first, got.Front.Fields, diags)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "---\nname: a\ndescription: b\n---\nc", "---\nallowed-tools: [Read, Bash(git:*)]\nmetadata: {a: [b]}\n---\n", "---\nx: \"\\u00e9\"\n---"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		src := bytes.Clone(in) // cleared below; the fuzzer's own bytes must stay
		checkWhole(t, src)
		d, diags := Parse(src)
		for _, g := range diags {
			if g.Code == "" || g.Detail == "" || g.Severity == "" || g.Line < 0 || (g.Line == 0) != (g.Column == 0) {
				t.Fatalf("incomplete diagnostic %+v", g)
			}
		}
		before := d.Front.JSON()
		if !json.Valid(before) {
			t.Fatalf("JSON of the frontmatter: %s", before)
		}
		FirstParagraph(d.Body)
		clear(src) // the frontmatter must not share the file's memory
		if !bytes.Equal(before, d.Front.JSON()) {
			t.Fatal("the frontmatter changed with the file's bytes")
		}
	})
}

// FuzzAllowedTools: a text gives the same patterns in every shape that YAML has for it. None is
// empty, nothing outside of brackets separates within one, and together they contain all of the
// text except its separators.
func FuzzAllowedTools(f *testing.F) {
	for _, s := range []string{"", "Read", "Read, Write", "Bash(git:*) Bash(npm run *),Read", "mcp__x__* stitch*:*", "Bash(a, (b c) [d e]) {f g}", "Read) Write", "Bash(git Write", " ,\t, ", "-", "true", "1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) || len(s) > MaxHead/8 {
			return
		}
		var got []string
		for i, shape := range []string{"%s", "[%s]", "\n  - %s", "\n- %s", "[%s, '']"} {
			front, diags := parseFront([]byte("allowed-tools: "+strings.Replace(shape, "%s", doubled(s), 1)+"\n"), 2)
			if !front.AllowedToolsDeclared || len(diags) > 0 {
				t.Fatalf("%s: not declared, %v", shape, diags)
			}
			if i == 0 {
				got = front.AllowedTools
			}
			if !cmp.Equal(got, front.AllowedTools) {
				t.Fatalf("%q as %s is %q, was %q", s, shape, front.AllowedTools, got)
			}
		}
		const separators = " \t\r\n,"
		separates := func(r rune) bool { return r == ',' || unicode.IsSpace(r) }
		rest := s
		for _, pattern := range got {
			at := strings.Index(rest, pattern)
			if pattern == "" || at < 0 || strings.TrimFunc(rest[:at], separates) != "" {
				t.Fatalf("%q gives %q: %q is not what comes next in %q", s, got, pattern, rest)
			}
			rest = rest[at+len(pattern):]
			open := 0
			for i := range len(pattern) {
				switch c := pattern[i]; {
				case strings.IndexByte("([{", c) >= 0:
					open++
				case strings.IndexByte(")]}", c) >= 0 && open > 0:
					open--
				case open == 0 && strings.IndexByte(separators, c) >= 0:
					t.Fatalf("%q gives %q: %q holds a separator", s, got, pattern)
				}
			}
		}
		if strings.TrimFunc(rest, separates) != "" {
			t.Fatalf("%q gives %q: %q is lost", s, got, rest)
		}
		if again := splitList(nil, strings.Join(got, ", "), separators); !cmp.Equal(again, got) {
			t.Fatalf("%q gives %q, and those %q", s, got, again)
		}
	})
}

// typicalHead is a frontmatter of the median length of published skills, about 400 bytes.
const typicalHead = `---
name: release-notes
description: Writes release notes from merged changes and groups them by area. Use when the user asks for a changelog, for
  release notes, or for a summary of what changed between two versions.
license: Apache-2.0
compatibility: needs git 2.40 or newer
allowed-tools: Bash(git log:*) Bash(git diff:*) Read
metadata:
  author: example
  version: "1.10"
  tags: [git, notes]
---
`

func BenchmarkParseHead(b *testing.B) {
	src := append([]byte(typicalHead), bytes.Repeat([]byte("A line of the body.\n"), 180)...)[:4096]
	b.ReportAllocs()
	b.SetBytes(int64(len(typicalHead)))
	for b.Loop() {
		if f, _, enough, _ := ParseHead(src, false); !enough || !f.HasName {
			b.Fatal("not parsed")
		}
	}
}
