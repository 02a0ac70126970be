package yaml

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Code identifies the kind of an error.
type Code string

const (
	Syntax           Code = "syntax"
	NotUTF8          Code = "not-utf8"
	NUL              Code = "nul"
	ControlCharacter Code = "control-character"
	TooLarge         Code = "too-large"
	TooDeep          Code = "too-deep"
	TooManyNodes     Code = "too-many-nodes"
	Alias            Code = "alias"
	Anchor           Code = "anchor"
	Tag              Code = "tag"
	Directive        Code = "directive"
	MergeKey         Code = "merge-key"
	ComplexKey       Code = "complex-key"
	DuplicateKey     Code = "duplicate-key"
	SecondDocument   Code = "second-document"
	UnknownKey       Code = "unknown-key" // Decode only
	WrongType        Code = "wrong-type"  // Decode only
	NoJSON           Code = "no-json"     // AppendJSON only
)

// Error is a fault in YAML text with its position (1-based; columns count characters).
type Error struct {
	Line, Column int
	Code         Code
	Msg          string
}

func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Msg) }

// fromLibrary converts an error of the library's scanner, parser, or composer. Its position is
// relative to the start of the text.
func fromLibrary(err error, opts Options) *Error {
	var le *yaml.LoadError
	if !errors.As(err, &le) {
		return &Error{Line: 1, Column: 1, Code: Syntax, Msg: clip(err.Error())}
	}
	e := &Error{Line: max(le.Mark.Line, 1), Column: max(le.Mark.Column, 1), Code: Syntax, Msg: clip(le.Message)}
	switch {
	case le.Message == depthMessage:
		e.Code, e.Msg = TooDeep, fmt.Sprintf("nested more than %d deep", opts.MaxDepth)
	case le.Stage == yaml.ComposerStage && strings.HasPrefix(le.Message, "unknown anchor "):
		e.Code, e.Msg = Alias, "a value that starts with * is an alias, which is not allowed; put it in quotes"
	case le.Message == "mapping values are not allowed in this context":
		e.Msg = `": " inside an unquoted value; put the value in quotes`
	case le.ContextMsg != "":
		e.Msg = clip(le.Message + " " + le.ContextMsg)
		if le.ContextMark.Line > 0 && le.ContextMark.Line != e.Line {
			e.Msg += fmt.Sprintf(" that starts on line %d", le.ContextMark.Line+opts.FirstLine-1)
		}
	}
	return e
}

// clip shortens untrusted text in messages.
func clip(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
