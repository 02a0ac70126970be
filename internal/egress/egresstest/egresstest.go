// Package egresstest is an Internet for tests: names lead to public addresses,
// and those to real servers on this machine.
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

// Internet resolves and connects as a proxy asks it to. Names and Hosts are not
// changed while it is in use.
type Internet struct {
	Names map[string][]netip.Addr
	Hosts map[netip.AddrPort]string // public address → listener of this machine

	mu     sync.Mutex
	asked  []string
	dialed []netip.AddrPort
}

// New has names that lead to one address each. What h answers stands behind
// those of public, on port 80, and by TLS on 443: that server is returned too.
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

// Resolve looks a name up.
func (n *Internet) Resolve(_ context.Context, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	n.asked = append(n.asked, host)
	n.mu.Unlock()
	if a := n.Names[host]; a != nil {
		return a, nil
	}
	return nil, errors.New("no such host")
}

// Connect connects to what stands behind a public address.
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

// Asked are the names that were looked up, in order.
func (n *Internet) Asked() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.asked)
}

// Dialed are the addresses that were connected to, or would have been.
func (n *Internet) Dialed() []netip.AddrPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.dialed)
}
