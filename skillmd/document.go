// Package skillmd reads and writes the syntax of SKILL.md: YAML frontmatter between two --- lines, then Markdown
// (Agent Skills specification, "SKILL.md format"). It applies no settings: later stages decide how to treat a missing name or
// an unknown key. Findings are diagnostics: readers never return an error and never panic. [Open] repairs a file.
package skillmd

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Document is one parsed file. Body and Raw share the memory passed to [Parse]; Front does not.
type Document struct {
	Front    Front
	Body     []byte // all bytes after the frontmatter, or the whole file after a byte order mark if there is no frontmatter
	BodyLine int    // line number of the body's first line
	Raw      []byte // the file, byte for byte; it ends with Body
}

// Parse reads a whole file. It always returns a Document. Diagnostics report missing or refused frontmatter.
// Invalid YAML is repaired if only one reading is plausible and it gives the skill no authority; each repair is a warning
// ([Diagnostic.Repair]). Diagnostics of the frontmatter come before those of the body.
func Parse(src []byte) (Document, []Diagnostic) {
	front, s, diags := parseHead(src, true)
	d := Document{Front: front, Body: src[s.body:], BodyLine: s.bodyLine, Raw: src}
	if s.problem != nil && s.problem.Code == CodeNotUTF8 {
		return d, diags // UTF-16: every line would be reported again
	}
	return d, append(diags, bodyDiagnostics(d.Body, d.BodyLine)...)
}

// ParseHead reads the frontmatter from the first bytes of a file; complete reports that src is the whole file. If the end of
// the frontmatter is not in src, enough is false and nothing else is set: read more bytes and call ParseHead again. With
// [MaxHead] bytes, enough is always true. The result equals that of [Parse] for the whole file; bodyOffset is the start of
// its Body.
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

// bodyDiagnostics reports NUL bytes and invalid UTF-8, once each. The body is not changed.
func bodyDiagnostics(body []byte, firstLine int) []Diagnostic {
	var diags []Diagnostic
	if i := bytes.IndexByte(body, 0); i >= 0 {
		diags = append(diags, bodyDiagnostic(body, i, firstLine, CodeNUL, "the body contains a NUL byte; remove it"))
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

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
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
