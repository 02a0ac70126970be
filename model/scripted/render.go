package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/template"

	"metier/model"
)

const maxArgsDepth = 32

// parse stores the template of a text that contains one.
func (s *script) parse(text string) error {
	if !strings.Contains(text, "{{") || s.parsed[text] != nil {
		return nil
	}
	t, err := template.New("").Option("missingkey=error").Funcs((&talk{}).functions()).Parse(text)
	if err != nil {
		return plain(err)
	}
	s.parsed[text] = t
	return nil
}

func (s *script) render(text string, talk *talk) (string, error) {
	t := s.parsed[text]
	if t == nil {
		return text, nil
	}
	t, err := t.Clone()
	if err != nil {
		return "", plain(err)
	}
	out := &bounded{}
	if err := t.Funcs(talk.functions()).Execute(out, nil); err != nil {
		return "", plain(err)
	}
	return out.b.String(), nil
}

// plain removes the library's prefix and returns one line of limited length.
func plain(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner // what a function of ours returned, without the place in the template
	}
	msg := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "template: ")), " ")
	if len(msg) > 400 {
		msg = strings.ToValidUTF8(msg[:400], "") + "…"
	}
	return errors.New(msg)
}

// bounded is a buffer that rejects more than maxOutput bytes.
type bounded struct{ b bytes.Buffer }

func (w *bounded) Write(p []byte) (int, error) {
	if w.b.Len()+len(p) > maxOutput {
		return 0, fmt.Errorf("the output is longer than %d bytes", maxOutput)
	}
	return w.b.Write(p)
}

// walk copies arguments, replacing every string s with f(s). {$json: text} becomes the value of
// that JSON text.
func walk(v map[string]any, f func(string) (string, error)) (map[string]any, error) {
	if v == nil {
		return nil, nil
	}
	out, err := value(v, f, 0)
	if err != nil {
		return nil, err
	}
	m, ok := out.(map[string]any)
	if !ok && out != nil {
		return nil, errors.New("arguments are not an object")
	}
	return m, nil
}

func value(v any, f func(string) (string, error), depth int) (any, error) {
	if depth > maxArgsDepth {
		return nil, fmt.Errorf("arguments are nested deeper than %d", maxArgsDepth)
	}
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			e, err := value(v[i], f, depth+1)
			if err != nil {
				return nil, fmt.Errorf("%d: %w", i, err)
			}
			out[i] = e
		}
		return out, nil
	case map[string]any:
		if text, ok := v["$json"].(string); ok && len(v) == 1 {
			return fromJSON(text, f)
		}
		out := make(map[string]any, len(v))
		for k, e := range v {
			e, err := value(e, f, depth+1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
			out[k] = e
		}
		return out, nil
	case map[any]any:
		return nil, errors.New("a key of the arguments is not a string")
	}
	return v, nil
}

func fromJSON(text string, f func(string) (string, error)) (any, error) {
	text, err := f(text)
	if err != nil {
		return nil, err
	}
	return decode(text)
}

// decode parses JSON and keeps numbers as they are written.
func decode(text string) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, errors.New("not a JSON text")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

// talk is the conversation as seen by templates.
type talk struct{ request model.Request }

func (t *talk) parts(kind model.PartKind, tool string) []model.Part {
	var out []model.Part
	for _, m := range t.request.Messages {
		for _, p := range m.Parts {
			if p.Kind == kind && (tool == "" || p.Tool == tool) {
				out = append(out, p)
			}
		}
	}
	return out
}

func (t *talk) nth(tool string, n int) (model.Part, error) {
	all := t.parts(model.PartResult, tool)
	at := n - 1
	if n < 0 {
		at = len(all) + n
	}
	if n == 0 || at < 0 || at >= len(all) {
		return model.Part{}, fmt.Errorf("no result %d of %s: there are %d", n, tool, len(all))
	}
	return all[at], nil
}

func (t *talk) prompt() string {
	for _, m := range slices.Backward(t.request.Messages) {
		if m.Role == model.RoleUser && m.Text() != "" {
			return m.Text()
		}
	}
	return ""
}

// given returns all text on the user's side: prompts, and the texts of skills that were loaded
// before them.
func (t *talk) given() string {
	var b strings.Builder
	for _, m := range t.request.Messages {
		if m.Role == model.RoleUser {
			b.WriteString(m.Text() + "\n")
		}
	}
	return b.String()
}

// size counts the bytes that would be sent to a provider.
func (t *talk) size() (n int64) {
	n = int64(len(t.request.System))
	for _, tool := range t.request.Tools {
		n += int64(len(tool.Name) + len(tool.Description) + len(tool.Schema))
	}
	for _, m := range t.request.Messages {
		for _, p := range m.Parts {
			n += int64(len(p.Text) + len(p.Args) + len(p.Tool))
		}
	}
	return n
}

func (t *talk) functions() template.FuncMap {
	f := template.FuncMap{
		"prompt": t.prompt,
		"system": func() string { return t.request.System },
		"given":  t.given,
		"result": func(tool string, n int) (string, error) { p, err := t.nth(tool, n); return p.Text, err },
		"failed": func(tool string, n int) (bool, error) { p, err := t.nth(tool, n); return p.Error, err },
		"results": func(tool string) []string {
			var out []string
			for _, p := range t.parts(model.PartResult, tool) {
				out = append(out, p.Text)
			}
			return out
		},
		"offered": func(tool string) bool {
			return slices.ContainsFunc(t.request.Tools, func(s model.ToolSpec) bool { return s.Name == tool })
		},
	}
	maps.Copy(f, pure)
	return f
}
