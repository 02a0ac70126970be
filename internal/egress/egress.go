// Package egress is the only network a sandboxed job has: a proxy that reaches
// the hosts an operator named, and writes down every host that was asked for.
//
// It speaks plain HTTP and CONNECT, and both take the same way: one reading of
// the host, one decision, one resolution, and a dial of exactly the address
// that came out of it. Whatever is not a public address is refused once more in
// the dialer itself. A tunnel has to begin with TLS for the host that was asked
// for, so that no second proxy and no second name hides in it. It takes no
// proxy of its own from the environment.
//
// What it cannot do: keep a job from telling a host it may reach whatever the
// job knows.
//
// Names are ASCII, as they are on the wire: a name of another script is written
// in its xn-- form, in rules too, so that no look-alike fits a rule.
package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// User is the name in the credentials of a job; its password is Rules.Token.
const User = "job"

// Rules say what one job may reach.
type Rules struct {
	// Hosts are names ("pypi.org"), names with all that is below them
	// ("*.pythonhosted.org", which is not pythonhosted.org itself), and public
	// IP addresses.
	Hosts []string
	// Any lets the job reach every public host by its name, and the addresses
	// in Hosts.
	Any   bool
	Ports []uint16 // nil: 80 and 443
	Token string   // the password every request has to bring; required

	Up, Down    int64 // bytes to and from all hosts together; 0: DefaultUp, DefaultDown
	Connections int   // at a time; 0: 32. As many are told that there are too many, and the rest is closed

	Head, Dial, Idle time.Duration // to send a request, to reach a host, without a byte; 0: 10, 10 and 60 s

	// Resolve gives the addresses of a name; nil: the system's resolver, asked
	// for exactly that name.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Connect opens one connection to a; nil: TCP, refused where a is not
	// public. Tests bring their own, settings cannot.
	Connect func(ctx context.Context, a netip.AddrPort) (net.Conn, error)
	// Own are the addresses of this machine, which are not public whatever they
	// look like: its own firewall does not stand between it and them. nil: those
	// of its interfaces.
	Own func() ([]netip.Addr, error)
	Now func() time.Time // nil: time.Now
}

// Bytes a job may send and get when Rules names no numbers.
const (
	DefaultUp   = 16 << 20
	DefaultDown = 512 << 20
)

// Bounds of what one connection may bring.
const (
	maxHead    = 16 << 10 // bytes of a request up to its body
	maxFields  = 100
	maxHello   = 32 << 10 // bytes of a TLS client hello
	maxDials   = 4        // addresses of one host that are tried
	maxRows    = 256      // hosts in the record that were reached, and as many that were not
	maxAccepts = 20       // failures of a listener in a row
)

// Proxy serves one job. It ends with Close, or with its listener.
type Proxy struct {
	rules Rules
	hosts hostRules
	book  book
	ctx   context.Context
	stop  context.CancelFunc
	slots chan struct{} // held by what is served
	doors chan struct{} // held by what is accepted: served, or being refused
	legs  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

// New makes the proxy of one job. An error names the rule that cannot be used.
func New(r Rules) (*Proxy, error) {
	hosts, err := parseHosts(r.Hosts, r.Any)
	if err != nil {
		return nil, err
	}
	if r.Token == "" {
		return nil, errors.New("egress: a job's proxy needs a token")
	}
	if r.Up < 0 || r.Down < 0 || r.Connections < 0 || r.Head < 0 || r.Dial < 0 || r.Idle < 0 {
		return nil, errors.New("egress: a limit is below zero")
	}
	if r.Ports == nil {
		r.Ports = []uint16{80, 443}
	}
	if slices.Contains(r.Ports, 0) {
		return nil, errors.New("egress: there is no port 0")
	}
	r.Ports = slices.Clone(r.Ports)
	r.Up = cmp.Or(r.Up, DefaultUp)
	r.Down = cmp.Or(r.Down, DefaultDown)
	r.Connections = cmp.Or(r.Connections, 32)
	r.Head = cmp.Or(r.Head, 10*time.Second)
	r.Dial = cmp.Or(r.Dial, 10*time.Second)
	r.Idle = cmp.Or(r.Idle, time.Minute)
	if r.Resolve == nil {
		r.Resolve = resolve
	}
	if r.Connect == nil {
		r.Connect = connect
	}
	if r.Own == nil {
		r.Own = interfaces
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	p := &Proxy{rules: r, hosts: hosts, slots: make(chan struct{}, r.Connections), doors: make(chan struct{}, 2*r.Connections), open: map[net.Conn]struct{}{}}
	p.book.rows = map[rowKey]*Host{}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p, nil
}

// Environ is what a program has to find in its environment to use the proxy at
// addr, such as 127.0.0.1:3128.
func Environ(addr, token string) []string {
	url := fmt.Sprintf("http://%s:%s@%s", User, token, addr)
	return []string{"HTTPS_PROXY=" + url, "HTTP_PROXY=" + url, "https_proxy=" + url, "http_proxy=" + url}
}

// Serve answers what comes in on l until l or the proxy is closed, then ends
// every connection: Used is whole when it returns. It closes l.
func (p *Proxy) Serve(l net.Listener) {
	defer p.Close()
	ended := context.AfterFunc(p.ctx, func() { _ = l.Close() })
	defer ended()
	defer func() { _ = l.Close() }()
	failed := 0
	for {
		c, err := l.Accept()
		if err != nil {
			failed++
			if errors.Is(err, net.ErrClosed) || failed == maxAccepts || !p.pause(failed) {
				return
			}
			continue
		}
		failed = 0
		// A refusal takes a while too, and each connection is one of the
		// descriptors of this process.
		select {
		case p.doors <- struct{}{}:
		default:
			_ = c.Close() // there are too many to tell it
			p.book.end(rowKey{code: TooManyOpen}, "", 0, 0)
			continue
		}
		if !p.track(c) {
			return
		}
		p.legs.Go(func() {
			defer func() { <-p.doors }()
			defer p.drop(c)
			p.answer(c)
		})
	}
}

// pause waits longer with each failure; false: the proxy was closed.
func (p *Proxy) pause(failed int) bool {
	t := time.NewTimer(time.Duration(failed) * 10 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// Close ends every connection and waits until nothing of the proxy runs. What
// was used stays to be asked for.
func (p *Proxy) Close() {
	p.stop()
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.legs.Wait()
}

// track keeps c to be closed with the proxy; false: that has happened.
func (p *Proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return false
	}
	p.open[c] = struct{}{}
	return true
}

func (p *Proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}
