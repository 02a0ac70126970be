package egress

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"
)

// The dialer of a real proxy refuses by itself, whatever chose the address.
func TestTheDialerReachesNothingInside(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Logf("%s: %v", at, err)
			continue
		}
		a := netip.MustParseAddrPort(l.Addr().String())
		c, err := connect(t.Context(), a)
		if c != nil {
			_ = c.Close()
		}
		var r *refusal
		if !errors.As(err, &r) || r.code != AddressNotPublic {
			t.Errorf("%s: %v", a, err)
		}
		mapped := netip.AddrPortFrom(netip.AddrFrom16(a.Addr().As16()), a.Port())
		if c, err := connect(t.Context(), mapped); err == nil {
			_ = c.Close()
			t.Errorf("%s was dialed", mapped)
		}
		_ = l.Close()
	}
}

var grants = []string{"a.com", "*.b.org", "xn--bcher-kva.de", "1.1.1.1", "2606:4700::1111"}

// allowed is the rule in another form: an oracle for the real one.
var allowed = regexp.MustCompile(`^(?i:a\.com|xn--bcher-kva\.de|([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+b\.org)\.?$|^1\.1\.1\.1\.?$`)

func FuzzProxyHost(f *testing.F) {
	for _, s := range []string{"a.com", "A.COM.", "a.com..", "evil-a.com", "evilb.org", "evil-b.org", "x.b.org", "b.org", ".b.org", "x.y.b.org", "-x.b.org", "a.com\x00", "a.com@b", "a.com%00.b.org", "1.1.1.1", "01.1.1.1",
		"1.1.1.1.", "16843009", "0x1010101", "[2606:4700::1111]", "[2606:4700:0::1111]", "[::ffff:1.1.1.1]", "2606:4700::1111", "a.com:80", "a。com", "ａ.com", "xn--bcher-kva.de", "bücher.de", "K.b.org", "x_y.b.org", "0x7f.b.org", "x.b.org.0x", "", ".", "*.b.org"} {
		f.Add(s)
	}
	rules, err := parseHosts(grants, false)
	if err != nil {
		f.Fatal(err)
	}
	anyone, err := parseHosts(nil, true)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		host, literal, err := parseHost(s)
		got := err == nil && rules.judge(target{host, literal, 443}) == ""
		want := allowed.MatchString(s) && len(strings.TrimSuffix(s, ".")) <= 253
		if in, ok := strings.CutPrefix(s, "["); ok {
			a, err := netip.ParseAddr(strings.TrimSuffix(in, "]"))
			want = err == nil && strings.HasSuffix(in, "]") && a == netip.MustParseAddr("2606:4700::1111")
		}
		if got != want {
			t.Fatalf("%q: allowed %v, the oracle says %v", s, got, want)
		}
		if err != nil {
			return
		}
		again, _, err := parseHost(target{host: host, literal: literal}.url())
		if err != nil || again != host {
			t.Fatalf("%q has the form %q, and that has %q, %v", s, host, again, err)
		}
		if strings.ContainsAny(host, "\x00@/\\%?# \r\n") || host != strings.ToLower(host) || !literal.IsValid() && strings.Contains(host, ":") {
			t.Fatalf("%q has the form %q", s, host)
		}
		// No other address parser may read an address in a name.
		if !literal.IsValid() && anyone.judge(target{host, literal, 443}) == "" && net.ParseIP(host) != nil {
			t.Fatalf("%q is an address", s)
		}
	})
}

// The proxy accepts only what net/http reads, and reads it in the same way.
func FuzzProxyHead(f *testing.F) {
	for _, s := range []string{"GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n", "CONNECT a.com:443 HTTP/1.1\r\nHost: a.com\r\n\r\n", "POST http://a.com:80/x?y HTTP/1.1\r\nHost: a.com\r\nContent-Length: 3\r\n\r\n",
		"POST http://a.com HTTP/1.1\r\nHost: A.com.\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n", "GET http://a.com@b.com/ HTTP/1.0\r\n\r\n", "GET http://[::1]/ HTTP/1.1\r\nHost: [::1]\r\n\r\n", "GET http://a.com\\b.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n", "GET http://a.com/%zz HTTP/1.1\r\nHost: a.com\r\n\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		raw, err := readHead(bufio.NewReaderSize(bytes.NewReader(b), maxHead))
		if err != nil {
			return
		}
		h, r := parseHead(raw)
		if r != nil {
			return
		}
		std, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			t.Fatalf("%q is accepted, and net/http says %v", raw, err)
		}
		u := *std.URL
		if std.Method == http.MethodConnect {
			u.Scheme = "http"
		}
		preset := uint16(80)
		if std.Method == http.MethodConnect {
			preset = 0
		}
		if got, err := parseTarget(u.Host, preset); err != nil || got != h.target {
			t.Fatalf("%q is for %+v, net/http says %+v, %v", raw, h.target, got, err)
		}
		if std.ContentLength != h.length || std.Method != h.verb {
			t.Fatalf("%q: %s %d bytes, net/http says %s %d", raw, h.verb, h.length, std.Method, std.ContentLength)
		}
		if h.url == nil {
			return
		}
		var sent bytes.Buffer
		out := h.request(http.NoBody)
		out.Body = nil
		if err := out.Write(&sent); err != nil {
			return // net/http will not send it, and the proxy reports that
		}
		back, err := http.ReadRequest(bufio.NewReader(&sent))
		if err != nil || back.Host != h.url.Host || len(back.Header["Proxy-Authorization"]) > 0 {
			t.Fatalf("%q is sent as %q, which reads as %+v, %v", raw, sent.Bytes(), back, err)
		}
	})
}
