// Package slug makes names of paths.
package slug

import (
	"fmt"
	"strings"
	"unicode"
)

// Unique makes a name one safe path segment of at most 100 bytes and a number,
// and keeps it apart from the ones in taken, in any case of letters; it is
// added there. A name without a usable character is "skill".
func Unique(name string, taken map[string]bool) string {
	s := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsNumber(r) || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, name)
	s = strings.Trim(s, ".-")
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "")
	}
	if s == "" {
		s = "skill"
	}
	for i, base := 2, s; taken[strings.ToLower(s)]; i++ {
		s = fmt.Sprintf("%s-%d", base, i)
	}
	taken[strings.ToLower(s)] = true
	return s
}
