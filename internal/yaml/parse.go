// Package yaml wraps the YAML library. No other package uses the library.
//
// [Parse] reads untrusted text into a small tree and keeps every scalar as written: nothing becomes
// a number, a date, or a boolean. [Decode] decodes metier's own files (configuration, runs,
// policies, profiles) into Go values and rejects unknown keys. [Encode] writes them. All three
// report positions as 1-based line and column; columns count characters.
package yaml

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Default limits of [Parse].
const (
	DefaultMaxBytes = 64 << 10
	DefaultMaxDepth = 32
	DefaultMaxNodes = 8192
)

// Options limit a [Parse]. A zero field selects the default.
type Options struct {
	MaxBytes  int // size of the text
	MaxDepth  int // nesting depth of maps and lists; scalars do not count
	MaxNodes  int // scalars, lists, maps, and keys together
	FirstLine int // line number of the text's first line, for text cut out of a larger file; default 1
}

func (o *Options) withDefaults() Options {
	var v Options
	if o != nil {
		v = *o
	}
	if v.MaxBytes <= 0 {
		v.MaxBytes = DefaultMaxBytes
	}
	if v.MaxDepth <= 0 {
		v.MaxDepth = DefaultMaxDepth
	}
	if v.MaxNodes <= 0 {
		v.MaxNodes = DefaultMaxNodes
	}
	if v.FirstLine <= 0 {
		v.FirstLine = 1
	}
	return v
}

// Parse parses exactly one YAML document of untrusted text. It rejects anchors, aliases, explicit
// tags, directives, merge keys, keys that are not scalars, duplicate keys, a second document,
// control characters, invalid UTF-8, and anything over a limit. Text without a document (empty, or
// only comments) is a null scalar. The tree holds no reference to src. Every error is an [*Error].
func Parse(src []byte, o *Options) (*Node, error) {
	opts := o.withDefaults()
	n, err := parse(src, opts)
	if err != nil {
		err.Line += opts.FirstLine - 1
		return nil, err
	}
	return n, nil
}

func parse(src []byte, opts Options) (*Node, *Error) {
	if len(src) > opts.MaxBytes {
		return nil, &Error{Line: 1, Column: 1, Code: TooLarge,
			Msg: fmt.Sprintf("%d bytes of YAML; at most %d are read", len(src), opts.MaxBytes)}
	}
	src = bytes.TrimPrefix(src, bom)
	if err := checkText(src); err != nil {
		return nil, err
	}
	if err := checkDirective(src); err != nil {
		return nil, err
	}
	raw, err := load(src, opts)
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return &Node{Line: 1, Column: 1}, nil
	}
	w := walker{opts: opts}
	return w.node(raw, 1)
}

var bom = []byte("\ufeff")

// depthMessage identifies this package's own error in the library's, which drops the cause.
const depthMessage = "nested too deeply"

// load runs the library. It returns nil, nil if there is no document.
func load(src []byte, opts Options) (n *yaml.Node, err *Error) {
	defer func() {
		// A bug in the library's scanner, triggered by untrusted text, must only fail this one
		// text.
		if r := recover(); r != nil {
			n, err = nil, &Error{Line: 1, Column: 1, Code: Syntax, Msg: fmt.Sprintf("the YAML parser failed: %v", r)}
		}
	}()
	limits := loaderlimits.New(loaderlimits.DepthFunc(func(depth int, _ *yaml.DepthContext) error {
		if depth > opts.MaxDepth {
			return errors.New(depthMessage)
		}
		return nil
	}))
	var doc yaml.Node
	lerr := yaml.Load(src, &doc, yaml.WithPlugin(limits))
	var several *yaml.LoadErrors
	switch {
	case lerr == nil:
	case errors.As(lerr, &several) && doc.Kind == 0:
		return nil, nil
	case errors.As(lerr, &several):
		return nil, secondDocument(src, limits)
	default:
		return nil, fromLibrary(lerr, opts)
	}
	if len(doc.Content) != 1 {
		return nil, nil
	}
	return doc.Content[0], nil
}

// secondDocument finds where the second document starts, which the library does not report.
func secondDocument(src []byte, limits *loaderlimits.Plugin) *Error {
	e := &Error{Line: 1, Column: 1, Code: SecondDocument, Msg: "a second YAML document; exactly one is allowed"}
	var docs []yaml.Node
	if err := yaml.Load(src, &docs, yaml.WithAllDocuments(), yaml.WithPlugin(limits)); err == nil && len(docs) > 1 {
		e.Line, e.Column = docs[1].Line, docs[1].Column
	}
	return e
}

// checkText rejects invalid UTF-8 and control characters, with a position, which the library does
// not report for either.
func checkText(src []byte) *Error {
	line, start := 1, 0
	for i := 0; i < len(src); {
		c := src[i]
		if c == '\n' {
			line, start = line+1, i+1
		}
		if c >= ' ' && c < utf8.RuneSelf || c == '\n' || c == '\t' || c == '\r' {
			i++
			continue
		}
		e := &Error{Line: line, Column: utf8.RuneCount(src[start:i]) + 1}
		if c == 0 {
			e.Code, e.Msg = NUL, "NUL byte; is this a text file?"
			return e
		}
		if c < ' ' {
			e.Code, e.Msg = ControlCharacter, fmt.Sprintf("control character U+%04X", c)
			return e
		}
		r, size := utf8.DecodeRune(src[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			e.Code, e.Msg = NotUTF8, fmt.Sprintf("byte 0x%02x is not UTF-8; save the file as UTF-8", c)
			return e
		case r == 0xFFFE || r == 0xFFFF:
			e.Code, e.Msg = ControlCharacter, fmt.Sprintf("character U+%04X is not allowed", r)
			return e
		}
		i += size
	}
	return nil
}

// checkDirective rejects %YAML and %TAG lines, which precede a document and change how it is read.
func checkDirective(src []byte) *Error {
	for line := 1; len(src) > 0; line++ {
		var l []byte
		l, src, _ = bytes.Cut(src, []byte("\n"))
		switch l = bytes.TrimRight(l, " \t\r"); {
		case len(l) == 0 || bytes.TrimLeft(l, " \t")[0] == '#':
			continue
		case l[0] == '%':
			return &Error{Line: line, Column: 1, Code: Directive, Msg: "YAML directives are not allowed; remove this line"}
		}
		return nil
	}
	return nil
}
