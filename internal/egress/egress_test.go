package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"metier/internal/egress"
	"metier/internal/egress/egresstest"
)

const token = "s3cret"

// net1 is a simulated Internet with a proxy on it.
type net1 struct{ *egresstest.Internet }

// serve starts a proxy on this internet and returns its address.
func (n net1) serve(t *testing.T, r egress.Rules) (*egress.Proxy, string) {
	t.Helper()
	r.Token, r.Resolve, r.Connect = token, n.Resolve, n.Connect
	p, err := egress.New(r)
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	done := make(chan struct{})
	go func() { defer close(done); p.Serve(l) }()
	t.Cleanup(func() { p.Close(); <-done })
	return p, l.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// internet has a.com with a plain server on 80 and 8080 and a TLS server on
// 443, which reports the host it was asked for, and evil.com beside it.
func internet(t *testing.T) (net1, *http.Client, func(string) *url.URL) {
	t.Helper()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/big":
			for range 64 {
				if _, err := w.Write(make([]byte, 16<<10)); err != nil {
					return
				}
			}
		case "/away":
			http.Redirect(w, r, "http://evil.com/", http.StatusFound)
		case "/echo":
			_, _ = io.Copy(w, r.Body)
		default:
			_, _ = fmt.Fprintf(w, "%s %s %s\n", r.Method, r.Host, r.RequestURI)
		}
	})
	const a, evil = "93.184.216.34", "93.184.216.66"
	n, secure := egresstest.New(t, h, map[string]string{"a.com": a, "www.a.com": a, "evil.com": evil, "evil-a.com": evil}, a, evil)
	for _, ip := range []string{a, evil} {
		n.Hosts[netip.MustParseAddrPort(ip+":8080")] = n.Hosts[netip.MustParseAddrPort(ip+":80")]
	}
	c := secure.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	via := func(addr string) *url.URL {
		u := &url.URL{Scheme: "http", Host: addr, User: url.UserPassword(egress.User, token)}
		tr := c.Transport.(*http.Transport)
		tr.Proxy = http.ProxyURL(u)
		tr.TLSClientConfig.InsecureSkipVerify = true // the test server's certificate is for example.com
		tr.DisableKeepAlives = true
		return u
	}
	return net1{n}, c, via
}

func get(t *testing.T, c *http.Client, u string) (int, string) {
	t.Helper()
	res, err := c.Get(u)
	if err != nil {
		t.Fatalf("GET %s: %v", u, err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("GET %s: %v", u, err)
	}
	return res.StatusCode, string(b)
}

// say sends raw bytes to the proxy and reads its whole answer.
func say(t *testing.T, addr, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, strings.ReplaceAll(text, "AUTH", "Proxy-Authorization: Basic am9iOnMzY3JldA==\r\n")); err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(c)
	return string(b)
}

func TestBothWaysReachAnAllowedHost(t *testing.T) {
	t.Parallel()
	n, c, via := internet(t)
	p, addr := n.serve(t, egress.Rules{Hosts: []string{"a.com", "*.a.com"}})
	via(addr)
	for _, u := range []string{"http://a.com/x?q=1", "https://a.com/x?q=1", "http://WWW.a.com./", "https://www.A.com/"} {
		if code, body := get(t, c, u); code != 200 || !strings.HasPrefix(body, "GET ") {
			t.Errorf("%s: %d %q", u, code, body)
		}
	}
	p.Close()
	got := p.Used()
	want := []egress.Host{
		{Host: "a.com", Port: 80, Method: "http", Requests: 1, Addresses: []string{"93.184.216.34:80"}},
		{Host: "a.com", Port: 443, Method: "connect", Requests: 1, Addresses: []string{"93.184.216.34:443"}},
		{Host: "www.a.com", Port: 80, Method: "http", Requests: 1, Addresses: []string{"93.184.216.34:80"}},
		{Host: "www.a.com", Port: 443, Method: "connect", Requests: 1, Addresses: []string{"93.184.216.34:443"}},
	}
	if diff := cmp.Diff(want, got.Hosts, cmpopts.IgnoreFields(egress.Host{}, "Up", "Down")); diff != "" {
		t.Error(diff)
	}
	var up, down int64
	for _, h := range got.Hosts {
		up, down = up+h.Up, down+h.Down
		if h.Up < 20 || h.Down < 100 {
			t.Errorf("%s: %d bytes up, %d down", h.Host, h.Up, h.Down)
		}
	}
	if up != got.Up || down != got.Down {
		t.Errorf("rows hold %d and %d bytes, the record %d and %d", up, down, got.Up, got.Down)
	}
	// The resolver got each name in its normalized form.
	if diff := cmp.Diff([]string{"a.com", "a.com", "www.a.com", "www.a.com"}, n.Asked()); diff != "" {
		t.Error(diff)
	}
}

