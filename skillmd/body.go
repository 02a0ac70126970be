package skillmd

import "strings"

// MaxFirstParagraph is the maximum length of the result of [FirstParagraph] in characters: the limit of a description.
const MaxFirstParagraph = 1024

// FirstParagraph returns the first paragraph of a body as one line, with its emphasis. It can replace a missing description.
// Headings, code, comments, list items, quotes, tables, and rules are not paragraphs. It returns "" if the first 256 KiB have
// no paragraph.
func FirstParagraph(body []byte) string {
	var p paragraph
	for line := range strings.Lines(string(body[:min(len(body), 256<<10)])) {
		if p.add(strings.TrimRight(line, "\r\n")) {
			break
		}
	}
	return clip(strings.ToValidUTF8(strings.Join(p.lines, " "), "\ufffd"), MaxFirstParagraph)
}

// paragraph walks the lines of a body.
type paragraph struct {
	lines   []string
	code    fence
	comment bool // inside <!-- -->
	list    bool // after a list item: indented and lazy lines belong to it
}

// add takes one line and reports whether the paragraph is complete.
func (p *paragraph) add(line string) bool {
	text := strings.TrimSpace(line)
	if p.comment {
		_, after, closed := strings.Cut(text, "-->")
		p.comment = !closed
		text = strings.TrimSpace(after)
		if !closed || text == "" {
			return false
		}
	}
	if p.code != "" {
		p.code.holds(text)
		return false
	}
	text = p.cutComments(text)
	if isUnderline(text) && len(p.lines) > 0 { // the lines before were a heading
		p.lines = nil
		return false
	}
	if text == "" || !p.prose(line, text) {
		if text == "" {
			p.list = false
		}
		return len(p.lines) > 0
	}
	p.lines = append(p.lines, text)
	return false
}

// prose reports whether a line is text of a paragraph, and records the start of other blocks.
func (p *paragraph) prose(line, text string) bool {
	switch {
	case strings.HasPrefix(text, "```"), strings.HasPrefix(text, "~~~"):
		if len(p.lines) == 0 {
			p.code.holds(text)
		}
		return false
	case isListItem(text):
		p.list = true
		return false
	case p.list:
		return false
	case len(p.lines) == 0 && (strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")): // code block
		return false
	case text[0] == '#' && isHeading(text), text[0] == '>', text[0] == '|', isUnderline(text), isRule(text):
		return false
	}
	return true
}

// cutComments removes the comments of one line. An unclosed comment hides the following lines.
func (p *paragraph) cutComments(text string) string {
	for {
		before, rest, found := strings.Cut(text, "<!--")
		if !found {
			return text
		}
		_, after, closed := strings.Cut(rest, "-->")
		if !closed {
			p.comment = true
			return strings.TrimSpace(before)
		}
		text = strings.TrimSpace(strings.TrimSpace(before) + " " + strings.TrimSpace(after))
	}
}

func isHeading(text string) bool {
	rest := strings.TrimLeft(text, "#")
	return len(text)-len(rest) <= 6 && (rest == "" || rest[0] == ' ' || rest[0] == '\t')
}

// isUnderline reports whether text is the === or --- line under a heading.
func isUnderline(text string) bool {
	return text != "" && (strings.Trim(text, "=") == "" || strings.Trim(text, "-") == "")
}

func isRule(text string) bool {
	squeezed := strings.ReplaceAll(text, " ", "")
	return len(squeezed) >= 3 && strings.Contains("*-_", squeezed[:1]) && strings.Trim(squeezed, squeezed[:1]) == ""
}

func isListItem(text string) bool {
	marker, rest, spaced := strings.Cut(text, " ")
	if marker == "-" || marker == "*" || marker == "+" {
		return spaced && strings.TrimSpace(rest) != "" || !spaced
	}
	digits := strings.TrimRight(marker, ".)")
	return len(marker) == len(digits)+1 && len(digits) <= 9 && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// clip cuts s to at most n characters.
func clip(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// fence is the run of ``` or ~~~ that opened the code block a line is in; "" is none.
type fence string

// holds reports whether a line, without the blanks around it, belongs to a code block, its fences included.
func (f *fence) holds(text string) bool {
	switch {
	case *f != "":
		if strings.HasPrefix(text, string(*f)) && strings.Trim(text, string((*f)[:1])) == "" {
			*f = ""
		}
	case strings.HasPrefix(text, "```"), strings.HasPrefix(text, "~~~"):
		*f = fence(text[:len(text)-len(strings.TrimLeft(text, text[:1]))])
	default:
		return false
	}
	return true
}
