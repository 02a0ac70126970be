package metier

import (
	"errors"
	"fmt"
	"strings"

	"metier/internal/termtext"
)

// Kind is the class of an error. Each surface maps kinds to its own results, such
// as exit statuses. The code of an error is more specific.
type Kind string

// The kinds.
const (
	Invalid      Kind = "invalid"     // the input is wrong
	NotFound     Kind = "not_found"   // the thing does not exist
	Denied       Kind = "denied"      // a rule or a permission denies it
	Approval     Kind = "approval"    // a user must approve it first
	Drift        Kind = "drift"       // bytes differ from the recorded ones
	Conflict     Kind = "conflict"    // another process changed or holds it
	Unsupported  Kind = "unsupported" // this build or host cannot do it
	LimitReached Kind = "limit"       // a documented limit was reached
	Unavailable  Kind = "unavailable" // something outside failed; a retry may help
	Internal     Kind = "internal"    // a bug in metier
)

// Error is the error type of this module: what failed, for which skill and
// path, its class, its exact code, and the fix. docs/ERRORS.md lists the codes.
type Error struct {
	Op    string // activate, read, call, scan, open, …
	Skill string // name or ID, if the error is about a skill
	Path  string // as the caller wrote it
	Field string // field of the request at fault, such as Request.Workspace; empty if none is
	Kind  Kind
	Code  string // snake_case, for example skill_not_found
	Hint  string // the fix, one sentence; it names fields as Field does
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

// HTTPStatus returns the status that an HTTP service answers with.
func (k Kind) HTTPStatus() int {
	switch k {
	case Invalid:
		return 400
	case NotFound:
		return 404
	case Denied:
		return 403
	case Approval, Drift, Conflict:
		return 409
	case Unsupported:
		return 501
	case LimitReached:
		return 429
	case Unavailable:
		return 503
	}
	return 500
}

// Fieldf returns an *Error like [Errorf], about a field of a request.
func Fieldf(kind Kind, field, code, hint, format string, args ...any) error {
	return &Error{Field: field, Kind: kind, Code: code, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// Errorf returns an *Error with the kind, the code, and the hint given; format
// and args make the message, as in fmt.Errorf.
func Errorf(kind Kind, code, hint, format string, args ...any) error {
	return &Error{Kind: kind, Code: code, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// InvalidArguments returns the error of a tool for arguments that it does not take.
func InvalidArguments(format string, args ...any) error {
	return &Error{Op: "arguments", Kind: Invalid, Code: "invalid_arguments", Err: fmt.Errorf(format, args...)}
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