// Case 108, checked from the other side: nothing was resolved or dialed.
func TestRefusals(t *testing.T) {
	t.Parallel()
	rules := egress.Rules{Hosts: []string{"a.com", "*.a.com", "1.1.1.1"}}
	both := func(host string) []string {
		return []string{"GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\nAUTH\r\n", "CONNECT " + host + ":443 HTTP/1.1\r\nAUTH\r\n"}
	}
	tests := []struct {
		name   string
		send   []string
		status int
		code   egress.Code
	}{
		{"another host", both("evil.com"), 403, egress.HostNotAllowed},
		{"a host that ends like an allowed one", both("evil-a.com"), 403, egress.HostNotAllowed},
		{"an allowed host as a part", both("a.com.evil.com"), 403, egress.HostNotAllowed},
		{"localhost", both("localhost"), 403, egress.HostNotAllowed},
		{"a wildcard as a host", both("*.a.com"), 400, egress.HostInvalid},
		{"NUL", both("a.com\x00.evil.com"), 400, egress.RequestInvalid},
		{"NUL in percent signs", both("a.com%00.evil.com"), 400, egress.HostInvalid},
		{"user information", both("a.com@evil.com"), 400, egress.HostInvalid},
		{"user information and a password", both("a.com:80@evil.com"), 400, egress.HostInvalid},
		{"a back-slash", both(`evil.com\.a.com`), 400, egress.RequestInvalid},
		{"two dots at the end", both("a.com.."), 400, egress.HostInvalid},
		{"an empty part", both("a..com"), 400, egress.HostInvalid},
		{"a full-width letter", both("ａ.com"), 400, egress.RequestInvalid},
		{"a decimal address", both("2130706433"), 400, egress.HostInvalid},
		{"a hexadecimal address", both("0x7f000001"), 400, egress.HostInvalid},
		{"a mixed address", both("0x7f.1"), 400, egress.HostInvalid},
		{"an octal address", both("0177.0.0.1"), 400, egress.HostInvalid},
		{"a short address", both("127.1"), 400, egress.HostInvalid},
		{"a mapped address", both("[::ffff:1.1.1.1]"), 400, egress.HostInvalid},
		{"an address with a zone", both("[fe80::1%25eth0]"), 400, egress.HostInvalid},
		{"loopback", both("127.0.0.1"), 403, egress.HostLiteral},
		{"loopback of IPv6", both("[::1]"), 403, egress.HostLiteral},
		{"the metadata service", both("169.254.169.254"), 403, egress.HostLiteral},
		{"a public address nobody named", both("8.8.8.8"), 403, egress.HostLiteral},
		{"another port", []string{"GET http://a.com:22/ HTTP/1.1\r\nHost: a.com:22\r\nAUTH\r\n", "CONNECT a.com:22 HTTP/1.1\r\nAUTH\r\n"}, 403, egress.PortNotAllowed},
		{"port 0 and beyond", []string{"CONNECT a.com:0 HTTP/1.1\r\nAUTH\r\n", "CONNECT a.com:65536 HTTP/1.1\r\nAUTH\r\n", "CONNECT a.com:0443 HTTP/1.1\r\nAUTH\r\n", "CONNECT a.com:+443 HTTP/1.1\r\nAUTH\r\n", "CONNECT a.com HTTP/1.1\r\nAUTH\r\n", "CONNECT a.com: HTTP/1.1\r\nAUTH\r\n"}, 400, egress.HostInvalid},
		{"Host names another host", []string{"GET http://a.com/ HTTP/1.1\r\nHost: evil.com\r\nAUTH\r\n", "GET http://a.com/ HTTP/1.1\r\nHost: a.com:8080\r\nAUTH\r\n", "CONNECT a.com:443 HTTP/1.1\r\nHost: evil.com\r\nAUTH\r\n"}, 400, egress.HostMismatch},
		{"no Host, or two", []string{"GET http://a.com/ HTTP/1.1\r\nAUTH\r\n", "GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\nHost: a.com\r\nAUTH\r\n"}, 400, egress.RequestInvalid},
		{"the proxy itself", []string{"GET / HTTP/1.1\r\nHost: a.com\r\nAUTH\r\n", "OPTIONS * HTTP/1.1\r\nHost: a.com\r\nAUTH\r\n"}, 400, egress.RequestInvalid},
		{"https without a tunnel", []string{"GET https://a.com/ HTTP/1.1\r\nHost: a.com\r\nAUTH\r\n", "GET ftp://a.com/ HTTP/1.1\r\nHost: a.com\r\nAUTH\r\n"}, 400, egress.SchemeNotAllowed},
		{"CONNECT as a plain request", []string{"CONNECT http://a.com:443/ HTTP/1.1\r\nAUTH\r\n"}, 400, egress.HostInvalid},
		{"TRACE", []string{"TRACE http://a.com/ HTTP/1.1\r\nHost: a.com\r\nAUTH\r\n"}, 405, egress.MethodNotAllowed},
		{"two lengths", []string{"POST http://a.com/ HTTP/1.1\r\nHost: a.com\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\nAUTH\r\n0\r\n\r\n", "POST http://a.com/ HTTP/1.1\r\nHost: a.com\r\nContent-Length: 4\r\nContent-Length: 5\r\nAUTH\r\nabcd"}, 400, egress.RequestInvalid},
		{"odd codings", []string{"POST http://a.com/ HTTP/1.1\r\nHost: a.com\r\nTransfer-Encoding: gzip, chunked\r\nAUTH\r\n", "POST http://a.com/ HTTP/1.1\r\nHost: a.com\r\nTransfer-Encoding: \x0bchunked\r\nAUTH\r\n", "POST http://a.com/ HTTP/1.0\r\nHost: a.com\r\nTransfer-Encoding: chunked\r\nAUTH\r\n"}, 400, egress.RequestInvalid},
		{"odd lengths", []string{"POST http://a.com/ HTTP/1.1\r\nHost: a.com\r\nContent-Length: +4\r\nAUTH\r\n", "POST http://a.com/ HTTP/1.1\r\nHost: a.com\r\nContent-Length: 4, 4\r\nAUTH\r\n", "POST http://a.com/ HTTP/1.1\r\nHost: a.com\r\nContent-Length: -1\r\nAUTH\r\n"}, 400, egress.RequestInvalid},
		{"bare line ends and folds", []string{"GET http://a.com/ HTTP/1.1\nHost: a.com\n\r\n", "GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\n X: y\r\nAUTH\r\n", "GET http://a.com/ HTTP/1.1\r\nHost : a.com\r\nAUTH\r\n", "GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\nX: a\rHost: evil.com\r\nAUTH\r\n"}, 400, egress.RequestInvalid},
		{"a first line in more or fewer parts", []string{"GET  http://a.com/ HTTP/1.1\r\nAUTH\r\n", "GET http://a.com/\r\nAUTH\r\n", "GET http://a.com/ b HTTP/1.1\r\nAUTH\r\n"}, 400, egress.RequestInvalid},
		{"HTTP/2", []string{"PRI * HTTP/2.0\r\nAUTH\r\n"}, 400, egress.RequestInvalid},
		{"a head without end", []string{"GET http://a.com/ HTTP/1.1\r\nX: " + strings.Repeat("x", 17<<10) + "\r\n"}, 400, egress.RequestInvalid},
		{"no token", []string{"GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n", "CONNECT a.com:443 HTTP/1.1\r\n\r\n"}, 407, egress.TokenWrong},
		{"a wrong token", []string{"GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\nProxy-Authorization: Basic am9iOnMzY3JldQ==\r\n\r\n", "CONNECT a.com:443 HTTP/1.1\r\nProxy-Authorization: Bearer am9iOnMzY3JldA==\r\n\r\n", "CONNECT a.com:443 HTTP/1.1\r\nAUTHAUTH\r\n"}, 407, egress.TokenWrong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n, _, _ := internet(t)
			p, addr := n.serve(t, rules)
			for i, text := range tt.send {
				got := say(t, addr, text)
				head, body, _ := strings.Cut(got, "\r\n\r\n")
				want := fmt.Sprintf("HTTP/1.1 %d ", tt.status)
				if !strings.HasPrefix(head, want) || !strings.HasPrefix(body, string(tt.code)+": ") || strings.Count(body, "\n") != 1 {
					t.Errorf("%q:\ngot  %q\nwant %s and %s", text, got, want, tt.code)
				}
				if strings.Contains(head, "Proxy-Authenticate: Basic") != (tt.status == 407) {
					t.Errorf("%q: %s", text, head)
				}
				total := 0
				for _, h := range p.Used().Hosts {
					if h.Code != tt.code || h.Addresses != nil || h.Up+h.Down != 0 {
						t.Errorf("%q: the record says %+v", text, h)
					}
					total += h.Requests
				}
				if total != i+1 {
					t.Errorf("%q: the record holds %d of %d requests", text, total, i+1)
				}
			}
			if len(n.Asked())+len(n.Dialed()) > 0 {
				t.Errorf("it resolved %q and dialed %v", n.Asked(), n.Dialed())
			}
		})
	}
}

