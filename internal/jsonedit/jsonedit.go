// Package jsonedit changes one member of a JSON object that other programs write too. The other
// members keep their order and their text, including numbers.
package jsonedit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Object is a JSON object that keeps its original text. The zero value is empty.
type Object struct {
	members []member
	places  map[string]int // key → index in members: a file may have many keys
	indent  string
}

type member struct {
	key   string
	value json.RawMessage
}

// Parse parses one object. A duplicate key is an error: two readers could use different members.
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

// whole returns the error for input that ends too early.
func whole(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends before the JSON object does")
	}
	return err
}

// indentOf returns the white space before the first key, if that is on its own line, so that the
// output has the same indentation.
func indentOf(b []byte) string {
	_, rest, ok := bytes.Cut(b, []byte("\n"))
	if !ok {
		return ""
	}
	n := len(rest) - len(bytes.TrimLeft(rest, " \t"))
	return string(rest[:n])
}

// Get returns the JSON text of a member.
func (o *Object) Get(key string) (json.RawMessage, bool) {
	i, ok := o.places[key]
	if !ok {
		return nil, false
	}
	return o.members[i].value, true
}

// Set sets a member: in place, or at the end if it is new. value must be valid JSON.
func (o *Object) Set(key string, value json.RawMessage) {
	if i, ok := o.places[key]; ok {
		o.members[i].value = value
		return
	}
	o.add(key, value)
}

// add appends a new member.
func (o *Object) add(key string, value json.RawMessage) {
	if o.places == nil {
		o.places = map[string]int{}
	}
	o.places[key] = len(o.members)
	o.members = append(o.members, member{key, value})
}

// MarshalJSON returns the members in order, each with its original text.
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

// Text formats the object as a file: with its original indentation, or two spaces if that is
// unknown, and a trailing newline.
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

// quoted encodes a key without HTML escaping.
func quoted(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return bytes.TrimRight(b.Bytes(), "\n")
}
