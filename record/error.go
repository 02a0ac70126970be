package record

import (
	"errors"
	"fmt"
	"io/fs"
	"metier/internal/atomicfile"
	"strings"
	"syscall"
)

// Errors to compare with errors.Is.
var (
	// ErrMoved reports that the head is not the one that the writer has seen.
	// Read the new entries and decide again.
	ErrMoved = errors.New("the log has moved on")
	// ErrErased reports that a blob does not exist or was deleted. The log
	// still has its digest and size.
	ErrErased = errors.New("the blob was erased")
	// ErrAltered reports that a blob's bytes do not match its digest.
	ErrAltered = errors.New("the blob was altered")
)

// Code classifies an [Error] or a [Problem]. The list may grow.
type Code string

// Codes of this package.
const (
	CodeTorn        Code = "record_torn"       // the last line was not written completely
	CodeAltered     Code = "record_altered"    // a stored line is not what was written
	CodeCut         Code = "record_cut"        // entries are missing at the end
	CodeGap         Code = "record_gap"        // entries are missing in the middle
	CodeNewer       Code = "record_newer"      // written by a newer version
	CodeUnanchored  Code = "record_unanchored" // entries that no recorded head covers
	CodeErased      Code = "blob_erased"
	CodeBlobAltered Code = "blob_altered"
	CodeDiskFull    Code = "disk_full"
	CodeReadOnly    Code = "read_only"
	CodeBadEntry    Code = "record_bad_entry" // an entry to append lacks ID or Type, or its data is not JSON
	CodeTooLarge    Code = "record_too_large" // a line, a blob or a log past its limit
	CodeIO          Code = "record_io"        // any other failure of the storage
)

// Error is every failure of this package except [ErrMoved] and those of the
// context.
type Error struct {
	Code   Code
	Path   string // file or folder; "" in memory
	Seq    uint64 // entry or line, 0 when it is about none
	Detail string // what happened and what to do
	Err    error  // cause, may be nil
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Code))
	if e.Path != "" {
		b.WriteString(": " + e.Path)
	}
	if e.Seq != 0 {
		fmt.Fprintf(&b, ": entry %d", e.Seq)
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first [Error] in err's tree, or "".
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// storage converts a file system error into an Error.
func storage(path string, seq uint64, err error) *Error {
	e := &Error{Code: CodeIO, Path: path, Seq: seq, Err: err}
	switch {
	case atomicfile.IsFull(err):
		e.Code, e.Detail = CodeDiskFull, "no space left, nothing was added; free some and try again"
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		e.Code, e.Detail = CodeReadOnly, "may not be written; choose another folder or change its permissions"
	}
	return e
}
