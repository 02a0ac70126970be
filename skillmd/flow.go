package skillmd

import (
	"fmt"
	"slices"
	"strings"
)

// rewriteFlow repairs a value that starts like [a list] or {a map}.
func (r *repairer) rewriteFlow(e entry, raw string) ([]string, bool) {
	bare := uncomment(raw)
	end := flowEnd(bare)
	if end < 0 {
		// The bracket closes after the next key, or never. The former may be valid YAML, with the error in another line.
		rest := strings.Join(r.lines[e.from:], "\n")[e.after:]
		if flowEnd(rest) >= 0 || flowEnd(uncomment(rest)) >= 0 || e.key != "allowed-tools" && known(e.key) && e.key != "metadata" || edged(r.lines[e.from+1:e.last]) {
			return nil, false
		}
		return r.unreadable(e, raw)
	}
	behind := edged(strings.Split(raw[end:], "\n")[1:]) // possibly a quoted key, which must not become text
	switch {
	case e.key == "allowed-tools" && behind:
		return nil, false
	case e.key == "allowed-tools":
		return r.unreadable(e, raw)
	}
	loose := r.lines[e.from][:e.after] + uncomma(bare, end)
	if lines := strings.Split(loose, "\n"); alone(lines) == nil {
		r.note(e.from, r.start(e), CodeLooseJSON,
			fmt.Sprintf("the value of %s has comments or commas that YAML does not allow; they were ignored; remove them", e.key))
		return lines, true
	}
	after := strings.TrimSpace(raw[end:])
	switch {
	case behind:
		return nil, false
	case after != "" && !strings.Contains(raw[:end], "\n") && e.key != "metadata" && !hidden.MatchString(raw) && !edged(r.lines[e.from+1:e.last]):
		text, comment, ok := fold(raw)
		if !ok || r.misplaced(e) {
			return nil, false
		}
		r.note(e.from, min(e.after+end+strings.Index(raw[end:], after), len(r.lines[e.from])), CodeTextAfterFlow,
			fmt.Sprintf("the value of %s has text after the closing bracket; all of it was read as text; quote the value", e.key))
		return r.quoted(e, text, comment), true
	case e.key == "metadata" || !known(e.key):
		return r.unreadable(e, raw)
	}
	return nil, false
}

func known(key string) bool { return slices.Contains(knownFields, key) }

// edged reports whether a line starts at the left edge.
func edged(lines []string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return l != "" && l[0] != ' ' && l[0] != '\t' })
}

// flowEnd returns the offset after the bracket that closes the first one, or -1. Brackets in quotes do not count. As in YAML, a
// quote opens only at the start of a value or a key.
func flowEnd(s string) int {
	depth, end := 0, -1
	walkFlow(s, func(i int, quoted bool) bool {
		if quoted {
			return true
		}
		switch s[i] {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				end = i + 1
				return false
			}
		}
		return true
	})
	return end
}

// walkFlow visits the bytes of a flow value and reports which are in quotes, including the quotes.
func walkFlow(s string, visit func(i int, quoted bool) bool) {
	var quote, last byte = 0, ','
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote == '"' && c == '\\':
			if !visit(i, true) {
				return
			}
			i = min(i+1, len(s)-1)
		case quote != 0 && c == quote:
			quote, last = 0, c
			if !visit(i, true) {
				return
			}
			continue
		case quote == 0 && (c == '"' || c == '\'') && strings.IndexByte("[{,:", last) >= 0:
			quote = c
		}
		if !visit(i, quote != 0) {
			return
		}
		if quote == 0 && strings.IndexByte(" \t\r\n", c) < 0 {
			last = c
		}
	}
}

// uncomment replaces // and /* comments between the brackets with spaces: JSON5 allows them, and YAML does not. All other bytes
// keep their offsets.
func uncomment(s string) string {
	out := []byte(s)
	depth, until := 0, "" // until: the end of the current comment
	walkFlow(s, func(i int, quoted bool) bool {
		c := s[i]
		switch {
		case until == "\n" && c == '\n':
			until = ""
		case until == "*/" && strings.HasSuffix(s[:i+1], until):
			out[i], until = ' ', ""
		case until != "":
			if c != '\n' {
				out[i] = ' '
			}
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == '/' && depth > 0 && startsComment(s, i):
			out[i], until = ' ', map[byte]string{'/': "\n", '*': "*/"}[s[i+1]]
		}
		return true
	})
	return string(out)
}

// uncomma replaces repeated commas, and commas after the value, with spaces. The value ends at end.
func uncomma(s string, end int) string {
	out := []byte(s)
	comma := false                                  // nothing followed it yet
	bare := strings.Trim(s[end:], ", \t\r\n") == "" // nothing but commas follows the value
	walkFlow(s, func(i int, quoted bool) bool {
		switch c := s[i]; {
		case quoted:
			comma = false
		case c == ',' && (comma || i >= end && bare):
			out[i] = ' '
		case c == ',':
			comma = true
		case strings.IndexByte(" \t\r\n", c) < 0:
			comma = false
		}
		return true
	})
	return string(out)
}

// startsComment reports whether a // or /* comment starts at i, where a value or a key may start. https:// is not a comment.
func startsComment(s string, i int) bool {
	return i+1 < len(s) && (s[i+1] == '/' || s[i+1] == '*') && (i == 0 || strings.IndexByte(" \t\n[{,", s[i-1]) >= 0)
}
