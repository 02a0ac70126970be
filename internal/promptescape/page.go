package promptescape

import (
	"bytes"
	"fmt"
	"strings"

	"metier/internal/sniff"
)

// pageLines is the maximum number of lines on a page: a client cuts results of more than 2,000
// lines.
const pageLines = 1900

// Fits reports whether a text fits on one page of at most the given bytes.
func Fits(text string, most int) bool {
	return len(text) <= most && strings.Count(text, "\n") <= pageLines
}

// Fit shortens text to one page of at most the given bytes. It cuts after the last whole line if
// that keeps three quarters of the page, otherwise after the last whole character.
func Fit(b []byte, most int) []byte {
	for at, n := 0, 0; n < pageLines; n++ {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			break
		}
		if at += i + 1; n == pageLines-1 {
			b = b[:at]
		}
	}
	if len(b) <= most {
		return b
	}
	b = b[:max(most, 1)]
	if i := bytes.LastIndexByte(b, '\n'); i >= len(b)*3/4 {
		return b[:i+1]
	}
	if whole := sniff.WholeRunes(b); len(whole) > 0 {
		return whole
	}
	return b
}

// Page returns the part of an activated skill's text, as written by [Skill.Text], that begins at an
// offset. The page has at most the given number of bytes, including what Page adds: an element
// around each part, and after it which bytes these are and that load, a tool call without its
// offset, continues. to is the end of the part.
func Page(text, name, load string, from, most int) (page string, to int) {
	const tag = "skill_context"
	begin := ""
	if from > 0 {
		begin = fmt.Sprintf("<%s name=\"%s\" offset=\"%d\">\n", tag, Attribute(name), from)
	}
	note := func(to int) string {
		if to == len(text) {
			return fmt.Sprintf("Note: this is the last part of the skill, bytes %d to %d of %d.\n", from, to, to)
		}
		return fmt.Sprintf("Note: these are bytes %d to %d of %d. The instructions continue: call %s and offset %d to read on.\n", from, to, len(text), load, to)
	}
	end := "</" + tag + ">\n"
	room := max(most-len(begin)-len(end)-len(note(len(text)-1))-1, most/2)
	if to = len(text); !Fits(text[from:], room) {
		to = from + len(Fit([]byte(text[from:min(len(text), from+room+1)]), room))
		to = min(to, max(from+1, len(text)-len(end))) // the last part has content too
	}
	page = begin + text[from:to]
	if to < len(text) {
		if !strings.HasSuffix(page, "\n") {
			page += "\n"
		}
		page += end
	}
	return page + note(to), to
}