func TestNamesThatLeadInside(t *testing.T) {
	t.Parallel()
	for _, ip := range []string{"127.0.0.1", "10.0.0.1", "172.31.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255",
		"198.18.0.1", "192.0.0.192", "168.63.129.16", "::1", "::", "::ffff:10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "2002:a00:1::", "2001::1", "::10.0.0.1", "fe80::1%eth0"} {
		for _, method := range []string{"GET http://in.com/ HTTP/1.1\r\nHost: in.com\r\nAUTH\r\n", "CONNECT in.com:443 HTTP/1.1\r\nAUTH\r\n"} {
			n := net1{&egresstest.Internet{Names: map[string][]netip.Addr{"in.com": {netip.MustParseAddr(ip)}}}}
			p, addr := n.serve(t, egress.Rules{Any: true})
			if got := say(t, addr, method); !strings.Contains(got, "\r\n\r\naddress_not_public: in.com leads to ") {
				t.Errorf("%s: %q", ip, got)
			}
			if len(n.Dialed()) > 0 || p.Used().Hosts[0].Code != egress.AddressNotPublic {
				t.Errorf("%s: dialed %v, recorded %+v", ip, n.Dialed(), p.Used())
			}
		}
	}
}

// An address of this machine that looks public is not: for other machines, its
// listeners are behind a firewall.
func TestNamesThatLeadToThisMachine(t *testing.T) {
	t.Parallel()
	n, c, via := internet(t)
	own, err := n.Names["a.com"][0], error(nil)
	p, addr := n.serve(t, egress.Rules{Any: true, Hosts: []string{own.String()}, Own: func() ([]netip.Addr, error) { return []netip.Addr{own}, err }})
	via(addr)
	for _, u := range []string{"http://a.com/", "http://" + own.String() + "/"} {
		if code, body := get(t, c, u); code != 403 || !strings.HasPrefix(body, "address_not_public: ") {
			t.Errorf("%s: %d %s", u, code, body)
		}
	}
	if code, _ := get(t, c, "http://evil.com/"); code != 200 {
		t.Errorf("another host: %d", code)
	}
	err = errors.New("no list of interfaces")
	if code, body := get(t, c, "http://evil.com/"); code != 403 || !strings.HasPrefix(body, "address_not_public: ") {
		t.Errorf("without a list: %d %s", code, body)
	}
	if len(n.Dialed()) != 1 || p.Used().Hosts[0].Host != own.String() {
		t.Errorf("dialed %v, recorded %+v", n.Dialed(), p.Used())
	}
}

