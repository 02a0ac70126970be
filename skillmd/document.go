// Package skillmd reads and writes the syntax of SKILL.md: YAML frontmatter between two --- lines, then Markdown
// (Agent Skills specification, "SKILL.md format"). It applies no setting: what a missing name or an unknown key means is for
// later stages. Verdicts are diagnostics; nothing that reads returns an error or panics on any input. [Open] repairs a file.
package skillmd

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Document is one parsed file. Body and Raw share the memory that was given to [Parse]; Front does not.
type Document struct {
	Front    Front
	Body     []byte // all bytes after the frontmatter; without frontmatter, the whole file after a byte order mark
	BodyLine int    // line number of the body's first line
	Raw      []byte // the file, byte for byte; it ends with Body
}

// Parse reads a whole file. A file whose frontmatter is missing or refused still gives a Document, with diagnostics that say so.
// What YAML refuses is repaired where one reading is evident and gives the skill nothing; each repair is a warning ([Diagnostic.Repair]).
// Diagnostics come in the order head, then body.
func Parse(src []byte) (Document, []Diagnostic) {
	front, s, diags := parseHead(src, true)
	d := Document{Front: front, Body: src[s.body:], BodyLine: s.bodyLine, Raw: src}
	if s.problem != nil && s.problem.Code == CodeNotUTF8 {
		return d, diags // UTF-16: every line would be reported again
	}
	return d, append(diags, bodyDiagnostics(d.Body, d.BodyLine)...)
}

// ParseHead reads the frontmatter from the first bytes of a file; complete says that src is all of it. Until its end is
// known, enough is false and nothing else is set: read more and call again. At [MaxHead] bytes enough is always true. The
// result is the same as [Parse] gives for the whole file; bodyOffset is where its Body starts.
func ParseHead(src []byte, complete bool) (front Front, bodyOffset int, enough bool, diags []Diagnostic) {
	front, s, diags := parseHead(src, complete)
	if !s.enough {
		return Front{}, 0, false, nil
	}
	return front, s.body, true, diags
}

func parseHead(src []byte, complete bool) (Front, span, []Diagnostic) {
	s := split(src, complete)
	switch {
	case s.problem != nil && s.problem.Code == CodeUnclosedFrontmatter:
		if front, cut, diags, ok := closeHead(src[s.start:], s); ok {
			return front, cut, diags
		}
		return Front{}, s, []Diagnostic{*s.problem}
	case s.problem != nil:
		return Front{}, s, []Diagnostic{*s.problem}
	case !s.closed:
		return Front{}, s, nil
	}
	front, diags := parseFront(src[s.start:s.end], s.line+1)
	if refused(diags, CodeInvalidYAML) || refused(diags, CodeAlias) { // the closing line may be a rule of the body
		if front, cut, diags, ok := closeHead(src[s.start:s.end], s); ok {
			return front, cut, append(s.notes, diags...)
		}
	}
	return front, s, append(s.notes, diags...)
}

func refused(diags []Diagnostic, code string) bool {
	return len(diags) == 1 && diags[0].Severity == Error && diags[0].Code == code
}

// bodyDiagnostics reports what no text file should hold, once each. Such a body is kept as it is.
func bodyDiagnostics(body []byte, firstLine int) []Diagnostic {
	var diags []Diagnostic
	if i := bytes.IndexByte(body, 0); i >= 0 {
		diags = append(diags, bodyDiagnostic(body, i, firstLine, CodeNUL, "the body holds a NUL byte; remove it"))
	}
	if i := invalidUTF8(body); i >= 0 {
		diags = append(diags, bodyDiagnostic(body, i, firstLine, CodeNotUTF8,
			fmt.Sprintf("byte 0x%02x in the body is not UTF-8; save the file as UTF-8", body[i])))
	}
	return diags
}

func bodyDiagnostic(body []byte, at, firstLine int, code, detail string) Diagnostic {
	start := bytes.LastIndexByte(body[:at], '\n') + 1
	return Diagnostic{Severity: Warning, Code: code, Detail: detail,
		Line: firstLine + bytes.Count(body[:at], []byte("\n")), Column: utf8.RuneCount(body[start:at]) + 1}
}

// invalidUTF8 gives the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}
