package install

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"metier"
	"metier/internal/digest"
	"metier/internal/egress"
	"metier/internal/termtext"
)

// Limits of downloads.
const (
	maxDownload  = 256 << 20        // bytes of an archive
	maxRedirects = 5                // of one download
	maxIdle      = 30 * time.Second // without a byte; a slow download that progresses has no limit
)

// web downloads files of one source over HTTP. Addresses are https, or http on this machine. The host
// that the user named may have any address. Other hosts, which redirects and indexes name, must have
// public ones, so that a source cannot make metier read from the user's network.
type web struct {
	named  string // host that the user named
	client *http.Client

	mu      sync.Mutex
	proxies map[string]bool // HOST:PORT of proxies in the environment that are used
}

// webOptions replace parts of the network in tests.
type webOptions struct {
	roots *x509.CertPool
	idle  time.Duration // 0: maxIdle
	dial  func(ctx context.Context, address string, check func(netip.Addr) error) (net.Conn, error)
}

// newWeb returns the client for a source, and the address of the source.
func newWeb(location string, o webOptions) (*web, *url.URL, error) {
	u, err := url.Parse(location)
	if err != nil || u.Opaque != "" || u.Hostname() == "" {
		return nil, nil, wrongSource(location)
	}
	u.Fragment, u.RawFragment = "", ""
	w := &web{named: hostForm(u), proxies: map[string]bool{}}
	if err := w.checkAddress(u); err != nil {
		return nil, nil, err
	}
	if o.dial == nil {
		o.dial = dialChecked
	}
	idle := cmp.Or(o.idle, maxIdle)
	w.client = &http.Client{CheckRedirect: w.redirect, Transport: &http.Transport{
		Proxy: w.proxy,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			c, err := o.dial(ctx, address, w.checkIP(address))
			if err != nil {
				return nil, err
			}
			return &impatient{c, idle}, nil
		},
		TLSClientConfig: &tls.Config{RootCAs: o.roots}, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10, MaxIdleConnsPerHost: parallelDownloads,
	}}
	return w, u, nil
}

// close ends the connections.
func (w *web) close() { w.client.CloseIdleConnections() }

// hostForm returns the host of an address in the form that is compared.
func hostForm(u *url.URL) string {
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

// isLoopback reports whether a host is always this machine.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// checkAddress reports an address that is never asked for.
func (w *web) checkAddress(u *url.URL) error {
	host := hostForm(u)
	ip, notIP := netip.ParseAddr(host)
	switch {
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(host)):
		return metier.Fieldf(metier.Denied, "Request.Source", "source_insecure", "use https", "%s is not encrypted, so anyone on the way could change the skills", shown(u))
	case u.User != nil:
		return metier.Fieldf(metier.Invalid, "Request.Source", "source_password", "remove the part before the @", "the address of %s contains credentials", termtext.Line(u.Host))
	case host != w.named && (host == "localhost" || notIP == nil && !egress.Public(ip)):
		return notPublic(host)
	}
	return nil
}

func notPublic(host string) error {
	return metier.Fieldf(metier.Denied, "Request.Source", "address_not_public", "use the final address as the source", "%s, to which the source leads, is not a public address", termtext.Line(host))
}

// checkIP returns a check of the addresses that the host of HOST:PORT resolves to.
func (w *web) checkIP(address string) func(netip.Addr) error {
	host, _, _ := net.SplitHostPort(address)
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.TrimSuffix(strings.ToLower(host), ".") == w.named || w.proxies[address] {
		return func(netip.Addr) error { return nil }
	}
	return func(a netip.Addr) error {
		if !egress.Public(a) {
			return notPublic(host)
		}
		return nil
	}
}

// dialChecked connects to an address, if the check accepts what it resolves to.
func dialChecked(ctx context.Context, address string, check func(netip.Addr) error) (net.Conn, error) {
	d := net.Dialer{Timeout: maxIdle, Control: func(_, address string, _ syscall.RawConn) error {
		got, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return check(got.Addr())
	}}
	return d.DialContext(ctx, "tcp", address)
}

// proxy returns the proxy of the environment for a request.
func (w *web) proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if u != nil {
		port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme])
		w.mu.Lock()
		w.proxies[net.JoinHostPort(u.Hostname(), port)] = true
		w.mu.Unlock()
	}
	return u, err
}

// redirect checks a redirect. Nothing about the request before it is sent to the next address.
func (w *web) redirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return metier.Fieldf(metier.Unavailable, "Request.Source", "redirects_too_many", "use the final address as the source", "%s leads to more than %d other addresses", shown(via[0].URL), maxRedirects)
	}
	r.Header.Del("Referer")
	r.URL.User = nil
	if via[len(via)-1].URL.Scheme == "https" && r.URL.Scheme != "https" {
		return metier.Fieldf(metier.Denied, "Request.Source", "source_insecure", "use the final address as the source", "%s leads to %s, which is not encrypted", shown(via[0].URL), shown(r.URL))
	}
	return w.checkAddress(r.URL)
}

// impatient is a connection that fails if nothing arrives or can be sent for some time.
type impatient struct {
	net.Conn
	idle time.Duration
}

func (c *impatient) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *impatient) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// shown returns an address for messages, without a query, which may be a secret.
func shown(u *url.URL) string {
	c := *u
	c.User, c.RawQuery, c.ForceQuery, c.Fragment, c.RawFragment = nil, "", false, "", ""
	return termtext.Line(c.String())
}

