//go:build attacks

package gvisor_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/egress"
	"metier/internal/testenv"
	"metier/sandbox"
	"metier/sandbox/gvisor"
)

// A program with an ordinary HTTP library reaches only the allowed host.
func TestAProgramBehindTheRealProxy(t *testing.T) {
	t.Parallel()
	testenv.NeedTool(t, "python3", "python3")
	s := open(t, gvisor.Options{})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprintln(w, "hello from", r.Host) }))
	t.Cleanup(site.Close)
	public := netip.MustParseAddr("93.184.216.34")
	p, err := egress.New(egress.Rules{Hosts: []string{"a.com"}, Token: "secret",
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			if host == "a.com" {
				return []netip.Addr{public}, nil
			}
			return nil, errors.New("no such host")
		},
		Connect: func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
			if a != netip.AddrPortFrom(public, 80) {
				return nil, errors.New("nobody is there")
			}
			return new(net.Dialer).DialContext(ctx, "tcp", site.Listener.Addr().String())
		}})
	if err != nil {
		t.Fatal(err)
	}
	j := sandbox.Job{Env: append(env, egress.Environ(sandbox.ProxyAddr, "secret")...), Serve: p.Serve, Argv: []string{"python3", "-c", `
import urllib.request, urllib.error
for u in ["http://a.com/", "http://b.com/", "http://169.254.169.254/"]:
    try: print(urllib.request.urlopen(u).read().decode(), end="")
    except urllib.error.HTTPError as e: print(e.code, e.read().decode().split(":")[0])
`}}
	prints(t, s, j, "hello from a.com\n403 host_not_allowed\n403 host_literal\n")
	var got []string
	for _, h := range p.Used().Hosts {
		got = append(got, strings.TrimSpace(fmt.Sprint(h.Host, " ", h.Port, " ", h.Code)))
	}
	if diff := cmp.Diff([]string{"169.254.169.254 80 host_literal", "a.com 80", "b.com 80 host_not_allowed"}, got); diff != "" {
		t.Error(diff)
	}
}
