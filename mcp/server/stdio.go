package server

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lastAnswers is how long requests may still be answered after the client closed its stream.
const lastAnswers = 5 * time.Second

// Serve serves one client on a pair of streams until it disconnects or ctx is canceled. The requests
// that came before the end of its stream are answered first. Lines that are not messages are answered
// with an error.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	w := &shared{w: out}
	l := newLines(in, w)
	return s.mcp.Run(ctx, streams{&mcp.IOTransport{Reader: io.NopCloser(l), Writer: w}, &l.batches})
}

// streams is a transport that reports the end of its input once what came before is answered.
type streams struct {
	*mcp.IOTransport
	batches *batches
}

// Connect implements [mcp.Transport].
func (t streams) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.IOTransport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &answering{Connection: c, out: t.Writer, batches: t.batches, open: map[jsonrpc.ID]bool{}, idle: make(chan struct{}, 1), closed: make(chan struct{})}, nil
}

// answering is a connection that counts the requests that are not answered yet.
type answering struct {
	mcp.Connection
	out     io.Writer // of answers to batches
	batches *batches

	mu   sync.Mutex
	open map[jsonrpc.ID]bool
	idle chan struct{} // has a value after an answer

	once   sync.Once
	closed chan struct{}
}

func (c *answering) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, is := m.(*jsonrpc.Request); is && r.IsCall() && r.Method != "subscriptions/listen" {
		c.mu.Lock()
		c.open[r.ID] = true
		c.mu.Unlock()
	}
	if errors.Is(err, io.EOF) {
		c.wait(ctx)
	}
	return m, err
}

// wait returns when all requests are answered.
func (c *answering) wait(ctx context.Context) {
	late := time.NewTimer(lastAnswers)
	defer late.Stop()
	for {
		c.mu.Lock()
		n := len(c.open)
		c.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-c.idle:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		case <-c.closed:
			return
		}
	}
}

func (c *answering) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Connection.Close()
}

func (c *answering) Write(ctx context.Context, m jsonrpc.Message) error {
	r, is := m.(*jsonrpc.Response)
	if !is {
		return c.Connection.Write(ctx, m)
	}
	line, batched, err := c.batches.answer(r)
	switch {
	case !batched:
		err = c.Connection.Write(ctx, m)
	case len(line) > 0:
		_, err = c.out.Write(line)
	}
	c.mu.Lock()
	delete(c.open, r.ID)
	c.mu.Unlock()
	select {
	case c.idle <- struct{}{}:
	default:
	}
	return err
}
