package skillmd

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
)

// Every file of the corpus is written back unchanged, and most that need a repair can be
// repaired.
func TestCorpusIsWrittenBack(t *testing.T) {
	t.Parallel()
	dir := testenv.Corpus(t)
	n, repaired, left := 0, 0, 0
	for _, v := range testenv.Verdicts[verdict](t, dir) {
		src := readSkill(t, filepath.Join(dir, filepath.FromSlash(v.Dir)), v)
		n++
		if !bytes.Equal(Open(src).Bytes(), src) {
			t.Errorf("%s: not the same bytes", v.Dir)
		}
		f := Open(src)
		needs := slices.ContainsFunc(f.Diagnostics(), Diagnostic.Repair)
		if needs {
			repaired++
			checkFix(t, src)
			if f.Fix(); slices.ContainsFunc(f.Diagnostics(), Diagnostic.Repair) {
				left++
			}
		}
	}
	t.Logf("%d files, %d had to be repaired, %d of them need a person", n, repaired, left)
	if n < 300 || repaired-left < 10 || left > 5 {
		t.Errorf("%d files, %d repaired, %d left", n, repaired, left)
	}
}

// checkFix repairs a file and compares its values before and after.
func checkFix(t *testing.T, src []byte) {
	t.Helper()
	f := Open(src)
	old, before := f.doc.Front, f.Diagnostics()
	done := f.Fix()
	if len(done) == 0 && !bytes.Equal(f.Bytes(), src) || len(f.Diagnostics()) > len(before)-len(done) {
		t.Fatalf("%q is %q: fixed %v of %v, left %v", src, f.Bytes(), done, before, f.Diagnostics())
	}
	renamed := slices.Clone(old.Fields)
	for i, o := range f.doc.Front.Fields {
		if i < len(renamed) && renamed[i].Key != o.Key && meantField(renamed[i].Key) == o.Key {
			renamed[i].Key = o.Key
		}
	}
	if !sameFields(renamed, f.doc.Front.Fields) {
		t.Fatalf("%q is %q: %+v, was %+v", src, f.Bytes(), f.doc.Front.Fields, old.Fields)
	}
	for _, d := range f.Diagnostics() {
		if !slices.ContainsFunc(before, func(o Diagnostic) bool { return o.Code == d.Code }) {
			t.Fatalf("%q is %q, which has a new finding: %v", src, f.Bytes(), d)
		}
	}
	once := f.Bytes()
	if again := Open(once); len(again.Fix()) != 0 || !bytes.Equal(again.Bytes(), once) {
		t.Fatalf("%q fixed twice is %q", once, again.Bytes())
	}
}

func TestFixWritesWhatWasRead(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ src, want string }{
		"a colon":             {"---\nname: a\ndescription: Use when: b # c\nx: y # z\n---\nB", "---\nname: a\ndescription: \"Use when: b\" # c\nx: y # z\n---\nB"},
		"a colon over lines":  {"---\r\ndescription: Use when: b\r\n  \"more\"\r\nx: y\r\n---\r\n", "---\r\ndescription: 'Use when: b \"more\"'\r\nx: y\r\n---\r\n"},
		"bold":                {"---\nname: a\ndescription: **b** c\n---\n", "---\nname: a\ndescription: \"**b** c\"\n---\n"},
		"text after a list":   {"---\nargument-hint: [a] | \"b\"\n---\n", "---\nargument-hint: '[a] | \"b\"'\n---\n"},
		"halves of an escape": {"---\nx: \"a\\ud83e\\udde0\\u00e9\\U0001f600\"\ny: b\n---\n", "---\nx: \"a🧠\\u00e9\\U0001f600\"\ny: b\n---\n"},
		"loose JSON":          {"---\nmetadata: {\n  \"a\": 1, // b\n  // c\n  \"d\": [2,,],\n}\n---\n", "---\nmetadata: {\n  \"a\": 1,\n  \"d\": [2, ],\n}\n---\n"},
		"a fence":             {"```markdown\n---\nname: a\n---\nB\n```sh\nx\n```\nC\n```\n\n", "---\nname: a\n---\nB\n```sh\nx\n```\nC\n\n"},
		"a fence around it":   {"\ufeff```\n---\nname: a\n---\n```\nB", "\ufeff---\nname: a\n---\nB"},
		"an open fence":       {"```\n---\nname: a\n---\n```sh\nx\n```\n", "---\nname: a\n---\n```sh\nx\n```\n"},
		"a comment before":    {"<!-- c -->\n# T\n\n---\nname: a\n---\nB\n", "---\nname: a\n---\n<!-- c -->\n# T\n\nB\n"},
		"blank lines before":  {"\n\n---\nname: a\n---", "---\nname: a\n---"},
		"a comment, no body":  {"# T\n---\nname: a\n---", "---\nname: a\n---\n# T\n"},
		"no closing line":     {"---\nname: a: b\n\n# T\ntext\n", "---\nname: \"a: b\"\n\n---\n# T\ntext\n"},
		"closed by a rule":    {"---\nname: a\ndescription: b\n\n# T\ntext\n\n---\nmore\n", "---\nname: a\ndescription: b\n\n---\n# T\ntext\n\n---\nmore\n"},
		"misspelt":            {"---\nuser-invokable: false\nallowed_tools: [Read] # r\n\"Description\": b\n---\n", "---\nuser-invocable: false\nallowed-tools: [Read] # r\n\"description\": b\n---\n"},
		"misspelt, but no":    {"---\nname: a\nNAME: b\ndescripton: [c]\n---\n", "---\nname: a\nNAME: b\ndescripton: [c]\n---\n"},
		"beyond repair":       {"---\nname: a: b\nallowed-tools: [Read], b\n---\n", "---\nname: \"a: b\"\nallowed-tools: [Read], b\n---\n"},
		"nothing":             {"---\nname: a\n---\n", "---\nname: a\n---\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkFix(t, []byte(tt.src))
			f := Open([]byte(tt.src))
			f.Fix()
			if diff := cmp.Diff(tt.want, string(f.Bytes())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzWriteBack: an unchanged file has the same bytes; repairing a file changes no
// value.
func FuzzWriteBack(f *testing.F) {
	for _, s := range []string{"\ufeff---\r\nname:  'a'  # short\r\nx-foo: {b: [1, 2]} # kept\r\n---\r\nBody\r\n", "---\nname: a\n---\n", "# T\n", "---\n\"a b\": |+\n  c\n\n# d\nx: [y]\n---\nB",
		"---\nname: a: b\n---\n", "```\n---\nname: **a**\n---\n```\n", "---\na: b\r\r\rc: d\u2028e: f\n---\n", "---\nuser-invokable: false\n---\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if !bytes.Equal(Open(src).Bytes(), src) {
			t.Fatal("not the same bytes")
		}
		checkFix(t, src)
	})
}
