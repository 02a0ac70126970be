package skillmd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"metier/internal/yaml"
)

// TypedJSON returns the frontmatter of a whole file as one JSON object with the
// types of the YAML 1.2 core schema: unlike [Front.JSON], numbers are numbers.
// It applies no repairs. It fails if YAML readers could disagree about the text
// or its types, or if JSON cannot represent a value.
func TypedJSON(src []byte) (json.RawMessage, error) {
	s := split(src, true)
	switch {
	case s.problem != nil:
		return nil, errors.New(s.problem.Detail)
	case !s.closed || len(s.notes) > 0:
		return nil, errors.New("the frontmatter does not start on the first line of the file")
	}
	text := src[s.start:s.end]
	if name := ambiguousBreak(text); name != "" {
		return nil, fmt.Errorf("the frontmatter contains %s, which only some YAML versions treat as a line break", name)
	}
	for l := range bytes.Lines(text) {
		if l = bytes.TrimRight(l, " \t\r\n"); bytes.Equal(l, []byte("...")) || bytes.HasPrefix(l, []byte("... ")) {
			return nil, errors.New("the frontmatter contains a line ... that ends a YAML document")
		}
	}
	n, err := yaml.Parse(text, &yaml.Options{MaxBytes: MaxHead, FirstLine: s.line + 1})
	if err != nil {
		return nil, err
	}
	if n.Kind != yaml.Map {
		return nil, fmt.Errorf("the frontmatter is a %s, not lines of key: value", n.Kind)
	}
	if at := looselyQuoted(n, text, s.line+1); at > 0 {
		return nil, fmt.Errorf("line %d: a quoted text continues on a line that is not indented more than its own, which some YAML readers refuse", at)
	}
	out, err := n.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(text, '+') >= 0 { // a text that keeps its last line breaks (|+); readers differ in where the frontmatter ends
		cut := bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
		n, err := yaml.Parse(cut, &yaml.Options{MaxBytes: MaxHead})
		if err != nil {
			return nil, err
		}
		last := cut[bytes.LastIndexByte(cut, '\n')+1:]
		if short, err := n.AppendJSON(nil); err != nil || !bytes.Equal(short, out) || len(bytes.TrimSpace(last)) == 0 {
			return nil, errors.New("the frontmatter ends in a text that keeps its last line breaks (|+ or >+)")
		}
	}
	return out, nil
}

// looselyQuoted returns the line of the first quoted scalar that continues on a
// line with too little indentation, or 0.
func looselyQuoted(n *yaml.Node, text []byte, first int) int {
	for _, item := range n.Items {
		if at := looselyQuoted(item, text, first); at > 0 {
			return at
		}
	}
	for _, e := range n.Entries {
		if at := cmp.Or(looselyQuoted(e.Key, text, first), looselyQuoted(e.Value, text, first)); at > 0 {
			return at
		}
	}
	if n.Kind != yaml.Scalar || n.Style != yaml.Single && n.Style != yaml.Double {
		return 0
	}
	start := offsetOf(text, n.Line-first, n.Column-1)
	if start < 0 || start >= len(text) || text[start] != '\'' && text[start] != '"' {
		return n.Line // the position of the parser is wrong: do not guess
	}
	own := text[bytes.LastIndexByte(text[:start], '\n')+1 : start]
	indent := len(own) - len(bytes.TrimLeft(own, " -"))
	for i := start + 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && text[start] == '"' && i+1 < len(text) && text[i+1] != '\n':
			i++
		case c == text[start] && c == '\'' && i+1 < len(text) && text[i+1] == c:
			i++
		case c == text[start]:
			return 0
		case c == '\n':
			line, _, _ := bytes.Cut(text[i+1:], []byte("\n"))
			if rest := bytes.TrimLeft(line, " "); len(bytes.TrimSpace(rest)) > 0 && len(line)-len(rest) <= indent {
				return n.Line
			}
		}
	}
	return 0
}

// ambiguousBreak names a character that ends a line in YAML 1.1 or 1.2 but not
// in both, or not for readers that split the file into lines first.
func ambiguousBreak(text []byte) string {
	for i, c := range text {
		if c == '\r' && (i+1 == len(text) || text[i+1] != '\n') {
			return "a carriage return without a newline"
		}
	}
	if i := bytes.IndexAny(text, "\u0085\u2028\u2029\ufeff"); i >= 0 {
		r := []rune(string(text[i:min(len(text), i+4)]))
		return strings.ToUpper(fmt.Sprintf("u+%04x", r[0]))
	}
	return ""
}