// open requests a file.
func (w *web) open(ctx context.Context, u *url.URL) (*http.Response, error) {
	res, err := w.request(ctx, u, nil)
	if err != nil {
		return nil, err
	}
	if err := checkStatus(u, res.StatusCode); err != nil {
		_ = res.Body.Close()
		return nil, err
	}
	return res, nil
}

// request requests an address, with more headers.
func (w *web) request(ctx context.Context, u *url.URL, more http.Header) (*http.Response, error) {
	if err := w.checkAddress(u); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, wrongSource(shown(u))
	}
	r.Header.Set("User-Agent", "metier")
	r.Header.Set("Accept", "*/*")
	maps.Copy(r.Header, more)
	res, err := w.client.Do(r)
	if err != nil {
		return nil, noAnswer(ctx, u, err)
	}
	return res, nil
}

// noAnswer explains why there is no response.
func noAnswer(ctx context.Context, u *url.URL, err error) error {
	var untrusted *tls.CertificateVerificationError
	var timeout net.Error
	if e, ok := errors.AsType[*metier.Error](err); ok {
		return e
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	switch {
	case errors.As(err, &untrusted):
		return metier.Fieldf(metier.Denied, "Request.Source", "tls_untrusted", "check the address, and the certificates of this machine", "the certificate of %s is not trusted: %v", u.Host, untrusted.Err)
	case errors.As(err, &timeout) && timeout.Timeout():
		err = errors.New("the server took too long")
	}
	return metier.Fieldf(metier.Unavailable, "Request.Source", "download_failed", "check the address and the network, and try again", "%s: %s", shown(u), termtext.Line(withoutSecrets(err.Error())))
}

// checkStatus reports a response that is not the file.
func checkStatus(u *url.URL, status int) error {
	switch status {
	case http.StatusOK:
		return nil
	case http.StatusNotFound, http.StatusGone:
		return metier.Fieldf(metier.NotFound, "Request.Source", "source_missing", "check the address", "%s does not exist: status %d", shown(u), status)
	case http.StatusUnauthorized, http.StatusForbidden:
		return metier.Fieldf(metier.Denied, "Request.Source", "download_denied", "download it with a program that is signed in, and install the file", "%s needs permission: status %d", shown(u), status)
	}
	return metier.Fieldf(metier.Unavailable, "Request.Source", "download_failed", "try again later", "%s: status %d %s", shown(u), status, http.StatusText(status))
}

// download is the result of a request that was read to its end.
type download struct {
	size   int64
	digest string
	from   *url.URL // after redirects
	media  string   // Content-Type
	page   bool     // it begins as HTML does
}

// save writes the response for an address. A page is an error: servers answer with one, and with
// status 200, for files that they do not have.
func (w *web) save(ctx context.Context, u *url.URL, most int64, to io.Writer) (download, error) {
	got, err := w.read(ctx, u, most, to)
	if err == nil && got.page {
		err = metier.Fieldf(metier.Invalid, "Request.Source", "source_is_page", "use the address of the file itself; the server may also require that you sign in", "%s is a web page, not a skill or an archive", shown(u))
	}
	return got, err
}

// read writes the response for an address, whatever it is.
func (w *web) read(ctx context.Context, u *url.URL, most int64, to io.Writer) (download, error) {
	res, err := w.open(ctx, u)
	if err != nil {
		return download{}, err
	}
	body := w.resumed(ctx, u, res)
	defer func() { _ = body.Close() }()
	h, start := digest.New(), &head{}
	n, err := io.Copy(io.MultiWriter(to, h, start), io.LimitReader(body, most+1))
	switch {
	case ctx.Err() != nil:
		return download{}, context.Cause(ctx)
	case err != nil:
		return download{}, cutOff(u, n, err)
	case n > most:
		return download{}, metier.Fieldf(metier.LimitReached, "Request.Source", "download_too_large", "use a smaller one", "%s has more than %d bytes", shown(u), most)
	}
	return download{n, h.Sum(), res.Request.URL, res.Header.Get("Content-Type"), start.isPage()}, nil
}

// cutOff explains why a response ended early. Errors of the file system stay as they are.
func cutOff(u *url.URL, n int64, err error) error {
	if _, ok := errors.AsType[*os.PathError](err); ok {
		return err
	}
	var timeout net.Error
	why := "the connection ended"
	if errors.As(err, &timeout) && timeout.Timeout() {
		why = "the server stopped sending"
	}
	return metier.Fieldf(metier.Unavailable, "Request.Source", "download_cut", "try again", "%s is incomplete: %s after %d bytes", shown(u), why, n)
}

// head keeps the first bytes of a file.
type head struct{ b []byte }

const headLen = 512

func (h *head) Write(p []byte) (int, error) {
	h.b = append(h.b, p[:min(len(p), headLen-len(h.b))]...)
	return len(p), nil
}

// isPage reports whether a file begins as HTML does.
func (h *head) isPage() bool {
	b := bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(h.b, []byte("\ufeff")), " \t\r\n"))
	for _, start := range []string{"<!doctype html", "<html", "<head", "<?xml"} {
		if bytes.HasPrefix(b, []byte(start)) {
			return true
		}
	}
	return false
}

// locked reports bytes that do not have the digest that they must have. "" is any.
func locked(want, got, what, hint string) error {
	if want == "" || want == got {
		return nil
	}
	return &metier.Error{Field: "Request.Source", Kind: metier.Drift, Code: "digest_mismatch", Hint: hint, Err: fmt.Errorf("%s has the digest %s, not %s", what, got, want)}
}
