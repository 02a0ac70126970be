//go:build unix && !linux

package typeahead

import "golang.org/x/sys/unix"

// read is FREAD of fcntl.h.
const read = 1

func flush(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, read) }
