package metier

import (
	"errors"
	"fmt"
	"strings"

	"metier/internal/termtext"
)

// Kind is the class of an error: one of ten, with one table each for exit
// codes, HTTP and MCP at the surfaces. Code says exactly what happened.
type Kind string

// The kinds.
const (
	Invalid      Kind = "invalid"     // the input is wrong
	NotFound     Kind = "not_found"   // the thing does not exist
	Denied       Kind = "denied"      // policy says no
	Approval     Kind = "approval"    // somebody has to answer first
	Drift        Kind = "drift"       // bytes are not the ones that were recorded
	Conflict     Kind = "conflict"    // somebody else changed it, or holds it
	Unsupported  Kind = "unsupported" // this build or host cannot
	LimitReached Kind = "limit"       // a stated limit was hit
	Unavailable  Kind = "unavailable" // something outside failed; again may help
	Internal     Kind = "internal"    // our fault
)

// Error is every error of this package: what was tried, on which skill and
// path, its class, an exact code and the way out.
type Error struct {
	Op    string // activate, read, call, scan, open …
	Skill string // name or ID, if one is concerned
	Path  string // as the caller wrote it
	Kind  Kind
	Code  string // open list, spelled as the source documents spell it (skill_not_found)
	Hint  string // the way out, one sentence
	Err   error
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op + ": ")
	}
	if e.Skill != "" {
		b.WriteString("skill " + termtext.Quote(e.Skill) + ": ")
	}
	if e.Path != "" {
		b.WriteString(termtext.Quote(e.Path) + ": ")
	}
	switch {
	case e.Err != nil:
		b.WriteString(e.Err.Error())
	case e.Code != "":
		b.WriteString(e.Code)
	default:
		b.WriteString(string(e.Kind))
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an *Error with the kind, the code, and the hint given; format
// and args make the message, as in fmt.Errorf.
func Errorf(kind Kind, code, hint, format string, args ...any) error {
	return &Error{Kind: kind, Code: code, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// KindOf returns the kind of the first *Error in err's tree, or internal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// CodeOf returns the code of the first *Error in err's tree, or "internal".
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Code != "" {
		return e.Code
	}
	return string(KindOf(err))
}
