package skillmd

import (
	"strings"
	"unicode/utf8"

	"metier/internal/yaml"
)

// plainLines is the maximum number of plain lines. Each adds at most two YAML values, so the library's limit on values is never
// reached, and comparing every key with the earlier ones stays cheap.
const plainLines = 256

// plain reads frontmatter that needs no YAML library, as most does: `key: value` lines whose value
// is text on one line, with or without quotes. Its result always equals that of the library
// (FuzzPlain compares them). ok is false if the library might return another result or findings,
// and then the library must parse the text. So plain refuses nothing and returns no findings. The
// fields share one copy of the text.
func plain(text []byte, line int) (fields []Field, ok bool) {
	if !plainText(text) {
		return nil, false
	}
	for l := range strings.Lines(string(text)) {
		if l = strings.TrimRight(l, " \r\n"); l != "" {
			f, ok := plainField(l, fields)
			if !ok {
				return nil, false
			}
			f.Line, f.Column = line, 1
			fields = append(fields, f)
		}
		line++
	}
	return fields, len(fields) > 0 // the library has findings for a block without a field
}

// plainText reports whether the text has only characters with a single meaning. A tab may separate,
// indent, or be refused. A lone CR, NEL, LS, and PS end a line only in YAML, and a byte order mark
// may be skipped. The library refuses control characters and invalid UTF-8 (U+FFFD here) with a
// position.
func plainText(text []byte) bool {
	if len(text) > MaxHead || len(text) == 0 || text[len(text)-1] != '\n' {
		return false
	}
	lines := 0
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c >= ' ' && c < 0x7f:
			i++
			continue
		case c == '\n':
			if lines++; lines > plainLines {
				return false
			}
			i++
			continue
		case c == '\r' && text[i+1] == '\n': // the last byte is \n, so there is a next one
			i++
			continue
		case c < utf8.RuneSelf:
			return false
		}
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError, r < 0xa0, r == '\u2028', r == '\u2029', r == '\ufeff', r == 0xfffe, r == 0xffff:
			return false
		}
		i += size
	}
	return true
}

// plainField reads a line `key: value`. Keys consist of letters, digits, _, -, and dots, which
// excludes quotes, ?, <<, document markers, and directives. The library refuses duplicate keys. A
// key without a value on its line may have one below it.
func plainField(l string, before []Field) (f Field, ok bool) {
	key, value, found := strings.Cut(l, ": ") // the line does not end in a blank, so there is a value
	if !found || key == "" || strings.ContainsFunc(key, func(c rune) bool { return !isKeyRune(c) }) || strings.IndexByte("-.0123456789", key[0]) >= 0 {
		return f, false
	}
	if _, twice := lookup(before, key); twice {
		return f, false
	}
	v, ok := plainScalar(strings.TrimLeft(value, " "))
	return Field{Key: key, Value: v}, ok
}

// plainScalar reads a value on one line, without surrounding spaces. An unquoted value must not start with an indicator character,
// and must not contain a comment or a colon that could end a key.
func plainScalar(s string) (Value, bool) {
	switch q := s[0]; {
	case q == '\'' || q == '"':
		text, n := plainQuoted(s)
		return Value{Text: text}, n == len(s)
	case strings.IndexByte("-?:,[]{}#&*!|>%@`", q) >= 0, s[len(s)-1] == ':', strings.Contains(s, ": "), strings.Contains(s, " #"):
		return Value{}, false
	}
	return valueOf(&yaml.Node{Text: s}), true // the library's rule for null, true and false
}

// plainQuoted reads the quoted text at the start of s; n is its length in bytes, or 0 if it is not plain. In single quotes, a quote
// is doubled. In double quotes, only the escapes \" and \\ are read.
func plainQuoted(s string) (text string, n int) {
	q := s[0]
	i := 1 + strings.IndexByte(s[1:], q)
	if i > 0 && !(q == '"' && strings.IndexByte(s[:i], '\\') >= 0 || i+1 < len(s) && q == '\'' && s[i+1] == q) {
		return s[1:i], i + 1 // most texts: nothing to copy
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		next := s[min(i+1, len(s)-1)]
		switch c := s[i]; {
		case c == q && q == '\'' && i+1 < len(s) && next == q, c == '\\' && q == '"' && i+1 < len(s) && (next == '"' || next == '\\'):
			b.WriteByte(next)
			i++
		case c == q:
			return b.String(), i + 1
		case c == '\\' && q == '"':
			return "", 0
		default:
			b.WriteByte(c)
		}
	}
	return "", 0
}
