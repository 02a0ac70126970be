package skillmd

import (
	"bytes"
	"slices"
	"strings"
)

// File is a SKILL.md that is being repaired. Each change is parsed before it is accepted: it must
// be valid YAML with the same other fields and the same body. All bytes outside the repair are
// kept: unknown fields, order, comments, quotes, line endings, and byte order mark.
type File struct {
	src   []byte
	doc   Document
	diags []Diagnostic
}

// Open returns a file for editing. Without a change, [File.Bytes] returns the same bytes.
func Open(src []byte) *File {
	f := &File{src: bytes.Clone(src)}
	f.doc, f.diags = Parse(f.src)
	return f
}

// Bytes returns the current content of the file.
func (f *File) Bytes() []byte { return bytes.Clone(f.src) }

// Diagnostics returns what [Parse] finds in the current content.
func (f *File) Diagnostics() []Diagnostic { return slices.Clone(f.diags) }

// rename renames a field and keeps its position and the text of its value. It reports false and
// changes nothing if that would alter other parts of the file.
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

// sameFields reports whether a and b have the same keys and values in the same order. Positions are ignored.
func sameFields(a, b []Field) bool {
	return slices.EqualFunc(a, b, func(a, b Field) bool { return a.Key == b.Key && sameValue(a.Value, b.Value) })
}

func sameValue(a, b Value) bool {
	return a.Kind == b.Kind && (a.Kind == Null || a.Text == b.Text) && slices.EqualFunc(a.List, b.List, sameValue) && sameFields(a.Map, b.Map)
}
