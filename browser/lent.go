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

// Lent is a lease while it runs. Close it.
type Lent struct {
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
	at      *place
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
func Open(l Lease, o *Options) (*Lent, error) {
	l, err := l.Check()
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the endpoint of a lease: %w", err)
	}
	x := &Lent{lease: l, o: o.or(), token: rand.Text(), listen: ln, turn: make(chan struct{}, 1), clients: map[*client]bool{}, uses: &uses{}}
	x.server = &http.Server{Handler: http.HandlerFunc(x.answer), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() { _ = x.server.Serve(ln) }()
	x.stop = x.o.After(l.Until.Sub(x.o.Now()), func() { x.end(ErrExpired) })
	return x, nil
}

// Endpoint is what scripts are given: http, loopback, and a path that is a
// secret of the lease.
func (l *Lent) Endpoint() string { return "http://" + l.listen.Addr().String() + "/" + l.token }

// Origin is the one that pages may be of.
func (l *Lent) Origin() string { return l.lease.Origin }

// Live says why the lease cannot be used; nil: it can.
func (l *Lent) Live() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over == nil && !l.o.Now().Before(l.lease.Until) {
		return ErrExpired
	}
	return l.over
}

// Granted is the origin to which the credentials of a script are bound, and
// whether it has any. Of several grants that of the lease's origin counts.
func (l *Lent) Granted(entry string) (origin string, ok bool) {
	for _, g := range l.lease.Grants {
		if g.Script != entry {
			continue
		}
		if !ok || g.Origin == l.lease.Origin {
			origin, ok = g.Origin, true
		}
	}
	return origin, ok
}

// Begin opens the endpoint for one script; another one waits. end cuts its
// connections and tells what was asked for since the script before it ended:
// pages go on in between. They stay as they are for the next script of the lease.
func (l *Lent) Begin(ctx context.Context) (end func() []event.HostUse, err error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() {
		if err != nil {
			<-l.turn
		}
	}()
	if err = l.Live(); err != nil {
		return nil, err
	}
	ready, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	if err = l.ready(ready); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return nil, l.over
	}
	l.open = true
	l.script, l.ended = context.WithCancel(context.Background())
	return sync.OnceValue(l.done), nil
}

// done ends what Begin began.
func (l *Lent) done() []event.HostUse {
	l.mu.Lock()
	l.open = false
	at, cut := l.at, l.drop()
	l.ended()
	l.mu.Unlock()
	for _, c := range cut {
		c.close()
	}
	l.asking.Wait()
	if at != nil {
		at.settled()
	}
	u := l.taken()
	<-l.turn
	return u.list(l.lease.Origin)
}

// taken is what was asked for since it was taken last.
func (l *Lent) taken() *uses {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.uses
	l.uses = &uses{}
	return u
}

// drop takes the connections of scripts out. The caller holds mu, and closes
// them without it.
func (l *Lent) drop() []*client {
	var out []*client
	for c := range l.clients {
		out = append(out, c)
	}
	clear(l.clients)
	return out
}

// end ends the lease, for the first reason there is. What the browser made for
// it goes with the connection.
func (l *Lent) end(why error) {
	l.mu.Lock()
	if l.over == nil {
		l.over = why
	}
	at, cut := l.at, l.drop()
	l.at = nil
	l.mu.Unlock()
	for _, c := range cut {
		c.close()
	}
	if at != nil {
		at.end(errGone)
	}
}

// Close ends the lease and gives everything back. It waits a moment for the
// browser to throw the context away, which it also does by itself.
func (l *Lent) Close() error {
	l.stop()
	l.mu.Lock()
	at := l.at
	l.mu.Unlock()
	if at != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_ = at.call(ctx, "", "Target.disposeBrowserContext", map[string]any{"browserContextId": at.context}, nil)
		cancel()
	}
	l.end(ErrClosed)
	if u := l.taken(); u.documents > 0 || len(u.refused) > 0 {
		l.o.Logger.Warn("after the last script, pages of the browser asked for documents that no record holds", "documents", u.documents, "refusals", len(u.refused))
	}
	return l.server.Close()
}

var errIdle = errors.New("the lease of this browser is for scripts while they run, and none does")

// usable says why the endpoint does not answer; nil: it does.
func (l *Lent) usable() (*place, error) {
	if err := l.Live(); err != nil {
		return nil, fmt.Errorf("the lease of this browser has ended: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open || l.at == nil {
		return nil, errIdle
	}
	return l.at, nil
}

// answering has an answer end with the script that asked, whose record waits
// for it.
func (l *Lent) answering(r *http.Request) (_ *http.Request, end func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return nil, nil, errIdle
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(l.script, cancel)
	l.asking.Add(1)
	return r.WithContext(ctx), func() { stop(); cancel(); l.asking.Done() }, nil
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
func (l *Lent) passedOn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uses.documents++
}

// refuse puts a refusal in the record. address may be "".
func (l *Lent) refuse(code, address string) {
	host, port := hostPort(address)
	l.o.Logger.Debug("the browser refused a request", "code", code, "host", host, "port", port)
	l.mu.Lock()
	defer l.mu.Unlock()
	same := func(h event.HostUse) bool { return h.Host == host && h.Port == port && h.Code == code }
	i := slices.IndexFunc(l.uses.refused, same)
	if i < 0 && len(l.uses.refused) >= mostRefused {
		i = len(l.uses.refused) - 1
	}
	if i < 0 {
		l.uses.refused = append(l.uses.refused, event.HostUse{Host: host, Port: port, Method: "browser", Code: code, Requests: 1})
		return
	}
	l.uses.refused[i].Requests++
}
