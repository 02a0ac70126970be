// Package jobs tracks the jobs of a sandbox and ends them when it is closed.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrClosed is returned for a job of a closed sandbox.
var ErrClosed = errors.New("the sandbox is closed")

// Group is the set of jobs of one sandbox.
type Group struct {
	mu      sync.Mutex
	closed  bool
	ended   chan struct{}
	running sync.WaitGroup
}

// New returns an empty group.
func New() *Group { return &Group{ended: make(chan struct{})} }

// Enter adds a job until leave is called. It fails after Close or if ctx is done.
func (g *Group) Enter(ctx context.Context) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the job did not start: %w", context.Cause(ctx))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	g.running.Add(1)
	return g.running.Done, nil
}

// Ended returns a channel that is closed when all jobs must end.
func (g *Group) Ended() <-chan struct{} { return g.ended }

// Close ends all jobs and waits for them.
func (g *Group) Close() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.ended)
	}
	g.mu.Unlock()
	g.running.Wait()
}
