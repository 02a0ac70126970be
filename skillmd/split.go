package skillmd

import (
	"bytes"
	"fmt"
)

// MaxHead caps how far into a file the frontmatter may reach, both --- lines included: 64 KiB. Of 72,753 published skills the
// largest frontmatter has 9,640 bytes.
const MaxHead = 64 << 10

var bom = []byte("\ufeff")

// span is where the parts of a file lie, as byte offsets into it.
type span struct {
	closed     bool // both lines are there
	start, end int  // the text between the two lines; set when closed
	body       int  // where the body starts: after the closing line, or after the byte order mark when there is no frontmatter
	bodyLine   int
	enough     bool // false: more of the file is needed to tell
	problem    *Diagnostic
}

// split finds the frontmatter. The first line must be exactly --- and the first later line that is exactly --- closes it, both
// with any blanks after; a --- inside a value or in the body is text. It looks at no byte past MaxHead, so that the verdict on
// a file is the same whether the caller holds all of it or the first MaxHead bytes.
func split(src []byte, complete bool) span {
	s := span{body: 0, bodyLine: 1, enough: true}
	if bytes.HasPrefix(src, bom) {
		s.body = len(bom)
	}
	window := src
	if len(window) > MaxHead {
		window, complete = window[:MaxHead], false
	}
	capped := len(window) == MaxHead && !complete
	more := !complete && !capped // the caller can give more

	first, rest, ended := nextLine(window, s.body)
	switch {
	case more && (!ended || len(bytes.TrimSpace(window[s.body:])) == 0):
		s.enough = false
		return s
	case !isFence(first) || !ended && !complete:
		s.problem = noFrontmatter(window, complete)
		return s
	}
	for at, line := rest, 2; at < len(window); line++ {
		text, next, ended := nextLine(window, at)
		if !ended && !complete {
			break
		}
		if isFence(text) {
			s.closed, s.start, s.end, s.body, s.bodyLine = true, rest, at, next, line+1
			return s
		}
		at = next
	}
	switch {
	case more:
		s.enough = false
	case capped:
		s.problem = &Diagnostic{Severity: Error, Code: CodeFrontmatterTooLarge, Line: 1, Column: 1,
			Detail: fmt.Sprintf("no closing --- line in the first %d bytes; move long text below the frontmatter", MaxHead)}
	default:
		s.problem = &Diagnostic{Severity: Error, Code: CodeUnclosedFrontmatter, Line: 1, Column: 1,
			Detail: "the frontmatter opened by --- on line 1 is never closed; add a line that holds only ---"}
	}
	return s
}

// nextLine gives the line at offset at without its end, the offset after it, and whether a newline ended it.
func nextLine(src []byte, at int) (line []byte, next int, ended bool) {
	if i := bytes.IndexByte(src[at:], '\n'); i >= 0 {
		return src[at : at+i], at + i + 1, true
	}
	return src[at:], len(src), false
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

// isUTF16 knows a UTF-16 byte order mark, and an opening --- in two-byte characters without one.
func isUTF16(src []byte) bool {
	for _, p := range []string{"\xff\xfe", "\xfe\xff", "-\x00-\x00-\x00", "\x00-\x00-\x00-"} {
		if bytes.HasPrefix(src, []byte(p)) {
			return true
		}
	}
	return false
}
