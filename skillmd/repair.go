package skillmd

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"metier/internal/yaml"
)

// Limits of one repair.
const (
	repairKeys    = 256 // top-level keys
	repairEscapes = 8   // quoted texts with such escapes; the whole block is parsed again after each
)

// repair rewrites single top-level values of a block that the YAML library refused, and parses the result with the same
// limits. It never guesses what a block means: a value becomes the text that its author typed, or the block stays refused. So
// a repair cannot widen authority. An unreadable allowed-tools is declared and empty. An unreadable flag refuses the block, and
// so do anchors, aliases, tags, merge keys, duplicate keys, further documents, control characters, and all limits, even if
// a rewrite would hide them. Line numbers do not change.
//
// If it refuses the block because a field is indented, the only diagnostic says so.
func repair(text []byte, firstLine int, first error) (*yaml.Node, []Diagnostic, bool) {
	if !mayRepair(first) || strange(text) {
		return nil, nil, false
	}
	r := repairer{firstLine: firstLine}
	n, ok := r.run(text, first)
	if !ok {
		return nil, r.indented, false
	}
	slices.SortStableFunc(r.notes, func(a, b Diagnostic) int { return a.Line - b.Line })
	return n, r.notes, true
}

func (r *repairer) run(text []byte, first error) (*yaml.Node, bool) {
	opts := &yaml.Options{MaxBytes: MaxHead, FirstLine: r.firstLine}
	var n *yaml.Node
	r.text, n = r.escapes(text, opts, first)
	if n == nil && r.split(r.text) && r.entries() {
		var err error
		if n, err = yaml.Parse([]byte(strings.Join(r.lines, "\n")), opts); err != nil {
			return nil, false
		}
	}
	return n, n != nil && n.Kind == yaml.Map
}

// mayRepair distinguishes mistakes in writing from input that is refused for safety. An alias may be **bold** text.
func mayRepair(err error) bool {
	var e *yaml.Error
	return errors.As(err, &e) && (e.Code == yaml.Syntax || e.Code == yaml.Alias || e.Code == yaml.ComplexKey)
}

// strange reports whether a line hides other line breaks, document markers, directives, or merge keys.
func strange(text []byte) bool {
	for line := range bytes.Lines(text) {
		if strangeBreak(line) || marks.Match(bytes.TrimRight(line, "\r\n")) {
			return true
		}
	}
	return false
}

// strangeBreak reports whether a line has a line break that only YAML recognizes, which could hide a key.
func strangeBreak(line []byte) bool {
	return bytes.ContainsAny(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), "\r\u0085\u2028\u2029")
}

var marks = regexp.MustCompile(`^(---|\.\.\.)([ \t]|$)|^%|^<<`)

// entry is one top-level key with the lines that belong to its value.
type entry struct {
	key        string
	after      int // offset after the colon
	from, last int // lines [from, last) contain key and value
	to         int // lines [last, to) are blank or comments
}

type repairer struct {
	firstLine int
	text      []byte // escapes read
	lines     []string
	all       []entry
	notes     []Diagnostic
	fixed     []fixed
	indented  []Diagnostic // the field because of which the block stays refused
}

// fixed is an entry with its repaired lines. It has no lines if the value could not be read.
type fixed struct {
	entry
	lines []string
}

// note reports a repair at an offset in one of the lines.
func (r *repairer) note(line, offset int, code, detail string) {
	column := utf8.RuneCountInString(r.lines[line][:offset]) + 1
	r.notes = append(r.notes, Diagnostic{Severity: Warning, Code: code, Line: r.firstLine + line, Column: column, Detail: detail})
}

// start returns the offset of a value in the first line of its entry.
func (r *repairer) start(e entry) int {
	line := r.lines[e.from]
	return len(line) - len(strings.TrimLeft(line[e.after:], " \t"))
}

// escapes replaces surrogate pairs that are escaped as in JSON, \ud83e\udde0, if the library refuses exactly them. It returns
// the tree if no other error remains.
func (r *repairer) escapes(text []byte, opts *yaml.Options, err error) ([]byte, *yaml.Node) {
	for range repairEscapes {
		var e *yaml.Error
		if !errors.As(err, &e) || e.Code != yaml.Syntax {
			return text, nil
		}
		at := offsetOf(text, e.Line-r.firstLine, e.Column-3) // the library points after \u
		if at < 0 || !surrogates.Match(text[at:]) {
			return text, nil
		}
		if n := len(r.notes); n == 0 || r.notes[n-1].Line != e.Line {
			r.notes = append(r.notes, Diagnostic{Severity: Warning, Code: CodeSurrogateEscape, Line: e.Line, Column: e.Column - 2,
				Detail: `a character is escaped as two halves (\ud83e\udde0), which YAML does not support; it was read as one character; write the character itself`})
		}
		text = slices.Concat(text[:at], joinSurrogates(text[at:]))
		var n *yaml.Node
		if n, err = yaml.Parse(text, opts); err == nil {
			return text, n
		}
	}
	return text, nil
}

