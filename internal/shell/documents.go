package shell

import (
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// continued matches lines that bash and the parser may join differently. In bash, a comment ends at
// the end of its line even after a backslash; in the parser, it continues. In bash, a $ at the end
// of a continued line and a bracket on the next form a substitution.
var continued = regexp.MustCompile("(?m)((^|[\\s;&|()<>`])#.*|[^ \\t\\n])\\\\\n")

// plainDelimiter matches words that bash and the parser read as the same here-document delimiter.
var plainDelimiter = regexp.MustCompile(`^(\\?[A-Za-z0-9_.-]+|'[A-Za-z0-9_. -]+'|"[A-Za-z0-9_. -]+")$`)

// endsClearly reports whether bash ends a here-document on the same line as the parser. Bash also
// ends one at a delimiter directly before the parenthesis that closes a substitution, and at a
// delimiter that a backslash continues or completes.
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
	begun, continues := "", false // by lines that end in a backslash; as much of it as a delimiter has
	for _, line := range lines[:len(lines)-1] {
		for _, l := range []string{line, begun + line, begun + strings.TrimLeft(line, "\t")} {
			if strings.HasPrefix(strings.TrimLeft(l, "\t"), delimiter) {
				return false
			}
		}
		var joined string
		if joined, continues = strings.CutSuffix(line, `\`); continues && !quoted {
			begun = strings.TrimLeft(begun+joined, "\t")
			begun = begun[:min(len(begun), len(delimiter))]
			continue
		}
		begun, continues = "", false
	}
	return !continues
}
