package skillmd

import (
	"bytes"
	"slices"
	"strings"
	"unicode"

	"metier/internal/yaml"
)

// Fix repairs the file as the lenient reader read it. It fixes missing closing lines and quotes, code fences, lines before the
// frontmatter (it moves them below), comments and extra commas in brackets, surrogate escapes, and misspelled field names. The
// values of the fields and the text of the body do not change. Fix returns the findings that it fixed. [File.Diagnostics]
// returns the others, which need a person's decision.
func (f *File) Fix() []Diagnostic {
	var done []Diagnostic
	for _, step := range []func(*File) ([]byte, []byte, []string){(*File).closed, (*File).opened, (*File).readable} {
		src, body, codes := step(f)
		before := f.diags
		if src == nil || !f.take(src, body) {
			continue
		}
		for _, d := range before {
			if slices.Contains(codes, d.Code) && !slices.ContainsFunc(f.diags, func(o Diagnostic) bool { return o.Code == d.Code && o.Detail == d.Detail }) {
				done = append(done, d)
			}
		}
	}
	return append(done, f.respelt()...)
}

// take replaces the text of the file if its fields and body are as expected and it has no new findings.
func (f *File) take(src, body []byte) bool {
	d, diags := Parse(src)
	if !d.Front.Present || !sameFields(d.Front.Fields, f.doc.Front.Fields) || !bytes.Equal(d.Body, body) {
		return false
	}
	if len(diags) >= len(f.diags) || slices.ContainsFunc(diags, func(n Diagnostic) bool {
		return !slices.ContainsFunc(f.diags, func(o Diagnostic) bool { return o.Code == n.Code })
	}) {
		return false
	}
	f.src, f.doc, f.diags = src, d, diags
	return true
}

func (f *File) found(code string) bool {
	return slices.ContainsFunc(f.diags, func(d Diagnostic) bool { return d.Code == code })
}

// closed adds a missing closing line.
func (f *File) closed() (src, body []byte, codes []string) {
	if !f.found(CodeClosingLineMissing) {
		return nil, nil, nil
	}
	at := len(f.src) - len(f.doc.Body)
	eol := "\n"
	if bytes.HasSuffix(f.src[:at], []byte("\r\n")) {
		eol = "\r\n"
	}
	return slices.Concat(f.src[:at], []byte("---"+eol), f.src[at:]), f.doc.Body, []string{CodeClosingLineMissing}
}

// opened makes the opening line the first line of the file. It moves earlier text to the start of the body, and removes a code
// fence around the frontmatter or the file.
func (f *File) opened() (src, body []byte, codes []string) {
	s := split(f.src, true)
	if s.notes == nil {
		return nil, nil, nil
	}
	first := 0
	if bytes.HasPrefix(f.src, bom) {
		first = len(bom)
	}
	open := bytes.LastIndexByte(f.src[:s.start-1], '\n') + 1
	before, head, body := f.src[first:open], f.src[open:s.body], f.doc.Body
	if s.notes[0].Code == CodeFencedFrontmatter {
		fence := bytes.LastIndexByte(before[:len(before)-1], '\n') + 1
		run := codeFence(strings.TrimRight(string(before[fence:]), " \t\r\n"))
		before = before[:fence]
		_, closing, _ := nextLine(f.src, s.end)
		if closing < s.body { // around the frontmatter
			head = f.src[open:closing]
		} else {
			body = unfenced(body, run)
		}
	}
	if len(bytes.TrimSpace(before)) == 0 {
		before = nil
	} else if !bytes.HasSuffix(head, []byte("\n")) {
		before = append([]byte("\n"), before...)
		head, before = slices.Concat(head, before[:1]), before[1:]
	}
	body = slices.Concat(before, body)
	return slices.Concat(f.src[:first], head, body), body, []string{s.notes[0].Code}
}

