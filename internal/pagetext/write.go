package pagetext

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// writer writes the text of a tree. It visits each node twice: to drop what is not shown, and to
// write.
type writer struct {
	base   *url.URL
	based  bool
	title  string
	hidden int
	layout map[*html.Node]bool // tables that contain blocks: used for layout, not for data

	buf    []byte
	breaks int    // line breaks due before the next text
	space  bool   // a space is due
	pre    int    // nesting level of pre elements
	cell   int    // nesting level of data table cells
	marked int    // end of a mark that the next text follows on the same line
	prefix []byte // starts each line, according to the enclosing blocks
	lists  []int  // current numbers of ordered lists; -1 for others
}

// maxIndent is the maximum indentation: deeper quotes and lists are not indented further.
const maxIndent = 24

func (w *writer) full() bool { return len(w.buf) >= MaxText }

// dropped reports whether an element contains no readable text.
func dropped(a atom.Atom) bool {
	switch a {
	case atom.Script, atom.Style, atom.Template, atom.Svg, atom.Math, atom.Iframe, atom.Object, atom.Embed, atom.Canvas, atom.Audio, atom.Video, atom.Map,
		atom.Datalist, atom.Link, atom.Meta, atom.Frameset, atom.Noframes:
		return true
	}
	return false
}

// prune removes what is not text or what a browser would not show. It records the title, the base,
// and which tables are used for layout. table is the closest table around n.
func (w *writer) prune(n, table *html.Node) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		switch {
		case c.Type == html.CommentNode || c.Type == html.DoctypeNode || c.Type == html.ElementNode && dropped(c.DataAtom):
			n.RemoveChild(c)
		case c.Type == html.ElementNode && c.DataAtom == atom.Title && w.title == "":
			w.title = inner(c)
			n.RemoveChild(c)
		case c.Type == html.ElementNode && unseen(c):
			w.hidden++
			n.RemoveChild(c)
		default:
			w.note(c, table)
			around := table
			if c.DataAtom == atom.Table {
				around = c
			}
			w.prune(c, around)
		}
		c = next
	}
}

func (w *writer) note(n, table *html.Node) {
	switch n.DataAtom {
	case atom.Base:
		if w.based { // the first one counts
			return
		}
		if u, err := w.base.Parse(attr(n, "href")); err == nil {
			w.base = u
		}
		w.based = true
	case atom.Table, atom.P, atom.Div, atom.Ul, atom.Ol, atom.Pre, atom.Blockquote, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		if table != nil {
			w.layout[table] = true
		}
	}
}

// unseen reports whether an element's attributes hide it; see plain.
func unseen(n *html.Node) bool {
	for _, a := range n.Attr {
		if a.Key == "hidden" {
			return true
		}
	}
	return false
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}

// inner returns the text directly below n.
func inner(n *html.Node) string {
	s := ""
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.TextNode {
			s += c.Data
		}
	}
	return s
}

func (w *writer) children(n *html.Node) {
	for c := n.FirstChild; c != nil && !w.full(); c = c.NextSibling {
		switch c.Type {
		case html.TextNode:
			w.text(c.Data)
		case html.ElementNode:
			w.element(c)
		default:
			w.children(c)
		}
	}
}

func (w *writer) element(n *html.Node) {
	switch n.DataAtom {
	case atom.Br:
		w.lines(1)
	case atom.Hr:
		w.block(2, func() { w.text("---") })
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		level, _ := strconv.Atoi(n.Data[1:])
		w.block(2, func() { w.mark(strings.Repeat("#", level), func() { w.children(n) }) })
	case atom.P, atom.Dl, atom.Figure, atom.Fieldset, atom.Details:
		w.block(2, func() { w.children(n) })
	case atom.A:
		w.link(n)
	case atom.Img:
		if alt := oneLine(attr(n, "alt")); alt != "" {
			w.text("[image: " + alt + "]")
		}
	case atom.Code, atom.Kbd, atom.Samp:
		w.around("`", func() { w.children(n) })
	case atom.Pre:
		w.fenced(n)
	case atom.Blockquote:
		w.block(2, func() { w.indented("> ", func() { w.children(n) }) })
	case atom.Ul, atom.Menu:
		w.list(n, -1)
	case atom.Ol:
		w.list(n, 0)
	case atom.Li:
		w.item(n)
	case atom.Table:
		w.block(2, func() { w.children(n) })
	case atom.Tr:
		w.row(n)
	case atom.Td, atom.Th:
		w.block(1, func() { w.children(n) })
	case atom.Div, atom.Section, atom.Article, atom.Main, atom.Header, atom.Footer, atom.Nav, atom.Aside, atom.Form, atom.Address, atom.Dt, atom.Dd, atom.Option,
		atom.Caption, atom.Figcaption, atom.Summary, atom.Legend, atom.Body, atom.Textarea:
		w.block(1, func() { w.children(n) })
	default:
		w.children(n)
	}
}

// block starts and ends on its own line. With 2 breaks, it is also separated by an empty line.
func (w *writer) block(breaks int, do func()) {
	w.lines(breaks)
	do()
	w.lines(breaks)
}

func (w *writer) lines(n int) {
	if w.cell > 0 || w.marked == len(w.buf) {
		w.space = true
		return
	}
	if len(w.lists) > 0 {
		n = 1 // lists stay together
	}
	w.breaks, w.space = max(w.breaks, n), false
}

