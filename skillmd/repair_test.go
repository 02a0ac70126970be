package skillmd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each fault has its own code and position, and one reading.
func TestRepairReadsWhatTheAuthorTyped(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		front string
		want  spot
		json  string
	}{
		"colon":                   {"name: a\ndescription: Use when: b, c", spot{Warning, CodeUnquotedColon, 3, 22}, `{"name":"a","description":"Use when: b, c"}`},
		"colon after a wide text": {"description: éü: c", spot{Warning, CodeUnquotedColon, 2, 16}, `{"description":"éü: c"}`},
		"colon at the end":        {"description: Use: this:\nname: b", spot{Warning, CodeUnquotedColon, 2, 17}, `{"description":"Use: this:","name":"b"}`},
		"colon on a later line":   {"description: Does it.\n  Triggers: b\n\n  More.\nname: c", spot{Warning, CodeUnquotedColon, 3, 11}, `{"description":"Does it. Triggers: b\nMore.","name":"c"}`},
		"colon below the key":     {"description:\n  Does it.\n  Use when: b", spot{Warning, CodeUnquotedColon, 4, 11}, `{"description":"Does it. Use when: b"}`},
		"colon, quotes, slashes":  {`description: say "x": c:\d`, spot{Warning, CodeUnquotedColon, 2, 21}, `{"description":"say \"x\": c:\\d"}`},
		"colon, then a comment":   {"description: a: b # c: d", spot{Warning, CodeUnquotedColon, 2, 15}, `{"description":"a: b"}`},
		"colon in an unknown key": {"x-note: a: b", spot{Warning, CodeUnquotedColon, 2, 10}, `{"x-note":"a: b"}`},
		"colon, crlf":             {"description: a: b\r\nname: c\r", spot{Warning, CodeUnquotedColon, 2, 15}, `{"description":"a: b","name":"c"}`},
		"bold":                    {"description: **Bold** text", spot{Warning, CodeUnquotedIndicator, 2, 14}, `{"description":"**Bold** text"}`},
		"star":                    {"name: a\npaths: *.go", spot{Warning, CodeUnquotedIndicator, 3, 8}, `{"name":"a","paths":"*.go"}`},
		"star and colon":          {"description: *a*: b", spot{Warning, CodeUnquotedIndicator, 2, 14}, `{"description":"*a*: b"}`},
		"backtick":                {"description: `x` runs", spot{Warning, CodeUnquotedIndicator, 2, 14}, "{\"description\":\"`x` runs\"}"},
		"at":                      {"description: @x and more", spot{Warning, CodeUnquotedIndicator, 2, 14}, `{"description":"@x and more"}`},
		"comma":                   {"description: , and more", spot{Warning, CodeUnquotedIndicator, 2, 14}, `{"description":", and more"}`},
		"percent":                 {"description: %x", spot{Warning, CodeUnquotedIndicator, 2, 14}, `{"description":"%x"}`},
		"dash":                    {"description: - x", spot{Warning, CodeUnquotedIndicator, 2, 14}, `{"description":"- x"}`},
		"text after a list":       {`argument-hint: [a] | "b"`, spot{Warning, CodeTextAfterFlow, 2, 20}, `{"argument-hint":"[a] | \"b\""}`},
		"list after a list":       {"argument-hint: [a] [b]\nname: c", spot{Warning, CodeTextAfterFlow, 2, 20}, `{"argument-hint":"[a] [b]","name":"c"}`},
		"text begins in brackets": {"description: [Beta] Does\n  it: well", spot{Warning, CodeTextAfterFlow, 2, 21}, `{"description":"[Beta] Does it: well"}`},
		"surrogates":              {`description: "é \ud83e\udde0 x"`, spot{Warning, CodeSurrogateEscape, 2, 17}, `{"description":"é 🧠 x"}`},
		"surrogates, twice":       {`metadata: {"e": "\ud83e\udde0\uD83D\uDE80"}`, spot{Warning, CodeSurrogateEscape, 2, 18}, `{"metadata":{"e":"🧠🚀"}}`},
		"surrogates among others": {`description: "\ud83e\udde0 \\ud83e\\udde0 \" \ud83d\ude80"` + "\nlicense: '\\ud83e\\udde0'", spot{Warning, CodeSurrogateEscape, 2, 15}, `{"description":"🧠 \\ud83e\\udde0 \" 🚀","license":"\\ud83e\\udde0"}`},
		"two commas":              {`metadata: {"a": 1,, "b": [2,,]}`, spot{Warning, CodeLooseJSON, 2, 11}, `{"metadata":{"a":"1","b":["2"]}}`},
		"comma at the end":        {"metadata:\n  {\n    \"a\": \"x,,y\",\n  },\nname: b", spot{Warning, CodeLooseJSON, 2, 10}, `{"metadata":{"a":"x,,y"},"name":"b"}`},
		"comments in JSON":        {"metadata: {\n  // one: two\n  \"a\": \"http://x\", /* [ */ \"b\": 2,,\n}", spot{Warning, CodeLooseJSON, 2, 11}, `{"metadata":{"a":"http://x","b":"2"}}`},
		"metadata never closed":   {"metadata: {\"a\": {\"b\": 1}\nname: c", spot{Warning, CodeUnreadableField, 2, 11}, `{"metadata":"{\"a\": {\"b\": 1}","name":"c"}`},
		"metadata with nonsense":  {`metadata: {"a": [1],[2]}`, spot{Warning, CodeUnreadableField, 2, 11}, `{"metadata":"{\"a\": [1],[2]}"}`},
		"metadata map is broken":  {"metadata:\n  a: b: c\n  d: e", spot{Warning, CodeUnreadableField, 2, 10}, `{"metadata":"a: b: c\n  d: e"}`},
		"comment before the key":  {"# c\n\nname: a: b\n# d\nx: y", spot{Warning, CodeUnquotedColon, 4, 8}, `{"name":"a: b","x":"y"}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := []byte("---\n" + tt.front + "\n---\nthe body\n")
			d, diags := Parse(src)
			if diff := cmp.Diff([]spot{tt.want}, spots(diags)); diff != "" {
				t.Error(diff, diags)
			}
			if diff := cmp.Diff(tt.json, string(d.Front.JSON())); diff != "" {
				t.Error(diff)
			}
			if string(d.Body) != "the body\n" || !diags[0].Repair() {
				t.Errorf("body %q, repair %v", d.Body, diags[0].Repair())
			}
			checkWhole(t, src)
		})
	}
}

func TestRepairReportsEveryFaultAndKeepsLines(t *testing.T) {
	t.Parallel()
	d, diags := Parse([]byte("---\nname: a\ndescription: one: two\n  three\nargument-hint: [x] y\nlicense: @z\nuser-invocable: 1\nlast: b\n---\n"))
	want := []spot{{Warning, CodeUnquotedColon, 3, 17}, {Warning, CodeTextAfterFlow, 5, 20}, {Warning, CodeUnquotedIndicator, 6, 10}, {Warning, CodeFieldType, 7, 1}}
	if diff := cmp.Diff(want, spots(diags)); diff != "" {
		t.Error(diff)
	}
	lines := []int{}
	for _, f := range d.Front.Fields {
		lines = append(lines, f.Line)
	}
	if diff := cmp.Diff([]int{2, 3, 5, 6, 7, 8}, lines); diff != "" {
		t.Error(diff)
	}
}

// Unreadable allowed-tools are declared and empty, whatever they contain.
func TestRepairNeverWidens(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"[Read] | Write", "[Read, Write],", "*", "Read: Write", "\n  - Read\n  Write", "[Read", "{Read: [a],[b]}", "`Read`", ", Read", "\n  Bash(git:*)\n  x: y"} {
		src := []byte("---\nname: a\ndescription: b\nallowed-tools: " + value + "\nlicense: c\n---\n")
		d, diags := Parse(src)
		if f := d.Front; !f.AllowedToolsDeclared || len(f.AllowedTools) > 0 || !f.HasName || f.License != "c" {
			t.Errorf("%q: %+v", value, f)
		}
		if diff := cmp.Diff([]spot{{Warning, CodeUnreadableField, 4, 16}}, spots(diags)); diff != "" {
			t.Errorf("%q: %s", value, diff)
		}
		checkWhole(t, src)
	}
}

func TestRepairLeavesTheRestRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ front, code string }{
		"anchor, then a colon":            {"name: &a b\nx: c: d", CodeInvalidYAML},
		"colon, then an anchor":           {"x: c: d\nname: &a b", CodeInvalidYAML},
		"colon, then a tag":               {"x: c: d\nname: !!str b", CodeInvalidYAML},
		"colon, then a merge key":         {"x: c: d\n<<: {a: b}", CodeInvalidYAML},
		"colon, then a duplicate":         {"name: a\nx: c: d\nname: b", CodeInvalidYAML},
		"colon, then a second document":   {"x: c: d\n--- b", CodeInvalidYAML},
		"list, then a second document":    {"tags: [a] b\n--- c", CodeInvalidYAML},
		"list, then an end mark":          {"tags: [a] b\n... c", CodeInvalidYAML},
		"colon, then control characters":  {"x: c: d\ny: \a", CodeControlCharacter},
		"colon, then too deep":            {"x: c: d\ny: " + strings.Repeat("[", 40) + strings.Repeat("]", 40), CodeInvalidYAML},
		"colon behind a return":           {"x: c: d\ry: e", CodeInvalidYAML},
		"colon behind a line separator":   {"x: c: d\u2028y: e", CodeInvalidYAML},
		"star where an anchor is":         {"description: *a\nx: &a b", CodeAlias},
		"star where one may be":           {"description: **a**\nx: {b: &a b}", CodeAlias},
		"alias in a list":                 {"tags: [*a]", CodeAlias},
		"alias under a key":               {"metadata:\n  a: *b", CodeAlias},
		"alias in a broken map":           {"metadata: {a: *b, c: [1],[2]}", CodeAlias},
		"anchor in a broken map":          {"metadata: {a: &b c, c: [1],[2]}", CodeAnchor},
		"tag in a broken map":             {"metadata:\n  a: b: c\n  d: !x e", CodeInvalidYAML},
		"anchored value":                  {"description: &a b: c", CodeInvalidYAML},
		"tagged value":                    {"description: !x b: c", CodeInvalidYAML},
		"flag":                            {"name: a\ndisable-model-invocation: *true", CodeAlias},
		"other flag":                      {"name: a\nuser-invocable: false: x", CodeInvalidYAML},
		"list closes behind the next key": {"description: [a) b: c\nallowed-tools: Read\nx: ]", CodeInvalidYAML},
		"map closes behind the next key":  {"x: y: z\nmetadata: {\na: 1\n}", CodeInvalidYAML},
		"quotes close behind the next":    {"description: \"a\nallowed-tools: Read\nx: \"b\"", CodeInvalidYAML},
		"quotes never close":              {"description: \"a\nname: b", CodeInvalidYAML},
		"half a pair":                     {`description: "\ud83e x"`, CodeInvalidYAML},
		"text after quotes":               {`description: "a" b`, CodeInvalidYAML},
		"text after a block mark":         {"description: > a", CodeInvalidYAML},
		"name never closed":               {"name: [a\nx: b", CodeInvalidYAML},
		"text at the edge":                {"description: a: b\nmore\nname: c", CodeInvalidYAML},
		"other key, spaced, at the edge":  {"metadata: {a: \"b\" \"c\"}\nallowed-tools : Read", CodeInvalidYAML},
		"other key, quoted, at the edge":  {"metadata: {a: \"b\" \"c\"}\n\"disable-model-invocation\": true", CodeInvalidYAML},
		"key behind an unknown key's map": {"x: {a: \"b\" \"c\"}\n\"user-invocable\": false", CodeInvalidYAML},
		"key behind a list of tools":      {"allowed-tools: [Read], [Write]\n\"user-invocable\": false", CodeInvalidYAML},
		"key with a mark behind a map":    {"metadata: {a: \"b\" \"c\"}\n? allowed-tools\n: Read", CodeInvalidYAML},
		"tools indented below a text":     {"description: a: b\n  allowed-tools: Read", CodeInvalidYAML},
		"flag indented below a text":      {"description: a: b\n  user-invocable: false", CodeInvalidYAML},
		"flag indented below a map":       {"metadata:\n  a: b: c\n  disable-model-invocation : true", CodeInvalidYAML},
		"flag indented behind a list":     {"metadata: [a] b\n  'user-invocable': false", CodeInvalidYAML},
		"flag in brackets of its own":     {"metadata: [a] b\n  {disable-model-invocation: true}", CodeInvalidYAML},
		"comment instead of a value":      {"license: # c\n  a: b: c", CodeInvalidYAML},
		"text before the first key":       {"words\nname: a: b", CodeInvalidYAML},
		"too many keys":                   {"x: c: d\n" + numbered(300), CodeInvalidYAML},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := []byte("---\n" + tt.front + "\n---\nthe body\n")
			d, diags := Parse(src)
			if len(diags) != 1 || diags[0].Code != tt.code || diags[0].Severity != Error || diags[0].Repair() {
				t.Errorf("%v, want %s", diags, tt.code)
			}
			if !d.Front.Present || d.Front.Fields != nil || string(d.Body) != "the body\n" {
				t.Errorf("%+v, body %q", d.Front, d.Body)
			}
			checkWhole(t, src)
		})
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("k" + strings.Repeat("x", i) + ": v\n")
	}
	return b.String()
}

func TestMisspeltFieldsAreSuggestedAndHaveNoEffect(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"user-invokable": "user-invocable", "allowed_tools": "allowed-tools", "allowedTools": "allowed-tools", "When-To-Use": "when_to_use",
		"whenToUse": "when_to_use", "Description": "description", "discription": "description", "licence": "license", "desciption": "description",
		"platform": "platforms", "argument_hint": "argument-hint", "disable_model_invocation": "disable-model-invocation", "Name": "name",
		"nmae": "name", "meat": "", "version": "", "author": "", "tags": "", "tools": "", "mode": "", "path": "", "x-foo": "", "location": "", "triggers": "",
	} {
		f, diags := front(t, "x: y\n"+key+": Read")
		var need []spot
		if want != "" {
			need = []spot{{Advice, CodeMisspeltField, 3, 1}}
		}
		if diff := cmp.Diff(need, spots(diags)); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
		if want != "" && !strings.HasSuffix(diags[0].Detail, "did you mean "+want+"?") {
			t.Errorf("%s: %s", key, diags[0].Detail)
		}
		if len(f.Fields) != 2 || f.HasName || f.HasDescription || f.AllowedToolsDeclared || f.WhenToUse != "" || f.License != "" || f.UserInvocable != nil || f.Platforms != nil {
			t.Errorf("%s: %+v", key, f)
		}
	}
}
