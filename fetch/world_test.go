package fetch_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"

	"metier"
	"metier/event"
	"metier/event/eventtest"
	"metier/fetch"
	"metier/policy"
	"metier/record"
	"metier/settings"
)

// internet is made up: names lead to public addresses, and those to real
// servers on this machine.
type internet struct {
	mu     sync.Mutex
	names  map[string]string         // host → address
	at     map[netip.AddrPort]string // public address → listener
	asked  []string                  // names that were resolved
	dialed []netip.AddrPort
	seen   []*http.Request
	roots  *x509.CertPool
}

// newInternet has example.com, www.example.com and other.example.com, each with
// a plain server on port 80 and one of TLS on 443.
func newInternet(t *testing.T, h http.HandlerFunc) *internet {
	t.Helper()
	n := &internet{names: map[string]string{"example.com": "93.184.216.34", "www.example.com": "93.184.216.34", "other.example.com": "93.184.216.66",
		"inside.example.com": "10.1.2.3", "loop.example.com": "127.0.0.1", "metadata.example.com": "169.254.169.254", "six.example.com": "::1", "away.example.com": "93.184.216.99"},
		at: map[netip.AddrPort]string{}, roots: x509.NewCertPool()}
	note := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.seen = append(n.seen, r.Clone(context.Background()))
		n.mu.Unlock()
		h(w, r)
	})
	plain, secure := httptest.NewServer(note), httptest.NewUnstartedServer(note)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	n.roots.AddCert(secure.Certificate())
	for _, a := range []string{"93.184.216.34", "93.184.216.66"} {
		n.at[netip.AddrPortFrom(netip.MustParseAddr(a), 80)] = plain.Listener.Addr().String()
		n.at[netip.AddrPortFrom(netip.MustParseAddr(a), 443)] = secure.Listener.Addr().String()
	}
	return n
}

func (n *internet) resolve(_ context.Context, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, host)
	if a := n.names[host]; a != "" {
		return []netip.Addr{netip.MustParseAddr(a)}, nil
	}
	return nil, errors.New("no such host")
}

func (n *internet) connect(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, a)
	to := n.at[a]
	n.mu.Unlock()
	if to == "" {
		return nil, errors.New("connection refused")
	}
	return new(net.Dialer).DialContext(ctx, "tcp", to)
}

func (n *internet) requests() []*http.Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen
}

// world is a session with web_fetch in it.
type world struct {
	t     *testing.T
	s     *metier.Session
	log   *record.Memory
	calls int
}

func newWorld(t *testing.T, n *internet, g policy.Grants, change func(*fetch.Options)) *world {
	t.Helper()
	layer, err := settings.Profile(settings.DefaultProfile)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := settings.Resolve(layer)
	if err != nil {
		t.Fatal(err)
	}
	if g.Mode == "" {
		g.Mode = policy.Disabled
	}
	if g.Tools == nil {
		g.Tools = []string{settings.ToolWebFetch}
	}
	g.Narrow, g.Merge = policy.NarrowNarrow, policy.MergeIntersection
	o := fetch.Options{UserAgent: "metier/test", Roots: n.roots, Resolve: n.resolve, Connect: n.connect}
	if change != nil {
		change(&o)
	}
	snap, err := metier.Build(t.Context(), nil, set.Parse, set.Names, set.Read.IndexRoot, false)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, log: record.NewMemory()}
	w.s, err = metier.Open(t.Context(), metier.Config{ID: "s", By: "owner", Log: w.log, Blobs: w.log, Snapshot: snap, Tools: []metier.Tool{fetch.Tool(o)}, Settings: set, Grants: g})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// allowing are grants of web_fetch for hosts.
func allowing(hosts ...string) policy.Grants {
	return policy.Grants{Network: policy.NetworkTiered, Hosts: hosts}
}

func (w *world) try(ctx context.Context, args any) (metier.Observation, error) {
	w.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		w.t.Fatal(err)
	}
	w.calls++
	return w.s.Call(ctx, metier.Call{ID: "c" + strconv.Itoa(w.calls), Tool: settings.ToolWebFetch, Args: raw})
}

func (w *world) fetch(args any) metier.Observation {
	w.t.Helper()
	if u, is := args.(string); is {
		args = map[string]any{"url": u}
	}
	o, err := w.try(w.t.Context(), args)
	if err != nil {
		w.t.Fatalf("%v: %v", args, err)
	}
	return o
}

// fetched are the pages that the record has.
func (w *world) fetched() []event.PageFetched {
	w.t.Helper()
	return eventtest.All[event.PageFetched](w.t, w.log)
}

func (w *world) blob(r record.Ref) string {
	w.t.Helper()
	b, err := w.log.Open(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}
