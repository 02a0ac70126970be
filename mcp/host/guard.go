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

// seen holds what was read against a guard, counts it, and keeps what is wrong
// for the error of the call.
func (c *connection) seen(g *intake.Guard, p []byte) error {
	c.received.Add(int64(len(p)))
	err := g.See(p)
	switch {
	case errors.Is(err, intake.ErrTooDeep):
		c.blame("mcp_too_deep", "", fmt.Errorf("%w, more than %d", err, intake.Deepest))
	case err != nil:
		c.blame("mcp_too_much", "ask for less", fmt.Errorf("%w: a message has at most %d bytes", err, g.Most))
	}
	return err
}

// blame keeps why the connection breaks; the first reason counts.
func (c *connection) blame(code, hint string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blamed == nil {
		c.blamed = c.fault("call", code, hint, err)
	}
}

// reason gives why the connection breaks, once.
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
	c   *connection
	g   intake.Guard
	ctx context.Context // of the request
}

func (c *connection) body(r *http.Response) *body {
	most := int64(c.host.opts.Message)
	b := &body{ReadCloser: r.Body, c: c, ctx: r.Request.Context(), g: intake.Guard{Most: most, All: most}}
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Type"))), "text/event-stream") {
		b.g.Lines, b.g.All = true, 4*most
	}
	return b
}

func (b *body) Read(p []byte) (int, error) {
	if b.g.Lines {
		if err := b.c.replies.wait(b.ctx); err != nil {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p)
	if bad := b.c.seen(&b.g, p[:n]); bad != nil {
		_ = b.ReadCloser.Close()
		return 0, bad
	}
	return n, err
}
