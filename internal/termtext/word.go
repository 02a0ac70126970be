package termtext

import (
	"strings"
	"unicode"
)

// Plain reports whether every shell reads s as one literal word that is not a flag.
func Plain(s string) bool {
	if s == "" || strings.ContainsRune("-_~=@", rune(s[0])) || Line(s) != s {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.:/@+,=", r)
	})
}

// Word returns Line(s) as one word of a command line for copying: in single quotes unless it is
// [Plain].
func Word(s string) string {
	if Plain(s) {
		return s
	}
	return "'" + strings.ReplaceAll(Line(s), "'", `'\''`) + "'"
}
