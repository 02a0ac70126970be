package skillmd

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
)

func text(s string) Value { return Value{Text: s} }

func list(items ...string) Value {
	v := Value{Kind: List}
	for _, i := range items {
		v.List = append(v.List, text(i))
	}
	return v
}

const editable = "\ufeff---\r\n# about\r\nname:  'a'  # short\r\nx-foo: {b: [1, 2]} # kept\r\n\r\n# the text\r\ndescription: >-\r\n  One\r\n  two.\r\n\r\n# end\r\nlicense: MIT\r\n---\r\nBody  \r\n---\r\n"

func TestAChangeRewritesTheLinesOfItsFieldAlone(t *testing.T) {
	t.Parallel()
	const odd = "---\nname: a\nlist: [x, y] # both\nmetadata: # more\n  a: b\ntext: |+\n  c\n\n---\n"
	tests := map[string]struct {
		src, old, new string // old is put in the place of new
		change        func(*File) error
	}{
		"quotes and comment stay":  {editable, "name:  'a'  # short", "name:  'b''s: c'  # short", set("name", text("b's: c"))},
		"a block becomes one line": {editable, "description: >-\r\n  One\r\n  two.", "description: Three.", set("description", text("Three."))},
		"text over lines":          {editable, "license: MIT", "license: |\r\n  One\r\n\r\n  two", set("license", text("One\n\ntwo\n"))},
		"no quotes needed":         {editable, "license: MIT", "license: Apache 2.0", set("license", text("Apache 2.0"))},
		"quotes needed":            {editable, "license: MIT", `license: "MIT: yes"`, set("license", text("MIT: yes"))},
		"escapes needed":           {editable, "license: MIT", `license: "a\u0007\\b"`, set("license", text("a\a\\b"))},
		"a list":                   {editable, "license: MIT", "license:\r\n  - MIT\r\n  - \"1.0\"", set("license", list("MIT", "1.0"))},
		"a new field":              {editable, "license: MIT\r\n", "license: MIT\r\nversion: \"1.10\"\r\n", set("version", text("1.10"))},
		"a new key in quotes":      {editable, "license: MIT\r\n", "license: MIT\r\n\"a: b\": c\r\n", set("a: b", text("c"))},
		"removed":                  {editable, "license: MIT\r\n", "", remove("license")},
		"a block removed":          {editable, "description: >-\r\n  One\r\n  two.\r\n", "", remove("description")},
		"absent, removed":          {editable, "", "", remove("nothing")},
		"the same value":           {editable, "", "", set("name", text("a"))},
		"renamed":                  {editable, "x-foo:", "x-bar:", func(f *File) error { return f.Rename("x-foo", "x-bar") }},
		"a list in brackets":       {odd, "[x, y] # both", "[x, 'y, \"z\"', \"-\"] # both", set("list", list("x", `y, "z"`, "-"))},
		"a map over lines":         {odd, "metadata: # more\n  a: b", "metadata: # more\n  c:\n    - d\n  e: {}\n  f: null", set("metadata", Value{Kind: Map, Map: []Field{{Key: "c", Value: list("d")}, {Key: "e", Value: Value{Kind: Map}}, {Key: "f", Value: Value{Kind: Null}}}})},
		"text for a map":           {odd, "metadata: # more\n  a: b", "metadata: c # more", set("metadata", text("c"))},
		"a flag":                   {odd, "name: a", "name: true", set("name", Value{Kind: Bool, Text: "true"})},
		"the text of a flag":       {odd, "name: a", `name: "true"`, set("name", text("true"))},
		"behind kept line ends":    {odd, "  c\n\n", "  c\n\nx: z\n", set("x", text("z"))},
		"kept line ends go along":  {odd, "text: |+\n  c\n\n", "", remove("text")},
		"a frontmatter where none": {"\ufeff# T\n", "# T", "---\nname: a\n---\n# T", set("name", text("a"))},
		"a field where none is":    {"---\n# T\n---\nb", "# T\n", "# T\nname: a\n", set("name", text("a"))},
		"the last field goes":      {"---\nname: a # b\n---\nb", "name: a # b\n", "", remove("name")},
		"an empty file":            {"", "", "", func(f *File) error { return errors.Join(f.Set("a", "b"), f.Remove("a")) }},
		"lines end in Mac style":   {"---\na: b\r\r\rc: d\re: f\n---\n", "c: d\r", "c: g\n", set("c", text("g"))},
		"lines end in Unicode":     {"---\na: b\u2028\u2029c: d\u0085\ne: f\n---\n", "c: d\u0085\n", "c: g\n", set("c", text("g"))},
		"an indented map":          {"---\n  a: b\n  c: d\n---\n", "  c: d\n", "  c: d\n  e: f\n", set("e", text("f"))},
		"a key in quotes":          {"---\n\"a: b\": c\n---\n", ": c", `: "d #"`, set("a: b", text("d #"))},
		"a list of maps and lists": {"---\na: b\n---\n", "a: b", "a:\n  - c: d\n    e: f\n  - - g",
			set("a", Value{Kind: List, List: []Value{{Kind: Map, Map: []Field{{Key: "c", Value: text("d")}, {Key: "e", Value: text("f")}}}, {Kind: List, List: []Value{text("g")}}}})},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := strings.Replace(tt.src, tt.old, tt.new, 1)
			f := Open([]byte(tt.src))
			if err := tt.change(f); err != nil {
				t.Fatal(err)
			}
			if name == "an empty file" {
				want = "---\n---\n"
			}
			if diff := cmp.Diff(want, string(f.Bytes())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func set(key string, v Value) func(*File) error {
	return func(f *File) error { return f.SetValue(key, v) }
}
func remove(key string) func(*File) error { return func(f *File) error { return f.Remove(key) } }

func TestWhatCannotBeKeptIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		src, code string
		change    func(*File) error
	}{
		"needs a repair":       {"---\nname: a: b\n---\n", EditUnreadable, set("x", text("y"))},
		"in a fence":           {"```\n---\nname: a\n---\n```\n", EditUnreadable, set("x", text("y"))},
		"never closed":         {"---\nname: a\n", EditUnreadable, set("x", text("y"))},
		"a merge key":          {"---\n<<: {a: b}\n---\n", EditUnreadable, set("x", text("y"))},
		"UTF-16":               {"\xff\xfe-\x00", EditUnreadable, set("x", text("y"))},
		"all in brackets":      {"---\n{name: a,\n x: b}\n---\n", EditLayout, set("x", text("y"))},
		"a list":               {"---\n- a\n---\n", EditLayout, set("x", text("y"))},
		"a complex key":        {"---\n? a\n: b\n---\n", EditLayout, set("a", text("y"))},
		"not UTF-8":            {"---\nname: a\n---\n", EditValue, set("x", text("\xe9"))},
		"a key twice":          {"---\nname: a\n---\n", EditValue, set("x", Value{Kind: Map, Map: []Field{{Key: "a"}, {Key: "a"}}})},
		"no flag":              {"---\nname: a\n---\n", EditValue, set("x", Value{Kind: Bool, Text: "maybe"})},
		"too long":             {"---\nname: a\n---\n", EditUnkept, set("x", text(strings.Repeat("b", MaxHead-8)))},
		"renamed to another":   {"---\nname: a\nx: b\n---\n", EditKey, func(f *File) error { return f.Rename("x", "name") }},
		"renamed from nowhere": {"---\nname: a\n---\n", EditKey, func(f *File) error { return f.Rename("x", "y") }},
		"a merge key made":     {"---\nname: a\n---\n", EditUnkept, func(f *File) error { return f.Rename("name", "<<") }},
	}
	for name, tt := range tests {
		f := Open([]byte(tt.src))
		err := tt.change(f)
		var e *EditError
		if !errors.As(err, &e) || e.Code != tt.code || e.Detail == "" {
			t.Errorf("%s: %v, want %s", name, err, tt.code)
		}
		if string(f.Bytes()) != tt.src {
			t.Errorf("%s: the file was changed: %q", name, f.Bytes())
		}
	}
}

// Every file of the corpus comes back as it is, takes a new license unless it has to be mended first, and is itself again without it.
func TestCorpusIsWrittenBack(t *testing.T) {
	t.Parallel()
	dir := testenv.Corpus(t)
	n, changed, repaired, left := 0, 0, 0, 0
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
			checkMend(t, src)
			if f.Mend(); slices.ContainsFunc(f.Diagnostics(), Diagnostic.Repair) {
				left++
				continue
			}
		}
		before := f.Bytes()
		if _, has := f.Front().Lookup("x-new"); has || f.Front().Fields == nil {
			continue
		}
		if err := f.Set("x-new", "one: two"); err != nil {
			t.Errorf("%s: %v", v.Dir, err)
			continue
		}
		changed++
		if err := f.Remove("x-new"); err != nil || !bytes.Equal(f.Bytes(), before) {
			t.Errorf("%s: %v: not the same bytes after adding and removing", v.Dir, err)
		}
		checkSet(t, before, "description", text("Other: text"))
	}
	t.Logf("%d files, %d took a field; %d had to be repaired, %d of them need a person", n, changed, repaired, left)
	if n < 300 || changed < 270 || repaired-left < 10 || left > 5 {
		t.Errorf("%d files, %d changed, %d repaired, %d left", n, changed, repaired, left)
	}
}

