package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"metier/model"
)

// Object is a JSON object whose values are kept verbatim.
type Object map[string]json.RawMessage

// Raw returns v as JSON without HTML escaping. v must be plain data.
func Raw(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage("null") // a RawMessage inside is not JSON; the provider will name the field
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// Parse reads an object. ok is false if b is not an object.
func Parse(b []byte) (o Object, ok bool) {
	if json.Unmarshal(b, &o) != nil || o == nil {
		return nil, false
	}
	return o, true
}

// String returns the string at key, or "".
func (o Object) String(key string) (s string) {
	_ = json.Unmarshal(o[key], &s) // not a string is no string
	return s
}

// Args returns a call's arguments as an object, the only form that providers accept. Other
// arguments are wrapped, so that the model can see what it wrote.
func Args(p model.Part) json.RawMessage {
	if _, ok := Parse(p.Args); ok {
		return p.Args
	}
	raw := p.Text
	if len(p.Args) > 0 {
		raw = string(p.Args)
	}
	if raw == "" {
		return json.RawMessage("{}")
	}
	return Raw(map[string]string{"invalid_arguments": raw})
}

// Schema returns a tool's schema, or that of an object without properties if there is none.
func Schema(s json.RawMessage) json.RawMessage {
	if _, ok := Parse(s); ok {
		return s
	}
	return json.RawMessage(`{"type":"object","properties":{}}`)
}

// ID returns the provider's id of a call or result. An id from another provider is kept if it is
// valid. Otherwise one is derived from metier's id.
func ID(p model.Part) string {
	id := p.WireID
	if id == "" {
		id = p.Call
	}
	if id == "" {
		id = "call_" + p.Tool
	}
	id = strings.Map(func(r rune) rune {
		if Word(1, byte(min(r, 255))) {
			return r
		}
		return '_'
	}, id)
	return id[:min(len(id), 64)]
}

// Word reports whether c matches [a-zA-Z0-9_-].
func Word(_ int, c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// Closed adds "additionalProperties": false to each object schema that does not set it. Providers
// with constrained output require it, and output that matches the closed schema also matches the
// original.
func Closed(schema json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return schema
	}
	closeObjects(v, 0)
	return Raw(v)
}

func closeObjects(v any, depth int) {
	if depth > 64 {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			closeObjects(e, depth+1)
		}
	case map[string]any:
		if _, said := v["additionalProperties"]; !said && v["type"] == "object" {
			v["additionalProperties"] = false
		}
		for _, e := range v {
			closeObjects(e, depth+1)
		}
	}
}

// Tokens reads a count that may be missing or null.
func (o Object) Tokens(path ...string) (n int64, ok bool) {
	for _, p := range path[:len(path)-1] {
		o, _ = Parse(o[p])
	}
	raw := string(o[path[len(path)-1]])
	n, err := strconv.ParseInt(raw, 10, 64)
	return max(n, 0), err == nil
}
