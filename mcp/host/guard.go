package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"metier"
	"metier/internal/intake"
)

// mostValues is the maximum number of values in a message of a server.
const mostValues = 1_000_000

// seen counts what was read, and checks it.
func (c *connection) seen(g *intake.Guard, p []byte) error {
	c.received.Add(int64(len(p)))
	return c.checked(g, p)
}

// checked holds a part of a message against a guard, and keeps what is wrong for
// the error of the call.
func (c *connection) checked(g *intake.Guard, p []byte) error {
	err := g.See(p)
	switch {
	case errors.Is(err, intake.ErrTooDeep):
		c.blame("mcp_too_deep", "", err)
	case errors.Is(err, intake.ErrTooMany):
		c.blame("mcp_too_much", "ask for less", err)
	case err != nil:
		return c.tooMuch()
	}
	return err
}

func (c *connection) tooMuch() error {
	c.blame("mcp_too_much", "ask for less", fmt.Errorf("%w: a message has at most %d bytes", intake.ErrTooMuch, c.host.opts.Message))
	return intake.ErrTooMuch
}

// blame stores why the connection breaks. The first reason is kept.
func (c *connection) blame(code, hint string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blamed == nil {
		c.blamed = c.fault("call", code, hint, err)
	}
}

// reason returns why the connection broke, once.
func (c *connection) reason() *metier.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.blamed
	c.blamed = nil
	return e
}

// body is an answer over HTTP. An answer has the bytes of one message, a stream
// of events four times that.
type body struct {
	io.ReadCloser
	c      *connection
	g      intake.Guard
	ctx    context.Context // of the request
	stream *events         // nil: the answer is one message
}

func (c *connection) body(r *http.Response) *body {
	most := int64(c.host.opts.Message)
	b := &body{ReadCloser: r.Body, c: c, ctx: r.Request.Context(), g: intake.Guard{Most: most, Many: mostValues}}
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Type"))), "text/event-stream") {
		b.stream = newEvents(c, &counted{r.Body, c, 4 * most})
	}
	return b
}

func (b *body) Read(p []byte) (n int, err error) {
	if b.stream == nil {
		n, err = b.ReadCloser.Read(p)
		if bad := b.c.seen(&b.g, p[:n]); bad != nil {
			n, err = 0, bad
		}
	} else if err = b.c.replies.wait(b.ctx); err == nil {
		n, err = b.stream.Read(p)
	}
	if errors.Is(err, intake.ErrTooMuch) || errors.Is(err, intake.ErrTooDeep) || errors.Is(err, intake.ErrTooMany) {
		_ = b.ReadCloser.Close()
	}
	return n, err
}

// counted limits the total size of a stream.
type counted struct {
	io.Reader
	c    *connection
	left int64
}

func (r *counted) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.c.received.Add(int64(n))
	if r.left -= int64(n); r.left < 0 {
		return 0, r.c.tooMuch()
	}
	return n, err
}
