package reference

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzReference: no panic; a file gives fields, a message or an error, and readable files are
// printed as JSON in ASCII.
func FuzzReference(f *testing.F) {
	for _, s := range []string{"", "---\n---\n", "---\nname: a\ndescription: b\n---\n", "---\nmetadata:\n  a:\n    - 'b'\n---", "---\nname: \"\\u202e\"\n? a\n: b\n---\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, content string) {
		if !utf8.ValidString(content) {
			return
		}
		fields, message, err := parse(content)
		if (fields == nil) == (message == "" && err == nil) && len(fields) > 0 {
			t.Fatalf("fields %v, message %q, error %v", fields, message, err)
		}
		if fields == nil {
			return
		}
		fields.problems("a")
		p, err := fields.properties()
		if err != nil {
			return
		}
		b := p.JSON()
		if !json.Valid(b) {
			t.Fatalf("no JSON: %s", b)
		}
		for _, c := range b {
			if c < ' ' && c != '\n' || c > '~' {
				t.Fatalf("byte 0x%02x in %s", c, b)
			}
		}
	})
}
