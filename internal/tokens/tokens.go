// Package tokens estimates the number of tokens in a text without a model's tokenizer.
package tokens

import "unicode/utf8"

// Estimate returns the approximate number of tokens in a text: one per five letters of a word,
// three digits, two consecutive signs, and line; one for a character of two bytes, two for one of
// three bytes, three for one of four bytes. It overestimates on purpose (docs/SETTINGS.md says by
// how much), so that budgets hold. For texts that end with a newline, the estimate of their
// concatenation is the sum.
func Estimate(text string) int {
	n, letters, digits, signs := 0, 0, 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			if letters++; letters%5 == 1 {
				n++
			}
			digits, signs = 0, 0
		case c >= '0' && c <= '9':
			if digits++; digits%3 == 1 {
				n++
			}
			letters, signs = 0, 0
		case c == ' ':
			letters, digits, signs = 0, 0, 0
		case c == '\n':
			n++
			letters, digits, signs = 0, 0, 0
		case c < utf8.RuneSelf:
			if signs++; signs%2 == 1 {
				n++
			}
			letters, digits = 0, 0
		case c >= 0xc0: // the first byte of a longer character
			n++
			if c >= 0xe0 {
				n++
			}
			if c >= 0xf0 {
				n++
			}
			letters, digits, signs = 0, 0, 0
		}
	}
	return n
}
