// Package loopback reads addresses of services that have to be on this machine.
package loopback

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Endpoint reads an address with one of the schemes, a port, and a host that is
// this machine's loopback: 127.0.0.0/8, [::1] or localhost, which is 127.0.0.1
// whatever a resolver says. It gives the address and its IP:PORT.
func Endpoint(s string, schemes ...string) (u *url.URL, addr string, err error) {
	u, err = url.Parse(s)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.User != nil || u.Port() == "" {
		return nil, "", fmt.Errorf("%q is not an address as %s://127.0.0.1:PORT", s, schemes[0])
	}
	host := u.Hostname()
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.Unmap().IsLoopback() || ip.Zone() != "" {
		return nil, "", fmt.Errorf("%q is not on this machine's loopback", s)
	}
	return u, net.JoinHostPort(ip.Unmap().String(), u.Port()), nil
}

// Client is an HTTP client that reaches one address, through no proxy, and
// follows nothing.
func Client(addr string) *http.Client {
	return &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
