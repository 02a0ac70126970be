// Package jsonedit changes one member of a JSON object that others write too:
// the other members keep their order and their text, numbers included.
package jsonedit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Object is a JSON object as it was written. The zero value is empty.
type Object struct {
	members []member
	places  map[string]int // key → its place in members: a file may have very many keys
	indent  string
}

type member struct {
	key   string
	value json.RawMessage
}

// Parse reads one object. A key that comes twice is an error: two readers could
// mean different members by it.
func Parse(b []byte) (*Object, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil {
		return nil, whole(err)
	} else if t != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	o := &Object{indent: indentOf(b)}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, whole(err)
		}
		key, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("%v is not a key", t)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, whole(err)
		}
		if _, twice := o.Get(key); twice {
			return nil, fmt.Errorf("the key %q comes twice", key)
		}
		o.add(key, raw)
	}
	if _, err := d.Token(); err != nil {
		return nil, whole(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON object")
	}
	return o, nil
}

// whole words an end that comes too early.
func whole(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends before the JSON object does")
	}
	return err
}

// indentOf is the white space before the first key, if that is on a line of its
// own: what is written back looks like what was read.
func indentOf(b []byte) string {
	_, rest, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return ""
	}
	n := len(rest) - len(bytes.TrimLeft(rest, " \t"))
	return string(rest[:n])
}

// Keys returns the keys in the order in which they stand.
func (o *Object) Keys() []string {
	var out []string
	for _, m := range o.members {
		out = append(out, m.key)
	}
	return out
}

// Get returns the text of a member.
func (o *Object) Get(key string) (json.RawMessage, bool) {
	i := o.find(key)
	if i < 0 {
		return nil, false
	}
	return o.members[i].value, true
}

// Set gives a member a value: in its place, or as the last one if it is new.
// value has to be valid JSON.
func (o *Object) Set(key string, value json.RawMessage) {
	if i := o.find(key); i >= 0 {
		o.members[i].value = value
		return
	}
	o.add(key, value)
}

// add makes a new member the last one.
func (o *Object) add(key string, value json.RawMessage) {
	if o.places == nil {
		o.places = map[string]int{}
	}
	o.places[key] = len(o.members)
	o.members = append(o.members, member{key, value})
}

// Delete removes a member, if it is there.
func (o *Object) Delete(key string) {
	if i := o.find(key); i >= 0 {
		o.members = slices.Delete(o.members, i, i+1)
		delete(o.places, key)
		for j, m := range o.members[i:] {
			o.places[m.key] = i + j
		}
	}
}

func (o *Object) find(key string) int {
	if i, ok := o.places[key]; ok {
		return i
	}
	return -1
}

// MarshalJSON gives the members in order, each as it was written.
func (o *Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o.members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quoted(m.key))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Text is the object as a file: indented as it was, two blanks where that is
// not known, and with a line end.
func (o *Object) Text() ([]byte, error) {
	flat, err := o.MarshalJSON()
	if err != nil {
		return nil, err
	}
	indent := o.indent
	if indent == "" {
		indent = "  "
	}
	var b bytes.Buffer
	if err := json.Indent(&b, flat, "", indent); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// quoted writes a key without escaping what only HTML needs escaped.
func quoted(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return bytes.TrimRight(b.Bytes(), "\n")
}
