package termtext_test

import (
	"strings"
	"testing"

	"metier/internal/termtext"
)

func TestWhatIsShown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, escape, line string }{
		{"", "", ""},
		{"plain ä 漢", "plain ä 漢", "plain ä 漢"},
		{" a\n\tb ", ` a\x0a\x09b `, "a b"},
		{"\x1b[31mred", `\x1b[31mred`, `\x1b[31mred`},
		{"a\u009bb", `a\x9bb`, `a\x9bb`},
		{"a\u202etxt", `a\u{202e}txt`, `a\u{202e}txt`},
		{"a\u2028b", `a\u{2028}b`, "a b"},
		{"zero\u200bwidth", `zero\u{200b}width`, `zero\u{200b}width`},
		{"tag\U000e0041", `tag\u{e0041}`, `tag\u{e0041}`},
		{"✔\ufe0f", "✔\ufe0f", "✔\ufe0f"},
		{"a\ufe0f", `a\u{fe0f}`, `a\u{fe0f}`},
		{"bad\xff", "bad\uFFFD", "bad\uFFFD"},
	} {
		if got := termtext.Escape(tt.in); got != tt.escape {
			t.Errorf("Escape(%q) is %q, want %q", tt.in, got, tt.escape)
		}
		if got := termtext.Line(tt.in); got != tt.line {
			t.Errorf("Line(%q) is %q, want %q", tt.in, got, tt.line)
		}
	}
}

func TestWordIsOneWordOfAShell(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"report": "report", "skills/é-1.md": "skills/é-1.md", "a:b@c,d=e+f": "a:b@c,d=e+f", "": "''", "two words": "'two words'", "-x": "'-x'", "~": "'~'", "=a": "'=a'",
		"`id`": "'`id`'", "$(id)": "'$(id)'", "it's": `'it'\''s'`, "a\nb": "'a b'", "a\x1bb": `'a\x1bb'`, "a\u202eb": `'a\u{202e}b'`, "a;b": "'a;b'", "%1": "'%1'", "{a,b}": "'{a,b}'",
	} {
		if got := termtext.Word(in); got != want {
			t.Errorf("Word(%q) is %s, want %s", in, got, want)
		}
	}
}

func TestQuoteIsShort(t *testing.T) {
	t.Parallel()
	if got, want := termtext.Quote("a\x00b"), `"a\x00b"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := termtext.Quote(strings.Repeat("ä", 150)), `"`+strings.Repeat("ä", 100)+`…"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
