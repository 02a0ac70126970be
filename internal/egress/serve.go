package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// visit is one connection of the job: one request, or one tunnel.
type visit struct {
	p      *Proxy
	client *leg
	in     *bufio.Reader
	head   *head // nil until it is read
	row    rowKey
	to     string // the dialed address
	up     atomic.Int64
	down   atomic.Int64
	why    atomic.Pointer[refusal] // why a leg ended
}

// answer reads a request, decides on it, and handles it.
func (p *Proxy) answer(c net.Conn) {
	v := &visit{p: p}
	v.client = &leg{Conn: c, visit: v}
	v.in = bufio.NewReaderSize(c, maxHead)
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		v.refused(refuse(TooManyOpen, "the job has %d connections open", cap(p.slots)))
		return
	}
	_ = c.SetDeadline(p.rules.Now().Add(p.rules.Head))
	raw, err := readHead(v.in)
	var r *refusal
	switch {
	case errors.As(err, &r):
		v.refused(r)
		return
	case errors.Is(err, os.ErrDeadlineExceeded) && p.ctx.Err() == nil:
		v.refused(refuse(HeadTimeout, "the request did not arrive in time"))
		return
	case err != nil:
		return // disconnected without a request
	}
	v.head, r = parseHead(raw)
	if v.head != nil {
		v.row = rowKey{host: v.head.target.host, port: v.head.target.port, method: v.head.method()}
	}
	if r == nil && !v.head.hasToken(p.rules.Token) {
		r = refuse(TokenWrong, "the job's token is missing or wrong; use the one in the job's HTTP_PROXY")
	}
	if r == nil {
		r = p.judge(v.head.target)
	}
	if r == nil && !p.book.begin(v.row) {
		r = refuse(TooManyHosts, "the job has requested too many hosts")
	}
	if r != nil {
		v.refused(r)
		return
	}
	v.do()
}

// judge decides on a target, for requests and tunnels.
func (p *Proxy) judge(t target) *refusal {
	if c := p.hosts.judge(t); c == HostLiteral {
		return refuse(c, "no rule names the address %s", t.host)
	} else if c != "" {
		return refuse(c, "%s is not among the hosts this job may reach", t.host)
	}
	if !slices.Contains(p.rules.Ports, t.port) {
		return refuse(PortNotAllowed, "port %d is not among the ports this job may reach", t.port)
	}
	if p.book.spent(&p.book.up, p.rules.Up) {
		return refuse(BytesUp, "the job has sent the %d bytes that it may send", p.rules.Up)
	}
	if p.book.spent(&p.book.down, p.rules.Down) {
		return refuse(BytesDown, "the job has received the %d bytes that it may receive", p.rules.Down)
	}
	return nil
}

// do connects to the host and copies data in both directions.
func (v *visit) do() {
	// A client that disconnects while its host is resolved and dialed is noticed at the first byte
	// that cannot be written. Both steps have time limits.
	conn, to, err := v.p.reach(v.head.target)
	if err != nil {
		var r *refusal
		if !errors.As(err, &r) {
			r = refuse(DialFailed, "%s does not answer", v.head.target.host)
		}
		v.refused(r)
		return
	}
	if !v.p.track(conn) {
		return
	}
	defer v.p.drop(conn)
	v.to = to.String()
	host := &leg{Conn: conn, visit: v, counted: true}
	v.client.other, host.other = host, v.client
	v.client.alive()
	pass := v.forward
	if v.row.method == methodConnect {
		pass = v.tunnel
	}
	r := pass(host)
	if limit := v.why.Load(); limit != nil {
		r = limit
	}
	if r != nil {
		v.row.code = r.code
	}
	v.p.book.end(v.row, v.to, v.up.Load(), v.down.Load())
}

