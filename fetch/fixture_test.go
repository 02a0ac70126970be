package fetch_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"metier"
	"metier/event"
	"metier/event/eventtest"
	"metier/fetch"
	"metier/internal/egress/egresstest"
	"metier/policy"
	"metier/record"
	"metier/settings"
)

// internet is a simulated one. It keeps the requests of its servers.
type internet struct {
	*egresstest.Internet
	roots *x509.CertPool

	mu   sync.Mutex
	seen []*http.Request
}

// newInternet has example.com, www.example.com and other.example.com, each with
// a plain server on port 80 and a TLS server on 443.
func newInternet(t *testing.T, h http.HandlerFunc) *internet {
	t.Helper()
	n := &internet{roots: x509.NewCertPool()}
	note := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.seen = append(n.seen, r.Clone(context.Background()))
		n.mu.Unlock()
		h(w, r)
	})
	net, secure := egresstest.New(t, note, map[string]string{"example.com": "93.184.216.34", "www.example.com": "93.184.216.34", "other.example.com": "93.184.216.66",
		"inside.example.com": "10.1.2.3", "loop.example.com": "127.0.0.1", "metadata.example.com": "169.254.169.254", "six.example.com": "::1", "away.example.com": "93.184.216.99"},
		"93.184.216.34", "93.184.216.66")
	n.Internet = net
	n.roots.AddCert(secure.Certificate())
	return n
}

// certify gives example.com a server whose certificate is for another name.
func (n *internet) certify(t *testing.T, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, is, is, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	n.Hosts[netip.MustParseAddrPort("93.184.216.34:443")] = s.Listener.Addr().String()
}

func (n *internet) requests() []*http.Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen
}

// fixture is a session with web_fetch in it.
type fixture struct {
	t     *testing.T
	s     *metier.Session
	log   *record.Memory
	calls int
}

func newFixture(t *testing.T, n *internet, g policy.Grants, change func(*fetch.Options)) *fixture {
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
	o := fetch.Options{UserAgent: "metier/test", Roots: n.roots, Resolve: n.Resolve, Connect: n.Connect}
	if change != nil {
		change(&o)
	}
	snap, err := metier.Build(t.Context(), nil, set.Parse, set.Names, set.Read.IndexRoot, false)
	if err != nil {
		t.Fatal(err)
	}
	w := &fixture{t: t, log: record.NewMemory()}
	w.s, err = metier.Open(t.Context(), metier.Config{ID: "s", By: "owner", Log: w.log, Blobs: w.log, Snapshot: snap, Tools: []metier.Tool{fetch.Tool(o)}, Settings: set, Grants: g})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// allowing returns grants of web_fetch for hosts.
func allowing(hosts ...string) policy.Grants {
	return policy.Grants{Network: policy.NetworkTiered, Hosts: hosts}
}

func (w *fixture) try(ctx context.Context, args any) (metier.Observation, error) {
	w.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		w.t.Fatal(err)
	}
	w.calls++
	return w.s.Call(ctx, metier.Call{ID: "c" + strconv.Itoa(w.calls), Tool: settings.ToolWebFetch, Args: raw})
}

func (w *fixture) fetch(args any) metier.Observation {
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

// fetched returns the pages in the record.
func (w *fixture) fetched() []event.PageFetched {
	w.t.Helper()
	return eventtest.All[event.PageFetched](w.t, w.log)
}

func (w *fixture) blob(r record.Ref) string {
	w.t.Helper()
	b, err := w.log.Open(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}
