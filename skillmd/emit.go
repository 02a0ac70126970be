package skillmd

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"metier/internal/yaml"
)

// written gives the ways to write a new field as lines, the best first. Not all of them read back as the value.
func written(f Field, l layout) []string {
	var out []string
	for _, value := range onOneLine(f.Value, 0) {
		out = append(out, l.indent+keyText(f.Key)+":"+value+l.eol)
	}
	if lines := below(f.Value, l.indent+"  "); lines != nil {
		head, rest := "", strings.Join(lines, l.eol)+l.eol
		if f.Value.Kind == Text {
			head, rest = lines[0], strings.Join(lines[1:], l.eol)+l.eol
		}
		out = append(out, l.indent+keyText(f.Key)+":"+head+l.eol+rest)
	}
	if f.Value.Kind == Text {
		out = append(out, l.indent+keyText(f.Key)+": "+doubled(f.Value.Text)+l.eol)
	}
	return out
}

// rewritten gives the ways to write a field that has lines already: in the form it had, else as a new one, with its key and the
// comment behind the value as they are.
func rewritten(old []byte, f Field, l layout) []string {
	first, _, _ := nextLine(old, 0)
	eol := l.eol
	if bytes.HasSuffix(old, []byte("\n")) {
		eol = "\n"
		if bytes.HasSuffix(old, []byte("\r\n")) {
			eol = "\r\n"
		}
	}
	first = bytes.TrimSuffix(first, []byte("\r"))
	after := colonAfterKey(first, len(l.indent))
	if after < 0 {
		return written(f, l)
	}
	head, value := string(first[:after]), string(first[after:])
	blanks := value[:len(value)-len(strings.TrimLeft(value, " \t"))]
	comment := ""
	if i := commentStart(head, value, old); i >= 0 {
		value, comment = value[:i], value[i:]
	}
	var out []string
	if value = strings.TrimSpace(value); value != "" {
		for _, text := range onOneLine(f.Value, value[0]) {
			if text != "" && strings.TrimSpace(blanks) == "" && blanks != "" {
				text = blanks + text[1:]
			}
			out = append(out, head+text+comment+eol)
		}
	}
	plain := l
	plain.eol = eol
	for _, text := range written(f, plain) {
		line, rest, _ := strings.Cut(text, eol)
		line = head + line[len(l.indent)+len(keyText(f.Key))+1:]
		if comment != "" && !strings.HasSuffix(line, "|") && !strings.HasSuffix(line, "|-") {
			line += comment
		}
		out = append(out, line+eol+rest)
	}
	return out
}

// colonAfterKey gives the offset behind the colon of the key that starts at from, or -1.
func colonAfterKey(line []byte, from int) int {
	i := from
	if i < len(line) && (line[i] == '"' || line[i] == '\'') {
		for q := line[i]; i+1 < len(line); {
			i++
			if line[i] == '\\' && q == '"' {
				i++
			} else if line[i] == q && (i+1 == len(line) || line[i+1] != q) {
				break
			}
		}
	}
	for ; i < len(line); i++ {
		if line[i] == ':' && (i+1 == len(line) || line[i+1] == ' ' || line[i+1] == '\t') {
			return i + 1
		}
	}
	return -1
}

// commentStart gives where a comment behind a value begins, with the blanks before it, or -1: where the line cut off reads as the
// whole line does. A value over lines has its comment behind | or >, or behind the colon.
func commentStart(head, value string, old []byte) int {
	_, rest, _ := bytes.Cut(old, []byte("\n"))
	want, err := yaml.Parse(old, &yaml.Options{MaxBytes: MaxHead})
	if err != nil {
		return -1
	}
	for i := range len(value) {
		if value[i] != '#' || i == 0 || value[i-1] != ' ' && value[i-1] != '\t' {
			continue
		}
		cut := len(strings.TrimRight(value[:i], " \t"))
		n, err := yaml.Parse([]byte(head+value[:cut]+"\n"+string(rest)), &yaml.Options{MaxBytes: MaxHead})
		if err == nil && n.Kind == yaml.Map && want.Kind == yaml.Map && sameFields(fieldsOf(n), fieldsOf(want)) {
			return cut
		}
	}
	return -1
}

// onOneLine gives the ways to write a value behind its colon, each with the blank before it. old is the first byte of the value
// that was there, 0 for none: quotes and brackets are kept.
func onOneLine(v Value, old byte) []string {
	switch v.Kind {
	case Null:
		return []string{"", " null"}
	case Bool:
		return []string{" " + v.Text}
	case Text:
		var out []string
		switch {
		case old == '"':
			out = append(out, " "+doubled(v.Text))
		case old == '\'':
			out = append(out, " "+singled(v.Text))
		case old != 0 && strings.IndexByte("|>[{", old) < 0 && printable(v.Text):
			out = append(out, " "+v.Text)
		}
		if safePlain(v.Text) {
			out = append(out, " "+v.Text)
		} else if !strings.Contains(v.Text, "\n") {
			out = append(out, " "+quoteText(v.Text))
		}
		return out
	}
	if text, ok := bracketed(v); ok && (old == '[' || old == '{' || len(v.List)+len(v.Map) == 0) {
		return []string{" " + text}
	}
	return nil
}

