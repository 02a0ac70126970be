package server

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
)

// Limits for sessions that clients abandon.
const (
	mostClients  = 1000
	clientsOfOne = 900       // of one principal; more than mostSessions, because closing one takes time
	idleClient   = time.Hour // a principal's session is closed after so long without a call
)

// client is a session and its user.
type client struct {
	key   Client
	by    string // the principal
	calls sync.WaitGroup

	opened  chan struct{} // closed once the fields below it hold
	err     error         // why there is no session
	session *metier.Session
	end     func() error

	used  time.Time // guarded by Server.mu
	ready bool      // there is a session; guarded by Server.mu

	counted, wrote int64 // of session.Recorded: seen, and by calls; guarded by Server.mu
}

// open opens a session that is not shared.
func (s *Server) open(ctx context.Context, key Client) (*client, error) {
	sess, end, err := s.backend.Open(ctx, key, s.snapshot)
	if err != nil {
		return nil, err
	}
	return &client{key: key, session: sess, end: end, used: s.opts.Now()}, nil
}

// who returns the client that sent a request.
func who(req mcp.Request) Client {
	extra := req.GetExtra()
	if extra == nil || extra.Header == nil {
		return Client{Process: true}
	}
	if id := req.GetSession().ID(); id != "" {
		return Client{Session: id}
	}
	return Client{Principal: userOf(extra.TokenInfo)}
}

// principal returns the name of the caller, for the record.
func principal(req mcp.Request) string {
	if extra := req.GetExtra(); extra != nil {
		return cmp.Or(userOf(extra.TokenInfo), "mcp")
	}
	return "mcp"
}

// userOf returns whose token a request has, or "" if it has none.
func userOf(t *auth.TokenInfo) string {
	if t == nil {
		return ""
	}
	return t.UserID
}

// acquire returns the session of a request's client. The caller must call release at the end of the
// request.
func (s *Server) acquire(ctx context.Context, req mcp.Request) (c *client, release func(), err error) {
	key := who(req)
	if key == (Client{}) {
		if c, err = s.open(ctx, key); err != nil {
			return nil, nil, err
		}
		return c, func() { s.ended(c) }, nil
	}
	by := principal(req)
	if !key.Process {
		if err := s.full(by); err != nil {
			return nil, nil, err
		}
	}
	c, first, err := s.enter(key, by)
	if errors.Is(err, errOverflow) {
		err = s.overflows(req, c)
	}
	if err != nil {
		return nil, nil, err
	}
	if first {
		s.opens(by)
		s.begin(context.WithoutCancel(ctx), c, req) // others wait for the session too, whatever becomes of this request
	}
	select {
	case <-c.opened:
		err = c.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		c.calls.Done()
		return nil, nil, err
	}
	return c, func() { s.count(c, false); c.calls.Done() }, nil
}

// errOverflow means that a session of the protocol has to end, because its record is full.
var errOverflow = errors.New("the record is full")

// enter counts a call of a client whose session is kept. The first caller has to open the session.
// That takes time, and only calls of this client wait. If a principal's session has been idle for too
// long, or if its record is full, a new session replaces it.
func (s *Server) enter(key Client, by string) (c *client, first bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = s.clients[key]
	switch {
	case c == nil || c.wrote < s.opts.SessionRecord && !s.idle(c):
	case key.Principal != "":
		s.drop(c)
		c = nil
	default:
		return c, false, errOverflow
	}
	if c == nil {
		if err := s.noMore(by); err != nil && !key.Process {
			return nil, false, err
		}
		if s.clientsOf(by) >= clientsOfOne || len(s.clients) >= mostClients && !s.evict() {
			return nil, false, &metier.Error{Op: "mcp", Kind: metier.LimitReached, Code: "too_many_clients", Hint: "try again later", Err: errors.New("every session is in use")}
		}
		c, first = &client{key: key, by: by, opened: make(chan struct{})}, true
		s.clients[key] = c
	}
	c.used = s.opts.Now()
	c.calls.Add(1)
	return c, first, nil
}

// clientsOf counts the clients of a principal. The caller must hold mu.
func (s *Server) clientsOf(by string) (n int) {
	for _, c := range s.clients {
		if c.by == by {
			n++
		}
	}
	return n
}

// begin opens the session of a client that has entered.
func (s *Server) begin(ctx context.Context, c *client, req mcp.Request) {
	defer close(c.opened)
	c.session, c.end, c.err = s.backend.Open(ctx, c.key, s.snapshot)
	s.count(c, true)
	s.mu.Lock()
	if c.ready = c.err == nil; !c.ready && s.clients[c.key] == c {
		delete(s.clients, c.key) // the next call tries again
	}
	s.mu.Unlock()
	if c.err != nil {
		return
	}
	// Refresh skips sessions that are not ready, so changes that it found meanwhile are checked
	// here.
	if s.index.Load().snapshot != c.session.Snapshot() {
		if err := s.refreshed(ctx, c); err != nil {
			s.opts.Logger.ErrorContext(ctx, "a session has older skills than are served", "error", err.Error())
		}
	}
	if ss, is := req.GetSession().(*mcp.ServerSession); is && c.key.Session != "" {
		go s.outlives(c, ss)
	}
}

// evict closes the principal's least recently used session. The caller must hold mu.
func (s *Server) evict() bool {
	var oldest *client
	for _, c := range s.clients {
		if c.key.Principal != "" && (oldest == nil || c.used.Before(oldest.used)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	s.drop(oldest)
	return true
}

// tidy closes sessions of principals that have been idle for a long time.
func (s *Server) tidy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		if s.idle(c) {
			s.drop(c)
		}
	}
}

// idle reports whether a principal's session was unused for too long. The caller must hold mu.
func (s *Server) idle(c *client) bool {
	return c.key.Principal != "" && s.opts.Now().Sub(c.used) > idleClient
}

// drop removes a client and ends its session once its calls are done. The caller must hold mu.
func (s *Server) drop(c *client) {
	delete(s.clients, c.key)
	s.leaving.Go(func() { s.ended(c) })
}

// ended waits for the calls of a session and closes it.
func (s *Server) ended(c *client) {
	c.calls.Wait()
	if c.end == nil {
		return // it was never opened
	}
	s.closing <- struct{}{} // closing reads the whole log
	defer func() { <-s.closing }()
	if err := c.end(); err != nil {
		s.opts.Logger.Error("a session could not be closed", "error", err.Error())
	}
}

// outlives drops a client when the protocol's session ends for any reason.
func (s *Server) outlives(c *client, ss *mcp.ServerSession) {
	_ = ss.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[c.key] == c {
		s.drop(c)
	}
}

// Close ends all sessions. No requests may follow.
func (s *Server) Close() error {
	s.sessions.endAll()
	for ss := range s.mcp.Sessions() {
		_ = ss.Close() // whoever is still there is hung up on
	}
	s.mu.Lock()
	for _, c := range s.clients {
		s.drop(c)
	}
	s.mu.Unlock()
	s.leaving.Wait()
	return s.own.end()
}
