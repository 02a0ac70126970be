package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"metier"
)

// document prints one JSON document on standard output.
func (a *app) document(v any) error {
	b, err := compact(v)
	if err != nil {
		return err
	}
	_, err = a.Out.Write(append(indented(nil, b, 0), '\n'))
	return err
}

// put prints a document with --json, and text otherwise.
func (a *app) put(v any, text func()) error {
	if a.json {
		return a.document(v)
	}
	text()
	return nil
}

// documentOfSkills prints the document of `list --json` row by row, because with many skills the
// document is much larger than the skills in memory.
func (a *app) documentOfSkills(snap *metier.Snapshot, chosen []metier.Skill, others []otherFolder) error {
	const chunk = 64 << 10
	b, err := compact(diagnostics(snap.Diagnostics()))
	if err != nil {
		return err
	}
	out := indented(append(make([]byte, 0, 2*chunk), "{\n  \"diagnostics\": "...), b, 1)
	if b, err = compact(others); err != nil {
		return err
	}
	out = indented(append(out, ",\n  \"notSearched\": "...), b, 1)
	out = append(out, ",\n  \"skills\": ["...)
	for i, sk := range chosen {
		if i > 0 {
			out = append(out, ',')
		}
		if b, err = compact(rowOf(snap, sk)); err != nil {
			return err
		}
		out = indented(append(out, "\n    "...), b, 2)
		if len(out) < chunk {
			continue
		}
		if _, err := a.Out.Write(out); err != nil {
			return err
		}
		out = out[:0]
	}
	if len(chosen) > 0 {
		out = append(out, "\n  "...)
	}
	_, err = a.Out.Write(append(out, "]\n}\n"...))
	return err
}

// compact returns JSON without white space and without HTML escaping.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// indented appends compact JSON, indented by two spaces below a line of the given depth. Invisible
// characters are escaped.
func indented(out, src []byte, depth int) []byte {
	var b bytes.Buffer
	_ = json.Indent(&b, src, strings.Repeat("  ", depth), "  ") // it is JSON
	return append(out, harmless(b.Bytes())...)
}

// harmless escapes invisible characters, which does not change the meaning of the JSON.
func harmless(b []byte) []byte {
	var out []byte
	from := 0
	for i := 0; i < len(b); {
		if b[i] < 0x7f {
			i++
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		if hides(r) {
			out = append(out, b[from:i]...)
			for _, u := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, u)
			}
			from = i + n
		}
		i += n
	}
	if from == 0 {
		return b
	}
	return append(out, b[from:]...)
}