// checkSet changes one field and compares all else.
func checkSet(t *testing.T, src []byte, key string, v Value) {
	t.Helper()
	f := Open(src)
	old := f.Front()
	body := f.doc.Body
	err := f.SetValue(key, v)
	got := f.Bytes()
	if err != nil {
		var e *EditError
		if !errors.As(err, &e) || e.Code == "" || !bytes.Equal(got, src) {
			t.Fatalf("%q %q: %v, %q", src, key, err, got)
		}
		return
	}
	d, diags := Parse(got)
	want := slices.Clone(old.Fields)
	i := slices.IndexFunc(want, func(o Field) bool { return o.Key == key })
	if i < 0 {
		i, want = len(want), append(want, Field{Key: key})
	}
	want[i].Value = v
	if !sameFields(want, d.Front.Fields) || !bytes.Equal(d.Body, body) || slices.ContainsFunc(diags, Diagnostic.Repair) {
		t.Fatalf("%q with %q: %+v is\n%q\n%+v %v", src, key, v, got, d.Front.Fields, diags)
	}
	// The text before the field's lines and the text behind them are there as they were.
	if l, err := Open(src).layout(key); err == nil && !bytes.Equal(got, src) {
		from, to := l.end, l.end
		if at := l.index(key); at >= 0 {
			from, to = l.places[at].start, l.places[at].full
		}
		if !bytes.HasPrefix(got, src[:from]) || !bytes.HasSuffix(got, src[to:]) {
			t.Fatalf("%q with %q: more was rewritten than %q: %q", src, key, src[from:to], got)
		}
	}
	if err := f.SetValue(key, v); err != nil || !bytes.Equal(f.Bytes(), got) {
		t.Fatalf("%q: the second change gives %q, %v", got, f.Bytes(), err)
	}
	if err := f.Remove(key); err == nil {
		d, _ := Parse(f.Bytes())
		if !sameFields(slices.Delete(want, i, i+1), d.Front.Fields) || !bytes.Equal(d.Body, body) {
			t.Fatalf("%q without %q is %q", got, key, f.Bytes())
		}
	}
}

