package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"
)

// tunnel copies bytes in both directions, once the job has started TLS for the requested host.
func (v *visit) tunnel(host *leg) *refusal {
	if _, err := io.WriteString(v.client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return nil
	}
	in := v.inward()
	name, begun, err := serverName(v.p.ctx, in)
	switch {
	case err != nil && len(begun) == 0:
		return nil // the client disconnected
	case err != nil:
		_, _ = io.WriteString(v.client, "HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n"+string(NotTLS)+": a tunnel carries TLS and nothing else\n")
		return refuse(NotTLS, "the tunnel does not begin with TLS")
	}
	want := v.head.target.host
	if v.head.target.literal.IsValid() {
		want = ""
	}
	if strings.ToLower(name) != want {
		_, _ = v.client.Write([]byte{21, 3, 1, 0, 2, 2, 112}) // the alert unrecognized_name
		return refuse(NameMismatch, "the tunnel is for %s, but its TLS is for %s", v.head.target.host, quoted(name))
	}
	if _, err := host.Write(begun); err != nil {
		return nil
	}
	both := make(chan struct{})
	go func() {
		defer close(both)
		_, _ = io.Copy(onlyWriter{host}, in)
		if v.why.Load() != nil || !closeWrite(host.Conn) {
			_ = host.Close()
		}
	}()
	_, _ = io.Copy(onlyWriter{v.client}, onlyReader{host})
	if v.why.Load() != nil || !closeWrite(v.client.Conn) {
		_ = v.client.Close()
	}
	if v.why.Load() != nil {
		_ = host.Close()
		_ = v.client.Close()
	}
	<-both
	return nil
}

// inward returns a reader for what the client sends after the head. Reading counts as activity.
func (v *visit) inward() io.Reader {
	n := v.in.Buffered()
	rest, _ := v.in.Peek(n)
	return io.MultiReader(bytes.NewReader(bytes.Clone(rest)), onlyReader{v.client})
}

// onlyReader and onlyWriter keep io.Copy from bypassing the byte counts of a leg.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

var errSeen = errors.New("seen")

// serverName parses a TLS client hello. It returns the requested server name and the bytes it read.
func serverName(ctx context.Context, r io.Reader) (name string, read []byte, err error) {
	var all bytes.Buffer
	seen := false
	c := tls.Server(&hello{Reader: io.TeeReader(io.LimitReader(r, maxHello), &all)}, &tls.Config{
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			name, seen = h.ServerName, true
			return nil, errSeen
		},
	})
	err = c.HandshakeContext(ctx)
	if seen {
		err = nil
	}
	return name, all.Bytes(), err
}

// hello is a connection that is only read from.
type hello struct {
	io.Reader
	net.Conn
}

func (h *hello) Read(b []byte) (int, error)  { return h.Reader.Read(b) }
func (h *hello) Write(b []byte) (int, error) { return len(b), nil }
func (h *hello) Close() error                { return nil }

// forward forwards one plain request and its response. Both are rebuilt from the parsed fields.
// Redirects are left to the client.
func (v *visit) forward(host *leg) *refusal {
	if v.head.expect {
		if _, err := io.WriteString(v.client, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil
		}
	}
	body := v.inward()
	if v.head.length > 0 {
		body = io.LimitReader(body, v.head.length)
	} else if v.head.length < 0 {
		body = httputil.NewChunkedReader(body)
	}
	var used atomic.Bool
	once := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			if used.Swap(true) {
				return nil, errSeen
			}
			return host, nil
		},
	}
	defer once.CloseIdleConnections()
	res, err := once.RoundTrip(v.head.request(body).WithContext(v.p.ctx))
	if err == nil && res.StatusCode == http.StatusSwitchingProtocols {
		_ = res.Body.Close()
		err = errors.New("it switched protocols unasked")
	}
	if r := v.why.Load(); r != nil || err != nil {
		if r == nil {
			r = refuse(UpstreamInvalid, "%s gave no HTTP response", v.head.target.host)
		}
		v.refusedLate(r)
		return r
	}
	defer func() { _ = res.Body.Close() }()
	endToEnd(res.Header)
	res.Trailer, res.TransferEncoding, res.Close = nil, nil, true
	res.Proto, res.ProtoMajor, res.ProtoMinor = "HTTP/1.1", 1, 1
	res.Request = &http.Request{Method: v.head.verb}
	if res.ContentLength < 0 && v.head.minor == 1 && v.head.verb != http.MethodHead {
		res.TransferEncoding = []string{"chunked"}
	}
	if err := res.Write(onlyWriter{v.client}); err == nil {
		closeWrite(v.client.Conn)
	}
	return nil
}

// refusedLate sends a refusal after the host was reached. do records it.
func (v *visit) refusedLate(r *refusal) {
	res := http.Response{StatusCode: r.code.Status(), ProtoMajor: 1, ProtoMinor: 1, Close: true,
		Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}}
	text := r.Error() + "\n"
	res.Body, res.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	_ = res.Write(v.client.Conn)
}
