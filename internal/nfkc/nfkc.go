// Package nfkc brings names to one spelling: Unicode normalization form KC, in which é is é however it was typed and a
// full-width letter is the letter (Agent Skills reference validator; requirement row C-014).
package nfkc

import "golang.org/x/text/unicode/norm"

// String gives s in form KC.
func String(s string) string { return norm.NFKC.String(s) }
