package scan

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"metier/internal/confusable"
)

const (
	longRun  = 8 // invisible characters in a row that can only be hidden data
	shortRun = 3
)

// characters finds characters that hide or reorder text.
func (s *scanner) characters(f *source) {
	if ascii(f.text) && !strings.ContainsRune(f.text, 0x1b) {
		return
	}
	rightToLeft := strings.ContainsFunc(f.text[:min(len(f.text), 1<<20)], func(r rune) bool {
		return unicode.In(r, unicode.Arabic, unicode.Hebrew, unicode.Syriac, unicode.Thaana)
	})
	u := unit{file: f, place: inScript}
	if f.lang == markdown {
		u.place = inProse
	}
	run, from, tags := 0, 0, 0
	var before rune
	flush := func() {
		switch {
		case tags >= shortRun:
			s.addText(f, table.byID["hidden-tags"], from, &u, tagText(f.text[from:]))
		case run >= longRun:
			s.add(f, table.byID["hidden-run"], from, &u)
		}
		run, tags = 0, 0
	}
	for i, r := range f.text {
		switch {
		case r >= 0xe0000 && r <= 0xe007f:
			if run == 0 && before == 0x1f3f4 { // a flag
				before = r
				continue
			}
			if before >= 0xe0000 && before <= 0xe007f && run == 0 {
				continue // of that flag
			}
			if run == 0 {
				from = i
			}
			run++
			tags++
		case zeroWidth(r):
			if run == 0 {
				from = i
			}
			run++
			if r == 0x200b || r == 0x2060 || r == 0x200c {
				if inWord(f.text, i, before) {
					s.add(f, table.byID["hidden-in-word"], i, &u)
				}
			}
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			flush()
			if !rightToLeft {
				s.add(f, table.byID["text-direction"], i, &u)
			}
		case r == 0x1b:
			flush()
			if !color.MatchString(f.text[i:min(len(f.text), i+32)]) {
				s.add(f, table.byID["terminal-escape"], i, &u)
			}
		default:
			flush()
		}
		before = r
	}
	flush()
}

// color matches a sequence that sets colors, and does not hide text.
var color = regexp.MustCompile("^\x1b\\[(?:[0-7]|[349][0-7]|[34]8;5;\\d+|22|39|49|;)*m")

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// zeroWidth reports whether a character has no width and is not part of an ordinary emoji.
func zeroWidth(r rune) bool {
	return r >= 0x200b && r <= 0x200d || r >= 0x2060 && r <= 0x2064 || r == 0x180e || r >= 0xe0100 && r <= 0xe01ef || r == 0x3164 || r == 0xffa0 || r >= 0xfe00 && r <= 0xfe0e || r == 0x115f || r == 0x1160
}

// inWord reports whether an invisible character splits a Latin word.
func inWord(text string, i int, before rune) bool {
	_, size := utf8.DecodeRuneInString(text[i:])
	after, _ := utf8.DecodeRuneInString(text[i+size:])
	return before < utf8.RuneSelf && unicode.IsLetter(before) && after < utf8.RuneSelf && unicode.IsLetter(after)
}

// tagText returns the ASCII text that tag characters spell.
func tagText(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < 0xe0000 || r > 0xe007f {
			break
		}
		if c := r - 0xe0000; c >= ' ' && c < 0x7f {
			b.WriteRune(c)
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// mixedHost reports whether a name of a host mixes letters that look alike.
func mixedHost(name string) bool { return !ascii(name) && confusable.Mixed(name) != "" }
