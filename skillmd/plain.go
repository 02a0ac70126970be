package skillmd

import (
	"strings"
	"unicode/utf8"

	"metier/internal/yaml"
)

// plainLines caps how many lines are read as plain: each adds two YAML values at most, so that the library's limit on values is
// never near, and comparing every key with those before it stays cheap.
const plainLines = 256

// plain reads frontmatter that needs no YAML library, which most does not: lines `key: value`, the value text on one line, with
// or without quotes. It only ever reads what the library reads in the same way (FuzzPlain compares them); ok is false wherever the
// library might read something else or report something, and then the library is asked. So plain refuses nothing and has no
// findings of its own. The fields share one copy of the text.
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
	return fields, len(fields) > 0 // a block without a field has findings of its own
}

// plainText reports whether the text has only characters that mean the same everywhere. A tab may separate, indent or be refused.
// A CR alone, NEL, LS and PS end a line in YAML and not here, and a byte order mark may be skipped. Control characters and bytes
// that are not UTF-8 (U+FFFD stands for them) are refused with a position.
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

// plainField reads a line `key: value`. Keys are letters, digits, _, - and dots: no quotes, no ? and no << can be among them, no
// mark between documents and no directive either. The library refuses a key that is there twice. What has no value on its line
// may have one below it.
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

// plainScalar reads a value on one line, blanks around it removed. Without quotes it starts with none of the characters that have
// a meaning there, and holds no comment and no colon that could end a key.
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

// plainQuoted reads the text in quotes that s starts with; n is how many bytes that are, 0 when it is not plain. A quote in single
// quotes is doubled; in double ones \" and \\ are the escapes that are read.
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
