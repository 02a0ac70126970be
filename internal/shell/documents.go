package shell

import (
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// continued matches lines that bash and the parser may join differently. To bash,
// a comment that ends in a backslash ends there, and to the parser it goes on. A $
// at the end of a line, and a bracket on the next, are a substitution to bash.
var continued = regexp.MustCompile("(?m)((^|[\\s;&|()<>`])#.*|[^ \\t\\n])\\\\\n")

// plainDelimiter matches the words that bash and the parser take for the same
// delimiter of a here-document.
var plainDelimiter = regexp.MustCompile(`^(\\?[A-Za-z0-9_.-]+|'[A-Za-z0-9_. -]+'|"[A-Za-z0-9_. -]+")$`)

// endsClearly reports whether bash ends a here-document on the line where the
// parser ends it. Bash also ends one on the delimiter in front of the parenthesis
// that closes a substitution, and on a delimiter that a backslash continues or
// completes.
func endsClearly(src string, r *syntax.Redirect) bool {
	word := src[r.Word.Pos().Offset():r.Word.End().Offset()]
	if !plainDelimiter.MatchString(word) {
		return false
	}
	if r.Hdoc == nil {
		return true
	}
	delimiter, quoted := strings.Trim(word, `\'"`), strings.ContainsAny(word, `\'"`)
	lines := strings.Split(src[r.Hdoc.Pos().Offset():r.Hdoc.End().Offset()], "\n")
	begun, continues := "", false // by lines that end in a backslash
	for _, line := range lines[:len(lines)-1] {
		for _, l := range []string{line, begun + line, begun + strings.TrimLeft(line, "\t")} {
			if strings.HasPrefix(strings.TrimLeft(l, "\t"), delimiter) {
				return false
			}
		}
		var joined string
		if joined, continues = strings.CutSuffix(line, `\`); continues && !quoted {
			begun += joined
			continue
		}
		begun, continues = "", false
	}
	return !continues
}
