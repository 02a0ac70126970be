package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// remote returns the transport to a URL. Headers are sent to that address only, redirects are not
// followed, and responses are limited to the size of a message.
func (c *connection) remote() mcp.Transport {
	o := c.host.opts
	base := http.Client{}
	if o.Client != nil {
		base = *o.Client
	}
	next := base.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	base.Transport = door{next, c}
	base.CheckRedirect = func(*http.Request, []*http.Request) error {
		return errors.New("the server redirects, and redirects are not followed")
	}
	return &mcp.StreamableClientTransport{Endpoint: c.server.URL, HTTPClient: &base, MaxRetries: 1, MaxEventSize: o.Message}
}

type door struct {
	next http.RoundTripper
	c    *connection
}

// Limits for replies to requests of a server. The library sends each in a separate goroutine and
// connection.
const (
	mostReplies = 8 // under way; with so many the server is read no further
	replyTime   = 10 * time.Second
)

// replies are the replies in progress.
type replies struct {
	n    atomic.Int64
	room chan struct{} // one for each that may be sent at a time
	less chan struct{} // one of them ended
}

func newReplies() *replies {
	return &replies{room: make(chan struct{}, mostReplies), less: make(chan struct{}, 1)}
}

// wait blocks until few enough replies are in progress.
func (r *replies) wait(ctx context.Context) error {
	for r.n.Load() >= mostReplies {
		select {
		case <-r.less:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.signal() // to whoever else waits
	return nil
}

func (r *replies) signal() {
	select {
	case r.less <- struct{}{}:
	default:
	}
}

// isReply reports whether a request carries a reply to a request of the server.
func isReply(r *http.Request) bool {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return false
	}
	b, err := r.GetBody()
	if err != nil {
		return false
	}
	var m struct {
		Method string `json:"method"`
	}
	return json.NewDecoder(b).Decode(&m) == nil && m.Method == ""
}

func (d door) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isReply(r) {
		return d.send(r)
	}
	c := d.c.replies
	c.n.Add(1)
	defer func() { c.n.Add(-1); c.signal() }()
	ctx, cancel := context.WithTimeout(r.Context(), min(replyTime, d.c.server.call()))
	defer cancel()
	select {
	case c.room <- struct{}{}:
		defer func() { <-c.room }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	resp, err := d.send(r.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // there is nothing of use in it
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(b))
	return resp, nil
}

func (d door) send(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for k, v := range d.c.server.Headers {
		r.Header.Set(k, v)
	}
	resp, err := d.next.RoundTrip(r)
	if err != nil {
		return nil, errors.New(d.c.clean(err.Error()))
	}
	resp.Body = d.c.body(resp)
	return resp, nil
}
