// Package nfkc normalizes names to Unicode form NFKC, like the Agent Skills reference validator: é
// has one encoding however it was typed, and a full-width letter becomes the ordinary one.
package nfkc

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// String returns s in NFKC form. ASCII text, which most names are, is returned as is.
func String(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return norm.NFKC.String(s)
		}
	}
	return s
}
