package yaml

import (
	"fmt"

	"go.yaml.in/yaml/v4"
)

// Kind is the kind of a [Node].
type Kind uint8

const (
	Scalar Kind = iota
	Map
	List
)

func (k Kind) String() string {
	switch k {
	case Map:
		return "map"
	case List:
		return "list"
	}
	return "scalar"
}

// Style is how a [Node] was written.
type Style uint8

const (
	Plain   Style = iota // scalar without quotes
	Single               // 'scalar'
	Double               // "scalar"
	Literal              // | scalar
	Folded               // > scalar
	Flow                 // [list] or {map} on one line
	Block                // list or map over lines
)

// Node is a scalar, map, or list.
type Node struct {
	Kind         Kind
	Style        Style
	Text         string // scalar: the text, unquoted and unfolded, never converted: 1.10 stays "1.10"
	Items        []*Node
	Entries      []Entry // in source order; keys are unique
	Line, Column int     // where it starts, 1-based
}

// Entry is one key of a map with its value.
type Entry struct{ Key, Value *Node }

// Null reports whether the node is a plain scalar without a value: empty, ~, null, Null, or NULL.
func (n *Node) Null() bool {
	if n.Kind != Scalar || n.Style != Plain {
		return false
	}
	switch n.Text {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

// Bool returns the value of a plain true or false as spelled in the YAML 1.2 core schema. yes, no,
// on, and off are text.
func (n *Node) Bool() (value, ok bool) {
	if n.Kind != Scalar || n.Style != Plain {
		return false, false
	}
	switch n.Text {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	}
	return false, false
}

// walker converts the library's tree to Nodes and applies rules that the library lacks.
type walker struct {
	opts  Options
	nodes int
}

func (w *walker) node(raw *yaml.Node, depth int) (*Node, *Error) {
	if err := w.check(raw, depth); err != nil {
		return nil, err
	}
	n := &Node{Line: raw.Line + w.opts.FirstLine - 1, Column: raw.Column}
	switch raw.Kind {
	case yaml.ScalarNode:
		n.Text, n.Style = raw.Value, scalarStyle(raw.Style)
		return n, nil
	case yaml.SequenceNode:
		n.Kind, n.Style = List, collectionStyle(raw.Style)
		n.Items = make([]*Node, 0, len(raw.Content))
		for _, c := range raw.Content {
			item, err := w.node(c, depth+1)
			if err != nil {
				return nil, err
			}
			n.Items = append(n.Items, item)
		}
		return n, nil
	case yaml.MappingNode:
		n.Kind, n.Style = Map, collectionStyle(raw.Style)
		return n, w.entries(n, raw.Content, depth)
	}
	return nil, at(raw, Syntax, "unexpected YAML node")
}

func (w *walker) entries(n *Node, content []*yaml.Node, depth int) *Error {
	n.Entries = make([]Entry, 0, len(content)/2)
	seen := make(map[string]int, len(content)/2)
	for i := 0; i+1 < len(content); i += 2 {
		raw := content[i]
		if raw.Kind == yaml.MappingNode || raw.Kind == yaml.SequenceNode {
			return at(raw, ComplexKey, "a key must be plain text")
		}
		if raw.Kind == yaml.ScalarNode && raw.Value == "<<" && scalarStyle(raw.Style) == Plain {
			return at(raw, MergeKey, "merge keys (<<) are not allowed; write the keys out")
		}
		key, err := w.node(raw, depth+1)
		if err != nil {
			return err
		}
		if line, dup := seen[key.Text]; dup {
			return at(raw, DuplicateKey, fmt.Sprintf("key %q is already set on line %d", clip(key.Text), line))
		}
		seen[key.Text] = key.Line
		value, err := w.node(content[i+1], depth+1)
		if err != nil {
			return err
		}
		n.Entries = append(n.Entries, Entry{Key: key, Value: value})
	}
	return nil
}

func (w *walker) check(raw *yaml.Node, depth int) *Error {
	w.nodes++
	switch {
	case w.nodes > w.opts.MaxNodes:
		return at(raw, TooManyNodes, fmt.Sprintf("more than %d YAML values", w.opts.MaxNodes))
	case raw.Kind == yaml.AliasNode:
		return at(raw, Alias, fmt.Sprintf("alias *%s is not allowed; put the text in quotes", clip(raw.Value)))
	case raw.Anchor != "":
		return at(raw, Anchor, fmt.Sprintf("anchor &%s is not allowed; put the text in quotes", clip(raw.Anchor)))
	case raw.Style&yaml.TaggedStyle != 0 || raw.Tag == "!":
		return at(raw, Tag, fmt.Sprintf("tag %s is not allowed; put the text in quotes", clip(raw.Tag)))
	case raw.Kind != yaml.ScalarNode && depth > w.opts.MaxDepth:
		return at(raw, TooDeep, fmt.Sprintf("nested more than %d deep", w.opts.MaxDepth))
	}
	return nil
}

func at(raw *yaml.Node, code Code, msg string) *Error {
	return &Error{Line: raw.Line, Column: raw.Column, Code: code, Msg: msg}
}

func scalarStyle(s yaml.Style) Style {
	switch {
	case s&yaml.SingleQuotedStyle != 0:
		return Single
	case s&yaml.DoubleQuotedStyle != 0:
		return Double
	case s&yaml.LiteralStyle != 0:
		return Literal
	case s&yaml.FoldedStyle != 0:
		return Folded
	}
	return Plain
}

func collectionStyle(s yaml.Style) Style {
	if s&yaml.FlowStyle != 0 {
		return Flow
	}
	return Block
}
