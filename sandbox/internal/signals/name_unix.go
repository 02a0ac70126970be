//go:build unix

package signals

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Name returns the name of a signal. It is never "", which in a result means no signal.
func Name(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}