// mark starts a line with s. The output of do follows on the same line.
func (w *writer) mark(s string, do func()) {
	w.text(s)
	w.marked, w.space = len(w.buf), true
	do()
	w.marked = 0
}

// around writes a mark on both sides of what do writes, if that is not empty.
func (w *writer) around(mark string, do func()) {
	if w.pre > 0 {
		do()
		return
	}
	w.between(mark, func() string { return mark }, do)
}

func (w *writer) between(open string, end func() string, do func()) {
	breaks, space := w.breaks, w.space
	before := len(w.buf)
	w.text(open)
	begun := len(w.buf)
	do()
	if len(w.buf) == begun { // nothing was written: undo
		w.buf = w.buf[:before]
		w.breaks, w.space = max(breaks, w.breaks), space
		return
	}
	w.space = false
	w.raw(end())
}

// link writes a link's text with its target. The target is resolved only if there is text, since
// that takes time proportional to the length of the page's address.
func (w *writer) link(n *html.Node) {
	to, err := url.Parse(strings.TrimSpace(attr(n, "href")))
	if err != nil || attr(n, "href") == "" || w.pre > 0 || to.Scheme != "" && to.Scheme != "http" && to.Scheme != "https" && to.Scheme != "mailto" {
		w.children(n)
		return
	}
	w.between("[", func() string { return "](" + w.base.ResolveReference(to).String() + ")" }, func() { w.children(n) })
}

func (w *writer) fenced(n *html.Node) {
	if w.cell > 0 {
		w.around("`", func() { w.children(n) })
		return
	}
	w.block(2, func() {
		w.text("```")
		w.lines(1)
		w.pre++
		w.children(n)
		w.pre--
		w.lines(1)
		w.text("```")
	})
}

// indented adds more to the start of each line.
func (w *writer) indented(more string, do func()) {
	was := len(w.prefix)
	if was < maxIndent {
		w.prefix = append(w.prefix, more...)
	}
	do()
	w.prefix = w.prefix[:was]
}

func (w *writer) list(n *html.Node, first int) {
	w.block(2, func() {
		w.lists = append(w.lists, first)
		w.children(n)
		w.lists = w.lists[:len(w.lists)-1]
	})
}

func (w *writer) item(n *html.Node) {
	mark := "-"
	if i := len(w.lists) - 1; i >= 0 && w.lists[i] >= 0 {
		w.lists[i]++
		mark = strconv.Itoa(w.lists[i]) + "."
	}
	w.block(1, func() { w.mark(mark, func() { w.indented("  ", func() { w.children(n) }) }) })
}

// row writes a row of a data table as a line, or that of a layout table as blocks.
func (w *writer) row(n *html.Node) {
	table := n.Parent
	for table != nil && table.DataAtom != atom.Table {
		table = table.Parent
	}
	if w.layout[table] {
		w.block(1, func() { w.children(n) })
		return
	}
	cells, heads := 0, 0
	w.lines(1)
	w.text("|")
	w.cell++
	for c := n.FirstChild; c != nil && !w.full(); c = c.NextSibling {
		if c.DataAtom != atom.Td && c.DataAtom != atom.Th {
			continue
		}
		cells++
		if c.DataAtom == atom.Th {
			heads++
		}
		w.space = true
		w.children(c)
		w.space = false
		w.raw(" |")
	}
	w.cell--
	if w.lines(1); cells > 0 && cells == heads {
		w.text("|" + strings.Repeat("---|", cells))
		w.lines(1)
	}
}

// text writes text of the page. White space is kept only inside pre.
func (w *writer) text(s string) {
	if w.pre > 0 {
		for i, line := range strings.Split(s, "\n") {
			if i > 0 {
				w.flush()
				w.newline()
			}
			if line != "" {
				w.flush()
				w.buf = append(w.buf, strings.TrimSuffix(line, "\r")...)
			}
		}
		return
	}
	for i := 0; i < len(s); {
		end := strings.IndexAny(s[i:], " \t\r\n\f")
		if end < 0 {
			end = len(s) - i
		}
		if end > 0 {
			w.flush()
			w.buf = append(w.buf, s[i:i+end]...)
		}
		if i += end; i < len(s) {
			w.space = true
			i++
		}
	}
}

// raw writes s as is.
func (w *writer) raw(s string) { w.buf = append(w.buf, s...) }

// flush writes line breaks and spaces that are due before text.
func (w *writer) flush() {
	switch {
	case w.breaks > 0 && len(w.buf) > 0:
		for range w.breaks {
			w.newline()
		}
	case w.breaks > 0 || len(w.buf) == 0:
		w.buf = append(w.buf, w.prefix...)
	case w.space && !bytes.HasSuffix(w.buf, []byte("[")) && !bytes.HasSuffix(w.buf, []byte(" ")):
		w.buf = append(w.buf, ' ')
	}
	w.breaks, w.space = 0, false
}

func (w *writer) newline() {
	w.buf = append(bytes.TrimRight(w.buf, " "), '\n')
	w.buf = append(w.buf, w.prefix...)
}

func (w *writer) done() string {
	return strings.ToValidUTF8(strings.TrimSpace(string(w.buf)), "\uFFFD")
}
