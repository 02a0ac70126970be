package browser

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"metier/event"
)

// Session is an active lease. Close it after use.
type Session struct {
	lease  Lease
	o      Options
	token  string
	listen net.Listener
	server *http.Server
	turn   chan struct{} // held by the one script that uses the browser
	making sync.Mutex    // serializes creating pages
	stop   func() bool   // stops the expiry timer

	mu      sync.Mutex
	over    error // why the lease ended; nil: active
	open    bool  // a script is running
	at      *hostBrowser
	clients map[*client]bool
	uses    *uses // since the last script ended
	asking  sync.WaitGroup
	script  context.Context // of the running script
	ended   context.CancelFunc
}

// Reasons why a lease ended. Live returns an error that wraps one of them.
var (
	ErrExpired = errors.New("its time is over")
	ErrLeft    = errors.New("a page left its allowed origin")
	ErrClosed  = errors.New("it ended with the run")
)

// answers is how long the browser may take to get ready for a script.
const answers = 30 * time.Second

// Open starts a lease. It opens a new endpoint, and connects to the browser when the first script
// begins. For a lease that has already expired, Open succeeds, but the session is unusable.
func Open(l Lease, o *Options) (*Session, error) {
	l, err := l.Check()
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the endpoint of a shared browser session: %w", err)
	}
	x := &Session{lease: l, o: o.or(), token: rand.Text(), listen: ln, turn: make(chan struct{}, 1), clients: map[*client]bool{}, uses: &uses{}}
	x.server = &http.Server{Handler: http.HandlerFunc(x.answer), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() { _ = x.server.Serve(ln) }()
	x.stop = x.o.After(l.Until.Sub(x.o.Now()), func() { x.end(ErrExpired) })
	return x, nil
}

// Endpoint returns the address for scripts: http, loopback, with a secret path.
func (s *Session) Endpoint() string { return "http://" + s.listen.Addr().String() + "/" + s.token }

// Origin returns the one allowed origin of pages.
func (s *Session) Origin() string { return s.lease.Origin }

// Live returns why the lease cannot be used, or nil.
func (s *Session) Live() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil && !s.o.Now().Before(s.lease.Until) {
		return ErrExpired
	}
	return s.over
}

// Granted returns the origin that a script's credentials are bound to, and whether it has any. If a
// script has several grants, the one for the lease's origin takes precedence.
func (s *Session) Granted(entry string) (origin string, ok bool) {
	for _, g := range s.lease.Grants {
		if g.Script != entry {
			continue
		}
		if !ok || g.Origin == s.lease.Origin {
			origin, ok = g.Origin, true
		}
	}
	return origin, ok
}

// Begin opens the endpoint for one script. Other scripts wait. end closes the script's connections
// and returns the requests made since the previous script ended, including those that pages made in
// between. Pages stay open for the next script of the lease.
func (s *Session) Begin(ctx context.Context) (end func() []event.HostUse, err error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() {
		if err != nil {
			<-s.turn
		}
	}()
	if err = s.Live(); err != nil {
		return nil, err
	}
	ready, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	if err = s.ready(ready); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return nil, s.over
	}
	s.open = true
	s.script, s.ended = context.WithCancel(context.Background())
	return sync.OnceValue(s.done), nil
}

// done implements the end function of Begin.
func (s *Session) done() []event.HostUse {
	s.mu.Lock()
	s.open = false
	at, cut := s.at, s.drop()
	s.ended()
	s.mu.Unlock()
	for _, c := range cut {
		c.close()
	}
	s.asking.Wait()
	if at != nil {
		at.settled()
	}
	u := s.taken()
	<-s.turn
	return u.list(s.lease.Origin)
}

// taken returns the uses since the last call and resets them.
func (s *Session) taken() *uses {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uses
	s.uses = &uses{}
	return u
}

// drop removes the connections of scripts and returns them. The caller holds mu, and closes them
// after releasing it.
func (s *Session) drop() []*client {
	var out []*client
	for c := range s.clients {
		out = append(out, c)
	}
	clear(s.clients)
	return out
}

// end ends the lease; the first reason is kept. Closing the connection discards the lease's
// context.
func (s *Session) end(why error) {
	s.mu.Lock()
	if s.over == nil {
		s.over = why
	}
	at, cut := s.at, s.drop()
	s.at = nil
	s.mu.Unlock()
	for _, c := range cut {
		c.close()
	}
	if at != nil {
		at.end(errGone)
	}
}

// Close ends the lease and releases its resources. It waits briefly for the browser to discard the
// context, which also happens on its own.
func (s *Session) Close() error {
	s.stop()
	s.mu.Lock()
	at := s.at
	s.mu.Unlock()
	if at != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_ = at.call(ctx, "", "Target.disposeBrowserContext", map[string]any{"browserContextId": at.context}, nil)
		cancel()
	}
	s.end(ErrClosed)
	if u := s.taken(); u.documents > 0 || len(u.refused) > 0 {
		s.o.Logger.Warn("after the last script, pages of the browser requested documents that are not in any record", "documents", u.documents, "refusals", len(u.refused))
	}
	return s.server.Close()
}

var errIdle = errors.New("the browser session answers only while a script runs, and no script is running")

// usable returns the browser, or an error that says why the endpoint does not answer.
func (s *Session) usable() (*hostBrowser, error) {
	if err := s.Live(); err != nil {
		return nil, fmt.Errorf("the shared browser session has ended: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open || s.at == nil {
		return nil, errIdle
	}
	return s.at, nil
}

// answering ties a response to the running script: it ends with the script, whose record waits for
// it.
func (s *Session) answering(r *http.Request) (_ *http.Request, end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return nil, nil, errIdle
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(s.script, cancel)
	s.asking.Add(1)
	return r.WithContext(ctx), func() { stop(); cancel(); s.asking.Done() }, nil
}

// uses records what scripts and pages requested from the browser.
type uses struct {
	documents int
	refused   []event.HostUse
}

// mostRefused is how many different rejections are recorded individually.
const mostRefused = 32

// list returns the record: allowed requests, then rejected ones.
func (u *uses) list(origin string) []event.HostUse {
	host, port := hostPort(origin)
	return append([]event.HostUse{{Host: host, Port: port, Method: "browser", Requests: u.documents}}, u.refused...)
}

// passedOn counts a document of the lease's origin.
func (s *Session) passedOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses.documents++
}

// refuse records a rejection. address may be "".
func (s *Session) refuse(code, address string) {
	host, port := hostPort(address)
	s.o.Logger.Debug("the browser refused a request", "code", code, "host", host, "port", port)
	s.mu.Lock()
	defer s.mu.Unlock()
	same := func(h event.HostUse) bool { return h.Host == host && h.Port == port && h.Code == code }
	i := slices.IndexFunc(s.uses.refused, same)
	if i < 0 && len(s.uses.refused) >= mostRefused {
		i = len(s.uses.refused) - 1
	}
	if i < 0 {
		s.uses.refused = append(s.uses.refused, event.HostUse{Host: host, Port: port, Method: "browser", Code: code, Requests: 1})
		return
	}
	s.uses.refused[i].Requests++
}
