// Package skillname checks the names of skills against the specification.
package skillname

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"metier/internal/nfkc"
	"metier/internal/termtext"
)

// Max is the maximum length of a name in bytes: 64 characters of any script. Longer ones could not
// be shown in full.
const Max = 256

// Problems returns the code and detail of each rule that a name violates. anything checks only the
// length. ascii rejects non-ASCII letters and digits.
func Problems(name string, anything, ascii bool) [][2]string {
	if anything && len(name) <= Max {
		return nil
	}
	n := nfkc.String(name)
	bad := func(r rune) bool {
		if r == '-' || (r >= '0' && r <= '9') || (r >= 'a' && r <= 'z') {
			return false
		}
		if ascii || r < utf8.RuneSelf {
			return true
		}
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) || unicode.IsUpper(r) || unicode.IsTitle(r)
	}
	var out [][2]string
	switch {
	case len(name) > Max:
		out = append(out, [2]string{"name-unusable", fmt.Sprintf("name is longer than %d bytes", Max)})
	case utf8.RuneCountInString(n) > 64:
		out = append(out, [2]string{"invalid-name", "name is longer than 64 characters"})
	case strings.HasPrefix(n, "-"), strings.HasSuffix(n, "-"):
		out = append(out, [2]string{"invalid-name", "name " + termtext.Quote(name) + " begins or ends with a hyphen"})
	case strings.Contains(n, "--"):
		out = append(out, [2]string{"invalid-name", "name " + termtext.Quote(name) + " has two hyphens in a row"})
	case strings.ContainsFunc(n, bad):
		out = append(out, [2]string{"invalid-name", "name " + termtext.Quote(name) + " has characters other than lowercase letters, digits, and hyphens"})
	}
	return out
}
