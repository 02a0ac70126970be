package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync/atomic"
	"time"

	"metier/model"
)

// Call is one request and its reply. It must be used by one goroutine.
type Call struct {
	client *Client
	ctx    context.Context // the caller's
	cancel context.CancelFunc
	id     string // the provider's name for the request
	body   io.ReadCloser
	events *Reader
	begun  time.Time
	idle   *time.Timer // ends the call; nil before the reply began
	silent atomic.Bool // it did
	err    *model.Error
}

// watch ends the call if no event arrives for a while. Pings and comments do not count as events,
// although they keep a connection open.
func (c *Call) watch() {
	c.begun = c.client.now()
	c.idle = time.AfterFunc(c.client.wait, func() {
		c.silent.Store(true)
		c.cancel()
	})
}

// heard restarts the timeout for the next event, within the time left for the reply.
func (c *Call) heard() {
	c.idle.Reset(max(0, min(c.client.wait, maxLife-c.client.now().Sub(c.begun))))
}

// End closes the reply. If the reply was not read to its end, End also closes the connection.
func (c *Call) End() {
	c.cancel()
	if c.idle != nil {
		c.idle.Stop()
	}
	if c.body != nil {
		_ = c.body.Close() // nothing is left to be told
	}
}

// Events yields the JSON objects in the events of the reply, each valid until the next. It stops at
// the end of the reply, at an event whose data is "[DONE]", at an event that reports an error or is
// not a JSON object, and when the caller's context ends. Err returns the reason. Events named ping
// are ignored.
func (c *Call) Events() iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		for c.err == nil && c.ctx.Err() == nil {
			e, err := c.events.Next()
			if err == io.EOF || err == nil && bytes.HasPrefix(e.Data, []byte("[DONE]")) {
				return
			}
			if err != nil {
				c.err = c.broken(err)
				return
			}
			if len(e.Data) == 0 || e.Name == "ping" {
				continue
			}
			c.heard()
			o, ok := Parse(e.Data)
			switch {
			case !ok && e.Open:
				c.err = c.cut()
			case e.Name == "error" || o.String("type") == "error" || len(o["error"]) > 0 && string(o["error"]) != "null":
				c.err = c.classify(0, nil, e.Data)
			case !ok:
				c.err = c.Bad("an event of the stream could not be read; the endpoint does not speak this protocol, or a proxy changed it")
			case !yield(e.Data):
				return
			}
		}
	}
}

// Err returns why the call failed, or nil if the reply ended normally. Call it after Events has
// stopped.
func (c *Call) Err() *model.Error {
	if c.ctx.Err() != nil {
		e := c.client.fail(model.CodeCanceled, "the call was ended by its caller")
		e.Err = context.Cause(c.ctx)
		return e
	}
	return c.err
}

// Cut returns Err, or an error for a truncated reply if the reply ended by itself.
func (c *Call) Cut() *model.Error {
	if err := c.Err(); err != nil {
		return err
	}
	return c.cut()
}

// Fail returns an error of the call with the provider's message.
func (c *Call) Fail(code model.Code, message string) *model.Error {
	return c.fail(code, c.client.clean(message))
}

// Bad returns an error for a reply that violates the protocol.
func (c *Call) Bad(format string, args ...any) *model.Error {
	return c.Fail(model.CodeBadReply, fmt.Sprintf(format, args...))
}

func (c *Call) cut() *model.Error {
	return c.fail(model.CodeCut, "the stream ended before the reply was complete")
}

func (c *Call) broken(err error) *model.Error {
	switch {
	case c.silent.Load():
		return c.fail(model.CodeCut, fmt.Sprintf("nothing of the reply came for %v, or it went on for more than %v", c.client.wait, maxLife))
	case errors.Is(err, errLongEvent):
		return c.Bad("an event of the reply is larger than %d MiB", maxEvent>>20)
	case errors.Is(err, errLongStream):
		return c.Bad("the reply is larger than %d MiB", maxReply>>20)
	}
	return c.fail(model.CodeCut, "the connection broke before the reply was complete: "+c.client.clean(err.Error()))
}

// fail includes the request id, so that the provider's support can find the request.
func (c *Call) fail(code model.Code, message string) *model.Error {
	return c.client.fail(code, c.named(message))
}

func (c *Call) named(message string) string {
	id := c.client.clean(c.id)
	if id == "" || len(id) > 128 {
		return message
	}
	return message + " (request " + id + ")"
}

func (c *Call) classify(status int, header http.Header, body []byte) *model.Error {
	e := c.client.classify(status, header, body)
	e.Message = c.named(e.Message)
	return e
}