// counted is a listener that knows how many of its connections are open.
type counted struct {
	net.Listener
	mu        sync.Mutex
	open, top int
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.add(1)
	return &countedConn{Conn: c, closed: sync.OnceFunc(func() { l.add(-1) })}, nil
}

func (l *counted) add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open += n
	l.top = max(l.top, l.open)
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

func (c *countedConn) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

// A job that opens connections and neither reads nor closes them takes no more
// descriptors of this process than its limit.
func TestAFloodOfConnectionsIsCut(t *testing.T) {
	t.Parallel()
	const most, many = 4, 100
	p, err := egress.New(egress.Rules{Hosts: []string{"a.com"}, Token: token, Connections: most, Head: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	l := &counted{Listener: listen(t)}
	go p.Serve(l)
	t.Cleanup(p.Close)
	ended := make(chan struct{}, many)
	for range many {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		go func() {
			_, _ = io.Copy(io.Discard, c)
			ended <- struct{}{}
		}()
	}
	for range many - most { // the others are served, and request nothing
		<-ended
	}
	l.mu.Lock()
	top := l.top
	l.mu.Unlock()
	if top > 2*most+1 {
		t.Errorf("%d connections were open at once", top)
	}
	if h := p.Used().Hosts[0]; h.Code != egress.TooManyOpen || h.Requests != many-most {
		t.Errorf("%+v", h)
	}
}

// A name whose address changes between two lookups is resolved once, and that
// address is dialed. Only public addresses are used.
func TestRebinding(t *testing.T) {
	t.Parallel()
	n, c, via := internet(t)
	inside, a := netip.MustParseAddr("::ffff:127.0.0.1"), n.Names["a.com"][0]
	n.Names["a.com"] = []netip.Addr{inside, a}
	asked := 0
	p, err := egress.New(egress.Rules{Hosts: []string{"a.com"}, Token: token, Connect: n.Connect,
		Resolve: func(ctx context.Context, host string) ([]netip.Addr, error) {
			if asked++; asked%2 == 0 {
				return []netip.Addr{inside}, nil
			}
			return n.Resolve(ctx, host)
		}})
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	go p.Serve(l)
	t.Cleanup(p.Close)
	via(l.Addr().String())
	if code, _ := get(t, c, "http://a.com/"); code != 200 || asked != 1 {
		t.Errorf("%d after %d questions", code, asked)
	}
	if code, body := get(t, c, "http://a.com/"); code != 403 || !strings.HasPrefix(body, "address_not_public") || asked != 2 {
		t.Errorf("%d %s after %d questions", code, body, asked)
	}
	if diff := cmp.Diff([]netip.AddrPort{netip.AddrPortFrom(a, 80)}, n.Dialed(), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

func TestRedirectsAreJudgedAnew(t *testing.T) {
	t.Parallel()
	n, c, via := internet(t)
	_, addr := n.serve(t, egress.Rules{Hosts: []string{"a.com"}})
	via(addr)
	if code, _ := get(t, c, "http://a.com/away"); code != http.StatusFound {
		t.Errorf("the redirect came as %d: the proxy does not follow it", code)
	}
	c.CheckRedirect = nil
	if code, body := get(t, c, "http://a.com/away"); code != 403 || !strings.HasPrefix(body, "host_not_allowed: evil.com") {
		t.Errorf("%d %q", code, body)
	}
}

func TestFieldsForTheProxyStayHere(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	l := listen(t)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			got <- r.Header
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nProxy-Authenticate: Basic\r\nConnection: x-hop\r\nX-Hop: 1\r\nX-End: 1\r\nContent-Length: 0\r\n\r\n")
	}()
	a := netip.MustParseAddr("93.184.216.34")
	n := net1{&egresstest.Internet{Names: map[string][]netip.Addr{"a.com": {a}}, Hosts: map[netip.AddrPort]string{netip.AddrPortFrom(a, 80): l.Addr().String()}}}
	_, addr := n.serve(t, egress.Rules{Hosts: []string{"a.com"}})
	answer := say(t, addr, "GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\nAUTHProxy-Connection: keep-alive\r\nConnection: upgrade, x-mine\r\nUpgrade: h2c\r\nX-Mine: 1\r\nTE: trailers\r\nX-Kept: 1\r\n\r\nGET http://a.com/second HTTP/1.1\r\nHost: a.com\r\nAUTH\r\n")
	if diff := cmp.Diff(http.Header{"X-Kept": {"1"}, "Connection": {"close"}}, <-got); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(answer, "Proxy-Authenticate") || strings.Contains(answer, "X-Hop") || !strings.Contains(answer, "X-End: 1\r\n") {
		t.Error(answer)
	}
	// Data after a request on its connection is not a second request.
	if strings.Count(answer, "HTTP/1.1 200") != 1 || len(got) != 0 || !strings.Contains(answer, "Connection: close") {
		t.Error(answer)
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	n, c, via := internet(t)
	_, addr := n.serve(t, egress.Rules{Hosts: []string{"a.com"}})
	via(addr)
	text := strings.Repeat("0123456789", 5000)
	for _, u := range []string{"http://a.com/echo", "https://a.com/echo"} {
		for _, body := range []io.Reader{strings.NewReader(text), io.MultiReader(strings.NewReader(text))} { // a length, and chunks
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u, body)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Expect", "100-continue")
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil || string(got) != text {
				t.Errorf("%s: %d bytes came back, %v", u, len(got), err)
			}
		}
	}
	if got := say(t, addr, "GET http://a.com/big HTTP/1.0\r\nAUTH\r\n"); len(got) < 1<<20 || strings.Contains(got, "chunked") {
		t.Errorf("an old client got %d bytes", len(got))
	}
}

func TestATunnelIsTLSForItsHost(t *testing.T) {
	t.Parallel()
	n, _, _ := internet(t)
	p, addr := n.serve(t, egress.Rules{Hosts: []string{"a.com"}})
	open := func() net.Conn {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "CONNECT a.com:443 HTTP/1.1\r\nProxy-Authorization: Basic am9iOnMzY3JldA==\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReaderSize(io.LimitReader(c, 39), 64).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 200 ") {
			t.Fatal(line, err)
		}
		return c
	}
	// A second CONNECT, to whatever a.com would pass it on to.
	c := open()
	if _, err := io.WriteString(c, "CONNECT evil.com:443 HTTP/1.1\r\nHost: evil.com:443\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(c); !strings.Contains(string(b), "not_tls: ") {
		t.Errorf("%q", b)
	}
	for _, name := range []string{"evil.com", ""} {
		err := tls.Client(open(), &tls.Config{ServerName: name, InsecureSkipVerify: true}).HandshakeContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "unrecognized name") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := tls.Client(open(), &tls.Config{ServerName: "A.com", InsecureSkipVerify: true}).HandshakeContext(t.Context()); err != nil {
		t.Error(err)
	}
	p.Close()
	codes := map[egress.Code]int{}
	for _, h := range p.Used().Hosts {
		codes[h.Code] += h.Requests
		if h.Code != "" && h.Up != 0 {
			t.Errorf("%s got %d bytes of a refused tunnel", h.Host, h.Up)
		}
	}
	if diff := cmp.Diff(map[egress.Code]int{"": 1, egress.NotTLS: 1, egress.NameMismatch: 2}, codes); diff != "" {
		t.Error(diff)
	}
}

func TestByteCaps(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		n, c, via := internet(t)
		p, addr := n.serve(t, egress.Rules{Hosts: []string{"a.com"}, Down: 100 << 10, Up: 50 << 10})
		via(addr)
		res, err := c.Get(scheme + "://a.com/big")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err == nil || len(b) > 100<<10 {
			t.Errorf("%s: %d bytes came, and %v", scheme, len(b), err)
		}
		if _, err := c.Post(scheme+"://a.com/echo", "", strings.NewReader("x")); scheme == "https" && (err == nil || !strings.Contains(err.Error(), "Forbidden")) {
			t.Errorf("after the cap: %v", err)
		}
		p.Close()
		u := p.Used()
		if u.Down != 100<<10 || len(u.Hosts) != 1 || u.Hosts[0].Code != egress.BytesDown || u.Hosts[0].Requests != 2 {
			t.Errorf("%s: %+v", scheme, u)
		}

		p, addr = n.serve(t, egress.Rules{Hosts: []string{"a.com"}, Up: 50 << 10})
		via(addr)
		res, err = c.Post(scheme+"://a.com/echo", "", strings.NewReader(strings.Repeat("x", 1<<20)))
		if err == nil {
			_, err = io.ReadAll(res.Body)
			_ = res.Body.Close()
		}
		p.Close()
		u = p.Used()
		if u.Up != 50<<10 || u.Hosts[len(u.Hosts)-1].Code != egress.BytesUp {
			t.Errorf("%s: %v, %+v", scheme, err, u)
		}
	}
}

func TestSlowAndManyConnections(t *testing.T) {
	t.Parallel()
	n, _, _ := internet(t)
	// The deadline for a head has passed as soon as it is set.
	_, addr := n.serve(t, egress.Rules{Hosts: []string{"a.com"}, Head: time.Nanosecond})
	if got := say(t, addr, ""); !strings.HasPrefix(got, "HTTP/1.1 408 ") {
		t.Errorf("%q", got)
	}

	p, addr := n.serve(t, egress.Rules{Hosts: []string{"a.com"}, Connections: 1})
	slow, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	if _, err := io.WriteString(slow, "CONNECT a.com:443 HTTP/1.1\r\nProxy-Authorization: Basic am9iOnMzY3JldA==\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if got := say(t, addr, "CONNECT a.com:443 HTTP/1.1\r\nAUTH\r\n"); !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "too_many_connections") {
		t.Errorf("%q", got)
	}
	p.Close()
	if n := p.Used().Hosts[0]; n.Code != egress.TooManyOpen || n.Host != "" {
		t.Errorf("%+v", n)
	}

	// A host that never answers: only the kernel accepts the connection.
	mute := listen(t)
	n.Hosts[netip.MustParseAddrPort("93.184.216.34:80")] = mute.Addr().String()
	p, addr = n.serve(t, egress.Rules{Hosts: []string{"a.com"}, Idle: 10 * time.Millisecond})
	if got := say(t, addr, "GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\nAUTH\r\n"); !strings.HasPrefix(got, "HTTP/1.1 504 ") && got != "" {
		t.Errorf("%q", got)
	}
	p.Close()
	if h := p.Used().Hosts[0]; h.Code != egress.Idle {
		t.Errorf("%+v", h)
	}
}

func TestUpstreamTrouble(t *testing.T) {
	t.Parallel()
	n, _, _ := internet(t)
	odd := listen(t)
	go func() {
		for {
			c, err := odd.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")
			_ = c.Close()
		}
	}()
	n.Names["odd.com"] = []netip.Addr{netip.MustParseAddr("93.184.216.1")}
	n.Names["down.com"] = []netip.Addr{netip.MustParseAddr("93.184.216.2")}
	n.Hosts[netip.MustParseAddrPort("93.184.216.1:80")] = odd.Addr().String()
	_, addr := n.serve(t, egress.Rules{Any: true})
	for host, code := range map[string]egress.Code{"odd.com": egress.UpstreamInvalid, "down.com": egress.DialFailed, "gone.com": egress.HostUnresolved} {
		if got := say(t, addr, "GET http://"+host+"/ HTTP/1.1\r\nHost: "+host+"\r\nAUTH\r\n"); !strings.HasPrefix(got, "HTTP/1.1 502 ") || !strings.Contains(got, "\r\n\r\n"+string(code)+": ") {
			t.Errorf("%s: %q", host, got)
		}
	}
}

// A job whose proxy has died reaches nothing.
func TestTheProxyDiesMidJob(t *testing.T) {
	t.Parallel()
	n, _, _ := internet(t)
	p, addr := n.serve(t, egress.Rules{Hosts: []string{"a.com"}})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "CONNECT a.com:443 HTTP/1.1\r\nProxy-Authorization: Basic am9iOnMzY3JldA==\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(c)
	if _, err := br.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if _, err := io.ReadAll(br); err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	if other, err := net.Dial("tcp", addr); err == nil { // another process may have taken the port: then nothing is counted below
		_, _ = io.WriteString(other, "CONNECT a.com:443 HTTP/1.1\r\nProxy-Authorization: Basic am9iOnMzY3JldA==\r\n\r\n")
		_ = other.(*net.TCPConn).CloseWrite()
		_, _ = bufio.NewReader(other).ReadString('\n')
		_ = other.Close()
	}
	if h := p.Used().Hosts; len(h) != 1 || h[0].Host != "a.com" || h[0].Requests != 1 {
		t.Errorf("%+v", h)
	}
}

func TestServeEndsWithItsListener(t *testing.T) {
	t.Parallel()
	p, err := egress.New(egress.Rules{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	done := make(chan struct{})
	go func() { p.Serve(l); close(done) }()
	open, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(open, "GET"); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	<-done
	if _, err := io.ReadAll(open); err == nil {
		_ = open.Close()
	}
}

// The record has a size limit, and hosts that do not fit are not reached.
func TestTheRecordIsBounded(t *testing.T) {
	t.Parallel()
	a := netip.MustParseAddr("93.184.216.2")
	n := net1{&egresstest.Internet{Names: map[string][]netip.Addr{}}}
	p, addr := n.serve(t, egress.Rules{Hosts: []string{"*.a.com"}})
	for i := range 300 {
		n.Names[strconv.Itoa(i)+".a.com"] = []netip.Addr{a}
		say(t, addr, fmt.Sprintf("GET http://%d.b.com/ HTTP/1.1\r\nHost: %d.b.com\r\nAUTH\r\n", i, i))
	}
	if u := p.Used(); len(u.Hosts) != 256 || u.Omitted != 44 {
		t.Errorf("%d rows, %d omitted", len(u.Hosts), u.Omitted)
	}
	for i := range 257 {
		got := say(t, addr, fmt.Sprintf("GET http://%d.a.com/ HTTP/1.1\r\nHost: %d.a.com\r\nAUTH\r\n", i, i))
		if strings.Contains(got, "too_many_hosts") != (i == 256) {
			t.Fatalf("%d: %q", i, got)
		}
	}
	if len(n.Dialed()) != 256 {
		t.Errorf("%d hosts were dialed", len(n.Dialed()))
	}
	secret := "http://user:hunter2@" + strings.Repeat("x", 300) + "\x1b/secret?key=1"
	p, addr = n.serve(t, egress.Rules{})
	say(t, addr, "GET "+strings.ReplaceAll(secret, "\x1b", "é")+" HTTP/1.1\r\nAUTH\r\n")
	say(t, addr, "GET "+strings.ReplaceAll(secret, "\x1b", "~")+" HTTP/1.1\r\nAUTH\r\n")
	for _, h := range p.Used().Hosts {
		if len(h.Host) > 101 || strings.Contains(h.Host, "hunter2") || strings.Contains(h.Host, "secret") {
			t.Errorf("%q", h.Host)
		}
	}
}

// Not parallel: it sets the environment.
func TestAProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	l := listen(t)
	for _, k := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		t.Setenv(k, "http://"+l.Addr().String())
	}
	n, c, via := internet(t)
	_, addr := n.serve(t, egress.Rules{Hosts: []string{"a.com"}})
	via(addr)
	for _, u := range []string{"http://a.com/", "https://a.com/"} {
		if code, _ := get(t, c, u); code != 200 {
			t.Errorf("%s: %d", u, code)
		}
	}
	want := []string{"HTTPS_PROXY=http://job:x@h:1", "HTTP_PROXY=http://job:x@h:1", "https_proxy=http://job:x@h:1", "http_proxy=http://job:x@h:1"}
	if diff := cmp.Diff(want, egress.Environ("h:1", "x")); diff != "" {
		t.Error(diff)
	}
}

func TestRulesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"": "not a host name", "*": "star", "a.*.com": "star", "*a.com": "star", "*.com": "all of .com", "http://a.com": "not a host name", "a.com:80": "not a host name", "bücher.de": "xn--",
		"10.0.0.1": "not a public address", "::1": "not a public address", "[::ffff:1.1.1.1]": "not a host name", "*.1.1.1.1": "no subdomains", "0x7f.1": "not a host name", "a com": "not a host name", " a.com": "not a host name",
		"a..b": "not a host name", "-a.com": "not a host name", "a-.com": "not a host name", "a.com/x": "not a host name", "*.*.com": "star", strings.Repeat("a", 64) + ".com": "not a host name", strings.Repeat("a.", 130) + "com": "not a host name",
	} {
		if err := egress.CheckHost(host); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", host, err)
		}
		if _, err := egress.New(egress.Rules{Hosts: []string{"a.com", host}, Token: token}); err == nil {
			t.Errorf("%q is a rule", host)
		}
	}
	for _, host := range []string{"example.com", "*.example.com", "a-b.x1", "a_b.com", "localhost", "EXAMPLE.com.", "1.1.1.1", "2606:4700::1111"} {
		if err := egress.CheckHost(host); err != nil {
			t.Error(err)
		}
	}
	for _, r := range []egress.Rules{{}, {Token: "x", Ports: []uint16{0}}, {Token: "x", Up: -1}} {
		if _, err := egress.New(r); err == nil {
			t.Errorf("%+v", r)
		}
	}
}
