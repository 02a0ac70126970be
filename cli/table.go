package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// table prints rows in columns, as wide as their cells: nothing is cut. Cells
// are untrusted text: each becomes one line without control characters.
type table struct {
	heads []string // no heads: no first line
	right []int    // columns of numbers
	rows  [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// print writes the table, leaving out columns in which every cell is empty.
func (t *table) print(w io.Writer, indent string) {
	rows := t.rows
	if len(t.heads) > 0 {
		rows = append([][]string{t.heads}, rows...)
	}
	width := map[int]int{}
	used := map[int]bool{}
	last := 0
	for n, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], utf8.RuneCountInString(oneLine(c)))
			if c != "" && (n > 0 || len(t.heads) == 0) {
				used[i], last = true, max(last, i)
			}
		}
	}
	for _, r := range rows {
		var b strings.Builder
		for i, c := range r {
			if !used[i] {
				continue
			}
			c = oneLine(c)
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			switch {
			case slices.Contains(t.right, i):
				b.WriteString(pad + c)
			case i < last:
				b.WriteString(c + pad)
			default:
				b.WriteString(c)
			}
			if i < last {
				b.WriteString("  ")
			}
		}
		fmt.Fprintf(w, "%s%s\n", indent, strings.TrimRight(b.String(), " "))
	}
}

// oneLine is untrusted text on one line of a page.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, printable(s))
}

// thousands writes a count as people read it: 12,767.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plural is a count with its word: 1 run, 2 runs.
func plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return thousands(int64(n)) + " " + word
}

// dollars words a cost; "" when no price is known.
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

// localTime shows a recorded time in the zone of the reader.
func localTime(stamp string) string {
	t, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return stamp
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// outTerminal reports whether standard output is a terminal.
func (a *app) outTerminal() bool {
	w := a.Out
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// short is a digest as people compare it in a terminal; piped it is whole.
func (a *app) short(digest string) string {
	const most = len("sha256:") + 12
	if a.outTerminal() && strings.HasPrefix(digest, "sha256:") && len(digest) > most {
		return digest[:most] + "…"
	}
	return digest
}
