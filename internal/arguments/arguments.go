// Package arguments inserts the arguments of a call into the text of a skill.
package arguments

import (
	"strconv"
	"strings"
)

// Expand replaces the placeholders in a text:
//
//	$ARGUMENTS     all arguments, joined by spaces ("" without any)
//	$ARGUMENTS[N]  the Nth, counted from 0; "" beyond the last
//	$0 … $9        the same by position; two or more digits are left as
//	               they are, and so is \$, which becomes a plain dollar
//
// Text without placeholders is returned unchanged. Its arguments are ignored or, with trailer,
// appended in a separate line. Placeholders inside an argument are not expanded. fits is false if
// the result would exceed most bytes.
func Expand(text string, args []string, trailer bool, most int) (out string, fits bool) {
	all := strings.Join(args, " ")
	var b strings.Builder
	asked := false
	for b.Len() <= most {
		i := strings.IndexByte(text, '$')
		if i < 0 {
			b.WriteString(text)
			break
		}
		if i > 0 && text[i-1] == '\\' {
			b.WriteString(text[:i-1] + "$")
			text = text[i+1:]
			continue
		}
		b.WriteString(text[:i])
		value, used, is := placeholder(text[i:], args, all)
		asked = asked || is
		b.WriteString(value)
		text = text[i+used:]
	}
	if trailer && !asked && len(args) > 0 {
		b.WriteString("\n\nARGUMENTS: " + all + "\n")
	}
	return b.String(), b.Len() <= most
}

// placeholder parses the start of text, which is a dollar sign. It returns the replacement, the
// number of bytes it replaces, and whether they were a placeholder.
func placeholder(text string, args []string, all string) (value string, used int, is bool) {
	at := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	const name = "$ARGUMENTS"
	if rest, ok := strings.CutPrefix(text, name); ok {
		if idx, _, ok := strings.Cut(rest[:min(len(rest), 6)], "]"); ok && strings.HasPrefix(idx, "[") {
			if n, err := strconv.ParseUint(idx[1:], 10, 16); err == nil {
				return at(int(n)), len(name) + len(idx) + 1, true
			}
		}
		if rest != "" && isWord(rest[0]) {
			return "$", 1, false // $ARGUMENTSX is a different word
		}
		return all, len(name), true
	}
	end := 1
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	if end == 2 {
		return at(int(text[1] - '0')), 2, true
	}
	return text[:end], end, false
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
