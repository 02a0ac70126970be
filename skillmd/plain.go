package skillmd

import (
	"strings"
	"unicode/utf8"

	"metier/internal/yaml"
)

// plainLines caps how many lines are read as plain: each adds two YAML values at most, so that the library's limit on values is
// never near, and comparing every key with those before it stays cheap.
const plainLines = 256

// plainDepth caps how many maps and lists below each other are read as plain, and plainItems how many values in brackets, for the
// same reason.
const (
	plainDepth = 8
	plainItems = 2048
)

// plain reads frontmatter that needs no YAML library, which most does not: lines `key: value`, the value one line of text, with
// or without quotes, a list or map in brackets on one line, a text over lines (| or >), or `key: value` and `- value` lines below
// it, a few levels deep. It only ever says what the library says too (FuzzPlain compares them); ok is false wherever the library
// might say something else or something more, and then the library is asked. So plain refuses nothing and has no findings of its
// own. The fields share one copy of the text.
func plain(text []byte, line int) (fields []Field, ok bool) {
	if !plainText(text) {
		return nil, false
	}
	p := plainReader{rest: string(text), line: line}
	for p.blanks(); p.rest != ""; p.blanks() {
		f, rest, ok := p.field(fields, 0)
		if !ok {
			return nil, false
		}
		if f.Value, ok = p.value(rest, 0, 0); !ok {
			return nil, false
		}
		if fields == nil {
			fields = make([]Field, 0, min(1+strings.Count(p.rest, "\n"), 16)) // nearly always a line each
		}
		fields = append(fields, f)
	}
	return fields, len(fields) > 0 // a block without a field has findings of its own
}

// plainText reports whether the text has only characters that mean the same everywhere. A tab may separate, indent or be refused.
// A CR alone, NEL, LS and PS end a line in YAML and not here, and a byte order mark may be skipped. Control characters and bytes
// that are not UTF-8 (U+FFFD stands for them) are refused with a position. A last line without its end reads differently in a
// text over lines.
func plainText(text []byte) bool {
	if len(text) > MaxHead || len(text) == 0 || text[len(text)-1] != '\n' {
		return false
	}
	lines := 0
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c >= ' ' && c < 0x7f:
			i++
			continue
		case c == '\n':
			if lines++; lines > plainLines {
				return false
			}
			i++
			continue
		case c == '\r' && text[i+1] == '\n': // the last byte is \n, so there is a next one
			i++
			continue
		case c < utf8.RuneSelf:
			return false
		}
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError, r < 0xa0, r == '\u2028', r == '\u2029', r == '\ufeff', r == 0xfffe, r == 0xffff:
			return false
		}
		i += size
	}
	return true
}

// plainReader holds the lines that are not read yet.
type plainReader struct {
	rest   string
	line   int // number of the first of them
	column int // where the value of the last key starts
	items  int // values in brackets so far
}

// peek gives the next line without its end; it is "" where there is none.
func (p *plainReader) peek() string {
	l, _, _ := strings.Cut(p.rest, "\n")
	return strings.TrimSuffix(l, "\r")
}

func (p *plainReader) skip() {
	p.rest = p.rest[strings.IndexByte(p.rest, '\n')+1:]
	p.line++
}

// blanks skips lines with nothing on them, which mean nothing outside of texts over lines.
func (p *plainReader) blanks() {
	for p.rest != "" && strings.Trim(p.peek(), " ") == "" {
		p.skip()
	}
}

// field takes the key of the next line, which starts after indent blanks, and gives what follows the colon. Keys are letters,
// digits, _, - and dots: no quotes, no ? and no << can be among them, no mark between documents and no directive either. The
// library refuses a key that is there twice.
func (p *plainReader) field(before []Field, indent int) (f Field, rest string, ok bool) {
	l := p.peek()[indent:]
	colon := strings.IndexByte(l, ':')
	if colon <= 0 || colon+1 < len(l) && l[colon+1] != ' ' { // a:b is text, and a:b: c has the key a:b
		return f, "", false
	}
	f = Field{Key: l[:colon], Line: p.line, Column: indent + 1}
	for _, c := range f.Key {
		if !isKeyRune(c) {
			return f, "", false
		}
	}
	if c := f.Key[0]; c == '-' || c == '.' || c >= '0' && c <= '9' {
		return f, "", false
	}
	if _, twice := lookup(before, f.Key); twice {
		return f, "", false
	}
	p.skip()
	rest = strings.TrimLeft(l[colon+1:], " ")
	p.column = indent + len(l) - len(rest) + 1 // all before it is ASCII
	return f, strings.TrimRight(rest, " "), true
}

// value reads what follows the colon of a key, which starts after indent blanks: rest is the rest of its line, which is skipped.
func (p *plainReader) value(rest string, indent, depth int) (Value, bool) {
	switch {
	case rest == "":
		return p.nested(indent, depth)
	case rest[0] == '|' || rest[0] == '>':
		return p.block(rest, indent)
	case rest[0] == '[' || rest[0] == '{':
		return p.flow(rest)
	}
	return plainScalar(rest)
}