// reach resolves t once and dials the result.
func (p *Proxy) reach(t target) (net.Conn, netip.AddrPort, error) {
	var to netip.AddrPort
	ctx, cancel := context.WithTimeout(p.ctx, p.rules.Dial)
	defer cancel()
	found := []netip.Addr{t.literal}
	if !t.literal.IsValid() {
		var err error
		if found, err = p.rules.Resolve(ctx, t.host); err != nil || len(found) == 0 {
			return nil, to, refuse(HostUnresolved, "%s has no address", t.host)
		}
	}
	for i, a := range found {
		found[i] = a.Unmap() // a resolver may return IPv4 in 16 bytes
	}
	own, err := p.rules.Own()
	if err != nil {
		return nil, to, refuse(AddressNotPublic, "cannot determine the addresses of this machine: %v", err)
	}
	good := slices.DeleteFunc(slices.Clone(found), func(a netip.Addr) bool { return !public(a) || slices.Contains(own, a) })
	if len(good) == 0 {
		return nil, to, refuse(AddressNotPublic, "%s leads to %s, which is not a public address", t.host, found[0])
	}
	var failed error
	for _, a := range good[:min(len(good), maxDials)] {
		to = netip.AddrPortFrom(a, t.port)
		c, err := p.rules.Connect(ctx, to)
		if err == nil {
			return c, to, nil
		}
		failed = err
	}
	return nil, to, failed
}

// refused sends a refusal, if possible, and records it.
func (v *visit) refused(r *refusal) {
	v.row.code = r.code
	v.p.book.end(v.row, v.to, v.up.Load(), v.down.Load())
	body := r.Error() + "\n"
	realm := ""
	if r.code == TokenWrong {
		realm = "Proxy-Authenticate: Basic realm=\"metier\"\r\n"
	}
	_ = v.client.Conn.SetDeadline(v.p.rules.Now().Add(2 * time.Second))
	_, err := fmt.Fprintf(v.client.Conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n%sConnection: close\r\n\r\n%s",
		r.code.Status(), http.StatusText(r.code.Status()), len(body), realm, body)
	if err != nil {
		return
	}
	// Unread data would turn the close into a reset, and the response could be lost.
	if closeWrite(v.client.Conn) {
		_, _ = io.CopyN(io.Discard, v.client.Conn, 1<<20)
	}
}

// closeWrite closes the sending side of a connection.
func closeWrite(c net.Conn) bool {
	half, ok := c.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

// leg is one side of a visit. Activity on either side keeps both alive. The bytes of the host's
// side are counted.
type leg struct {
	net.Conn
	visit   *visit
	other   *leg
	counted bool
}

// alive extends the deadlines of both sides.
func (l *leg) alive() {
	at := l.visit.p.rules.Now().Add(l.visit.p.rules.Idle)
	_ = l.Conn.SetDeadline(at)
	_ = l.other.Conn.SetDeadline(at)
}

func (l *leg) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if n > 0 {
		l.alive()
	}
	if !l.counted {
		return n, l.ended(err)
	}
	book, limit := &l.visit.p.book, l.visit.p.rules.Down
	ok := book.spend(&book.down, n, limit)
	l.visit.down.Add(int64(ok))
	if ok < n {
		return ok, l.ended(refuse(BytesDown, "the job has received the %d bytes that it may receive", limit))
	}
	return n, l.ended(err)
}

func (l *leg) Write(b []byte) (int, error) {
	send := len(b)
	if l.counted {
		book, limit := &l.visit.p.book, l.visit.p.rules.Up
		send = book.spend(&book.up, len(b), limit)
		l.visit.up.Add(int64(send))
		if send < len(b) {
			_ = l.ended(refuse(BytesUp, "the job has sent the %d bytes that it may send", limit))
		}
	}
	n, err := l.Conn.Write(b[:send])
	if n > 0 {
		l.alive()
	}
	if err == nil && send < len(b) {
		err = io.ErrShortWrite
	}
	return n, l.ended(err)
}

// ended keeps the first refusal as the reason why the visit ended.
func (l *leg) ended(err error) error {
	var r *refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &r):
	case errors.Is(err, os.ErrDeadlineExceeded):
		r = refuse(Idle, "no data arrived for %v", l.visit.p.rules.Idle)
	default:
		return err
	}
	l.visit.why.CompareAndSwap(nil, r)
	return err
}
