package skillmd

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"metier/internal/yaml"
)

// Codes of an [EditError].
const (
	EditUnreadable = "edit-unreadable" // the frontmatter is refused, or can be read only by repairing it: call Mend first
	EditLayout     = "edit-layout"     // its fields are not lines of their own, as in {name: a}
	EditKey        = "edit-key"        // the field is not there, or is there already
	EditValue      = "edit-value"      // the value cannot be written as YAML that reads as the same value
	EditUnkept     = "edit-unkept"     // the change would alter something else
)

// EditError says why a change of a [File] was refused. The file is as it was.
type EditError struct {
	Code   string // one of the Edit constants
	Key    string // the field that was to be changed
	Detail string // a sentence for people
}

func (e *EditError) Error() string { return fmt.Sprintf("field %q: %s", e.Key, e.Detail) }

// File is a SKILL.md that is being changed. A change rewrites the lines of one field and keeps every other byte: unknown fields,
// order, comments, quotes, line ends, byte order mark and body. Each result is read again before it is taken: it has to be YAML
// without repairs that gives exactly the new value, the other fields as they were and the same body; otherwise the change is
// refused with an [*EditError]. A comment behind the value on a field's line stays; those between the lines of a value that is
// replaced go with it.
type File struct {
	src   []byte
	doc   Document
	diags []Diagnostic
}

// Open begins to change a file. Without a change [File.Bytes] gives the same bytes, whatever they are.
func Open(src []byte) *File {
	f := &File{}
	f.read(bytes.Clone(src))
	return f
}

func (f *File) read(src []byte) {
	f.src = src
	f.doc, f.diags = Parse(src)
}

// Bytes gives the file as it is now.
func (f *File) Bytes() []byte { return bytes.Clone(f.src) }

// Front gives the frontmatter as it is now.
func (f *File) Front() Front { return f.doc.Front }

// Diagnostics gives what [Parse] finds in the file as it is now.
func (f *File) Diagnostics() []Diagnostic { return slices.Clone(f.diags) }

// Set gives a field a text. A field that is not there is added behind the others, with a frontmatter if there is none. The text
// is written in the quotes it had, where they can hold it.
func (f *File) Set(key, text string) error { return f.SetValue(key, Value{Text: text}) }

// SetValue is Set for any value. Positions in it mean nothing.
func (f *File) SetValue(key string, v Value) error {
	if old, ok := f.doc.Front.Lookup(key); ok && sameValue(old, v) {
		return nil
	}
	l, err := f.layout(key)
	if err != nil {
		return err
	}
	want := slices.Clone(f.doc.Front.Fields)
	if i := l.index(key); i >= 0 {
		want[i].Value = v
		p := l.places[i]
		for _, text := range rewritten(f.src[p.start:p.end], want[i], l) {
			if f.swap(p.start, p.end, text, want) || f.swap(p.start, p.full, text, want) {
				return nil
			}
		}
		return f.refused(key, v)
	}
	want = append(want, Field{Key: key, Value: v})
	for _, text := range written(want[len(want)-1], l) {
		if f.doc.Front.Present && f.swap(l.end, l.end, text, want) ||
			!f.doc.Front.Present && f.swap(l.end, l.end, "---"+l.eol+text+"---"+l.eol, want) {
			return nil
		}
	}
	return f.refused(key, v)
}

// refused tells a value that cannot be written from a place that cannot take it.
func (f *File) refused(key string, v Value) error {
	l := layout{eol: "\n"}
	for _, text := range written(Field{Key: key, Value: v}, l) {
		if n, err := yaml.Parse([]byte(text), nil); err == nil && n.Kind == yaml.Map && sameFields(fieldsOf(n), []Field{{Key: key, Value: v}}) {
			return &EditError{EditUnkept, key, "the change would alter something else in the file; make it by hand"}
		}
	}
	return &EditError{EditValue, key, "the value cannot be written as YAML that reads the same"}
}

// Remove removes a field with its lines. One that is not there is no error.
func (f *File) Remove(key string) error {
	if _, ok := f.doc.Front.Lookup(key); !ok {
		return nil
	}
	l, err := f.layout(key)
	if err != nil {
		return err
	}
	i := l.index(key)
	want := slices.Delete(slices.Clone(f.doc.Front.Fields), i, i+1)
	if p := l.places[i]; f.swap(p.start, p.end, "", want) || f.swap(p.start, p.full, "", want) {
		return nil
	}
	return &EditError{EditUnkept, key, "the file could not be read without it as it is read with it; remove it by hand"}
}