// unfenced removes the line that closes a code fence around the whole file: the last line with text, if it is the fence and
// closes no fence of the body.
func unfenced(body []byte, run string) []byte {
	inside, last, end := "", -1, -1
	at := 0
	for line := range bytes.Lines(body) {
		text := strings.TrimRight(string(line), " \t\r\n")
		switch {
		case text == "":
		case inside != "" && strings.HasPrefix(text, inside) && strings.Trim(text, inside[:1]) == "":
			inside, last = "", -1
		case inside == "" && text == run:
			last, end = at, at+len(line)
			inside = run // unless nothing follows, this opens a block
		case inside == "" && codeFence(text) != "":
			inside, last = codeFence(text), -1
		default:
			last = -1
		}
		at += len(line)
	}
	if last < 0 {
		return body
	}
	return slices.Concat(body[:last], body[end:])
}

// readable rewrites values that YAML refuses in a valid form.
func (f *File) readable() (src, body []byte, codes []string) {
	s := split(f.src, true)
	if !s.closed || s.notes != nil {
		return nil, nil, nil
	}
	text := f.src[s.start:s.end]
	_, err := yaml.Parse(text, &yaml.Options{MaxBytes: MaxHead, FirstLine: s.line + 1})
	if err == nil || !mayRepair(err) || strange(text) {
		return nil, nil, nil
	}
	r := repairer{firstLine: s.line + 1}
	if _, ok := r.run(text, err); !ok {
		return nil, nil, nil
	}
	for _, d := range r.notes {
		codes = append(codes, d.Code)
	}
	out := f.src[:s.start:s.start]
	n := 0 // lines written or left out
	lines := slices.Collect(bytes.Lines(unescaped(text, r.text)))
	for _, m := range r.fixed {
		if m.lines == nil {
			continue
		}
		out = append(out, bytes.Join(lines[n:m.from], nil)...)
		for i, l := range m.lines {
			at := lines[m.from+i]
			if kept := strings.TrimRight(l, " \t"); kept != "" || len(bytes.TrimSpace(at)) == 0 { // a removed comment leaves no line
				out = append(append(out, kept...), at[len(bytes.TrimRight(at, "\r\n")):]...)
			}
		}
		n = m.last
	}
	out = append(out, bytes.Join(lines[n:], nil)...)
	return append(out, f.src[s.end:]...), f.doc.Body, codes
}

// unescaped returns the text as the repairer read it, with the characters it joined from two escapes as themselves. old has more
// bytes at these positions.
func unescaped(old, text []byte) []byte {
	var out []byte
	for len(text) > 0 {
		if surrogates.Match(old) && bytes.HasPrefix(text, []byte(`\U`)) && !bytes.HasPrefix(old, text[:2]) {
			joined := joinSurrogates(old[:12])
			out = append(out, visibleRune(joined)...)
			old, text = old[12:], text[len(joined):]
			continue
		}
		out = append(out, text[0])
		old, text = old[1:], text[1:]
	}
	return out
}

// visibleRune returns the character of an escape \U0001f9e0, or the escape if the character is not visible.
func visibleRune(escape []byte) []byte {
	var r rune
	for _, c := range escape[2:] {
		r = r<<4 | rune(strings.IndexByte("0123456789abcdef", c))
	}
	if !unicode.IsGraphic(r) || special(r) {
		return escape
	}
	return []byte(string(r))
}

// respelt renames misspelled fields if that causes no new findings.
func (f *File) respelt() []Diagnostic {
	var done []Diagnostic
	for _, d := range f.Diagnostics() {
		i := slices.IndexFunc(f.doc.Front.Fields, func(o Field) bool { return o.Line == d.Line && o.Column == d.Column })
		if d.Code != CodeMisspeltField || i < 0 {
			continue
		}
		field, was := f.doc.Front.Fields[i], *f
		if !f.rename(field, meantField(field.Key)) {
			continue
		}
		if len(f.diags) >= len(was.diags) { // its value has the wrong type for the field
			*f = was
			continue
		}
		done = append(done, d)
	}
	return done
}
