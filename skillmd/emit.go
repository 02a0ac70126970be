package skillmd

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// printable reports whether text is one line without characters that YAML refuses or changes.
func printable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, special) < 0
}

// special reports whether a character must be escaped.
func special(r rune) bool {
	return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r&0xfffe == 0xfffe
}

// quoteText writes text in the more readable quotes.
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
