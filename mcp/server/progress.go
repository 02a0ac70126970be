package server

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// progress tells a client that wants to know how its call gets on, once in each
// Options.Progress: how long it runs, and how much its program wrote. stop has
// to be called when the call is done.
func (s *Server) progress(ctx context.Context, req *mcp.CallToolRequest, call string) (stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	wrote, begun := new(atomic.Int64), s.opts.Now()
	s.writing.Store(call, wrote)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; ; n++ { // progress has to grow with each notification, and nothing else is sure to
			select {
			case <-time.After(s.opts.Progress):
			case <-ctx.Done():
				return
			}
			text := fmt.Sprintf("running for %d s, %d bytes of output", int(s.opts.Now().Sub(begun).Seconds()), wrote.Load())
			if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(n), Message: text}); err != nil {
				return // the client is gone, or the call is done
			}
		}
	}()
	return func() {
		cancel()
		<-done
		s.writing.Delete(call)
	}
}

// Wrote tells how many bytes more the program of a call wrote, for the client
// that made the call. A Backend calls it as the output comes.
func (s *Server) Wrote(call string, bytes int) {
	if n, is := s.writing.Load(call); is {
		n.(*atomic.Int64).Add(int64(bytes))
	}
}
