package runtimes

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// imports returns the relative paths in literal JavaScript or TypeScript imports and re-exports,
// static and dynamic. It uses a lexer, not a parser: it only distinguishes comments, strings,
// templates, and regular expressions. It cannot find paths computed at run time.
func imports(code string) []string {
	var out []string
	toks := tokens(code)
	for i, t := range toks {
		if !t.text || !local(t.s) {
			continue
		}
		prev := func(n int) string {
			if i-n < 0 || toks[i-n].text {
				return ""
			}
			return toks[i-n].s
		}
		switch {
		case prev(1) == "from", prev(1) == "import", prev(1) == "(" && (prev(2) == "import" || prev(2) == "require"):
			if before := prev(2); prev(1) != "(" && before == "." {
				continue // a property of that name
			}
			out = append(out, t.s)
		}
	}
	return out
}

// local reports whether a specifier refers to a file: a relative or absolute path, or a file URL.
func local(s string) bool {
	return strings.HasPrefix(s, ".") || strings.HasPrefix(s, "/") || strings.HasPrefix(strings.ToLower(s), "file:")
}

// token is a word, a punctuation character, or, with text, the content of a string.
type token struct {
	s    string
	text bool
}

// scanner holds the expressions that tokenize JavaScript.
type scanner struct{ token, regexp, escape *regexp.Regexp }

var scan = sync.OnceValue(func() scanner {
	return scanner{
		token: regexp.MustCompile(`^(?s:(\s+|//[^\n]*|/\*.*?(?:\*/|$))|("(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)|([\w$\x{80}-\x{10ffff}]+)|.)`),
		// A slash in brackets does not end the expression.
		regexp: regexp.MustCompile(`^/(?:\\[^\n]|\[(?:\\[^\n]|[^\]\\\n])*\]?|[^/\\\[\n])*/?`),
		escape: regexp.MustCompile(`(?s)\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]{1,6}\}|.)`),
	}
})

// tokens splits JavaScript into tokens. The part of a template before its first substitution counts
// as a string. Code in substitutions is split too.
func tokens(code string) (out []token) {
	if strings.HasPrefix(code, "#!") {
		code = "//" + code[2:]
	}
	var open []int // number of open braces in each substitution
	for at := 0; at < len(code); {
		m := scan().token.FindStringSubmatchIndex(code[at:])
		s := code[at : at+m[1]]
		template := s == "`"
		switch {
		case m[2] >= 0: // space, or a comment
		case m[4] >= 0:
			out = append(out, token{unescaped(strings.TrimSuffix(s[1:], s[:1])), true})
		case s == "/" && value(out):
			if s = scan().regexp.FindString(code[at:]); len(s) > 1 && strings.HasSuffix(s, "/") {
				out = append(out, token{s: ")"}) // a value ended
			}
		case s == "}" && len(open) > 0 && open[len(open)-1] == 0:
			open, template = open[:len(open)-1], true
			out = append(out, token{s: s})
		case template:
		default:
			if n := len(open); n > 0 && s == "{" {
				open[n-1]++
			} else if n > 0 && s == "}" {
				open[n-1]--
			}
			out = append(out, token{s: s})
		}
		if at += len(s); template {
			from := at
			for at < len(code) && code[at] != '`' && !strings.HasPrefix(code[at:], "${") {
				if at++; code[at-1] == '\\' {
					at++
				}
			}
			at = min(at, len(code))
			if s == "`" {
				out = append(out, token{unescaped(code[from:at]), true})
			}
			if strings.HasPrefix(code[at:], "${") {
				open, out = append(open, 0), append(out, token{s: "${"})
				at++
			}
			at++
		}
	}
	return out
}

// unescaped returns the text of a string: paths may contain escapes.
func unescaped(s string) string {
	return scan().escape.ReplaceAllStringFunc(s, func(e string) string {
		if n, err := strconv.ParseUint(strings.Trim(e[1:], "xu{}"), 16, 32); err == nil && len(e) > 3 {
			return string(rune(n))
		}
		return strings.TrimPrefix(e[1:], "\n")
	})
}

// value reports whether a value may follow these tokens, so that a slash starts a regular
// expression.
func value(before []token) bool {
	if len(before) == 0 {
		return true
	}
	last := before[len(before)-1]
	if last.text {
		return false
	}
	switch last.s {
	case ")", "]", "}":
		return false
	case "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do", "await", "yield", "instanceof":
		return true
	}
	return !wordy(last.s)
}

// wordy reports whether a token is a word.
func wordy(s string) bool {
	c := s[len(s)-1]
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= 0x80
}
