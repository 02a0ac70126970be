// Package sniff distinguishes text files from binary ones.
package sniff

import (
	"bytes"
	"unicode/utf8"
)

// Bytes is how much of a file is inspected.
const Bytes = 8192

// Text reports whether the first bytes of a file are text: valid UTF-8 without
// a NUL. more says that the file continues after them, so the last character
// may be incomplete.
func Text(first []byte, more bool) bool {
	if len(first) > Bytes {
		first, more = first[:Bytes], true
	}
	if more {
		first = WholeRunes(first)
	}
	return bytes.IndexByte(first, 0) < 0 && utf8.Valid(first)
}

// WholeRunes removes an incomplete character at the end.
func WholeRunes(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if last := b[len(b)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}
