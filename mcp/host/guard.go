package host

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"metier"
)

// deepest is how many objects and arrays of a message may be in one another.
// The library takes 1,000, and spends time with the square of it.
const deepest = 100

// guard looks at what a server sends before the library does: how long and how
// deep a message is.
type guard struct {
	most  int64 // bytes of one message
	all   int64 // bytes in all; 0: any number
	lines bool  // a blank line ends a message: events

	depth, size, total int64
	quoted, escaped    bool
	blank              bool // the line has nothing yet
}

var (
	errTooDeep = errors.New("what it sends has too many objects or lists in one another")
	errTooMuch = errors.New("it sends too much")
)

// see reports what is wrong with the next bytes.
func (g *guard) see(p []byte) error {
	for _, b := range p {
		g.size++
		switch {
		case b == '\n': // no string goes over a line
			if g.lines && g.blank {
				g.depth, g.size = 0, 0
			}
			g.quoted, g.escaped, g.blank = false, false, true
			continue
		case b == '\r':
			continue
		case g.quoted:
			switch {
			case g.escaped:
				g.escaped = false
			case b == '\\':
				g.escaped = true
			case b == '"':
				g.quoted = false
			}
		case b == '"':
			g.quoted = true
		case b == '{' || b == '[':
			if g.depth++; g.depth > deepest {
				return errTooDeep
			}
		case (b == '}' || b == ']') && g.depth > 0:
			if g.depth--; g.depth == 0 && !g.lines {
				g.size = 0
			}
		}
		g.blank = false
	}
	g.total += int64(len(p))
	if g.size > g.most || g.all > 0 && g.total > g.all {
		return errTooMuch
	}
	return nil
}

// seen holds what was read against a guard, counts it, and keeps what is wrong
// for the error of the call.
func (c *connection) seen(g *guard, p []byte) error {
	c.received.Add(int64(len(p)))
	err := g.see(p)
	switch {
	case errors.Is(err, errTooDeep):
		c.blame("mcp_too_deep", "", fmt.Errorf("%w, more than %d", err, deepest))
	case err != nil:
		c.blame("mcp_too_much", "ask for less", fmt.Errorf("%w: a message has at most %d bytes", err, g.most))
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
	c *connection
	g guard
}

func (c *connection) body(r *http.Response) *body {
	most := int64(c.host.opts.Message)
	b := &body{ReadCloser: r.Body, c: c, g: guard{most: most, all: most}}
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Type"))), "text/event-stream") {
		b.g.lines, b.g.all = true, 4*most
	}
	return b
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if bad := b.c.seen(&b.g, p[:n]); bad != nil {
		_ = b.ReadCloser.Close()
		return 0, bad
	}
	return n, err
}
