// Package wire is what the model adapters share below their providers' SDKs: an HTTP client that turns every failure into a
// *model.Error before an SDK sees it, follows no redirect with a key in hand, bounds what it reads and remembers how a body ended.
package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"metier/model"
)

const (
	maxReply     = 64 << 20 // bytes of one streamed reply
	maxErrorBody = 64 << 10
)

// Config is what a Client needs. Zero fields mean defaults.
type Config struct {
	Provider   string
	HTTPClient *http.Client
	Secrets    []string         // never to be seen in an error
	Drop       []string         // headers to take away again, those an SDK insists on
	Now        func() time.Time // for Retry-After as a date
}

// Client makes the calls of one adapter. HTTP is for its SDK.
type Client struct {
	HTTP     *http.Client
	provider string
	secrets  []string
	now      func() time.Time
}

// New returns a client over c.HTTPClient, which it does not change.
func New(c Config) *Client {
	w := &Client{provider: c.Provider, now: c.Now}
	for _, s := range c.Secrets {
		if len(s) >= 4 { // shorter ones would blacken words
			w.secrets = append(w.secrets, s)
		}
	}
	if w.now == nil {
		w.now = time.Now
	}
	h := &http.Client{}
	if c.HTTPClient != nil {
		*h = *c.HTTPClient
	}
	base := h.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	h.Transport = &transport{client: w, base: base, drop: c.Drop}
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w.HTTP = h
	return w
}

// Call is one request and its reply.
type Call struct {
	client *Client
	ctx    context.Context
	cancel context.CancelFunc
	broken error        // how reading the body failed
	seen   bytes.Buffer // body bytes not yet taken by Events
	keep   bool
}

type callKey struct{}

// Begin starts a call; its context is for the SDK. keep makes the reply's bytes available to Events. End must follow.
func (c *Client) Begin(ctx context.Context, keep bool) (context.Context, *Call) {
	inner, cancel := context.WithCancel(ctx)
	call := &Call{client: c, ctx: ctx, cancel: cancel, keep: keep}
	return context.WithValue(inner, callKey{}, call), call
}

// End closes the connection if the reply was not read to its end.
func (c *Call) End() { c.cancel() }

// Broken says that the body did not end by itself.
func (c *Call) Broken() bool { return c.broken != nil }

// Events takes the data of the events that arrived since the last time. last also takes one that lacks its closing empty line.
func (c *Call) Events(last bool) [][]byte {
	var out [][]byte
	for {
		b := c.seen.Bytes()
		end, skip := eventEnd(b)
		if end < 0 {
			if !last || len(b) == 0 {
				return out
			}
			end, skip = len(b), 0
		}
		var data []byte
		for line := range bytes.Lines(b[:end]) {
			if v, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:")); ok {
				data = append(data, bytes.TrimPrefix(v, []byte(" "))...)
			}
		}
		c.seen.Next(end + skip)
		if len(data) > 0 {
			out = append(out, data)
		}
	}
}

func eventEnd(b []byte) (end, skip int) {
	end, skip = bytes.Index(b, []byte("\n\n")), 2
	if crlf := bytes.Index(b, []byte("\r\n\r\n")); crlf >= 0 && (end < 0 || crlf < end) {
		end, skip = crlf, 4
	}
	return end, skip
}

// Fail turns what an SDK returned into the error of this call. nil means that the stream stopped without its final event.
func (c *Call) Fail(err error) *model.Error {
	fail := func(code model.Code, msg string) *model.Error {
		return &model.Error{Code: code, Provider: c.client.provider, Message: msg}
	}
	if cause := c.ctx.Err(); cause != nil {
		e := fail(model.CodeCanceled, "the call was ended by its caller")
		e.Err = context.Cause(c.ctx)
		return e
	}
	for _, e := range []error{c.broken, err} {
		if me := (*model.Error)(nil); errors.As(e, &me) {
			return me
		}
	}
	switch {
	case c.broken != nil:
		return fail(model.CodeCut, "the connection broke before the reply was complete: "+c.client.clean(c.broken.Error()))
	case err == nil:
		return fail(model.CodeCut, "the stream ended before the reply was complete")
	}
	return fail(model.CodeBadReply, "an event of the stream could not be read; the endpoint does not speak this protocol, or a proxy changed it")
}

// Bad is a reply that breaks the protocol.
func (c *Call) Bad(format string, args ...any) *model.Error {
	return &model.Error{Code: model.CodeBadReply, Provider: c.client.provider, Message: c.client.clean(fmt.Sprintf(format, args...))}
}

// Try runs a step of an SDK. One that panics over a reply it did not expect (Gemini's does, over a field of another type) breaks the
// call and not the program. f must not call back to our reader.
func (c *Call) Try(f func() bool) (more bool) {
	defer func() {
		if r := recover(); r != nil {
			c.broken = c.Bad("the reply has not the shape it should have; the provider's client gave up on it")
			more = false
		}
	}()
	return f()
}

// Event is the error in an event of the stream; body is its JSON.
func (c *Call) Event(body []byte) *model.Error { return c.client.classify(0, nil, body) }

type transport struct {
	client *Client
	base   http.RoundTripper
	drop   []string
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(t.drop) > 0 {
		r = r.Clone(r.Context())
		for _, h := range t.drop {
			r.Header.Del(h)
		}
	}
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		if r.Context().Err() != nil {
			return nil, err
		}
		return nil, &model.Error{Code: model.CodeUnreachable, Provider: t.client.provider, Message: "no answer from " + r.URL.Host + ": " + t.client.clean(err.Error())}
	}
	if err := t.client.check(resp); err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	call, _ := r.Context().Value(callKey{}).(*Call)
	if call == nil {
		call = &Call{client: t.client, ctx: r.Context()}
	}
	resp.Body = &body{call: call, rc: resp.Body}
	return resp, nil
}

// check refuses everything that is not a stream of events.
func (c *Client) check(resp *http.Response) error {
	head := func() []byte {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what arrived is enough to tell
		return b
	}
	switch {
	case resp.StatusCode >= 400:
		return c.classify(resp.StatusCode, resp.Header, head())
	case resp.StatusCode >= 300:
		return &model.Error{Code: model.CodeBadReply, Provider: c.provider, Status: resp.StatusCode,
			Message: "the endpoint redirects; the key is not sent on. Set the base URL to the final address"}
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
	return &model.Error{Code: model.CodeBadReply, Provider: c.provider, Status: resp.StatusCode,
		Message: fmt.Sprintf("the answer is %q, not a stream of events: check the base URL", media)}
}

// body ends every reply with io.EOF, because SDKs print or hide other errors; Call.Fail knows the truth.
type body struct {
	call *Call
	rc   io.ReadCloser
	n    int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.call.broken != nil {
		return 0, io.EOF
	}
	n, err := b.rc.Read(p)
	b.n += int64(n)
	if b.call.keep {
		b.call.seen.Write(p[:n])
	}
	if b.n > maxReply {
		b.call.broken = b.call.Bad("the reply is larger than %d MiB", maxReply>>20)
		return 0, io.EOF
	}
	if err != nil && err != io.EOF {
		b.call.broken = err
		err = io.EOF
	}
	return n, err
}

func (b *body) Close() error {
	_ = b.rc.Close() // nothing is left to be told
	return nil
}
