package archive

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"metier/internal/termtext"
)

// Code is the reason why an archive was rejected or not written.
type Code string

// Codes of [Error].
const (
	CodeUnknownFormat Code = "archive_unknown_format" // not a zip, tar, or gzip file
	CodeDamaged       Code = "archive_damaged"        // truncated, malformed, or a checksum is wrong
	CodeAmbiguous     Code = "archive_ambiguous"      // readers would find different files in it, or data is hidden in it
	CodeUnsupported   Code = "archive_unsupported"    // encrypted, zip64, in parts, or an unknown compression method
	CodeName          Code = "archive_name_invalid"   // a path that is unsafe, or not usable on every system
	CodeDuplicate     Code = "archive_duplicate"      // two entries for one path, also by case or Unicode form
	CodeKind          Code = "archive_kind_invalid"   // not a file or folder: a link, device, FIFO, or sparse file
	CodeMode          Code = "archive_mode_invalid"   // setuid, setgid, or sticky
	CodeTooLarge      Code = "archive_too_large"      // a limit was exceeded
	CodeEmpty         Code = "archive_empty"          // contains no files
	CodeIO            Code = "archive_io"             // the archive could not be read, or a file could not be read or written
)

// Error is every failure of this package except those of the context.
type Error struct {
	Code  Code
	Entry string // name of the entry as in the archive; "" if the error is not about one
	Err   error  // what is wrong, and the fix
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Code))
	if e.Entry != "" {
		b.WriteString(": entry " + termtext.Quote(e.Entry))
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first [Error] in err's tree, or "".
func CodeOf(err error) Code {
	if e, is := errors.AsType[*Error](err); is {
		return e.Code
	}
	return ""
}

func failf(code Code, entry, format string, args ...any) *Error {
	return &Error{code, entry, fmt.Errorf(format, args...)}
}

// about adds the entry and a code to a cause, which keeps the code and the entry that it has. It
// returns errors of the context as they are.
func about(entry string, code Code, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if e, is := errors.AsType[*Error](err); is {
		if e.Entry == "" {
			return &Error{e.Code, entry, e.Err}
		}
		return e
	}
	return &Error{code, entry, err}
}
