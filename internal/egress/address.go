package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// closed4 lists the IPv4 ranges outside the public Internet: IANA's special-purpose registry,
// multicast, reserved ranges, and the one metadata service at a public address (Azure's).
var closed4 = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32")

// open6 covers all allocated IPv6 addresses. Outside of it are loopback, mapped IPv4, NAT64, unique
// local, link local, site local, and multicast addresses.
var open6 = netip.MustParsePrefix("2000::/3")

// closed6 lists the special ranges in open6: protocols (Teredo, ORCHID), documentation, and 6to4,
// which contains an IPv4 address.
var closed6 = prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// Public reports whether a is a public Internet address, in whatever form it is written.
func Public(a netip.Addr) bool { return public(a.Unmap()) }

// public reports whether a is a public Internet address. It returns false for mapped addresses:
// callers unmap what a resolver returned.
func public(a netip.Addr) bool {
	closed := closed6
	switch {
	case !a.IsValid() || a.Zone() != "":
		return false
	case a.Is4():
		closed = closed4
	case !open6.Contains(a):
		return false
	}
	return !slices.ContainsFunc(closed, func(p netip.Prefix) bool { return p.Contains(a) })
}

// interfaces returns the addresses of this machine's interfaces.
func interfaces() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	var out []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out, err
}

// resolve looks up exactly host: the trailing dot keeps a resolver from appending the local domain.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host+".")
}

// connect dials exactly a. The check is in the socket's Control function, so it applies however the
// address was chosen.
func connect(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1, Control: func(_, address string, _ syscall.RawConn) error {
		got, err := netip.ParseAddrPort(address)
		switch {
		case err != nil:
			return err
		case got != a:
			return fmt.Errorf("asked for %s, about to dial %s", a, got)
		case !public(got.Addr()):
			return refuse(AddressNotPublic, "%s is not a public address", got.Addr())
		}
		return nil
	}}
	return d.DialContext(ctx, "tcp", a.String())
}
