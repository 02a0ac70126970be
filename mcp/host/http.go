package host

import (
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// remote is the transport to a URL: headers go to that address only, redirects
// are not followed, and no answer is longer than a message may be.
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
		return errors.New("the server sends us elsewhere, and redirects are not followed")
	}
	return &mcp.StreamableClientTransport{Endpoint: c.server.URL, HTTPClient: &base, MaxRetries: 1, MaxEventSize: o.Message}
}

type door struct {
	next http.RoundTripper
	c    *connection
}

func (d door) RoundTrip(r *http.Request) (*http.Response, error) {
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