// Rename gives a field another name, at its place and with its value as it is written.
func (f *File) Rename(key, to string) error {
	l, err := f.layout(key)
	if err != nil {
		return err
	}
	i := l.index(key)
	if i < 0 || l.index(to) >= 0 {
		return &EditError{EditKey, key, fmt.Sprintf("it can be renamed to %q only if it is there and the other is not", to)}
	}
	want := slices.Clone(f.doc.Front.Fields)
	want[i].Key = to
	at := l.places[i].start + len(l.indent)
	if q := f.src[at]; q == '"' || q == '\'' {
		at++
	}
	if bytes.HasPrefix(f.src[at:], []byte(key)) && f.swap(at, at+len(key), to, want) {
		return nil
	}
	return &EditError{EditUnkept, key, "the change would alter something else in the file; make it by hand"}
}

// swap puts text in the place of src[from:to], if the file then reads as it should.
func (f *File) swap(from, to int, text string, want []Field) bool {
	src := slices.Concat(f.src[:from], []byte(text), f.src[to:])
	d, diags := Parse(src)
	if !d.Front.Present || !sameFields(d.Front.Fields, want) || !bytes.Equal(d.Body, f.doc.Body) {
		return false
	}
	for _, g := range diags {
		if g.Repair() || g.Severity == Error {
			return false
		}
	}
	f.src, f.doc, f.diags = src, d, diags
	return true
}

// layout is where the fields of a frontmatter lie.
type layout struct {
	fields []Field
	places []place // of fields
	end    int     // where a new field goes
	indent string  // before each key
	eol    string  // how lines end
}

// place is the lines of one field as offsets: start to end hold its value, and start to full blank lines and comments too.
type place struct{ start, end, full int }

func (l layout) index(key string) int {
	return slices.IndexFunc(l.fields, func(f Field) bool { return f.Key == key })
}

func (f *File) layout(key string) (layout, error) {
	s := split(f.src, true)
	l := layout{fields: f.doc.Front.Fields, end: s.end, eol: "\n"}
	if s.problem != nil {
		if c := s.problem.Code; c != CodeNoFrontmatter && c != CodeEmptyFile {
			return l, &EditError{EditUnreadable, key, s.problem.Detail}
		}
		l.end = s.body
		if line, _, ended := nextLine(f.src, 0); ended && bytes.HasSuffix(line, []byte("\r")) {
			l.eol = "\r\n"
		}
		return l, nil
	}
	if bytes.HasSuffix(f.src[:s.start], []byte("\r\n")) {
		l.eol = "\r\n"
	}
	n, err := yaml.Parse(f.src[s.start:s.end], &yaml.Options{MaxBytes: MaxHead, FirstLine: s.line + 1})
	switch {
	case err != nil || s.notes != nil:
		return l, &EditError{EditUnreadable, key, "the frontmatter cannot be read as it stands; mend it first"}
	case n.Kind == yaml.Map && n.Style == yaml.Flow || n.Kind == yaml.List || n.Kind == yaml.Scalar && n.Text != "":
		return l, &EditError{EditLayout, key, "the fields of the frontmatter are not lines of their own; write each as key: value on a line"}
	}
	at, line := s.start, s.line+1
	for i, field := range l.fields {
		for ; line < field.Line; line++ {
			at = nextYAMLLine(f.src, at)
		}
		at = min(at, s.end)
		before := string(f.src[at:min(at+field.Column-1, s.end)])
		if strings.Trim(before, " ") != "" || i > 0 && before != l.indent {
			return l, &EditError{EditLayout, key, "the fields of the frontmatter are not lines of their own; write each as key: value on a line"}
		}
		l.indent = before
		l.places = append(l.places, place{start: at})
		if i > 0 {
			l.places[i-1].full = at
		}
	}
	if n := len(l.places); n > 0 {
		l.places[n-1].full = s.end
	}
	for i := range l.places {
		l.places[i].end = valueEnd(f.src, l.places[i], l.fields[i])
	}
	return l, nil
}

// valueEnd gives where the lines of a value end: before the blank lines and comments that follow, unless they are part of it.
func valueEnd(src []byte, p place, f Field) int {
	end := p.start
	for at := p.start; at < p.full; {
		line, next, _ := nextLine(src, at)
		if t := bytes.TrimSpace(line); at == p.start || len(t) > 0 && line[0] != '#' {
			end = next
		}
		at = next
	}
	end = min(end, p.full)
	if n, err := yaml.Parse(src[p.start:end], &yaml.Options{MaxBytes: MaxHead}); err == nil && n.Kind == yaml.Map && sameFields(fieldsOf(n), []Field{f}) {
		return end
	}
	return p.full
}

// sameFields reports the same keys with the same values in the same order; positions do not count.
func sameFields(a, b []Field) bool {
	return slices.EqualFunc(a, b, func(a, b Field) bool { return a.Key == b.Key && sameValue(a.Value, b.Value) })
}

func sameValue(a, b Value) bool {
	return a.Kind == b.Kind && (a.Kind == Null || a.Text == b.Text) && slices.EqualFunc(a.List, b.List, sameValue) && sameFields(a.Map, b.Map)
}
