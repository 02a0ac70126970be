package server

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mostSessions is how many sessions of the protocol are kept, fewer than
// mostClients, so that there is always room for principals without one.
const mostSessions = 800

// sessions are those of the protocol that clients opened over HTTP.
type sessions struct {
	mu    sync.Mutex
	known map[string]*entered
}

type entered struct {
	session *mcp.ServerSession
	by      string // principal, "" where there are no tokens
	used    time.Time
	alive   context.Context // until the client ends the session
	end     context.CancelFunc
}

// enters notes who uses which session. Where a new one is too many, one of
// whoever has the most is closed, the one that was used least recently: nobody
// can take the room of others.
func (s *Server) enters(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		ss, is := req.GetSession().(*mcp.ServerSession)
		if is && ss.ID() != "" && req.GetExtra() != nil && req.GetExtra().Header != nil {
			by := ""
			if t := req.GetExtra().TokenInfo; t != nil {
				by = t.UserID
			}
			e, gone := s.sessions.enter(ss, by, s.opts.Now(), s.mcp)
			if gone != nil {
				s.leaving.Go(func() { _ = gone.Close() }) // it waits for its calls
			}
			var stop context.CancelFunc
			ctx, stop = context.WithCancel(ctx)
			defer stop()
			defer context.AfterFunc(e.alive, stop)()
		}
		return next(ctx, method, req)
	}
}

// ends cancels what a session still does, when the client that has it ends it.
func (k *sessions) ends(id, by string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.known[id]; e != nil && e.by == by {
		e.end()
	}
}

// enter notes a use, and returns the session that has to go for it.
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

// leave forgets the sessions that ended, and where that makes no room one more,
// which it returns.
func (k *sessions) leave(live *mcp.Server) *mcp.ServerSession {
	there := map[string]bool{}
	for ss := range live.Sessions() {
		there[ss.ID()] = true
	}
	of := map[string]int{}
	for id, e := range k.known {
		if !there[id] {
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
	delete(k.known, oldest.session.ID())
	return oldest.session
}