// joinSurrogates joins every surrogate pair in the rest of a double-quoted text into one escape.
func joinSurrogates(text []byte) []byte {
	var out []byte
	for i := 0; i < len(text); {
		switch {
		case text[i] == '"':
			return append(out, text[i:]...)
		case surrogates.Match(text[i:]):
			var high, low uint32
			fmt.Sscanf(string(text[i:i+12]), `\u%04x\u%04x`, &high, &low)
			out, i = fmt.Appendf(out, `\U%08x`, 0x10000+(high-0xD800)<<10+(low-0xDC00)), i+12
		case text[i] == '\\' && i+1 < len(text):
			out, i = append(out, text[i:i+2]...), i+2
		default:
			out, i = append(out, text[i]), i+1
		}
	}
	return out
}

var surrogates = regexp.MustCompile(`^\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)

// offsetOf returns the byte offset of a character, or -1. Line and column start at 0.
func offsetOf(text []byte, line, column int) int {
	at := 0
	for ; line > 0; line-- {
		if at = nextYAMLLine(text, at); at == len(text) {
			return -1
		}
	}
	for ; column > 0 && at < len(text); column-- {
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
	if line < 0 || column < 0 {
		return -1
	}
	return at
}

// split splits the block at every line that starts with a key. A value that spans such a line is not rewritten, so that no key
// can become part of another value.
func (r *repairer) split(text []byte) bool {
	for l := range strings.Lines(string(text)) {
		r.lines = append(r.lines, strings.TrimRight(l, "\r\n"))
	}
	for i, l := range r.lines {
		key, after := keyOf([]byte(l))
		t := strings.TrimSpace(l)
		switch n := len(r.all); {
		case key != "" && n == repairKeys:
			return false
		case key != "":
			r.all = append(r.all, entry{key: key, after: after, from: i, last: i + 1, to: i + 1})
		case t == "" || l[0] == '#':
			if n > 0 {
				r.all[n-1].to = i + 1
			}
		case n == 0:
			return false
		default:
			r.all[n-1].last, r.all[n-1].to = i+1, i+1
		}
	}
	return len(r.all) > 0
}

// entries parses each entry separately and rewrites those that the library refuses.
func (r *repairer) entries() bool {
	rewritten := slices.Clone(r.lines)
	for _, e := range r.all {
		err := alone(r.lines[e.from:e.last])
		if err == nil {
			continue
		}
		if slices.ContainsFunc(r.lines[e.from+1:e.last], narrowing.MatchString) {
			return false // it would become text of this entry
		}
		lines, ok := r.rewrite(e, err)
		if !ok {
			return false
		}
		clear(rewritten[e.from:e.last])
		copy(rewritten[e.from:e.last], lines)
		if n := len(r.notes); n > 0 && r.notes[n-1].Code == CodeUnreadableField {
			lines = nil
		}
		r.fixed = append(r.fixed, fixed{e, lines})
	}
	r.lines = rewritten
	return true
}

// alone parses one entry separately. Most entries are plain, and the library is ten times slower for them.
func alone(lines []string) error {
	text := []byte(strings.Join(lines, "\n") + "\n")
	if _, ok := plain(text, 1); ok {
		return nil
	}
	_, err := yaml.Parse(text[:len(text)-1], &yaml.Options{MaxBytes: MaxHead})
	return err
}

// rewrite returns new lines for one entry, at most as many as it has.
func (r *repairer) rewrite(e entry, err error) ([]string, bool) {
	if !mayRepair(err) || slices.Contains([]string{"disable-model-invocation", "user-invocable"}, e.key) {
		return nil, false
	}
	raw := strings.Join(r.lines[e.from:e.last], "\n")[e.after:]
	value := strings.TrimLeft(raw, " \t\n")
	if value == "" || strings.IndexByte(`&!|>"'#`, value[0]) >= 0 {
		return nil, false
	}
	if value[0] == '*' && anchored(r.lines) || value[0] != '*' && isAlias(err) {
		return nil, false
	}
	flow := value[0] == '[' || value[0] == '{'
	if !flow && edged(r.lines[e.from+1:e.last]) {
		return nil, false // a line at the left edge that is not a key
	}
	switch {
	case flow:
		return r.rewriteFlow(e, raw)
	case e.key == "allowed-tools":
		return r.unreadable(e, raw)
	case strings.HasPrefix(strings.TrimLeft(raw, " \t"), "\n") && !textual(e.key): // a list or a map over lines
		return r.unreadable(e, raw)
	}
	text, comment, ok := fold(raw)
	if !ok || r.misplaced(e) {
		return nil, false
	}
	if strings.IndexByte("*`@,%]}", text[0]) >= 0 || strings.HasPrefix(text, "- ") || strings.HasPrefix(text, "? ") {
		r.note(e.from, r.start(e), CodeUnquotedIndicator,
			fmt.Sprintf("the value of %s starts with %q, which is special in YAML; it was read as text; quote the value", e.key, text[:1]))
		return r.quoted(e, text, comment), true
	}
	colon := colonIn(text)
	if colon < 0 {
		return nil, false
	}
	line, at := e.from, e.after
	for colonIn(r.lines[line][at:]) < 0 {
		line, at = line+1, 0
	}
	r.note(line, at+colonIn(r.lines[line][at:]), CodeUnquotedColon,
		fmt.Sprintf(`the unquoted value of %s contains ": "; it was read as text; quote the value`, e.key))
	return r.quoted(e, text, comment), true
}

