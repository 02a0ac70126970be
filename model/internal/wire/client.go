package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"metier/model"
)

const (
	maxEvent     = 8 << 20  // bytes of one event
	maxReply     = 64 << 20 // bytes of one streamed reply
	maxErrorBody = 64 << 10
	maxWait      = 10 * time.Minute // for an answer to begin, or its next event; a local server may load its model first
	maxLife      = 2 * time.Hour    // of a reply, however busy it is
)

// Config configures a Client. Zero fields mean defaults. Provider and Base are required.
type Config struct {
	Provider   string
	Base       string            // base URL
	Path       string            // below Base, escaped
	Query      string            // for the URL, escaped
	HTTPClient *http.Client      // default: one over http.DefaultTransport
	Header     map[string]string // what the protocol wants
	Secrets    []string          // never to be seen in an error
	Now        func() time.Time  // for Retry-After as a date
	Wait       time.Duration     // for an answer to begin, and for each next event; default 10 minutes
}

// Client makes the calls of one adapter.
type Client struct {
	provider string
	http     *http.Client
	url      *url.URL
	header   http.Header
	secrets  []string
	now      func() time.Time
	wait     time.Duration
	invalid  string // why no call can be made
}

// New returns a client that uses c.HTTPClient without changing it. An invalid setting fails the
// first call.
func New(c Config) *Client {
	w := &Client{provider: c.Provider, now: c.Now, wait: c.Wait, http: &http.Client{}, header: http.Header{}}
	if c.HTTPClient != nil {
		*w.http = *c.HTTPClient
	}
	base := w.http.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	w.http.Transport = transport{base}
	if w.now == nil {
		w.now = time.Now
	}
	if w.wait <= 0 {
		w.wait = maxWait
	}
	w.header.Set("Content-Type", "application/json")
	w.header.Set("Accept", "text/event-stream")
	w.header.Set("User-Agent", "metier")
	for k, v := range c.Header {
		w.header.Set(k, v)
		if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			w.invalid = "the value for header " + k + " holds a line end or another control character: take it out of the key or setting"
		}
	}
	for _, s := range c.Secrets {
		w.hide(s)
	}
	u, err := url.Parse(c.Base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		w.invalid = "the base URL must be http://HOST or https://HOST, optionally with a path"
		return w
	}
	if p, ok := u.User.Password(); ok {
		w.hide(p)
	}
	w.url = u.JoinPath(c.Path)
	if c.Query != "" {
		w.url.RawQuery = strings.Trim(w.url.RawQuery+"&"+c.Query, "&")
	}
	return w
}

func (c *Client) hide(s string) {
	if len(s) >= 4 { // shorter ones would blacken words
		c.secrets = append(c.secrets, s)
	}
}

func (c *Client) fail(code model.Code, message string) *model.Error {
	return &model.Error{Code: code, Provider: c.provider, Message: message}
}

// Post sends body. The caller must call End.
func (c *Client) Post(ctx context.Context, body []byte) *Call {
	inner, cancel := context.WithCancel(ctx)
	call := &Call{client: c, ctx: ctx, cancel: cancel}
	if c.invalid != "" {
		call.err = c.fail(model.CodeBadRequest, c.invalid)
		return call
	}
	r, err := http.NewRequestWithContext(inner, http.MethodPost, c.url.String(), bytes.NewReader(body))
	if err != nil {
		call.err = c.fail(model.CodeBadRequest, "the base URL cannot be used")
		return call
	}
	r.Header = c.header.Clone()
	late := time.AfterFunc(c.wait, cancel)
	resp, err := c.http.Do(r)
	if err == nil {
		call.body, call.id = resp.Body, resp.Header.Get("Request-Id")
		if call.id == "" {
			call.id = resp.Header.Get("X-Request-Id")
		}
		call.err = call.check(resp)
	}
	if !late.Stop() && call.err == nil { // an error whose text is late is still that error
		call.err = c.fail(model.CodeUnreachable, fmt.Sprintf("no answer from %s in %v", c.url.Host, c.wait))
		return call
	}
	if err != nil {
		call.err = c.unreached(err)
		return call
	}
	call.events = NewReader(resp.Body, maxEvent, maxReply)
	call.watch()
	return call
}

// unreached returns the error for a request without a reply. It omits the URL.
func (c *Client) unreached(err error) *model.Error {
	if me := (*model.Error)(nil); errors.As(err, &me) {
		return me
	}
	if ue := (*url.Error)(nil); errors.As(err, &ue) {
		err = ue.Err
	}
	return c.fail(model.CodeUnreachable, "no answer from "+c.url.Host+": "+c.clean(err.Error()))
}

// transport returns redirects in a form that http.Client does not follow, whatever their Location.
type transport struct{ base http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err == nil && resp.StatusCode/100 == 3 {
		resp.Header.Del("Location")
	}
	return resp, err
}

// check rejects every response that is not an event stream.
func (c *Call) check(resp *http.Response) *model.Error {
	head := func() []byte {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what arrived is enough to tell
		return b
	}
	bad := func(message string) *model.Error {
		e := c.fail(model.CodeBadReply, message)
		e.Status = resp.StatusCode
		return e
	}
	switch {
	case resp.StatusCode >= 400:
		return c.classify(resp.StatusCode, resp.Header, head())
	case resp.StatusCode >= 300:
		return bad("the endpoint redirects; the key is not sent on. Set the base URL to the final address")
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case media == "" || media == "text/event-stream":
		return nil
	case strings.HasSuffix(media, "json"):
		if b := head(); hasError(b) {
			return c.classify(0, resp.Header, b)
		}
	}
	return bad(fmt.Sprintf("the response is %q, not an event stream: check the base URL", c.client.clean(media)))
}
