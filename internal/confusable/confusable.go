// Package confusable finds names that look alike, as defined by Unicode Technical Standard #39,
// limited to names that resemble lower-case ASCII ones.
package confusable

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"metier/internal/nfkc"
	"metier/internal/termtext"
)

// ascii replaces ASCII characters that look like others with those.
var ascii = strings.NewReplacer("0", "o", "1", "l", "m", "rn")

var table = sync.OnceValue(func() map[rune]string {
	m := map[rune]string{}
	for _, l := range lookalikes {
		for _, r := range l.from {
			m[r] = l.to
		}
	}
	return m
})

// Skeleton returns the same text for names that look alike. It is for comparison only. It ignores
// case and invisible characters.
func Skeleton(name string) string {
	if ASCII(name) {
		return ascii.Replace(strings.ToLower(name))
	}
	var b strings.Builder
	for _, r := range nfkc.String(name) {
		to, ok := table()[r]
		if lower := unicode.ToLower(r); !ok && lower != r {
			to, ok = table()[lower]
			r = lower
		}
		switch {
		case ok:
			b.WriteString(to)
		case !termtext.Hidden(r):
			b.WriteRune(r)
		}
	}
	return ascii.Replace(b.String())
}

// ASCII reports whether a name consists only of ASCII characters.
func ASCII(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf })
}

// mixable are scripts that share many letter shapes. Legitimate words do not mix them.
var mixable = []string{"Armenian", "Cherokee", "Coptic", "Cyrillic", "Greek", "Latin"}

// Mixed describes the scripts of a name's letters if at least two of them look alike. Otherwise it
// returns "".
func Mixed(name string) string {
	if ASCII(name) {
		return ""
	}
	var out []string
	for _, r := range nfkc.String(name) {
		for _, s := range mixable {
			if unicode.Is(unicode.Scripts[s], r) && !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	if len(out) < 2 {
		return ""
	}
	slices.Sort(out)
	return "its name " + strconv.QuoteToASCII(name) + " has letters of " + strings.Join(out, " and ")
}

// Alike describes that a name looks like the name of owner.
func Alike(name, other, owner string) string {
	return "its name " + strconv.QuoteToASCII(name) + " looks like " + strconv.QuoteToASCII(other) + " of " + owner
}
