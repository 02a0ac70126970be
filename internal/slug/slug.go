// Package slug turns names into path segments.
package slug

import (
	"strconv"
	"strings"
	"unicode"
)

// Set holds slugs that are unique ignoring case. The zero value is an empty set.
type Set struct {
	next map[string]int // by slug in lower case: the next suffix number that may be free
}

// Add returns a new slug for name: a safe path segment of at most 100 bytes. If the set already has
// it, a number is appended. A name without a usable character becomes "skill".
func (set *Set) Add(name string) string {
	base := segment(name)
	s, key := base, strings.ToLower(base)
	if set.next == nil {
		set.next = map[string]int{}
	}
	n, taken := set.next[key]
	for ; taken; n++ {
		s = base + "-" + strconv.Itoa(n)
		_, taken = set.next[strings.ToLower(s)]
	}
	if s != base {
		set.next[key] = n
	}
	set.next[strings.ToLower(s)] = 2
	return s
}

func segment(name string) string {
	s := strings.Trim(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsNumber(r) || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, name), ".-")
	if len(s) > 100 {
		s = strings.ToValidUTF8(s[:100], "")
	}
	if s == "" {
		return "skill"
	}
	return s
}
