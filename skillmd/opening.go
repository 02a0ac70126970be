package skillmd

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// preambleLines caps how many lines before the opening line are skipped: room for the comment of a license.
const preambleLines = 64

// window is the part of a file that is looked at for its frontmatter.
type window struct {
	src      []byte
	complete bool // src is the whole file
	capped   bool // the file may go on, but no more of it is looked at
}

func (w window) more() bool { return !w.complete && !w.capped }

// line gives the line at offset at and where the next one starts. It is not whole when its end is not in the window.
func (w window) line(at int) (text []byte, next int, whole bool) {
	text, next, ended := nextLine(w.src, at)
	return text, next, ended || w.complete && at < len(w.src)
}

// edge is a --- line that was found, or not.
type edge struct {
	found bool
	short bool   // not found yet: the window ends
	line  int    // its number
	end   int    // where it starts
	next  int    // where the text after it starts
	fence string // opening: the run of the code fence right above it
	notes []Diagnostic
}

// opening finds the opening line. Blank lines, HTML comments, headings and the first line of a code fence are skipped: nobody
// writes them there to say something about the fields.
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
		Detail: "there are lines before the opening ---; they were skipped; make --- the first line of the file"}
	if fence != "" {
		d.Code, d.Detail = CodeFencedFrontmatter, "the frontmatter stands in a code fence; it was read all the same; remove both lines of the fence"
	}
	return d
}

// codeFence gives the run of ``` or ~~~ that a line opens a code block with, the name of a language at most after it.
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

// closing finds the closing line. After skipped lines the text up to it must be fields, or it is Markdown with rules in it: its
// first line is a key, and one of its keys is name or description.
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
	// The fence may end here, around the frontmatter alone.
	text, next, whole := w.line(e.next)
	switch {
	case !whole && w.more():
		return edge{short: true}
	case whole && strings.TrimRight(string(text), " \t\r") == o.fence:
		e.line, e.next = e.line+1, next
	}
	return e
}

// closeHead ends a frontmatter that nothing closes, or that is closed by a rule of the body, where the text starts: at a heading
// or after a blank line. It is safe because text follows, in which no line could be a field, so that nothing the author declared is
// lost, least of all allowed-tools. Where the file ends with the fields it may have been cut off, and stays refused.
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
		Detail: fmt.Sprintf("the frontmatter opened on line %d has no closing ---; it was taken to end before this line; add a line that holds only ---", s.line)}
	return front, s, append([]Diagnostic{note}, diags...), true
}

// headEnd gives the length of the key: value lines that text starts with and how many lines they are, or -1 when it is not
// evident where they end.
func headEnd(text []byte) (end, lines int) {
	blank, stopped := false, false
	for line := range bytes.Lines(text) {
		t := strings.TrimRight(string(line), " \t\r\n")
		key, _ := keyOf(line)
		field := likeKey(t) || strings.HasPrefix(t, "--- ") || strangeBreak(line)
		switch {
		case stopped && !field && !narrowing.MatchString(t):
			continue
		case stopped, strings.Trim(t, " \t-") == "" && strings.Contains(t, "--"): // the latter a closing line gone wrong
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

// likeKey reports whether a line of text could be meant as a field: one word and a colon, or ? and a key; "Note: ..." is not.
func likeKey(line string) bool { return fieldLine.MatchString(line) }

var fieldLine = regexp.MustCompile(`^(\?[ \t]|[^A-Z\s]\S*[ \t]*:([ \t]|$))`)

// narrowing finds a line that may be meant as one of the fields that only take from a skill, however it is indented, quoted,
// spaced or tagged. A lenient reader must not turn it into text: what its author forbade would be allowed.
var narrowing = regexp.MustCompile(`^[\s?{,-]*([!&]\S*[ \t]+)*["']?(allowed-tools|disable-model-invocation|user-invocable)["']?[ \t]*(:|$)`)

// keyOf gives the key of a line `key: value` and the offset of what follows the colon. The key is made of letters, digits, _, -
// and dots, starts with a letter or _, and stands at the start of the line.
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
