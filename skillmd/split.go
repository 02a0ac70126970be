package skillmd

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"metier/internal/sniff"
)

// MaxHead is the maximum size of the frontmatter in bytes, from the start of the file and including both --- lines: 64 KiB.
// The largest frontmatter of 72,753 published skills has 9,640 bytes.
const MaxHead = 64 << 10

var bom = []byte("\ufeff")

// span holds the byte offsets of the parts of a file.
type span struct {
	closed     bool // both lines exist
	line       int  // line number of the opening line; set when closed or unclosed
	start, end int  // the text between the two lines; end is set when closed
	body       int  // start of the body: after the frontmatter, or after the byte order mark if there is no frontmatter
	bodyLine   int
	enough     bool // false: more of the file is needed
	problem    *Diagnostic
	notes      []Diagnostic // what was skipped before the opening line
}

// split finds the frontmatter. The first line of the file opens it (see opening for what can precede it) and the next such line
// closes it. Such a line is exactly ---, optionally followed by white space. A --- inside a value or in the body is text. split reads
// no byte after MaxHead, and treats a line that reaches it as incomplete. So the result is the same for the whole file and for
// its first MaxHead bytes.
func split(src []byte, complete bool) span {
	s := span{bodyLine: 1, enough: true}
	if bytes.HasPrefix(src, bom) {
		s.body = len(bom)
	}
	w := window{src: src, complete: complete}
	if len(src) >= MaxHead {
		w = window{src: src[:MaxHead], capped: true}
	}
	o := w.opening(s.body)
	switch {
	case w.more() && (o.short || len(bytes.TrimSpace(sniff.WholeRunes(w.src[s.body:]))) == 0):
		s.enough = false
		return s
	case !o.found:
		s.problem = noFrontmatter(w.src, w.complete)
		return s
	}
	s.line, s.start = o.line, o.next
	c := w.closing(o)
	switch {
	case c.found:
		s.closed, s.end, s.body, s.bodyLine, s.notes = true, c.end, c.next, c.line+1, o.notes
	case c.short && w.more():
		s.enough = false
	case o.notes != nil: // a heading above a rule, not frontmatter
		s.line, s.start = 0, 0
		s.problem = noFrontmatter(w.src, w.complete)
	case w.capped:
		s.problem = &Diagnostic{Severity: Error, Code: CodeFrontmatterTooLarge, Line: 1, Column: 1,
			Detail: fmt.Sprintf("no closing --- line in the first %d bytes; move long text below the frontmatter", MaxHead)}
	default:
		s.problem = &Diagnostic{Severity: Error, Code: CodeUnclosedFrontmatter, Line: 1, Column: 1,
			Detail: "the frontmatter opened by --- on line 1 is never closed; add a line that contains only ---"}
	}
	return s
}

// nextLine returns the line at offset at without its line ending, the offset after it, and whether a newline ended it.
func nextLine(src []byte, at int) (line []byte, next int, ended bool) {
	if i := bytes.IndexByte(src[at:], '\n'); i >= 0 {
		return src[at : at+i], at + i + 1, true
	}
	return src[at:], len(src), false
}

// nextYAMLLine returns the offset of the next line as the YAML library counts lines: newlines, carriage returns, and the
// Unicode line and paragraph separators end a line.
func nextYAMLLine(src []byte, at int) int {
	i := bytes.IndexAny(src[at:], "\r\n\u0085\u2028\u2029")
	if i < 0 {
		return len(src)
	}
	at += i
	if bytes.HasPrefix(src[at:], []byte("\r\n")) {
		return at + 2
	}
	_, size := utf8.DecodeRune(src[at:])
	return at + size
}

func isFence(line []byte) bool {
	if len(line) < 3 || line[0] != '-' || line[1] != '-' || line[2] != '-' {
		return false
	}
	for _, c := range line[3:] {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

func noFrontmatter(src []byte, complete bool) *Diagnostic {
	d := &Diagnostic{Line: 1, Column: 1}
	switch {
	case complete && len(bytes.TrimSpace(bytes.TrimPrefix(src, bom))) == 0:
		d.Severity, d.Code, d.Detail = Error, CodeEmptyFile, "the file is empty; it needs frontmatter with name and description, then instructions"
		d.Line, d.Column = 0, 0
	case isUTF16(src):
		d.Severity, d.Code, d.Detail = Error, CodeNotUTF8, "the file looks like UTF-16; save it as UTF-8"
	default:
		d.Severity, d.Code, d.Detail = Warning, CodeNoFrontmatter, "the first line is not ---, so the file has no frontmatter"
	}
	return d
}

// isUTF16 detects a UTF-16 byte order mark, and an opening --- in two-byte characters without one.
func isUTF16(src []byte) bool {
	for _, p := range []string{"\xff\xfe", "\xfe\xff", "-\x00-\x00-\x00", "\x00-\x00-\x00-"} {
		if bytes.HasPrefix(src, []byte(p)) {
			return true
		}
	}
	return false
}
