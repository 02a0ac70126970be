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

// Gap takes the place of content that is no longer available: erased, or altered so that it does
// not match its digest. A record with a Gap still verifies.
type Gap struct {
	Erased  bool   `json:"erased,omitempty"`
	Altered bool   `json:"altered,omitempty"`
	Digest  string `json:"digest"`
}

// GapIn returns the Gap that content from a record is, if it is one.
func GapIn(raw json.RawMessage) (g Gap, ok bool) {
	err := json.Unmarshal(raw, &g)
	return g, err == nil && (g.Erased || g.Altered) && g.Digest != ""
}

// contents reads blobs for the artifacts of one call. It keeps the first error and then reads
// nothing more, so that callers check err once, at the end.
type contents struct {
	ctx   context.Context // of that call
	blobs record.Blobs
	err   error
}

// load returns the bytes of r, or a gap in their place. For the zero Ref it returns neither.
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

// json marshals a value.
func (c *contents) json(v any) json.RawMessage {
	b, err := compact(v)
	c.fail(err)
	return b
}

// raw returns JSON content unchanged, text and too deeply nested JSON as a JSON string, a gap as
// its object, and null if there is no content.
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

// deepest is a nesting limit, deeper than anything a run accepts.
const deepest = 128

// embedded returns content as it appears in an artifact. Artifacts are indented, so their size
// grows with the square of the depth: 20 KB of brackets would become 200 MB.
func (c *contents) embedded(b []byte) json.RawMessage {
	if json.Valid(b) && (&intake.Guard{Deep: deepest}).See(b) == nil {
		return plain(b)
	}
	return c.json(validText(b))
}

func validText(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// plain returns JSON without HTML escaping, so that people can read and search artifacts.
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

// compact is json.Marshal without HTML escaping.
func compact(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// printed formats an artifact: indented by two spaces, with a final newline.
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

// some returns an empty list for a nil one.
func some[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// optional returns nil for the zero value, which is null in the artifact.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
