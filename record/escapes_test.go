package record_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"metier/record"
)

// writers are the ways in which programs write one character.
var writers = map[string]func(r rune) string{
	"as it is":       func(r rune) string { return string(r) },
	"percent":        func(r rune) string { return percent(r, "%%%02X") },
	"percent, lower": func(r rune) string { return percent(r, "%%%02x") },
	"percent twice":  func(r rune) string { return percent(r, "%%25%02X") },
	"quoted":         func(r rune) string { return percent(r, "=%02X") },
	"C":              func(r rune) string { return percent(r, `\x%02x`) },
	"octal":          func(r rune) string { return percent(r, `\%03o`) },
	"JSON":           func(r rune) string { return units(r, `\u%04x`) },
	"JSON, upper":    func(r rune) string { return units(r, `\u%04X`) },
	"JSON in JSON":   func(r rune) string { return units(r, `\\u%04x`) },
	"escape()":       func(r rune) string { return units(r, "%%u%04X") },
	"JavaScript":     func(r rune) string { return fmt.Sprintf(`\u{%x}`, r) },
	"Python":         func(r rune) string { return fmt.Sprintf(`\U%08x`, r) },
	"HTML":           func(r rune) string { return fmt.Sprintf("&#%d;", r) },
	"HTML, hex":      func(r rune) string { return fmt.Sprintf("&#x%X;", r) },
}

func percent(r rune, format string) string {
	out := ""
	for _, b := range []byte(string(r)) {
		out += fmt.Sprintf(format, b)
	}
	return out
}

func units(r rune, format string) string {
	out := ""
	for _, u := range utf16.Encode([]rune{r}) {
		out += fmt.Sprintf(format, u)
	}
	return out
}

// encodings are complete encoders in common use.
var encodings = map[string]func(string) string{
	"url.PathEscape":  url.PathEscape,
	"url.QueryEscape": url.QueryEscape,
	"encodeURI": func(s string) string {
		return strings.NewReplacer("%2F", "/", "%3A", ":", "%40", "@", "%3D", "=", "%2B", "+", "%26", "&", "%27", "'", "%21", "!", "+", "%20").Replace(url.QueryEscape(s))
	},
	"encodeURIComponent": func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") },
	"json.Marshal":       func(s string) string { b, _ := json.Marshal(s); return string(b[1 : len(b)-1]) },
	"JSON, slashes": func(s string) string {
		b, _ := json.Marshal(s)
		return strings.ReplaceAll(string(b[1:len(b)-1]), "/", `\/`)
	},
	"JSON in JSON": func(s string) string {
		b, _ := json.Marshal(s)
		c, _ := json.Marshal(string(b))
		return string(c[3 : len(c)-3])
	},
	"JSON, ASCII":              func(s string) string { q := strconv.QuoteToASCII(s); return q[1 : len(q)-1] },
	"html.EscapeString":        html.EscapeString,
	"single quotes":            func(s string) string { return strings.ReplaceAll(s, "'", `'\''`) },
	"printf %q":                func(s string) string { return regexp.MustCompile(`[^\w./-]`).ReplaceAllString(s, `\$0`) },
	"regexp.QuoteMeta":         regexp.QuoteMeta,
	"hex":                      func(s string) string { return hex.EncodeToString([]byte(s)) },
	"HEX":                      func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"base64":                   func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64, escaped":          func(s string) string { return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("ab" + s))) },
	"base64, in lines":         func(s string) string { return inLines(base64.StdEncoding.EncodeToString([]byte("ab"+s)), 4, "\n") },
	"base64, in lines of mail": func(s string) string { return inLines(base64.StdEncoding.EncodeToString([]byte(s)), 7, "\r\n") },
	"base64, in lines in JSON": func(s string) string { return inLines(base64.StdEncoding.EncodeToString([]byte("a"+s)), 5, `\n`) },
	"hex, in lines":            func(s string) string { return inLines(hex.EncodeToString([]byte(s)), 1, "\n") },
	"base64, slashes": func(s string) string {
		return strings.ReplaceAll(base64.RawStdEncoding.EncodeToString([]byte("a"+s)), "/", `\/`)
	},
	"base64url":             func(s string) string { return base64.URLEncoding.EncodeToString([]byte("abc" + s)) },
	"HTML in JSON":          func(s string) string { b, _ := json.Marshal(html.EscapeString(s)); return string(b[1 : len(b)-1]) },
	"PathEscape in Marshal": func(s string) string { b, _ := json.Marshal(url.PathEscape(s)); return string(b) },
}

const secretLetters = `abcXYZ019 /+=%&<>"'\$-_.~:@!{}é世😀`

func TestRedact_FindsEveryEncoding(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		value := rapid.StringOfN(rapid.SampledFrom([]rune(secretLetters)), 8, 24, -1).Draw(rt, "value")
		name := rapid.SampledFrom(sorted(encodings)).Draw(rt, "encoding")
		r := record.Redact(record.NewMemory(), record.Secret{Name: "KEY", Value: value})
		text := "before " + encodings[name](value) + " after"
		if got, found := r.Clean([]byte(text)); found["KEY"] != 1 {
			rt.Fatalf("%s of %q is kept: %q", name, value, got)
		}
	})
}

// Each character may be written in another way than the previous one.
func TestRedact_FindsAnyMixOfEscapes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		value := rapid.StringOfN(rapid.SampledFrom([]rune(secretLetters)), 8, 24, -1).Draw(rt, "value")
		r := record.Redact(record.NewMemory(), record.Secret{Name: "KEY", Value: value})
		var b strings.Builder
		for i, c := range value {
			b.WriteString(writers[rapid.SampledFrom(sorted(writers)).Draw(rt, fmt.Sprint(i))](c))
		}
		got, found := r.Clean([]byte("<" + b.String() + ">"))
		if found["KEY"] != 1 {
			rt.Fatalf("%q of %q is kept: %q", b.String(), value, got)
		}
		cut := rapid.IntRange(0, b.Len()).Draw(rt, "cut")
		var streamed strings.Builder
		s := r.Stream(func(p []byte) { streamed.Write(p) })
		for _, p := range []string{"<", b.String()[:cut], b.String()[cut:], ">"} {
			if _, err := s.Write([]byte(p)); err != nil {
				rt.Fatal(err)
			}
		}
		if s.Close(false); streamed.String() != string(got) {
			rt.Fatalf("in pieces %q, whole %q", streamed.String(), got)
		}
	})
}

// Text without the secret is unchanged, including escapes.
func TestRedact_KeepsOtherText(t *testing.T) {
	t.Parallel()
	r := record.Redact(record.NewMemory(), record.Secret{Name: "KEY", Value: "hunter2/hunter2"})
	for _, text := range []string{"", "%", "%2", "%zz%41", `\`, `\u`, `\u00`, `\\\\\\`, "&", "&amp", "&#;", "&#xzz;", "'", "=", "hunter2", "hunter2%2Fhunter", "100% of it's 'fine' & good \\o/ a=b+c", "aHVudGVyMg=="} {
		got, found := r.Clean([]byte(text))
		if diff := cmp.Diff(text, string(got)); diff != "" {
			t.Errorf("%q (%v): %s", text, found, diff)
		}
	}
}

func sorted[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// inLines breaks text into lines of n bytes.
func inLines(text string, n int, end string) string {
	var lines []string
	for part := range slices.Chunk([]byte(text), n) {
		lines = append(lines, string(part))
	}
	return strings.Join(lines, end)
}
