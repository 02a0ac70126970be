// Package termtext shows untrusted text so that it can neither act on a terminal
// nor hide: what has no glyph of its own becomes an escape that has one.
package termtext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape writes control and invisible characters, and those that break a line,
// as \x1b or \u{202e}; bytes that are not UTF-8 become U+FFFD. All else stays.
func Escape(s string) string {
	i := strings.IndexFunc(s, Escaped)
	if i < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	before := rune(0)
	for _, r := range s {
		// One U+FE0F after a symbol asks for its coloured form.
		if r == 0xfe0f && before >= 0x2000 && !Escaped(before) || !Escaped(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(escape(r))
		}
		before = r
	}
	return b.String()
}

// Line is Escape on one line: each run of white space is one space.
func Line(s string) string {
	return Escape(strings.Join(strings.FieldsFunc(s, unicode.IsSpace), " "))
}

// Quote is Escape in quotes, for messages: at most 200 bytes of s.
func Quote(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return `"` + Escape(s) + `"`
}

func escape(r rune) string {
	if r < 0xa0 {
		return fmt.Sprintf(`\x%02x`, r)
	}
	return fmt.Sprintf(`\u{%x}`, r)
}

// Escaped reports whether a character is a control, breaks a line, or cannot be
// seen.
func Escaped(r rune) bool {
	switch {
	case r < 0x20 || r >= 0x7f && r < 0xa0:
		return true
	case r < 0xa0:
		return false
	}
	return Hidden(r) || r == 0x2028 || r == 0x2029
}

// Hidden reports whether a character has no width of its own: zero-width,
// bidirectional, tag and variation characters, fillers, noncharacters, and
// controls but white space.
func Hidden(r rune) bool {
	if r < 0xad {
		return r < 0x20 && r != '\t' && r != '\n' && r != '\v' && r != '\f' && r != '\r' || r >= 0x7f && r < 0xa0 && r != 0x85
	}
	return unicode.In(r, unicode.Cf, unicode.Co, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef
}
