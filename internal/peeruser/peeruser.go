// Package peeruser determines which user opened a TCP connection from this machine.
package peeruser

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
)

// Allowed returns an error unless the process at the other end of a connection runs as the user of
// this process or as root. The addresses are those of this process's socket.
func Allowed(local, remote net.Addr) error {
	l, lerr := addrPort(local)
	r, rerr := addrPort(remote)
	if lerr != nil || rerr != nil {
		return fmt.Errorf("%v and %v are not addresses of a TCP connection", local, remote)
	}
	uid, err := owner(r, l)
	if err != nil {
		return err
	}
	if own := os.Geteuid(); uid != 0 && uid != own {
		return fmt.Errorf("the process at %s runs as user %d, and this one as user %d", remote, uid, own)
	}
	return nil
}

// Works returns an error if the user of a connection cannot be determined on this system. It tries a
// connection of its own.
func Works(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp4", l.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	return Allowed(l.Addr(), c.LocalAddr())
}

func addrPort(a net.Addr) (netip.AddrPort, error) {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%v is not a TCP address", a)
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port()), nil
}
