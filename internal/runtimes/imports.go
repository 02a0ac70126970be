package runtimes

import "strings"

// imports are the relative paths that JavaScript or TypeScript imports or
// exports from by a literal: static, dynamic and re-export forms. It is a
// lexer, not a parser: comments, strings, templates and regular expressions
// are told apart, and no more. What is computed at run time it cannot see.
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

// local reports whether a specifier means a file: a relative or absolute path,
// or a file URL.
func local(s string) bool {
	return strings.HasPrefix(s, ".") || strings.HasPrefix(s, "/") || strings.HasPrefix(strings.ToLower(s), "file:")
}

// token is a word, a sign or, with text, the content of a string.
type token struct {
	s    string
	text bool
}

// tokens splits JavaScript. A template without substitutions counts as a
// string; of one with substitutions the code inside is split too.
func tokens(code string) []token {
	lx := lexer{code: code}
	lx.run("")
	return lx.out
}

type lexer struct {
	code string
	at   int
	out  []token
	deep int
}

// run reads until the sign that ends a substitution, or the end.
func (l *lexer) run(until string) {
	open := 0
	for l.at < len(l.code) {
		c := l.code[l.at]
		rest := l.code[l.at:]
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			l.at++
		case strings.HasPrefix(rest, "//") || l.at == 0 && strings.HasPrefix(rest, "#!"):
			l.skip("\n", 0)
		case strings.HasPrefix(rest, "/*"):
			l.at += 2
			l.skip("*/", 2)
		case c == '"' || c == '\'':
			l.quoted(c)
		case c == '`':
			l.template()
		case c == '/' && l.regexp():
			l.pattern()
		case wordByte(c):
			n := 1
			for n < len(rest) && wordByte(rest[n]) {
				n++
			}
			l.out = append(l.out, token{s: rest[:n]})
			l.at += n
		case until == "}" && c == '}' && open == 0:
			l.at++
			return
		default:
			if c == '{' {
				open++
			} else if c == '}' {
				open--
			}
			l.out = append(l.out, token{s: string(c)})
			l.at++
		}
	}
}

func wordByte(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= 0x80
}

// skip goes on after the next end, or to the end of the code.
func (l *lexer) skip(end string, n int) {
	if i := strings.Index(l.code[min(l.at, len(l.code)):], end); i >= 0 {
		l.at += i + n
		return
	}
	l.at = len(l.code)
}

func (l *lexer) quoted(q byte) {
	var b strings.Builder
	for l.at++; l.at < len(l.code) && l.code[l.at] != q && l.code[l.at] != '\n'; l.at++ {
		l.escaped(&b)
	}
	l.at++
	l.out = append(l.out, token{b.String(), true})
}

// escaped writes one character of a string, escapes of ASCII undone: a path
// may be written with them.
func (l *lexer) escaped(b *strings.Builder) {
	if l.code[l.at] == '\\' && l.at+1 < len(l.code) {
		l.at++
		if c, n := hexEscape(l.code[l.at:]); n > 0 {
			b.WriteByte(c)
			l.at += n - 1
			return
		}
		if l.code[l.at] == '\n' {
			return
		}
	}
	b.WriteByte(l.code[l.at])
}

// hexEscape reads x2e, u002e and u{2e} as the byte they mean.
func hexEscape(s string) (byte, int) {
	digits, n := "", 0
	switch {
	case strings.HasPrefix(s, "u{"):
		if i := strings.IndexByte(s[:min(len(s), 10)], '}'); i > 2 {
			digits, n = s[2:i], i+1
		}
	case strings.HasPrefix(s, "u") && len(s) >= 5:
		digits, n = s[1:5], 5
	case strings.HasPrefix(s, "x") && len(s) >= 3:
		digits, n = s[1:3], 3
	}
	v := 0
	for _, c := range strings.ToLower(digits) {
		i := strings.IndexRune("0123456789abcdef", c)
		if i < 0 {
			return 0, 0
		}
		v = v*16 + i
	}
	if n == 0 || v == 0 || v > 0x7e {
		return 0, 0
	}
	return byte(v), n
}

// mostDeep is how deep templates may nest before the rest is read as text.
const mostDeep = 64

func (l *lexer) template() {
	var b strings.Builder
	plain := true
	for l.at++; l.at < len(l.code) && l.code[l.at] != '`'; l.at++ {
		if strings.HasPrefix(l.code[l.at:], "${") && l.deep < mostDeep {
			plain = false
			l.at += 2
			l.deep++
			l.out = append(l.out, token{s: "${"})
			l.run("}")
			l.out = append(l.out, token{s: "}"})
			l.deep--
			l.at--
			continue
		}
		l.escaped(&b)
	}
	l.at++
	// What comes before a substitution names a folder well enough.
	if plain || local(b.String()) {
		l.out = append(l.out, token{b.String(), plain})
	}
}

// regexp reports whether a slash begins a regular expression: where a value
// may begin.
func (l *lexer) regexp() bool {
	if len(l.out) == 0 {
		return true
	}
	last := l.out[len(l.out)-1]
	if last.text {
		return false
	}
	switch last.s {
	case ")", "]", "}":
		return false
	case "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do", "await", "yield", "instanceof":
		return true
	}
	return !wordByte(last.s[len(last.s)-1])
}

func (l *lexer) pattern() {
	class := false
	for l.at++; l.at < len(l.code) && l.code[l.at] != '\n'; l.at++ {
		switch l.code[l.at] {
		case '\\':
			l.at++
		case '[':
			class = true
		case ']':
			class = false
		case '/':
			if !class {
				l.at++
				l.out = append(l.out, token{s: ")"}) // a value ended
				return
			}
		}
	}
}
