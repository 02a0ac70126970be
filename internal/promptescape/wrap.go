// Package promptescape escapes untrusted text for use inside metier's output for a model: in an
// element, in an attribute, or in a list item.
package promptescape

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"metier/internal/termtext"
)

// elements are the elements that metier wraps text in. Text from a skill, a resource, or a file
// must not open or close one of them, or it could pass for text from another source.
var elements = []string{"skill_context", "skill_content", "skill_resources", "skill_resource", "skill_catalog", "available_skills",
	"system-reminder", "workspace_file", "program_output", "subagent_report", "web_page", "mcp_result"}

// Neutralize makes untrusted text safe inside metier's elements. It escapes the angle bracket of
// each look-alike tag and counts them. It recognizes any case; white space, slashes, or invisible
// characters anywhere; and the wide bracket. All other bytes stay unchanged.
func Neutralize(s string) (string, int) {
	var b strings.Builder
	n, done := 0, 0
	next := func(s string) int { return strings.IndexByte(s, '<') }
	if strings.Contains(s, "＜") || strings.Contains(s, "﹤") {
		next = func(s string) int { return strings.IndexAny(s, "<＜﹤") }
	}
	for at := 0; at < len(s); {
		i := next(s[at:])
		if i < 0 {
			break
		}
		at += i
		_, size := utf8.DecodeRuneInString(s[at:])
		if opensElement(s[at+size:]) {
			b.WriteString(s[done:at] + "&lt;")
			n, done = n+1, at+size
		}
		at += size
	}
	if n == 0 {
		return s, 0
	}
	b.WriteString(s[done:])
	return b.String(), n
}

// opensElement reports whether the text after an angle bracket looks like the name of one of the
// elements.
func opensElement(s string) bool {
	if plain := strings.TrimLeft(s, "/ "); plain != "" && plain[0] < utf8.RuneSelf && plain[0] > ' ' && !strings.ContainsRune("sawpmSAWPM", rune(plain[0])) {
		return false // an ordinary tag
	}
	const most = 64 // maximum number of consecutive invisible characters
	var name []rune
	skipped := 0
	for _, r := range s {
		switch {
		case len(name) == 0 && (unicode.IsSpace(r) || r == '/'), termtext.Hidden(r), unicode.Is(unicode.Mn, r):
			if skipped++; skipped > most {
				return true // not found in legitimate text
			}
			continue
		}
		skipped = 0
		if name == nil {
			name = make([]rune, 0, 24)
		}
		name = append(name, unicode.ToLower(foldWide(r)))
		open := false
		for _, e := range elements {
			if len(name) <= len(e) && string(name) == e[:len(name)] {
				if len(name) == len(e) {
					return true
				}
				open = true
			}
		}
		if !open {
			return false
		}
	}
	return false
}

// foldWide maps full-width and look-alike forms to ASCII.
func foldWide(r rune) rune {
	switch {
	case r >= 0xff01 && r <= 0xff5e:
		return r - 0xfee0
	case r == 0x17f: // long s
		return 's'
	case r == 0x212a: // kelvin
		return 'k'
	}
	return r
}

// Element wraps untrusted text in one of metier's elements, which the text cannot close, and
// returns how many look-alike tags were neutralized. attributes are inserted as they are; each must
// start with a space.
func Element(name, attributes, text string) (string, int) {
	text, n := Neutralize(text)
	var b strings.Builder
	b.Grow(len(text) + len(attributes) + 2*len(name) + 8)
	b.WriteString("<" + name + attributes + ">\n")
	b.WriteString(text)
	if !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	b.WriteString("</" + name + ">\n")
	return b.String(), n
}

// Attribute escapes a value for a double-quoted attribute: markup, quotes,
// line breaks, control and invisible characters.
func Attribute(s string) string {
	return markup.Replace(termtext.Escape(blanks.Replace(s)))
}

var (
	markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")
	blanks = strings.NewReplacer("\n", " ", "\r", " ", "\t", " ")
)

// Plain escapes an untrusted path for a line inside an element.
func Plain(s string) string {
	s, _ = Neutralize(termtext.Escape(s))
	return s
}

// Markdown prevents a line of untrusted text from ending its list item or opening one of metier's
// elements.
func Markdown(s string) string {
	s, _ = Neutralize(s)
	return strings.ReplaceAll(s, "`", "'")
}
