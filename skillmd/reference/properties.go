package reference

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"

	"metier/internal/yaml"
)

// Properties is what read-properties prints of one skill.
type Properties struct {
	Name        string // stripped, not normalized
	Description string // stripped
	rest        []entry
}

// entry is a value that is passed on as it was read, whatever its kind.
type entry struct {
	key   string
	value *yaml.Node
}

// Properties reads a skill without validating it: name and description must be texts, and the rest is passed on.
func (s Skill) Properties() (Properties, error) {
	var p Properties
	if _, err := os.Stat(s.place()); os.IsPermission(err) {
		return p, err
	}
	file, err := s.find()
	switch {
	case err != nil:
		return p, err
	case file == "":
		return p, errors.New("SKILL.md not found in " + s.Path)
	}
	content, err := read(file)
	if err != nil {
		return p, err
	}
	f, message, err := parse(content)
	switch {
	case err != nil:
		return p, err
	case message != "":
		return p, errors.New(message)
	}
	return f.properties()
}

func (f fields) properties() (Properties, error) {
	var p Properties
	for _, key := range []string{"name", "description"} {
		if f.get(key) == nil {
			return p, errors.New("Missing required field in frontmatter: " + key)
		}
	}
	for _, key := range []string{"name", "description"} {
		if blank(f.get(key)) {
			//lint:ignore ST1005 the words of skills-ref
			return p, fmt.Errorf("Field '%s' must be a non-empty string", key)
		}
	}
	p.Name, p.Description = strip(f.get("name").Text), strip(f.get("description").Text)
	for _, key := range []string{"license", "compatibility", "allowed-tools", "metadata"} {
		v := f.get(key)
		if v == nil || key == "metadata" && v.Kind == yaml.Scalar && v.Text == "" {
			continue
		}
		if key == "metadata" {
			v = flat(v)
		}
		p.rest = append(p.rest, entry{key, v})
	}
	return p, nil
}

// flat turns the values of a map into texts, nested ones as Python prints them.
func flat(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.Map {
		return n
	}
	out := &yaml.Node{Kind: yaml.Map}
	for _, e := range n.Entries {
		text := e.Value.Text
		if e.Value.Kind != yaml.Scalar {
			text = string(repr(nil, e.Value))
		}
		out.Entries = append(out.Entries, yaml.Entry{Key: e.Key, Value: &yaml.Node{Text: text}})
	}
	return out
}

// repr writes a value as Python's repr does.
func repr(b []byte, n *yaml.Node) []byte {
	switch n.Kind {
	case yaml.Map:
		b = append(b, '{')
		for i, e := range n.Entries {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = reprText(b, e.Key.Text)
			b = append(b, ": "...)
			b = repr(b, e.Value)
		}
		return append(b, '}')
	case yaml.List:
		b = append(b, '[')
		for i, item := range n.Items {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = repr(b, item)
		}
		return append(b, ']')
	}
	return reprText(b, n.Text)
}

func reprText(b []byte, s string) []byte {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b = append(b, quote)
	for _, r := range s {
		switch {
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\\' || r == rune(quote):
			b = append(b, '\\', byte(r))
		case unicode.IsPrint(r):
			b = append(b, string(r)...)
		case r < 0x100:
			b = fmt.Appendf(b, `\x%02x`, r)
		case r < 0x10000:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = fmt.Appendf(b, `\U%08x`, r)
		}
	}
	return append(b, quote)
}

// JSON is what read-properties prints, without the last line end: two blanks per level, everything but ASCII as escapes, as
// Python's json.dumps writes it. It holds no character a terminal obeys.
func (p Properties) JSON() []byte {
	n := &yaml.Node{Kind: yaml.Map}
	add := func(key string, v *yaml.Node) {
		n.Entries = append(n.Entries, yaml.Entry{Key: &yaml.Node{Text: key}, Value: v})
	}
	add("name", &yaml.Node{Text: p.Name})
	add("description", &yaml.Node{Text: p.Description})
	for _, e := range p.rest {
		add(e.key, e.value)
	}
	return dump(nil, n, "\n")
}

func dump(b []byte, n *yaml.Node, line string) []byte {
	inner := line + "  "
	switch {
	case n.Kind == yaml.Map && len(n.Entries) > 0:
		b = append(b, '{')
		for i, e := range n.Entries {
			if i > 0 {
				b = append(b, ',')
			}
			b = dumpText(append(b, inner...), e.Key.Text)
			b = dump(append(b, ": "...), e.Value, inner)
		}
		return append(append(b, line...), '}')
	case n.Kind == yaml.Map:
		return append(b, "{}"...)
	case n.Kind == yaml.List && len(n.Items) > 0:
		b = append(b, '[')
		for i, item := range n.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = dump(append(b, inner...), item, inner)
		}
		return append(append(b, line...), ']')
	case n.Kind == yaml.List:
		return append(b, "[]"...)
	}
	return dumpText(b, n.Text)
}

func dumpText(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch i := strings.IndexRune("\"\\\b\f\n\r\t", r); {
		case i >= 0:
			b = append(b, '\\', `"\bfnrt`[i])
		case r >= ' ' && r <= '~':
			b = append(b, byte(r))
		default:
			for _, u := range utf16.AppendRune(nil, r) {
				b = fmt.Appendf(b, `\u%04x`, u)
			}
		}
	}
	return append(b, '"')
}
