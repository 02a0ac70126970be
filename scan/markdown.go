package scan

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"metier/internal/injection"
	"metier/skillmd"
)

// where is the kind of place that a text is in.
type where int

const (
	inProse   where = iota // text that the model reads as an instruction
	inComment              // an HTML comment, which is not shown to people
	inFence                // a block of code in Markdown
	inLine                 // code in a sentence
	inScript               // a file of code
	inData                 // another file
)

// unit is a piece of text with its context.
type unit struct {
	file    *source
	place   where
	text    string
	starts  []segment
	lang    string
	fixed   bool // all of it is at the first offset of starts
	mention bool // the text around it announces an attack or something to avoid
}

// segment maps an offset in a unit to one in its file.
type segment struct{ at, source int }

// offset returns the offset in the file.
func (u unit) offset(at int) int {
	lo, hi := 0, len(u.starts)
	for lo+1 < hi {
		if mid := (lo + hi) / 2; u.starts[mid].at <= at {
			lo = mid
		} else {
			hi = mid
		}
	}
	switch {
	case len(u.starts) == 0:
		return at
	case u.fixed:
		return u.starts[0].source
	}
	return u.starts[lo].source + at - u.starts[lo].at
}

// blocks parses the block structure of Markdown. Inline markup is not parsed: sentences are read as
// words, and code in them is found by its backticks.
var blocks = parser.NewParser(parser.WithBlockParsers(
	util.Prioritized(parser.NewSetextHeadingParser(), 100), util.Prioritized(parser.NewThematicBreakParser(), 200),
	util.Prioritized(parser.NewListParser(), 300), util.Prioritized(parser.NewListItemParser(), 400),
	util.Prioritized(parser.NewCodeBlockParser(), 500), util.Prioritized(parser.NewATXHeadingParser(), 600),
	util.Prioritized(parser.NewFencedCodeBlockParser(), 700), util.Prioritized(parser.NewBlockquoteParser(), 800),
	util.Prioritized(parser.NewHTMLBlockParser(), 900), util.Prioritized(parser.NewParagraphParser(), 1000)))

// document scans a Markdown file.
func (s *scanner) document(f *source) {
	body := 0
	doc, _ := skillmd.Parse([]byte(f.text))
	if doc.Front.Present {
		body = len(doc.Raw) - len(doc.Body)
	}
	if strings.EqualFold(f.path, "skill.md") {
		s.front, s.frontAt = doc.Front, f.path
	}
	s.orders(f)
	if body > 0 {
		front := unit{file: f, text: f.text[:body], starts: []segment{{0, 0}}}
		s.sentences(f, []unit{front})
		s.lines(f, front)
	}
	units := []unit{{file: f, text: f.text[body:], starts: []segment{{0, body}}}}
	if nested(f.text) {
		f.partly = true
		units = append(units, fencesOf(f, body)...)
	} else {
		units = unitsOf(f, body)
	}
	s.sentences(f, units)
	for _, u := range units {
		switch {
		case u.place == inFence || u.place == inLine:
			s.code(f, u)
		case u.place == inProse:
			for _, c := range inlineCode(u) {
				s.code(f, c)
			}
			s.marked(f, u)
		}
	}
}

// code scans a block of code in Markdown.
func (s *scanner) code(f *source, u unit) {
	switch u.lang {
	case shellCode:
		s.commands(f, u)
	case python, javascript, powershell:
		s.statements(f, u, u.lang)
	default:
		s.lines(f, u)
	}
}

// fencesOf returns the blocks of code of a document whose other blocks are not parsed.
func fencesOf(f *source, body int) (out []unit) {
	var block *unit
	at := body
	for line := range strings.SplitAfterSeq(f.text[body:], "\n") {
		text := strings.TrimLeft(line, " \t>")
		switch marks := strings.HasPrefix(text, "```") || strings.HasPrefix(text, "~~~"); {
		case marks && block == nil:
			block = &unit{file: f, place: inFence, lang: fenceLanguage(strings.TrimSpace(strings.Trim(text, "`~\r\n")), "")}
		case marks:
			out, block = append(out, *block), nil
		case block != nil:
			block.starts = append(block.starts, segment{len(block.text), at + len(line) - len(text)})
			block.text += text
		}
		at += len(line)
	}
	if block != nil {
		out = append(out, *block)
	}
	return out
}

// Limits of the blocks in blocks of a document that is parsed.
const (
	maxMarks  = 40  // at the start of a line
	maxIndent = 100 // columns before the last mark
)

// nested reports whether blocks are nested so deeply that parsing them would take too long.
func nested(src string) bool {
	for line := range strings.SplitSeq(src, "\n") {
		columns, marks, last := 0, 0, 0
	scan:
		for i := range len(line) {
			switch c := line[i]; {
			case c == '\t':
				columns += 4
			case c == ' ' || c >= '0' && c <= '9':
				columns++
			case strings.IndexByte(">-*+.)", c) >= 0:
				columns, marks = columns+1, marks+1
				last = columns
			default:
				break scan
			}
		}
		if (marks > maxMarks || last > maxIndent) && strings.Trim(line, "-*+. \t") != "" {
			return true
		}
	}
	return false
}

// unitsOf splits a document into its blocks.
func unitsOf(f *source, body int) []unit {
	src := []byte(f.text[body:])
	root := blocks.Parse(text.NewReader(src))
	d := &divider{f: f, src: src, body: body}
	d.divide(root)
	return d.out
}

