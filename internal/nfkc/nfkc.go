// Package nfkc brings names to one spelling: Unicode normalization form KC, in which é is é however it was typed and a
// full-width letter is the letter (Agent Skills reference validator).
package nfkc

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// String gives s in form KC. ASCII is in it already, and most names are ASCII.
func String(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return norm.NFKC.String(s)
		}
	}
	return s
}
