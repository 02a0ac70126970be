// Package loopback parses addresses of services that must be on this machine.
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

// Endpoint parses a URL with one of the schemes, a port, and a loopback host: 127.0.0.0/8, [::1],
// or localhost, which always means 127.0.0.1. It returns the URL and its IP:PORT.
func Endpoint(s string, schemes ...string) (u *url.URL, addr string, err error) {
	u, err = url.Parse(s)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.User != nil || u.Port() == "" {
		return nil, "", fmt.Errorf("%q is not an address such as %s://127.0.0.1:PORT", s, schemes[0])
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

// Client returns an HTTP client that connects only to one address, without a proxy, and does not
// follow redirects.
func Client(addr string) *http.Client {
	return &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
