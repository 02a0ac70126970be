package skillmd

import (
	"bytes"
	"slices"
	"strings"
)

// File is a SKILL.md that is being repaired. Each change is read again before it is taken: it has to be YAML that gives the other
// fields as they were and the same body. Every byte that is not repaired stays as it is: unknown fields, order, comments, quotes,
// line ends and byte order mark.
type File struct {
	src   []byte
	doc   Document
	diags []Diagnostic
}

// Open begins to change a file. Without a change [File.Bytes] gives the same bytes, whatever they are.
func Open(src []byte) *File {
	f := &File{src: bytes.Clone(src)}
	f.doc, f.diags = Parse(f.src)
	return f
}

// Bytes gives the file as it is now.
func (f *File) Bytes() []byte { return bytes.Clone(f.src) }

// Diagnostics gives what [Parse] finds in the file as it is now.
func (f *File) Diagnostics() []Diagnostic { return slices.Clone(f.diags) }

// rename gives a field another name, at its place and with its value as it is written. It reports false, and changes nothing, if
// that would alter something else.
func (f *File) rename(field Field, to string) bool {
	if _, taken := f.doc.Front.Lookup(to); taken {
		return false
	}
	s := split(f.src, true)
	at := offsetOf(f.src[s.start:s.end], field.Line-s.line-1, field.Column-1)
	if at < 0 {
		return false
	}
	if at += s.start; f.src[at] == '"' || f.src[at] == '\'' {
		at++
	}
	rest, found := strings.CutPrefix(string(f.src[at:]), field.Key)
	if !found {
		return false
	}
	src := slices.Concat(f.src[:at], []byte(to), []byte(rest))
	want := slices.Clone(f.doc.Front.Fields)
	for i := range want {
		if want[i].Key == field.Key {
			want[i].Key = to
		}
	}
	d, diags := Parse(src)
	if !d.Front.Present || !sameFields(d.Front.Fields, want) || !bytes.Equal(d.Body, f.doc.Body) ||
		slices.ContainsFunc(diags, func(d Diagnostic) bool { return d.Repair() || d.Severity == Error }) {
		return false
	}
	f.src, f.doc, f.diags = src, d, diags
	return true
}

// sameFields reports the same keys with the same values in the same order; positions do not count.
func sameFields(a, b []Field) bool {
	return slices.EqualFunc(a, b, func(a, b Field) bool { return a.Key == b.Key && sameValue(a.Value, b.Value) })
}

func sameValue(a, b Value) bool {
	return a.Kind == b.Kind && (a.Kind == Null || a.Text == b.Text) && slices.EqualFunc(a.List, b.List, sameValue) && sameFields(a.Map, b.Map)
}
