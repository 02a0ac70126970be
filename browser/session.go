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

// Session is a lease while it runs. Close it.
type Session struct {
	lease  Lease
	o      Options
	token  string
	listen net.Listener
	server *http.Server
	turn   chan struct{} // held by the one script that uses the browser
	making sync.Mutex    // one page is made at a time
	stop   func() bool   // the clock of the lease

	mu      sync.Mutex
	over    error // why the lease ended; nil: it runs
	open    bool  // a script runs
	at      *hostBrowser
	clients map[*client]bool
	uses    *uses // since the last script ended
	asking  sync.WaitGroup
	script  context.Context // of the script that runs
	ended   context.CancelFunc
}

// Why a lease ended. Live returns one of them, with what there is to say.
var (
	ErrExpired = errors.New("its time is over")
	ErrLeft    = errors.New("a page left the origin it is leased for")
	ErrClosed  = errors.New("it ended with the run")
)

// answers is how long the browser may take to get ready for a script.
const answers = 30 * time.Second

// Open begins a lease. It opens an endpoint of its own and touches the browser
// when the first script begins. A lease whose time is over already is one that
// cannot be used, no error.
func Open(l Lease, o *Options) (*Session, error) {
	l, err := l.Check()
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the endpoint of a lease: %w", err)
	}
	x := &Session{lease: l, o: o.or(), token: rand.Text(), listen: ln, turn: make(chan struct{}, 1), clients: map[*client]bool{}, uses: &uses{}}
	x.server = &http.Server{Handler: http.HandlerFunc(x.answer), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() { _ = x.server.Serve(ln) }()
	x.stop = x.o.After(l.Until.Sub(x.o.Now()), func() { x.end(ErrExpired) })
	return x, nil
}

// Endpoint is what scripts are given: http, loopback, and a path that is a
// secret of the lease.
func (s *Session) Endpoint() string { return "http://" + s.listen.Addr().String() + "/" + s.token }

// Origin is the one that pages may be of.
func (s *Session) Origin() string { return s.lease.Origin }

// Live says why the lease cannot be used; nil: it can.
func (s *Session) Live() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over == nil && !s.o.Now().Before(s.lease.Until) {
		return ErrExpired
	}
	return s.over
}

// Granted is the origin to which the credentials of a script are bound, and
// whether it has any. Of several grants that of the lease's origin counts.
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

// Begin opens the endpoint for one script; another one waits. end cuts its
// connections and tells what was asked for since the script before it ended:
// pages go on in between. They stay as they are for the next script of the lease.
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

// done ends what Begin began.
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

// taken is what was asked for since it was taken last.
func (s *Session) taken() *uses {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uses
	s.uses = &uses{}
	return u
}

// drop takes the connections of scripts out. The caller holds mu, and closes
// them without it.
func (s *Session) drop() []*client {
	var out []*client
	for c := range s.clients {
		out = append(out, c)
	}
	clear(s.clients)
	return out
}

// end ends the lease, for the first reason there is. What the browser made for
// it goes with the connection.
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

// Close ends the lease and gives everything back. It waits a moment for the
// browser to throw the context away, which it also does by itself.
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
		s.o.Logger.Warn("after the last script, pages of the browser asked for documents that no record holds", "documents", u.documents, "refusals", len(u.refused))
	}
	return s.server.Close()
}

var errIdle = errors.New("the browser session answers only while a script runs, and no script is running")

// usable says why the endpoint does not answer; nil: it does.
func (s *Session) usable() (*hostBrowser, error) {
	if err := s.Live(); err != nil {
		return nil, fmt.Errorf("the lease of this browser has ended: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open || s.at == nil {
		return nil, errIdle
	}
	return s.at, nil
}

// answering has an answer end with the script that asked, whose record waits
// for it.
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

// uses is what scripts and pages asked of the browser.
type uses struct {
	documents int
	refused   []event.HostUse
}

// mostRefused is how many different refusals are kept one by one.
const mostRefused = 32

// list gives the record: what was let through, then what was refused.
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

// refuse puts a refusal in the record. address may be "".
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
