package install

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"metier"
)

// network is a server with TLS that every host leads to.
type network struct {
	t         *testing.T
	server    *httptest.Server
	addresses map[string]string // that names resolve to; others resolve to a public one
	dialed    atomic.Int64
	roots     *x509.CertPool
}

func newNetwork(t *testing.T, h http.HandlerFunc) *network {
	t.Helper()
	n := &network{t: t, server: httptest.NewUnstartedServer(h), addresses: map[string]string{}, roots: x509.NewCertPool()}
	n.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	n.server.StartTLS()
	t.Cleanup(n.server.Close)
	n.roots.AddCert(n.server.Certificate())
	return n
}

func (n *network) dial(ctx context.Context, address string, check func(netip.Addr) error) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	if err != nil {
		ip = netip.MustParseAddr("93.184.216.34")
		if a := n.addresses[host]; a != "" {
			ip = netip.MustParseAddr(a)
		}
	}
	if err := check(ip); err != nil {
		return nil, err
	}
	n.dialed.Add(1)
	var d net.Dialer
	return d.DialContext(ctx, "tcp", n.server.Listener.Addr().String())
}

// get downloads an address of the network.
func (n *network) get(location string, most int64) (string, error) {
	n.t.Helper()
	w, u, err := newWeb(location, webOptions{roots: n.roots, dial: n.dial})
	if err != nil {
		return "", err
	}
	defer w.close()
	var b bytes.Buffer
	_, err = w.save(n.t.Context(), u, most, &b)
	return b.String(), err
}

func TestWeb_Redirects(t *testing.T) {
	t.Parallel()
	var seen atomic.Pointer[http.Request]
	n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		if left := strings.TrimPrefix(r.URL.Path, "/again/"); left != r.URL.Path && left != "" {
			http.Redirect(w, r, "/again/"+left[1:], http.StatusFound)
			return
		}
		seen.Store(r)
		w.Write([]byte("content"))
	})
	n.addresses["a.example.com"] = "10.0.0.1"
	to := func(s string) string { return "https://example.com/x?to=" + url.QueryEscape(s) }
	for _, tt := range []struct{ from, code string }{
		{"https://example.com/x", ""},
		{to("https://example.com/y"), ""},
		{to("https://b.example.com/y"), "tls_untrusted"}, // the certificate is for example.com and *.example.com
		{"https://example.com/again/12345", ""},
		{"https://example.com/again/123456", "redirects_too_many"},
		{to("http://example.com/y"), "source_insecure"},
		{to("http://127.0.0.1/y"), "source_insecure"},
		{to("https://127.0.0.1/y"), "address_not_public"},
		{to("https://localhost/y"), "address_not_public"},
		{to("https://[::1]/y"), "address_not_public"},
		{to("https://169.254.169.254/y"), "address_not_public"},
		{to("https://[::ffff:10.0.0.1]/y"), "address_not_public"},
		{to("https://a.example.com/y"), "address_not_public"}, // the name resolves to a private address
		{to("file:///etc/passwd"), "source_insecure"},
		{"https://a.example.com/x", ""}, // a user can name a private host
		{"http://example.com/x", "source_insecure"},
		{"http://192.168.0.1/x", "source_insecure"},
		{"https://u@example.com/x", "source_password"},
	} {
		seen.Store(nil)
		got, err := n.get(tt.from, 100)
		if tt.code == "tls_untrusted" && err == nil {
			continue // the certificate of this version of Go also has subdomains
		}
		switch {
		case tt.code != "" && metier.CodeOf(err) != tt.code:
			t.Errorf("%s: %v, want %s", tt.from, err, tt.code)
		case tt.code != "" && seen.Load() != nil && seen.Load().URL.Path == "/y":
			t.Errorf("%s: the address was asked for", tt.from)
		case tt.code == "" && (err != nil || got != "content"):
			t.Errorf("%s: %q, %v", tt.from, got, err)
		case tt.code == "" && (seen.Load().Header.Get("Referer") != "" || seen.Load().UserAgent() != "metier"):
			t.Errorf("%s: header = %v", tt.from, seen.Load().Header)
		}
	}
}

func TestWeb_ShowsNoQueries(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	})
	for _, to := range []string{"https://example.com/%zz?token=hidden", "https://u:hidden@example.com/%zz", "https://127.0.0.1/?token=hidden", "http://example.com/?token=hidden", "ftp://u:hidden@example.com/?hidden"} {
		_, err := n.get("https://example.com/x?to="+url.QueryEscape(to), 100)
		if err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", to, err)
		}
	}
}

func TestWeb_SendsNoCredentialsOfRedirects(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/x" {
			http.Redirect(w, r, "https://u:p@"+r.Host+"/y", http.StatusFound)
			return
		}
		got.Store(r.Header.Get("Authorization"))
	})
	if _, err := n.get("https://example.com/x", 100); err != nil || got.Load() != "" {
		t.Errorf("Authorization = %q, %v", got.Load(), err)
	}
}

func TestWeb_Responses(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cut":
			w.Header().Set("Content-Length", "100")
			w.Write([]byte("part"))
		case "/chunks":
			w.Write([]byte("part"))
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/large":
			w.Write(bytes.Repeat([]byte("x"), 101))
		case "/exact":
			w.Write(bytes.Repeat([]byte("x"), 100))
		case "/page":
			fmt.Fprint(w, "\n<!DOCTYPE html><p>Not here")
		case "/encoded":
			w.Write([]byte(r.Header.Get("Accept-Encoding")))
		default:
			code := 0
			fmt.Sscanf(r.URL.Path, "/%d", &code)
			w.WriteHeader(code)
		}
	})
	for path, want := range map[string]string{
		"/cut": "download_cut", "/chunks": "download_cut", "/large": "download_too_large", "/exact": "", "/page": "source_is_page", "/encoded": "",
		"/404": "source_missing", "/410": "source_missing", "/401": "download_denied", "/403": "download_denied", "/500": "download_failed", "/204": "download_failed",
	} {
		got, err := n.get("https://example.com"+path+"?token=sesame", 100)
		if (err == nil) != (want == "") || want != "" && metier.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: the query is in the error: %v", path, err)
		}
		if path == "/encoded" && got != "" {
			t.Errorf("Accept-Encoding = %q", got)
		}
	}
	n.server.Close()
	if _, err := n.get("https://example.com/x", 100); metier.CodeOf(err) != "download_failed" {
		t.Errorf("no server: %v", err)
	}
}

func TestWeb_StopsWaitingForAStalledServer(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("part"))
		http.NewResponseController(w).Flush()
		<-gone
	})
	defer close(gone)
	w, u, err := newWeb("https://example.com/x", webOptions{roots: n.roots, dial: n.dial, idle: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	_, err = w.save(t.Context(), u, 100, io.Discard)
	if metier.CodeOf(err) != "download_cut" || !strings.Contains(err.Error(), "stopped sending after 4 bytes") {
		t.Errorf("%v", err)
	}
}

func TestWeb_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	n := newNetwork(t, func(w http.ResponseWriter, r *http.Request) {
		cancel(why)
		<-r.Context().Done()
	})
	w, u, err := newWeb("https://example.com/x", webOptions{roots: n.roots, dial: n.dial})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if _, err = w.save(ctx, u, 100, io.Discard); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}
