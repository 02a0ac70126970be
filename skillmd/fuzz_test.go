package skillmd

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		case s.closed && (!isFence(bytes.TrimSuffix(src[s.end:s.body], []byte("\n"))) || bytes.Contains(src[s.start:s.end], []byte("\n---\n"))):
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
