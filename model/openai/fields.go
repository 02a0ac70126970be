package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"metier/model/internal/wire"
)

// textual are the fields that arrive in pieces. All other values arrive complete.
var textual = []string{"reasoning_content", "reasoning", "text", "summary", "thinking"}

// fields are the fields unknown to the protocol, assembled from deltas. The cost of adding a piece
// does not depend on how much has arrived already.
type fields map[string]*field

// field is a growing text or list, or a value that arrived complete.
type field struct {
	text *strings.Builder
	list []*item
	raw  json.RawMessage // whole, unless one of the others is set
}

// item is one element of a list. It has parts once a piece was added to it, and raw before that.
type item struct {
	raw   json.RawMessage
	parts fields
}

// grow adds a delta to a field. Texts and lists grow, other values are replaced.
func (f fields) grow(key string, v json.RawMessage) {
	if s := string(v); s == "null" || s == `""` || s == "[]" {
		return
	}
	at := f[key]
	if at == nil {
		at = &field{}
		f[key] = at
	}
	var piece string
	if slices.Contains(textual, key) && json.Unmarshal(v, &piece) == nil {
		if at.text == nil {
			var begun string
			_ = json.Unmarshal(at.raw, &begun) // what is no text is replaced
			*at = field{text: &strings.Builder{}}
			at.text.WriteString(begun)
		}
		at.text.WriteString(piece)
		return
	}
	var more []json.RawMessage
	if json.Unmarshal(v, &more) != nil {
		*at = field{raw: v}
		return
	}
	if at.list == nil {
		var begun []json.RawMessage
		_ = json.Unmarshal(at.raw, &begun) // what is no list is replaced
		*at = field{}
		for _, e := range begun {
			at.list = append(at.list, &item{raw: e})
		}
	}
	for _, e := range more {
		at.join(e)
	}
}

// join adds an item to a list. A piece of a text item is appended to the item with the same index
// and type. Anything else becomes a new item.
func (f *field) join(raw json.RawMessage) {
	piece, ok := wire.Parse(raw)
	text := ok && len(piece["index"]) > 0 && (slices.ContainsFunc(textual, func(k string) bool { return piece.String(k) != "" }) || piece.String("signature") != "")
	if n := len(f.list); n > 0 && text {
		last := f.list[n-1].opened()
		if last.is("index", string(piece["index"])) && last.string("type") == piece.String("type") {
			for k, v := range piece {
				last.grow(k, v)
			}
			return
		}
	}
	f.list = append(f.list, &item{raw: raw})
}

// opened returns the item in a form that can grow.
func (i *item) opened() fields {
	if i.parts == nil {
		i.parts = fields{}
		o, ok := wire.Parse(i.raw)
		for k, v := range o {
			i.parts[k] = &field{raw: v}
		}
		if ok {
			i.raw = nil
		}
	}
	return i.parts
}

func (f fields) is(key, raw string) bool { return f[key] != nil && string(f[key].raw) == raw }

func (f fields) string(key string) (s string) {
	if f[key] != nil {
		_ = json.Unmarshal(f[key].raw, &s) // not a string is no string
	}
	return s
}

func (f fields) object() wire.Object {
	o := wire.Object{}
	for k, v := range f {
		o[k] = v.value()
	}
	return o
}

func (f *field) value() json.RawMessage {
	switch {
	case f.text != nil:
		return wire.Raw(f.text.String())
	case f.list != nil:
		list := make([]json.RawMessage, len(f.list))
		for i, e := range f.list {
			if list[i] = e.raw; e.raw == nil {
				list[i] = wire.Raw(e.parts.object())
			}
		}
		return wire.Raw(list)
	}
	return f.raw
}
