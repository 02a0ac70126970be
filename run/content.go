package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"metier/internal/intake"
	"metier/record"
)

// Gap stands in an artifact where content is not there any more: erased, or no
// longer the bytes the digest names. The record still verifies with it.
type Gap struct {
	Erased  bool   `json:"erased,omitempty"`
	Altered bool   `json:"altered,omitempty"`
	Digest  string `json:"digest"`
}

// contents reads blobs for the artifacts of one call. It keeps the first error
// and then reads nothing more, so that a printer checks err once, at its end.
type contents struct {
	ctx   context.Context // of that call
	blobs record.Blobs
	err   error
}

// load returns the bytes of r, or the gap they left. The zero Ref has neither.
func (c *contents) load(r record.Ref) ([]byte, *Gap) {
	if r.Digest == "" || c.err != nil {
		return nil, nil
	}
	b, err := c.blobs.Open(c.ctx, r)
	switch {
	case errors.Is(err, record.ErrErased):
		return nil, &Gap{Erased: true, Digest: r.Digest}
	case errors.Is(err, record.ErrAltered):
		return nil, &Gap{Altered: true, Digest: r.Digest}
	}
	c.fail(fault("read", "", err))
	return b, nil
}

func (c *contents) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// json prints a value.
func (c *contents) json(v any) json.RawMessage {
	b, err := compact(v)
	c.fail(err)
	return b
}

// raw returns JSON content as it is, text and JSON that is nested too deep as a
// JSON string, a gap as its object, and null for nothing.
func (c *contents) raw(r record.Ref) json.RawMessage {
	b, gap := c.load(r)
	switch {
	case gap != nil:
		return c.json(gap)
	case b == nil:
		return json.RawMessage("null")
	}
	return c.embedded(b)
}

// deepest is more than anything has that a run takes.
const deepest = 128

// embedded is content as it stands in an artifact. Artifacts are indented, which
// takes the square of the depth: 20 KB of brackets would come to 200 MB.
func (c *contents) embedded(b []byte) json.RawMessage {
	if json.Valid(b) && (&intake.Guard{Deep: deepest}).See(b) == nil {
		return plain(b)
	}
	return c.json(validText(b))
}

func validText(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// plain writes JSON without the escapes that are only for HTML, so that people
// can read and search artifacts.
func plain(b json.RawMessage) json.RawMessage {
	if !bytes.Contains(b, []byte(`\u00`)) {
		return b
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 == len(b) {
			out = append(out, b[i])
			continue
		}
		if c, ok := htmlEscapes[string(b[i:min(i+6, len(b))])]; ok {
			out = append(out, c)
			i += 5
			continue
		}
		out = append(out, b[i], b[i+1])
		i++
	}
	return out
}

var htmlEscapes = map[string]byte{`\u003c`: '<', `\u003C`: '<', `\u003e`: '>', `\u003E`: '>', `\u0026`: '&'}

// text returns content as one JSON string, or the gap.
func (c *contents) text(r record.Ref) json.RawMessage {
	b, gap := c.load(r)
	switch {
	case gap != nil:
		return c.json(gap)
	case r.Digest == "":
		return json.RawMessage("null")
	}
	return c.json(validText(b))
}

// compact is json.Marshal without escaping for HTML.
func compact(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// printed is the form of every artifact: two spaces, a newline at the end.
func printed(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// some makes an absent list an empty one.
func some[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// optional is nil for the zero value: null in the artifact.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
