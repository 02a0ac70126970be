package scan

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"metier/internal/termtext"
)

const (
	maxExcerpt = 160 // bytes
	maxBefore  = 40  // bytes of a long line before the finding
)

// add adds a finding at an offset of a file.
func (s *scanner) add(f *source, r *rule, offset int, u *unit) { s.addText(f, r, offset, u, "") }

// addText is like add. more is shown after the excerpt.
func (s *scanner) addText(f *source, r *rule, offset int, u *unit, more string) {
	s.addCommand(f, r, offset, offset, u, more, "")
}

// addCommand is like addText for an excerpt that begins at another offset. The finding is about these
// words as well as about the line.
func (s *scanner) addCommand(f *source, r *rule, offset, from int, u *unit, more, words string) {
	x := Finding{File: f.path, Severity: r.Severity, Confidence: confidence(r, f, u)}
	key := strings.Join([]string{r.ID, f.path, strconv.FormatBool(x.Decides())}, "\x00") // what does not decide leaves room for what does
	if s.counts[key]++; s.counts[key] > maxOfRule {
		s.coverage.Findings++
		return
	}
	x.Line, x.Column = f.at(offset)
	if x.Excerpt = excerpt(f.text, from); more != "" {
		x.Excerpt += " → " + excerpt(more, 0)
	}
	s.finish(r, x, words+"\x00"+wholeLine(f.text, from)+"\x00"+more)
}

// wholeLine returns the line at an offset, with the lines that continue it.
func wholeLine(text string, offset int) string {
	offset = min(offset, len(text))
	from := strings.LastIndexByte(text[:offset], '\n') + 1
	to := from
	for to < len(text) && (text[to] != '\n' || to > from && text[to-1] == '\\') {
		to++
	}
	return text[from:to]
}

// finish completes and adds a finding. Two findings of a rule in one line are one. about is the text
// that the finding is about.
func (s *scanner) finish(r *rule, x Finding, about string) {
	for i := len(s.findings) - 1; i >= max(0, len(s.findings)-50); i-- {
		if o := &s.findings[i]; o.Rule == r.ID && o.File == x.File && o.Line == x.Line {
			o.Confidence = max2(o.Confidence, x.Confidence)
			return
		}
	}
	x.Rule, x.Class, x.Title, x.Severity, x.Fix = r.ID, r.Class, r.Title, r.Severity, r.Fix
	key := identity(r.ID, x.File, about, 0)
	x.ID = identity(r.ID, x.File, about, s.counts[key])
	s.counts[key]++
	s.findings = append(s.findings, x)
}

// confidence returns the confidence of a rule in the context of a match.
func confidence(r *rule, f *source, u *unit) Confidence {
	c := r.Confidence
	switch {
	case u.mention:
		return Unsure
	case u.place == inLine:
		c = less(c)
	case u.place == inData && sure(c) > 0:
		c = less(c)
	}
	if f.fixture {
		c = less(c)
	}
	return c
}

// excerpt returns the line at an offset, with invisible characters written as escapes.
func excerpt(text string, offset int) string {
	offset = min(offset, len(text))
	from := strings.LastIndexByte(text[:offset], '\n') + 1
	if offset-from > maxBefore {
		from = offset - maxBefore
		for from > 0 && !utf8.RuneStart(text[from]) {
			from--
		}
	}
	line, _, _ := strings.Cut(text[from:min(len(text), from+4*maxExcerpt)], "\n")
	out := termtext.Line(line)
	if len(out) > maxExcerpt {
		out = strings.ToValidUTF8(out[:maxExcerpt], "") + "…"
	}
	return out
}
