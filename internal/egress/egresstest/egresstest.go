// Package egresstest simulates the Internet for tests: names resolve to public addresses, which are
// served by real servers on this machine.
package egresstest

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
)

// Internet implements Resolve and Connect for a proxy. Do not change Names and Hosts while it is in
// use.
type Internet struct {
	Names map[string][]netip.Addr
	Hosts map[netip.AddrPort]string // public address → listener of this machine

	mu     sync.Mutex
	asked  []string
	dialed []netip.AddrPort
}

// New returns an Internet in which each name has one address. h serves the public addresses on port
// 80, and with TLS on 443. New also returns the TLS server.
func New(t *testing.T, h http.Handler, names map[string]string, public ...string) (*Internet, *httptest.Server) {
	t.Helper()
	plain, secure := httptest.NewServer(h), httptest.NewUnstartedServer(h)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	n := &Internet{Names: map[string][]netip.Addr{}, Hosts: map[netip.AddrPort]string{}}
	for name, a := range names {
		n.Names[name] = []netip.Addr{netip.MustParseAddr(a)}
	}
	for _, a := range public {
		n.Hosts[netip.MustParseAddrPort(a+":80")] = plain.Listener.Addr().String()
		n.Hosts[netip.MustParseAddrPort(a+":443")] = secure.Listener.Addr().String()
	}
	return n, secure
}

// Resolve looks up a name.
func (n *Internet) Resolve(_ context.Context, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	n.asked = append(n.asked, host)
	n.mu.Unlock()
	if a := n.Names[host]; a != nil {
		return a, nil
	}
	return nil, errors.New("no such host")
}

// Connect connects to the server for a public address.
func (n *Internet) Connect(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, a)
	n.mu.Unlock()
	to := n.Hosts[a]
	if to == "" {
		return nil, errors.New("connection refused")
	}
	return new(net.Dialer).DialContext(ctx, "tcp", to)
}

// Asked returns the names that were looked up, in order.
func (n *Internet) Asked() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.asked)
}

// Dialed returns the addresses that Connect was called with.
func (n *Internet) Dialed() []netip.AddrPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.dialed)
}
