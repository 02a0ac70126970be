package server

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mostSessions is the maximum number of legacy sessions. It is less than mostClients, to leave room
// for principals without a session.
const mostSessions = 800

// sessions are the legacy sessions opened over HTTP.
type sessions struct {
	mu    sync.Mutex
	known map[string]*entered
}

type entered struct {
	session *mcp.ServerSession
	by      string // principal, "" where there are no tokens
	used    time.Time
	alive   context.Context // canceled when the client ends the session
	end     context.CancelFunc
}

// enters tracks session use. At the limit, it closes the least recently used session of the
// principal that has the most, and cancels its calls, so that no principal can displace others.
func (s *Server) enters(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		ss, is := req.GetSession().(*mcp.ServerSession)
		if is && ss.ID() != "" && req.GetExtra() != nil && req.GetExtra().Header != nil {
			e, gone := s.sessions.enter(ss, userOf(req.GetExtra().TokenInfo), s.opts.Now(), s.mcp)
			if gone != nil {
				s.leaving.Go(func() { _ = gone.Close() }) // waits for its calls
			}
			var stop context.CancelFunc
			ctx, stop = context.WithCancel(ctx)
			defer stop()
			defer context.AfterFunc(e.alive, stop)()
		}
		return next(ctx, method, req)
	}
}

// ends cancels the running calls of a session when its owner ends it.
func (k *sessions) ends(id, by string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.known[id]; e != nil && e.by == by {
		e.end()
	}
}

// endAll cancels the running calls of all sessions.
func (k *sessions) endAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.known {
		e.end()
	}
}

// enter records a use. It returns a session that must be closed to make room, if any.
func (k *sessions) enter(ss *mcp.ServerSession, by string, now time.Time, live *mcp.Server) (e *entered, gone *mcp.ServerSession) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e = k.known[ss.ID()]; e != nil {
		e.used = now
		return e, nil
	}
	if len(k.known) >= mostSessions {
		gone = k.leave(live)
	}
	if k.known == nil {
		k.known = map[string]*entered{}
	}
	e = &entered{session: ss, by: by, used: now}
	e.alive, e.end = context.WithCancel(context.Background())
	k.known[ss.ID()] = e
	return e, gone
}

// leave removes ended sessions. If the limit is still reached, it removes and returns one more.
func (k *sessions) leave(live *mcp.Server) *mcp.ServerSession {
	there := map[string]bool{}
	for ss := range live.Sessions() {
		there[ss.ID()] = true
	}
	of := map[string]int{}
	for id, e := range k.known {
		if !there[id] {
			e.end()
			delete(k.known, id)
			continue
		}
		of[e.by]++
	}
	if len(k.known) < mostSessions {
		return nil
	}
	var oldest *entered
	for _, e := range k.known {
		if oldest == nil || of[e.by] > of[oldest.by] || of[e.by] == of[oldest.by] && (e.used.Before(oldest.used) || e.used.Equal(oldest.used) && e.session.ID() < oldest.session.ID()) {
			oldest = e
		}
	}
	oldest.end() // else Close waits for calls that wait for an answer
	delete(k.known, oldest.session.ID())
	return oldest.session
}
