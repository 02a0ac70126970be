//go:build !linux

package peeruser

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
)

func owner(_, _ netip.AddrPort) (int, error) {
	return 0, fmt.Errorf("%w: whose process is at the other end of a connection is not known on %s", errors.ErrUnsupported, runtime.GOOS)
}
