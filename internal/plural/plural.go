// Package plural formats numbers with nouns, and lists of choices.
package plural

import (
	"strconv"
	"strings"
)

// Of returns a number with a noun, such as 1 skill or 2,000 skills.
func Of(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Thousands(int64(n)) + " " + noun
}

// Thousands writes a number with commas.
func Thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Either joins choices: a, "a or b", or "a, b, or c".
func Either(choices []string) string {
	last := len(choices) - 1
	if last < 2 {
		return strings.Join(choices, " or ")
	}
	return strings.Join(choices[:last], ", ") + ", or " + choices[last]
}
