//go:build unix

// Package typeahead forgets what was typed at a terminal before anybody could
// see what it answers.
package typeahead

import (
	"os"

	"golang.org/x/sys/unix"
)

// Drop forgets the lines that wait at a terminal and reports whether there were
// any.
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
