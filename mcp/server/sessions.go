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
			if gone := s.sessions.enter(ss, by, s.opts.Now(), s.mcp); gone != nil {
				s.leaving.Go(func() { _ = gone.Close() }) // it waits for its calls
			}
		}
		return next(ctx, method, req)
	}
}

// enter notes a use, and returns the session that has to go for it.
func (k *sessions) enter(ss *mcp.ServerSession, by string, now time.Time, live *mcp.Server) *mcp.ServerSession {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.known[ss.ID()]; e != nil {
		e.used = now
		return nil
	}
	var gone *mcp.ServerSession
	if len(k.known) >= mostSessions {
		gone = k.leave(live)
	}
	if k.known == nil {
		k.known = map[string]*entered{}
	}
	k.known[ss.ID()] = &entered{ss, by, now}
	return gone
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
