package fetch

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"metier"
	"metier/event"
	"metier/internal/egress"
)

// answer is what came back, as far as it did.
type answer struct {
	at          address // where it came from; the zero value where nothing did
	status      int
	contentType string
	body        []byte
	more        bool // the page goes on after body
	redirects   int  // followed
	to, why     string
	hosts       []event.HostUse
	refused     int
}

// The codes of redirects.
const (
	codeElsewhere = "redirect_not_followed"
	codeRound     = "too_many_redirects"
)

// get asks for a page and follows redirects on its host. The answer holds what
// the proxy saw, whatever the error.
func (t tool) get(ctx context.Context, to address) (got answer, err error) {
	token := rand.Text()
	proxy, err := egress.New(egress.Rules{Hosts: []string{to.host}, Token: token, Down: wireMax, Connections: 2, Idle: t.Timeout,
		Resolve: t.Resolve, Connect: t.Connect})
	if err != nil {
		return got, fault(metier.Invalid, "host_invalid", "", "%w", err)
	}
	d := &door{conns: make(chan net.Conn), shut: make(chan struct{})}
	served := make(chan struct{})
	go func() { defer close(served); proxy.Serve(d) }()
	client := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy.invalid", User: url.UserPassword(egress.User, token)}),
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return d.knock(ctx) },
		TLSClientConfig: &tls.Config{RootCAs: t.Roots}, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		TLSHandshakeTimeout: 10 * time.Second,
	}
	err = t.follow(ctx, client, to, &got)
	client.CloseIdleConnections()
	proxy.Close()
	<-served
	used := proxy.Used()
	got.hosts, got.refused = uses(used)
	for _, h := range used.Hosts {
		if h.Code != "" && (err != nil || got.status == h.Code.Status()) { // what looked like an answer was the proxy's
			return answer{hosts: got.hosts, refused: got.refused}, refused(h)
		}
	}
	return got, err
}

// follow asks until there is an answer that leads nowhere else.
func (t tool) follow(ctx context.Context, client *http.Transport, to address, got *answer) error {
	for {
		res, err := t.ask(ctx, client, to)
		if err != nil {
			return err
		}
		got.at, got.status, got.contentType = to, res.StatusCode, res.Header.Get("Content-Type")
		next, why, leads := redirect(to, res)
		if leads && why == "" && got.redirects == redirectsMax {
			why = codeRound
		}
		if !leads || why != "" {
			if leads {
				got.to, got.why = next, why
			}
			got.body, got.more, err = read(res)
			return err
		}
		_ = res.Body.Close()
		got.redirects++
		if to, err = parse(next); err != nil {
			return err
		}
	}
}

func (t tool) ask(ctx context.Context, client *http.Transport, to address) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, fault(metier.Invalid, "url_invalid", "", "the address cannot be asked for")
	}
	req.Header.Set("User-Agent", t.UserAgent)
	req.Header.Set("Accept", "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, */*;q=0.5")
	res, err := client.RoundTrip(req)
	if err == nil {
		return res, nil
	}
	var unknown *tls.CertificateVerificationError
	if errors.As(err, &unknown) {
		return nil, fault(metier.Denied, "tls_untrusted", "", "the host's certificate is not one that this machine trusts: %s", distrust(unknown))
	}
	return nil, fault(metier.Unavailable, "fetch_failed", "", "there is no answer: %s", cause(err))
}

// cause words why there is no answer, or no whole one. Errors quote what the host
// sent, and its words stand in a page's element or nowhere.
func cause(err error) string {
	var alert tls.AlertError
	var timeout net.Error
	switch {
	case errors.As(err, &alert):
		return "the host ended TLS: " + alert.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the host took too long"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe):
		return "the connection ended"
	}
	return "the host's answer is not HTTP"
}

// distrust is cause for a certificate, which holds words of its own.
func distrust(err error) string {
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &name):
		return "it is for other hosts"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "it has expired, or is not valid yet"
	}
	return "no authority that this machine trusts signed it"
}

// redirect says where an answer leads, and why it is not followed there: to
// another host, which nobody was asked about, or out of TLS.
func redirect(from address, res *http.Response) (next, why string, leads bool) {
	switch res.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return "", "", false
	}
	u, err := from.Parse(res.Header.Get("Location"))
	if err != nil || res.Header.Get("Location") == "" || u.Opaque != "" || len(u.String()) > urlMax {
		return "", "", false // an answer like any other
	}
	u.RawQuery = query(u.RawQuery)
	to, err := parse(u.String())
	if err != nil || to.host != from.host || from.Scheme == "https" && to.Scheme != "https" {
		return u.String(), codeElsewhere, true
	}
	return to.String(), "", true
}

// read takes the first bytes of a page.
func read(res *http.Response) (body []byte, more bool, err error) {
	defer func() { _ = res.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(res.Body, bodyMax+1))
	if len(body) > bodyMax {
		return body[:bodyMax], true, nil
	}
	if err != nil {
		return nil, false, fault(metier.Unavailable, "fetch_cut", "", "the answer ends before the page does: %s", cause(err))
	}
	return body, false, nil
}

func uses(used egress.Record) (hosts []event.HostUse, omitted int) {
	for _, h := range used.Hosts {
		hosts = append(hosts, event.HostUse{Host: h.Host, Port: int(h.Port), Method: h.Method, Code: string(h.Code), Requests: h.Requests, Addresses: h.Addresses, Sent: h.Up, Received: h.Down})
	}
	return hosts, used.Omitted
}

// door is a listener in memory: nobody but this call can come in.
type door struct {
	conns chan net.Conn
	once  sync.Once
	shut  chan struct{}
}

var errShut = errors.New("the proxy is closed")

// knock gives the outer end of a connection whose inner end is accepted.
func (d *door) knock(ctx context.Context) (net.Conn, error) {
	outer, inner := net.Pipe()
	select {
	case d.conns <- inner:
		return outer, nil
	case <-d.shut:
		return nil, errShut
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.shut:
		return nil, net.ErrClosed
	}
}

func (d *door) Close() error {
	d.once.Do(func() { close(d.shut) })
	return nil
}

func (d *door) Addr() net.Addr { return &net.UnixAddr{Net: "pipe"} }
