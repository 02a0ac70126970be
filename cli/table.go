package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"
)

// table prints rows in columns as wide as their cells. Cells are untrusted text, so each is reduced
// to one line without control characters.
type table struct {
	heads []string // no heads: no first line
	right []int    // columns of numbers
	width int      // of the terminal: the last column is cut to fit; 0: nothing is cut
	rows  [][]string
}

func (t *table) add(cells ...string) {
	for i, c := range cells {
		cells[i] = oneLine(c)
	}
	t.rows = append(t.rows, cells)
}

// addWrapped adds a row whose cell at a column is wrapped to this many columns of the terminal.
func (t *table) addWrapped(at, most int, cells ...string) {
	lines := wrap(oneLine(cells[at]), most, most)
	cells[at] = lines[0]
	t.add(cells...)
	for _, line := range lines[1:] {
		t.add(append(make([]string, at), line)...)
	}
}

// print writes the table, leaving out columns in which every cell is empty.
func (t *table) print(w io.Writer, indent string) {
	width, last := t.widths()
	out := bufio.NewWriterSize(w, 64<<10) // whose error is that of w, see output
	defer out.Flush()
	var line []byte
	print := func(row []string) {
		line = append(line[:0], indent...)
		for i, cell := range row {
			if width[i] == 0 {
				continue
			}
			pad := width[i] - columnsOf(cell)
			if slices.Contains(t.right, i) {
				line, pad = appendSpaces(line, pad), 0
			}
			line = append(line, cell...)
			if i < last {
				line = appendSpaces(line, pad+2)
			}
		}
		line = bytes.TrimRight(line, " ")
		if t.width > 0 {
			line = append(line[:0], cutTo(string(line), t.width)...)
		}
		line = append(line, '\n')
		out.Write(line)
	}
	if len(t.heads) > 0 {
		print(t.heads)
	}
	for _, row := range t.rows {
		print(row)
	}
}

// leastCell is the number of terminal columns that fit leaves for a cell.
const leastCell = 20

// fit cuts the cells of one column so that the row up to it fits the width of the terminal. A width
// of 0 cuts nothing.
func (t *table) fit(col, width int) {
	if width == 0 {
		return
	}
	used, _ := t.widths()
	for _, w := range used[:col] {
		if w > 0 {
			width -= w + 2
		}
	}
	for _, row := range t.rows {
		row[col] = cutTo(row[col], max(width, leastCell))
	}
}

// widths returns the width of each column, 0 for an empty one, and the index of the last nonempty
// one.
func (t *table) widths() (width []int, last int) {
	for _, row := range t.rows {
		for i, cell := range row {
			if i >= len(width) {
				width = append(width, 0)
			}
			if cell != "" {
				width[i], last = max(width[i], columnsOf(cell), 1), max(last, i)
			}
		}
	}
	for i := range max(len(t.heads), len(width)) {
		switch {
		case i >= len(width):
			width = append(width, 0)
		case width[i] > 0 && i < len(t.heads):
			width[i] = max(width[i], columnsOf(t.heads[i]))
		}
	}
	return width, last
}

func appendSpaces(b []byte, n int) []byte {
	for range n {
		b = append(b, ' ')
	}
	return b
}

// columnsOf returns how many terminal columns a line takes.
func columnsOf(s string) int {
	if plain(s) {
		return len(s)
	}
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

// runeColumns returns 2 for East Asian characters and emoji, 0 for combining marks, and 1
// otherwise. It does not cover all of Unicode.
func runeColumns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me), r == 0x200c, r == 0x200d:
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf && r != 0x303f, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// cutTo cuts a line to this many columns. If anything is cut off, it ends with an ellipsis.
func cutTo(s string, most int) string {
	if columnsOf(s) <= most {
		return s
	}
	n := 0
	for i, r := range s {
		if n += runeColumns(r); n > most-1 {
			return strings.TrimRight(s[:i], " ") + "…"
		}
	}
	return s
}

// wrap breaks a line into lines of this many columns, at least two, at spaces if possible.
func wrap(s string, first, rest int) []string {
	var out []string
	most := max(first, 2) // one character
	for columnsOf(s) > most {
		n, at, space := 0, 0, 0
		for i, r := range s {
			if n += runeColumns(r); n > most {
				break
			}
			if at = i + len(string(r)); r == ' ' {
				space = at
			}
		}
		if at < len(s) && s[at] == ' ' {
			space = at + 1
		}
		if space > 0 {
			at = space
		}
		out = append(out, strings.TrimRight(s[:at], " "))
		s, most = strings.TrimLeft(s[at:], " "), max(rest, 2)
	}
	return append(out, s)
}

// paragraphs wraps text whose paragraphs are separated by empty lines. A paragraph with an indented
// line stays as it is.
func paragraphs(text string, width int) string {
	list := strings.Split(text, "\n\n")
	for i, p := range list {
		if !strings.HasPrefix(p, " ") && !strings.Contains(p, "\n ") {
			list[i] = strings.Join(wrap(strings.Join(strings.Fields(p), " "), width, width), "\n")
		}
	}
	return strings.Join(list, "\n\n")
}

// plain reports whether s is printable ASCII, so that each byte takes one column.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// oneLine returns untrusted text on one line.
func oneLine(s string) string {
	if plain(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, printable(s))
}

// dollars formats a cost. It returns "" if the price is unknown.
func dollars(usd *float64, partial bool) string {
	if usd == nil {
		return ""
	}
	s := fmt.Sprintf("$%.4f", *usd)
	if partial {
		s = "at least " + s
	}
	return s
}

// localTime formats a recorded time in the local time zone.
func localTime(stamp string) string {
	t, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return stamp
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// outTerminal reports whether standard output is a terminal.
func (a *app) outTerminal() bool { return a.outFile() != nil }

// outFile returns standard output if it is a terminal, and nil otherwise.
func (a *app) outFile() *os.File {
	w := a.Out
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// short returns a digest, shortened on a terminal and complete otherwise.
func (a *app) short(digest string) string {
	const most = len("sha256:") + 12
	if a.outTerminal() && strings.HasPrefix(digest, "sha256:") && len(digest) > most {
		return digest[:most] + "…"
	}
	return digest
}
