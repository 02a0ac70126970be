// Package termtext escapes untrusted text so that it can neither control a terminal nor hide:
// characters without a visible glyph are escaped.
package termtext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape escapes control characters, invisible characters, and line breaks as \x1b or \u{202e}.
// Invalid UTF-8 becomes U+FFFD. All other text is unchanged.
func Escape(s string) string {
	i := strings.IndexFunc(s, Escaped)
	if i < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	before := rune(0)
	for _, r := range s {
		// A single U+FE0F after a symbol selects its color form.
		if r == 0xfe0f && before >= 0x2000 && !Escaped(before) || !Escaped(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(escape(r))
		}
		before = r
	}
	return b.String()
}

// Line is like Escape, but first replaces each run of white space, and of letters that look like it, with a
// space.
func Line(s string) string {
	return Escape(strings.Join(strings.FieldsFunc(s, blank), " "))
}

// blank reports whether a character is white space or looks like it: the Braille pattern without dots, and
// the fillers of Hangul.
func blank(r rune) bool {
	return unicode.IsSpace(r) || r == 0x2800 || r == 0x115f || r == 0x1160 || r == 0x3164 || r == 0xffa0
}

// Quote escapes up to 200 bytes of s and puts them in quotes, for messages.
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

// Escaped reports whether a character is a control character, breaks a line, or is invisible.
func Escaped(r rune) bool {
	switch {
	case r < 0x20 || r >= 0x7f && r < 0xa0:
		return true
	case r < 0xa0:
		return false
	}
	return Hidden(r) || r == 0x2028 || r == 0x2029
}

// Hidden reports whether a character has no width of its own: zero-width, bidirectional, tag, and
// variation characters, fillers, noncharacters, and controls except white space.
func Hidden(r rune) bool {
	if r < 0xad {
		return r < 0x20 && r != '\t' && r != '\n' && r != '\v' && r != '\f' && r != '\r' || r >= 0x7f && r < 0xa0 && r != 0x85
	}
	return unicode.In(r, unicode.Cf, unicode.Co, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef
}
