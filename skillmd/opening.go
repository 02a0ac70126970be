package skillmd

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// preambleLines is the maximum number of lines skipped before the opening line, enough for a license comment.
const preambleLines = 64

// window is the part of a file that is searched for frontmatter.
type window struct {
	src      []byte
	complete bool // src is the whole file
	capped   bool // the file may be longer, but no more of it is read
}

func (w window) more() bool { return !w.complete && !w.capped }

// line returns the line at offset at and the start of the next one. whole is false if the end of the line is not in the window.
func (w window) line(at int) (text []byte, next int, whole bool) {
	text, next, ended := nextLine(w.src, at)
	return text, next, ended || w.complete && at < len(w.src)
}

// edge is the result of a search for a --- line.
type edge struct {
	found bool
	short bool   // not found before the end of the window
	line  int    // its number
	end   int    // its start
	next  int    // start of the text after it
	fence string // opening: the code fence directly above it
	notes []Diagnostic
}

// opening finds the opening line. It skips blank lines, HTML comments, headings, and the first line of a code fence, because
// they carry no information about the fields.
func (w window) opening(at int) edge {
	var e edge
	comment, first := false, 0
	for n := 1; n <= preambleLines+1; n++ {
		text, next, whole := w.line(at)
		if !whole {
			e.short = true
			return e
		}
		if !comment && isFence(text) {
			e.found, e.line, e.end, e.next = true, n, at, next
			if n > 1 {
				e.notes = []Diagnostic{skipped(e.fence, first)}
			}
			return e
		}
		t := strings.TrimRight(string(text), " \t\r")
		switch {
		case e.fence != "": // a fence around something else
			return e
		case comment || strings.HasPrefix(t, "<!--"):
			_, after, closed := strings.Cut(t, "-->")
			if closed && after != "" {
				return e
			}
			comment = !closed
		case t == "":
		case codeFence(t) != "":
			e.fence = codeFence(t)
		case t[0] != '#' || !isHeading(t):
			return e
		}
		if first == 0 && t != "" {
			first = n
		}
		at = next
	}
	return e
}

func skipped(fence string, line int) Diagnostic {
	d := Diagnostic{Severity: Warning, Line: max(line, 1), Column: 1, Code: CodeFrontmatterNotFirst,
		Detail: "lines before the opening --- were skipped; make --- the first line of the file"}
	if fence != "" {
		d.Code, d.Detail = CodeFencedFrontmatter, "the frontmatter is in a code fence; it was read anyway; remove both lines of the fence"
	}
	return d
}

// codeFence returns the ``` or ~~~ with which a line opens a code block. Only the name of a language may follow it.
func codeFence(text string) string {
	info := strings.TrimLeft(text, "`")
	if len(text)-len(info) < 3 {
		info = strings.TrimLeft(text, "~")
	}
	n := len(text) - len(info)
	if n < 3 || strings.ContainsFunc(strings.TrimSpace(info), func(r rune) bool { return !isKeyRune(r) }) {
		return ""
	}
	return text[:n]
}

// closing finds the closing line. If lines were skipped, the text before it must be fields, because Markdown can contain rules:
// its first line must be a key, and one of its keys must be name or description.
func (w window) closing(o edge) edge {
	var e edge
	started, named := o.notes == nil, o.notes == nil
	at := o.next
	for n := o.line + 1; ; n++ {
		text, next, whole := w.line(at)
		if !whole {
			e.short = at < len(w.src) || !w.complete
			return e
		}
		if isFence(text) {
			e.line, e.end, e.next = n, at, next
			break
		}
		key, _ := keyOf(text)
		if !started && len(bytes.TrimSpace(text)) > 0 {
			if key == "" {
				return e
			}
			started = true
		}
		named = named || key == "name" || key == "description"
		at = next
	}
	if e.found = started && named; !e.found || o.fence == "" {
		return e
	}
	// The fence may end here and enclose only the frontmatter.
	text, next, whole := w.line(e.next)
	switch {
	case !whole && w.more():
		return edge{short: true}
	case whole && strings.TrimRight(string(text), " \t\r") == o.fence:
		e.line, e.next = e.line+1, next
	}
	return e
}