type divider struct {
	f        *source
	src      []byte
	body     int
	headings []string // the text of the headings above, by level
	lead     string   // the last text before a block
	out      []unit
}

func (d *divider) divide(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Heading:
			u := d.unit(c, inProse)
			for len(d.headings) >= c.Level {
				d.headings = d.headings[:len(d.headings)-1]
			}
			for len(d.headings) < c.Level-1 {
				d.headings = append(d.headings, "")
			}
			d.headings = append(d.headings, strings.ToLower(u.text))
			d.lead = ""
			d.out = append(d.out, u)
		case *ast.FencedCodeBlock:
			u := d.unit(c, inFence)
			u.lang = fenceLanguage(string(c.Language(d.src)), u.text)
			d.out = append(d.out, u)
		case *ast.CodeBlock:
			u := d.unit(c, inFence)
			u.lang = fenceLanguage("", u.text)
			d.out = append(d.out, u)
		case *ast.HTMLBlock:
			u := d.unit(c, inProse)
			if c.HasClosure() {
				u.starts = append(u.starts, segment{len(u.text), d.body + c.ClosureLine.Start})
				u.text += string(d.src[c.ClosureLine.Start:c.ClosureLine.Stop])
			}
			if strings.Contains(u.text, "<!--") {
				u.place = inComment
			}
			d.out = append(d.out, u)
		case *ast.Paragraph, *ast.TextBlock:
			u := d.unit(c, inProse)
			d.out = append(d.out, u)
			d.lead = strings.ToLower(u.text)
		default:
			d.divide(c)
		}
	}
}

func (d *divider) unit(n ast.Node, at where) unit {
	u := unit{file: d.f, place: at}
	var b strings.Builder
	lines := n.Lines()
	for i := range lines.Len() {
		l := lines.At(i)
		u.starts = append(u.starts, segment{b.Len(), d.body + l.Start})
		b.Write(d.src[l.Start:l.Stop])
	}
	if u.text = b.String(); u.text == "" {
		u.starts = []segment{{0, d.body}}
	}
	u.mention = d.f.attacks || d.announced()
	if at == inFence {
		u.mention = u.mention && !ordered(d.lead) || aboutAttacks(d.lead[max(0, len(d.lead)-400):]) || refused(d.lead) || labelled(u.text)
	}
	return u
}

// announced reports whether a heading above announces an attack, or something to avoid. The title
// does not count: otherwise, a title would hide everything below it.
func (d *divider) announced() bool {
	for _, h := range d.headings[min(1, len(d.headings)):] {
		if h != "" && (aboutAttacks(h) || avoids(h)) {
			return true
		}
	}
	return false
}

// fenceLanguage returns the language of a block of code.
func fenceLanguage(info, code string) string {
	info, _, _ = strings.Cut(strings.ToLower(strings.Trim(info, "{}. ")), " ")
	switch info {
	case "sh", "bash", "shell", "zsh", "console", "terminal", "shell-session", "shellscript", "cmd":
		return shellCode
	case "python", "py", "python3", "ruby", "perl":
		return python
	case "js", "javascript", "ts", "typescript", "mjs", "jsx", "tsx", "node":
		return javascript
	case "powershell", "ps1", "pwsh", "bat", "batch":
		return powershell
	case "", "text", "txt", "plaintext":
		if lang := interpreter(code); lang != "" {
			return lang
		}
		return shellCode // a command to copy; text that is none matches no rule
	}
	return ""
}

// marked applies the rules for commands to text that is emphasized, in a tag, or after a colon.
func (s *scanner) marked(f *source, u unit) {
	if !marked(u.text) {
		return
	}
	at := 0
	for line := range strings.SplitAfterSeq(u.text, "\n") {
		from := at
		at += len(line)
		if !marked(line) || strings.HasPrefix(strings.TrimSpace(line), "|") {
			continue
		}
		for part := range strings.FieldsFuncSeq(strings.NewReplacer("**", "\x00", ": ", "\x00", "<", "\x00<", ">", "\x00", "&lt;", "<", "&gt;", ">", "&amp;", "&", "\u00a0", " ", "``", "\x00").Replace(line), func(r rune) bool { return r == 0 }) {
			if part = strings.TrimSpace(part); !marked(part) || strings.ContainsAny(part[:1], "<`") {
				continue
			}
			before := strings.ToLower(u.text[max(0, from-200):from] + line[:max(0, strings.Index(line, part))])
			mention := u.mention || aboutAttacks(before) || refused(before) || injection.Listed(f.text, u.offset(from))
			s.commands(f, unit{file: f, place: inLine, text: part, lang: shellCode, starts: []segment{{0, u.offset(from)}}, fixed: true, mention: mention})
		}
	}
}

// inlineCode returns the commands in the backticks of a sentence.
func inlineCode(u unit) (out []unit) {
	for i := 0; i < len(u.text); {
		from := strings.IndexByte(u.text[i:], '`')
		if from < 0 {
			break
		}
		from += i + 1
		n := strings.IndexByte(u.text[from:], '`')
		if n < 0 {
			break
		}
		if code := u.text[from : from+n]; strings.Contains(code, " ") && len(out) < 500 {
			before := strings.ToLower(u.text[max(0, from-200):from])
			mention := u.mention || aboutAttacks(before) || refused(before) || injection.Listed(u.file.text, u.offset(from))
			out = append(out, unit{file: u.file, place: inLine, text: code, lang: shellCode, starts: []segment{{0, u.offset(from)}}, mention: mention})
		}
		i = from + n + 1
	}
	return out
}