// bracketed writes a list of scalars or a map of scalars on one line.
func bracketed(v Value) (string, bool) {
	var parts []string
	for _, item := range v.List {
		if item.Kind == List || item.Kind == Map {
			return "", false
		}
		parts = append(parts, scalarIn(item, true))
	}
	for _, f := range v.Map {
		if f.Value.Kind == List || f.Value.Kind == Map {
			return "", false
		}
		parts = append(parts, keyText(f.Key)+": "+scalarIn(f.Value, true))
	}
	if v.Kind == Map {
		return "{" + strings.Join(parts, ", ") + "}", true
	}
	return "[" + strings.Join(parts, ", ") + "]", true
}

// below writes a value as lines under its key: lists, maps, and text over lines, for which the first line is the mark behind the
// colon. It is nil where that is not a way to write the value.
func below(v Value, indent string) []string {
	switch {
	case v.Kind == Text:
		return literal(v.Text, indent)
	case v.Kind == List && len(v.List) > 0:
		var out []string
		for _, item := range v.List {
			lines := below(item, indent+"  ")
			switch {
			case item.Kind == Text, lines == nil:
				lines = []string{indent + "- " + scalarIn(item, false)}
			default:
				lines[0] = indent + "- " + lines[0][len(indent)+2:]
			}
			out = append(out, lines...)
		}
		return out
	case v.Kind == Map && len(v.Map) > 0:
		var out []string
		for _, f := range v.Map {
			lines := below(f.Value, indent+"  ")
			if f.Value.Kind == Text || lines == nil {
				out = append(out, indent+keyText(f.Key)+": "+scalarIn(f.Value, false))
				continue
			}
			out = append(append(out, indent+keyText(f.Key)+":"), lines...)
		}
		return out
	}
	return nil
}

// scalarIn writes a scalar, or an empty list or map, inside a list or map; flow is in brackets.
func scalarIn(v Value, flow bool) string {
	switch {
	case v.Kind == Null:
		return "null"
	case v.Kind == Bool:
		return v.Text
	case v.Kind == List:
		return "[]"
	case v.Kind == Map:
		return "{}"
	case safePlain(v.Text) && !(flow && strings.ContainsAny(v.Text, ",[]{}:")):
		return v.Text
	}
	return quoteText(v.Text)
}

// literal writes text over lines behind |: a mark and the lines. It takes text that needs no counting of blanks.
func literal(text, indent string) []string {
	body := strings.TrimSuffix(text, "\n")
	if !strings.Contains(text, "\n") || body == "" || strings.HasSuffix(body, "\n") {
		return nil
	}
	lines := strings.Split(body, "\n")
	for i, l := range lines {
		if !printable(l) || l != "" && strings.TrimSpace(l) == "" || i == 0 && (l == "" || l[0] == ' ') || strings.TrimRight(l, " ") != l {
			return nil
		}
		if l != "" {
			lines[i] = indent + l
		}
	}
	mark := " |"
	if body == text {
		mark = " |-"
	}
	return append([]string{mark}, lines...)
}

// keyText writes a key, in quotes where it needs them.
func keyText(key string) string {
	if k, after := keyOf([]byte(key + ":")); k == key && after == len(key)+1 && key != "" {
		return key
	}
	return doubled(key)
}

// typed are texts that YAML readers of all ages take for something else.
var typed = regexp.MustCompile(`^(?i)(y|n|yes|no|on|off|true|false|null|~|[-+.]?[0-9][0-9a-fxo_.,:eE+-]*([ Tt][0-9:.Zz+ -]*)?|[-+]?\.(inf|nan))$`)

// safePlain reports text that every YAML reader takes for that text without quotes.
func safePlain(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	if text == "" || !unicode.IsLetter(r) && !unicode.IsDigit(r) || strings.TrimSpace(text) != text || typed.MatchString(text) || !printable(text) {
		return false
	}
	v, ok := plainScalar(text)
	return ok && v.Kind == Text
}

// printable reports text on one line with nothing in it that YAML refuses or reads in another way.
func printable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, special) < 0
}

// special are the characters that have to be escaped.
func special(r rune) bool {
	return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r&0xfffe == 0xfffe
}

// quoteText writes text in the quotes in which it is read most easily.
func quoteText(text string) string {
	if strings.ContainsAny(text, `"\`) && printable(text) {
		return singled(text)
	}
	return doubled(text)
}

func singled(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// doubled writes any text in double quotes.
func doubled(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case special(c) && c > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, c)
		case special(c):
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