// closeHead ends frontmatter without a closing line, or with a rule of the body as its closing line, at the start of the text: at
// a heading or after a blank line. No line of the text after it may look like a field, so that no declared field is lost, in
// particular allowed-tools. If the file ends with the fields, it may be truncated and stays refused.
func closeHead(text []byte, s span) (Front, span, []Diagnostic, bool) {
	end, lines := headEnd(text)
	if end < 0 || end == len(text) {
		return Front{}, s, nil, false
	}
	front, diags := parseFront(text[:end], s.line+1)
	for _, d := range diags {
		if d.Severity == Error {
			return Front{}, s, nil, false
		}
	}
	if !front.HasName && !front.HasDescription {
		return Front{}, s, nil, false
	}
	s.end, s.body, s.bodyLine, s.closed, s.problem = s.start+end, s.start+end, s.line+1+lines, true, nil
	note := Diagnostic{Severity: Warning, Code: CodeClosingLineMissing, Line: s.bodyLine, Column: 1,
		Detail: fmt.Sprintf("the frontmatter opened on line %d has no closing ---; it was read up to this line; add a line that contains only ---", s.line)}
	return front, s, append([]Diagnostic{note}, diags...), true
}

// headEnd returns the length and number of the key: value lines at the start of text, or -1 if their end is ambiguous.
func headEnd(text []byte) (end, lines int) {
	blank, stopped := false, false
	for line := range bytes.Lines(text) {
		t := strings.TrimRight(string(line), " \t\r\n")
		key, _ := keyOf(line)
		field := likeKey(t) || strings.HasPrefix(t, "--- ") || strangeBreak(line)
		switch {
		case stopped && !field && !narrowing.MatchString(t):
			continue
		case stopped, strings.Trim(t, " \t-") == "" && strings.Contains(t, "--"): // the latter is a malformed closing line
			return -1, 0
		case t == "":
			blank = true
		case key != "", t[0] == ' ', t[0] == '\t', strings.HasPrefix(t, "- "):
			blank = false
		case (blank || t[0] == '#' && isHeading(t)) && !field:
			stopped = true
			continue
		default:
			return -1, 0
		}
		end, lines = end+len(line), lines+1
	}
	return end, lines
}

// likeKey reports whether a line could be meant as a field: one word and a colon, or ? and a key. "Note: ..." is not a field.
func likeKey(line string) bool { return fieldLine.MatchString(line) }

var fieldLine = regexp.MustCompile(`^(\?[ \t]|[^A-Z\s]\S*[ \t]*:([ \t]|$))`)

// narrowing matches a line that may be meant as a field that restricts a skill, with any indentation, quotes, spaces, or tags. A
// lenient reader must not turn it into text, because that would remove the restriction.
var narrowing = regexp.MustCompile(`^[\s?{,-]*([!&]\S*[ \t]+)*["']?(allowed-tools|disable-model-invocation|user-invocable)["']?[ \t]*(:|$)`)

// keyOf returns the key of a line `key: value` and the offset after the colon. The key is at the start of the line, consists of
// letters, digits, _, -, and dots, and starts with a letter or _.
func keyOf(line []byte) (key string, after int) {
	for i, c := range line {
		switch {
		case c == ':' && i > 0 && (i+1 == len(line) || strings.IndexByte(" \t\r\n", line[i+1]) >= 0):
			return string(line[:i]), i + 1
		case !isKeyRune(rune(c)), i == 0 && (c == '-' || c == '.' || c >= '0' && c <= '9'):
			return "", 0
		}
	}
	return "", 0
}

func isKeyRune(r rune) bool {
	return r == '_' || r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
