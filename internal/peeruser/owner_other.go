//go:build !linux

package peeruser

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
)

func owner(_, _ netip.AddrPort) (int, error) {
	return 0, fmt.Errorf("%w: which user opened a connection cannot be determined on %s", errors.ErrUnsupported, runtime.GOOS)
}