func isAlias(err error) bool {
	var e *yaml.Error
	return errors.As(err, &e) && e.Code == yaml.Alias
}

// textual reports whether a field's value can only be text.
func textual(key string) bool {
	return slices.Contains([]string{"name", "description", "license", "compatibility", "when_to_use", "when-to-use", "argument-hint"}, key)
}

func colonIn(text string) int {
	for i := range len(text) {
		if text[i] == ':' && (i+1 == len(text) || strings.IndexByte(" \t\n", text[i+1]) >= 0) {
			return i
		}
	}
	return -1
}

// fold joins the lines of an unquoted value as YAML does and returns the comment after them. A single line break becomes a
// space.
func fold(raw string) (text, comment string, ok bool) {
	var b strings.Builder
	breaks, ended := 0, false
	for l := range strings.SplitSeq(raw, "\n") {
		l = strings.TrimSpace(l)
		if l == "" {
			breaks++
			continue
		}
		if ended || l[0] == '#' && b.Len() > 0 {
			return "", "", false // text after a comment
		}
		if i := commentIn(l); i >= 0 {
			comment = l[i:]
			l, ended = strings.TrimRight(l[:i], " \t"), true
		}
		switch {
		case b.Len() == 0:
		case breaks == 0:
			b.WriteByte(' ')
		default:
			b.WriteString(strings.Repeat("\n", breaks))
		}
		breaks = 0
		b.WriteString(l)
	}
	return b.String(), comment, b.Len() > 0
}

func commentIn(line string) int {
	for i := 1; i < len(line); i++ {
		if line[i] == '#' && (line[i-1] == ' ' || line[i-1] == '\t') {
			return i
		}
	}
	return -1
}

// quoted returns an entry with its value as quoted text, and the comment after it.
func (r *repairer) quoted(e entry, text, comment string) []string {
	line := r.lines[e.from][:e.after] + " " + quoteText(text)
	if comment != "" {
		line += " " + comment
	}
	return []string{line}
}

// unreadable keeps a value as its source text. It has no effect for metadata and unknown fields, and allowed-tools becomes an
// empty list, which allows nothing.
func (r *repairer) unreadable(e entry, raw string) ([]string, bool) {
	if hidden.MatchString(raw) && e.key != "allowed-tools" || tagged.MatchString(raw) {
		return nil, false
	}
	if e.key == "allowed-tools" {
		r.note(e.from, r.start(e), CodeUnreadableField, "allowed-tools cannot be parsed and counts as an empty list; write one pattern per line, or quote it")
		return r.quoted(e, "", ""), true
	}
	detail := "the value of %s is not valid YAML; it was kept as text; fix its brackets, commas, and indentation"
	if slices.ContainsFunc(r.lines[e.from+1:e.last], tabbed) {
		detail = "the value of %s is indented with tabs, which YAML does not allow; it was kept as text; indent it with spaces"
	}
	r.note(e.from, r.start(e), CodeUnreadableField, fmt.Sprintf(detail, e.key))
	return r.quoted(e, strings.TrimSpace(raw), ""), true
}

var (
	anchors = regexp.MustCompile(`(?m)(^|[\s\[{,:-])&\S`)
	tagged  = regexp.MustCompile(`(?m)(^|[\s\[{,:-])[&!]\S|<<\s*:`)
	hidden  = regexp.MustCompile(`(?m)(^|[\s\[{,:-])[&!*]\S|<<\s*:`)
)

// anchored reports whether the block may contain an anchor, so that a * may be its alias.
func anchored(lines []string) bool {
	return slices.ContainsFunc(lines, anchors.MatchString)
}
