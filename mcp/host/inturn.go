package host

import (
	"context"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// inTurn is a transport that stops reading while a request of the server waits for its reply. The
// library reads ahead without a limit, so a server that asks faster than it reads the replies would
// fill the memory. Notifications are not passed on. heard gets their methods.
type inTurn struct {
	mcp.Transport
	heard func(method string)
}

func (t inTurn) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &turns{Connection: c, heard: t.heard, answered: make(chan struct{}, 1), closed: make(chan struct{})}, nil
}

type turns struct {
	mcp.Connection
	heard    func(method string)
	asked    bool          // of Read alone: the last message was a request
	answered chan struct{} // it has its answer
	end      sync.Once     // closes closed
	closed   chan struct{}
}

func (c *turns) Read(ctx context.Context) (jsonrpc.Message, error) {
	if c.asked {
		select {
		case <-c.answered:
		case <-c.closed: // Read says so
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	for {
		m, err := c.Connection.Read(ctx)
		r, is := m.(*jsonrpc.Request)
		if err == nil && is && !r.IsCall() {
			c.heard(r.Method)
			continue
		}
		c.asked = is && r.IsCall()
		return m, err
	}
}

func (c *turns) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if _, is := m.(*jsonrpc.Response); is {
		select {
		case c.answered <- struct{}{}:
		default:
		}
	}
	return err
}

func (c *turns) Close() error {
	c.end.Do(func() { close(c.closed) })
	return c.Connection.Close()
}
