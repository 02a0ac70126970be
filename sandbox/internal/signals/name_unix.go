//go:build unix

package signals

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Name is never "": a result that names no signal says that none ended it.
func Name(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
