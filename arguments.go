package metier

import (
	"strconv"
	"strings"

	"metier/settings"
)

// Expand puts arguments into a skill's text, in the dialect of the setting
// args. In every dialect but none:
//
//	$ARGUMENTS     all arguments, joined by spaces ("" without any, B-030)
//	$ARGUMENTS[N]  the Nth, counted from 0 (B-027); "" beyond the last
//	$0 … $9        the same by position (B-028); two or more digits are left as
//	               they are, and so is \$, which becomes a plain dollar
//
// Text without placeholders comes back unchanged: arguments nobody asked for
// are ignored (B-029). Arguments are data: a placeholder inside one is not
// expanded again.
func Expand(text string, dialect settings.Args, args []string) string {
	if dialect == settings.ArgsNone {
		return text
	}
	at := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 {
			b.WriteString(text)
			return b.String()
		}
		if i > 0 && text[i-1] == '\\' {
			b.WriteString(text[:i-1] + "$")
			text = text[i+1:]
			continue
		}
		b.WriteString(text[:i])
		value, used := placeholder(text[i:], args, at)
		if used == 0 {
			value, used = "$", 1
		}
		b.WriteString(value)
		text = text[i+used:]
	}
}

// placeholder reads one placeholder at the start of text and returns its value
// and length; 0 when there is none.
func placeholder(text string, args []string, at func(int) string) (string, int) {
	const all = "$ARGUMENTS"
	if rest, ok := strings.CutPrefix(text, all); ok {
		if idx, _, ok := strings.Cut(rest, "]"); ok && strings.HasPrefix(idx, "[") {
			if n, err := strconv.Atoi(idx[1:]); err == nil && n >= 0 && len(idx) <= 5 {
				return at(n), len(all) + len(idx) + 1
			}
		}
		if rest != "" && (isWord(rest[0])) {
			return "", 0 // $ARGUMENTSX is another word
		}
		return strings.Join(args, " "), len(all)
	}
	if len(text) < 2 || text[1] < '0' || text[1] > '9' {
		return "", 0
	}
	if len(text) > 2 && text[2] >= '0' && text[2] <= '9' {
		end := 2
		for end < len(text) && text[end] >= '0' && text[end] <= '9' {
			end++
		}
		return text[:end], end
	}
	return at(int(text[1] - '0')), 2
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}
