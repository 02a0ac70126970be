// Package egress is the only network access of a sandboxed job: a proxy that reaches the hosts an
// operator allowed and records every requested host.
//
// It supports plain HTTP and CONNECT, and handles both alike: it parses the host once, decides
// once, resolves once, and dials exactly the resulting address. The dialer itself also rejects
// addresses that are not public. A tunnel must begin with TLS for the requested host, so that it
// cannot hide another proxy or another name. The proxy ignores proxy settings in the environment.
//
// It cannot prevent a job from sending any data it has to an allowed host.
//
// Names are ASCII, as on the wire. Names in other scripts must be in xn-- form, also in rules, so
// that no look-alike matches a rule.
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

// User is the user name in the credentials of a job. The password is Rules.Token.
const User = "job"

// Rules define what one job may reach.
type Rules struct {
	// Hosts are names ("pypi.org"), wildcards ("*.pythonhosted.org", which does not match
	// pythonhosted.org itself), and public IP addresses.
	Hosts []string
	// Any allows every public host by name, and the addresses in Hosts.
	Any   bool
	Ports []uint16 // nil: 80 and 443
	Token string   // password of every request; required

	Up, Down    int64 // bytes to and from all hosts together; 0: DefaultUp, DefaultDown
	Connections int   // concurrent; 0: 32. As many more get an error response, and the rest is closed

	Head, Dial, Idle time.Duration // time limits for sending a request, reaching a host, and inactivity; 0: 10, 10, and 60 s

	// Resolve returns the addresses of a name. nil: the system's resolver, without search domains.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Connect opens a connection to a. nil: TCP, to public addresses only. Tests replace it;
	// settings cannot.
	Connect func(ctx context.Context, a netip.AddrPort) (net.Conn, error)
	// Own returns the addresses of this machine. They never count as public, because the machine's
	// own firewall does not protect it from itself. nil: the addresses of its interfaces.
	Own func() ([]netip.Addr, error)
	Now func() time.Time // nil: time.Now
}

// DefaultUp and DefaultDown are the default byte limits of a job.
const (
	DefaultUp   = 16 << 20
	DefaultDown = 512 << 20
)

// Limits of a connection.
const (
	maxHead    = 16 << 10 // bytes of a request before its body
	maxFields  = 100
	maxHello   = 32 << 10 // bytes of a TLS client hello
	maxDials   = 4        // addresses of one host that are tried
	maxRows    = 256      // recorded hosts that were reached, and as many that were not
	maxAccepts = 20       // consecutive failures of a listener
)

// Proxy serves one job. It ends with Close or when its listener is closed.
type Proxy struct {
	rules Rules
	hosts hostRules
	book  book
	ctx   context.Context
	stop  context.CancelFunc
	slots chan struct{} // held by connections being served
	doors chan struct{} // held by accepted connections: served or being refused
	legs  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

// New creates the proxy of one job. An error names the invalid rule.
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
		return nil, errors.New("egress: port 0 is invalid")
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

// Environ returns the environment variables with which a program uses the proxy at addr, such as
// 127.0.0.1:3128.
func Environ(addr, token string) []string {
	url := fmt.Sprintf("http://%s:%s@%s", User, token, addr)
	return []string{"HTTPS_PROXY=" + url, "HTTP_PROXY=" + url, "https_proxy=" + url, "http_proxy=" + url}
}

// Serve serves connections from l until l or the proxy is closed, then ends all connections and
// closes l. When it returns, Used is complete.
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
		// A refusal takes time too, and each connection uses a descriptor of this process.
		select {
		case p.doors <- struct{}{}:
		default:
			_ = c.Close() // too many even to send a response
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

// pause waits longer after each failure. It returns false if the proxy was closed.
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

// Close ends all connections and waits until the proxy has stopped. Used remains available.
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

// track registers c to be closed with the proxy. It returns false if the proxy is already closed.
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
