//go:build unix

// Package typeahead discards terminal input that was typed before the user could see the question.
package typeahead

import (
	"os"

	"golang.org/x/sys/unix"
)

// Drop discards the pending input of a terminal. It reports whether there was any.
func Drop(f *os.File) (dropped bool, err error) {
	fd := int(f.Fd())
	var in unix.FdSet
	in.Set(fd)
	n, err := unix.Select(fd+1, &in, nil, nil, &unix.Timeval{})
	if err != nil || n == 0 {
		return false, err
	}
	return true, flush(fd)
}
