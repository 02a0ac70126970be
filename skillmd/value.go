package skillmd

import (
	"encoding/json"

	"metier/internal/yaml"
)

// Kind is the type of a [Value].
type Kind uint8

const (
	Text Kind = iota
	Null
	Bool
	List
	Map
)

// Value is one value of the frontmatter as written. Numbers and dates stay text.
type Value struct {
	Kind Kind
	Text string  // Text, Null, Bool: the source text, unquoted
	List []Value // List
	Map  []Field // Map, in source order, keys unique
}

// Field is one key with its value, and the position of the key in the file.
type Field struct {
	Key          string
	Value        Value
	Line, Column int
}

// True reports whether v is a plain true.
func (v Value) True() bool {
	return v.Kind == Bool && (v.Text[0] == 't' || v.Text[0] == 'T')
}

// MarshalJSON encodes Text as a string, Bool as a boolean, Null as null, and List and Map as an array and an object in source
// order.
func (v Value) MarshalJSON() ([]byte, error) {
	return v.appendJSON(nil), nil
}

func (v Value) appendJSON(b []byte) []byte {
	switch v.Kind {
	case Null:
		return append(b, "null"...)
	case Bool:
		if v.True() {
			return append(b, "true"...)
		}
		return append(b, "false"...)
	case List:
		b = append(b, '[')
		for i, item := range v.List {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendJSON(b)
		}
		return append(b, ']')
	case Map:
		return appendMap(b, v.Map)
	}
	return appendString(b, v.Text)
}

func appendMap(b []byte, fields []Field) []byte {
	b = append(b, '{')
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, f.Key)
		b = append(b, ':')
		b = f.Value.appendJSON(b)
	}
	return append(b, '}')
}

func appendString(b []byte, s string) []byte {
	j, err := json.Marshal(s)
	if err != nil { // not possible for a string
		return append(b, `""`...)
	}
	return append(b, j...)
}

func lookup(fields []Field, key string) (Value, bool) {
	for _, f := range fields {
		if f.Key == key {
			return f.Value, true
		}
	}
	return Value{}, false
}

func fieldsOf(n *yaml.Node) []Field {
	fields := make([]Field, 0, len(n.Entries))
	for _, e := range n.Entries {
		fields = append(fields, Field{Key: e.Key.Text, Value: valueOf(e.Value), Line: e.Key.Line, Column: e.Key.Column})
	}
	return fields
}

func valueOf(n *yaml.Node) Value {
	switch n.Kind {
	case yaml.Map:
		return Value{Kind: Map, Map: fieldsOf(n)}
	case yaml.List:
		v := Value{Kind: List, List: make([]Value, 0, len(n.Items))}
		for _, item := range n.Items {
			v.List = append(v.List, valueOf(item))
		}
		return v
	}
	v := Value{Text: n.Text}
	if n.Null() {
		v.Kind = Null
	} else if _, ok := n.Bool(); ok {
		v.Kind = Bool
	}
	return v
}
