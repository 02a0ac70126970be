package policy

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Layout limits how a question is displayed.
type Layout struct {
	Width int    // columns of a line; 0: unlimited
	Lines int    // lines of the request, of the arguments, and of each value; 0: unlimited
	More  string // how to see what was cut
}

// argumentsLabel is the label of which arguments an answer covers.
const argumentsLabel = "arguments"

// mark is before each line that a reader could otherwise take for one of metier's.
const mark = "| "

// Shown returns the lines of a question for display: the request, then the call's
// arguments, and what an answer covers, with labels. Text of skills and models is wrapped,
// marked, and cut here, so that it can neither imitate what the answer covers nor move it
// out of sight.
func Shown(text string, args json.RawMessage, l Layout) []string {
	out, rows, label := l.parts(text, args)
	for _, r := range rows {
		out = append(out, strings.TrimRight(fmt.Sprintf("  %-*s  %s", label, r[0], r[1]), " "))
	}
	return out
}

// parts returns the lines of the request, labeled values, and the width of the labels. Rows
// without a label continue the value above, except the last.
func (l Layout) parts(text string, args json.RawMessage) (asked []string, rows [][2]string, label int) {
	ask, covers := SplitQuestion(text)
	asked = l.lines(strings.TrimSuffix(ask, "\n"), l.Width, "")
	given, covered := string(args), ""
	label = len("given")
	if given == "null" {
		given = ""
	}
	for _, c := range covers {
		if c[0] != argumentsLabel {
			label = max(label, len(c[0]))
		}
	}
	value := l.Width
	if value > 0 {
		value -= label + 4
	}
	add := func(label string, lines []string) {
		for _, line := range lines {
			rows, label = append(rows, [2]string{label, line}), ""
		}
	}
	if given != "" {
		add("given", l.lines(given, value, mark))
	}
	most := len(rows) + 3*l.Lines
	for _, c := range covers {
		switch {
		case c[0] != argumentsLabel:
			add(c[0], l.lines(l.digest(c[1]), value, ""))
		case c[1] == anyArgs:
			covered = "any arguments"
		default:
			covered = c[1]
		}
	}
	if more := len(rows) - most; l.Lines > 0 && more > 0 {
		rows = append(rows[:most], [2]string{"", fmt.Sprintf("… %d lines more%s", more, l.More)})
	}
	if given != "" && covered != "" {
		rows = append(rows, [2]string{"", "(an approval covers " + covered + ")"})
	}
	return asked, rows, label
}

// lines splits text into lines of a width. The first line starts with first, and the
// others with a mark.
func (l Layout) lines(s string, width int, first string) (out []string) {
	s = printable(s)
	for len(s) > 0 || len(out) == 0 {
		if l.Lines > 0 && len(out) == l.Lines {
			return append(out, fmt.Sprintf("… %d bytes more%s", len(s), l.More))
		}
		prefix := mark
		if len(out) == 0 {
			prefix = first
		}
		n := fitting(s, width-len(prefix))
		out = append(out, prefix+s[:n])
		s = strings.TrimPrefix(s[n:], "\n")
	}
	return out
}

// digest shortens a digest where the width is limited.
func (l Layout) digest(s string) string {
	const kind, shown = "sha256:", 12
	if hex, is := strings.CutPrefix(s, kind); is && l.Width > 0 && len(hex) == 64 {
		return kind + hex[:shown] + "…"
	}
	return s
}

// fitting returns how many bytes of text are on its first line. It takes each character
// that is not ASCII for a wide one. A width of 0 or less is unlimited.
func fitting(s string, width int) int {
	used := 0
	for i, c := range s {
		columns := 1
		if c >= 0x80 {
			columns = 2
		}
		if used += columns; c == '\n' || width > 0 && used > max(width, 20) {
			return i
		}
	}
	return len(s)
}

// Plain returns a question for display as one text, for the form of a client.
func (q Question) Plain(args json.RawMessage) string {
	lines, rows, _ := Layout{Width: 80, Lines: 12}.parts(q.Text, args)
	for _, r := range rows {
		line := r[1]
		if r[0] != "" {
			line = r[0] + ": " + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