// checkMend mends a file and compares what it says before and after.
func checkMend(t *testing.T, src []byte) {
	t.Helper()
	f := Open(src)
	old, before := f.Front(), f.Diagnostics()
	done := f.Mend()
	if len(done) == 0 && !bytes.Equal(f.Bytes(), src) || len(f.Diagnostics()) > len(before)-len(done) {
		t.Fatalf("%q is %q: mended %v of %v, left %v", src, f.Bytes(), done, before, f.Diagnostics())
	}
	renamed := slices.Clone(old.Fields)
	for i, o := range f.Front().Fields {
		if i < len(renamed) && renamed[i].Key != o.Key && meantField(renamed[i].Key) == o.Key {
			renamed[i].Key = o.Key
		}
	}
	if !sameFields(renamed, f.Front().Fields) {
		t.Fatalf("%q is %q: %+v, was %+v", src, f.Bytes(), f.Front().Fields, old.Fields)
	}
	for _, d := range f.Diagnostics() {
		if !slices.ContainsFunc(before, func(o Diagnostic) bool { return o.Code == d.Code }) {
			t.Fatalf("%q is %q, which has a new finding: %v", src, f.Bytes(), d)
		}
	}
	once := f.Bytes()
	if again := Open(once); len(again.Mend()) != 0 || !bytes.Equal(again.Bytes(), once) {
		t.Fatalf("%q mended twice is %q", once, again.Bytes())
	}
}

func TestMendWritesWhatWasRead(t *testing.T) {
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
			checkMend(t, []byte(tt.src))
			f := Open([]byte(tt.src))
			f.Mend()
			if diff := cmp.Diff(tt.want, string(f.Bytes())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzWriteBack: nothing changed is the same bytes; a changed field has the new value, and all else is as it was; mending a file
// changes no value.
func FuzzWriteBack(f *testing.F) {
	for _, s := range []string{editable, "---\nname: a\n---\n", "# T\n", "---\n\"a b\": |+\n  c\n\n# d\nx: [y]\n---\nB", "---\nname: a: b\n---\n", "```\n---\nname: **a**\n---\n```\n", "---\na: b\r\r\rc: d\u2028e: f\n---\n"} {
		f.Add([]byte(s), "name", "b: c", false)
		f.Add([]byte(s), "x y", "1\n2\n", true)
	}
	f.Fuzz(func(t *testing.T, src []byte, key, value string, many bool) {
		if !bytes.Equal(Open(src).Bytes(), src) {
			t.Fatal("not the same bytes")
		}
		checkMend(t, src)
		v := text(value)
		if many {
			v = list(strings.Split(value, "\n")...)
		}
		checkSet(t, src, key, v)
		mended := Open(src)
		mended.Mend()
		checkSet(t, mended.Bytes(), key, v)
	})
}