// nested reads what stands below a key without a value: nothing, a map, or a list of one-line values. All its lines start in the
// same column: a line further right goes on with the value above it, and one further left ends this map or list and has to stand
// where one around it does. Only at the edge a list may start where its key does.
func (p *plainReader) nested(parent, depth int) (v Value, ok bool) {
	p.blanks()
	indent := indentOf(p.peek())
	list := strings.HasPrefix(p.peek()[indent:], "- ")
	switch {
	case p.rest == "", indent == 0 && !list, indent <= parent && parent > 0:
		return plainScalar("")
	case depth == plainDepth:
		return v, false
	}
	v.Kind = Map
	if list {
		v.Kind = List
	}
	for p.blanks(); p.rest != ""; p.blanks() {
		l := p.peek()
		switch at := indentOf(l); {
		case at > indent:
			return v, false
		case at < indent, indent == 0 && !strings.HasPrefix(l, "- "): // a list may start at the edge, as the next key does
			return v, true
		}
		if list {
			text, isItem := strings.CutPrefix(l[indent:], "- ")
			text = strings.Trim(text, " ")
			item, ok := plainScalar(text)
			if !ok || !isItem || text == "" {
				return v, false
			}
			v.List = append(v.List, item)
			p.skip()
			continue
		}
		f, rest, ok := p.field(v.Map, indent)
		if !ok {
			return v, false
		}
		if f.Value, ok = p.value(rest, indent, depth+1); !ok {
			return v, false
		}
		v.Map = append(v.Map, f)
	}
	return v, true
}

// block reads a text over lines. Its first line must not be blank and sets the indentation. Refused are: a given indentation and
// kept line ends (|2, |+), a comment behind the mark, lines of blanks only, which count or not by their length, and under > lines
// further right, around which breaks are not folded. A line further left that is not at the edge ends the text and then is wrong.
func (p *plainReader) block(mark string, parent int) (Value, bool) {
	folded, strip := mark[0] == '>', len(mark) == 2 && mark[1] == '-'
	indent := indentOf(p.peek())
	if len(mark) > 1 && !strip || indent <= parent || indent == len(p.peek()) {
		return Value{}, false
	}
	var b strings.Builder
	breaks := 0 // since the last line that is not blank
	for ; p.rest != ""; p.skip() {
		l := p.peek()
		at := indentOf(l)
		if l == "" {
			breaks++
			continue
		}
		if at == len(l) || folded && at > indent {
			return Value{}, false
		}
		if at < indent {
			break
		}
		switch {
		case folded && breaks == 1:
			b.WriteByte(' ')
		case folded && breaks > 1:
			breaks--
			fallthrough
		default:
			for range breaks {
				b.WriteByte('\n')
			}
		}
		b.WriteString(l[indent:])
		breaks = 1
	}
	if !strip {
		b.WriteByte('\n')
	}
	return Value{Text: b.String()}, true
}

// plainScalar reads a value on one line, blanks around it removed. Without quotes it starts with none of the characters that have
// a meaning there, and holds no comment and no colon that could end a key.
func plainScalar(s string) (Value, bool) {
	if s == "" {
		return valueOf(&yaml.Node{}), true
	}
	switch q := s[0]; {
	case q == '\'' || q == '"':
		text, n := plainQuoted(s)
		return Value{Text: text}, n == len(s)
	case strings.IndexByte("-?:,[]{}#&*!|>%@`", q) >= 0, s[len(s)-1] == ':', strings.Contains(s, ": "), strings.Contains(s, " #"):
		return Value{}, false
	}
	return valueOf(&yaml.Node{Text: s}), true // the library's rule for null, true and false
}

// plainQuoted reads the text in quotes that s starts with; n is how many bytes that are, 0 when it is not plain. A quote in single
// quotes is doubled; in double ones \" and \\ are the escapes that are read.
func plainQuoted(s string) (text string, n int) {
	q := s[0]
	i := 1 + strings.IndexByte(s[1:], q)
	if i > 0 && !(q == '"' && strings.IndexByte(s[:i], '\\') >= 0 || i+1 < len(s) && q == '\'' && s[i+1] == q) {
		return s[1:i], i + 1 // most texts: nothing to copy
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		next := s[min(i+1, len(s)-1)]
		switch c := s[i]; {
		case c == q && q == '\'' && i+1 < len(s) && next == q, c == '\\' && q == '"' && i+1 < len(s) && (next == '"' || next == '\\'):
			b.WriteByte(next)
			i++
		case c == q:
			return b.String(), i + 1
		case c == '\\' && q == '"':
			return "", 0
		default:
			b.WriteByte(c)
		}
	}
	return "", 0
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
