package egress

import (
	"bufio"
	"bytes"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Request methods.
const (
	methodConnect = "connect"
	methodHTTP    = "http"
)

// head is a request without its body. It is parsed so strictly that no program after this one can
// interpret it differently.
type head struct {
	verb   string
	target target
	url    *url.URL // of a plain request
	minor  int      // HTTP/1.minor
	fields http.Header
	length int64 // of the body; -1: chunked
	expect bool  // the client waits for 100 Continue
}

// method returns the method name used in the record.
func (h *head) method() string {
	if h.verb == http.MethodConnect {
		return methodConnect
	}
	return methodHTTP
}

// readHead reads up to the empty line, at most maxHead bytes.
func readHead(r *bufio.Reader) ([]byte, error) {
	var out []byte
	for {
		line, err := r.ReadSlice('\n')
		out = append(out, line...)
		switch {
		case len(out) > maxHead || errors.Is(err, bufio.ErrBufferFull):
			return out, refuse(RequestInvalid, "the request's head is longer than %d bytes", maxHead)
		case err != nil:
			return out, err
		case string(line) == "\r\n":
			return out, nil
		}
	}
}

// parseHead parses the result of readHead. The head is not nil once it has anything to record, even
// if the request is refused.
func parseHead(raw []byte) (*head, *refusal) {
	text, ok := bytes.CutSuffix(raw, []byte("\r\n\r\n"))
	lines := strings.Split(string(text), "\r\n")
	switch {
	case !ok || strings.ContainsAny(strings.Join(lines, ""), "\r\n\x00"):
		return nil, refuse(RequestInvalid, "its lines do not end in CR LF")
	case len(lines)-1 > maxFields:
		return nil, refuse(RequestInvalid, "it has more than %d fields", maxFields)
	}
	first := strings.Split(lines[0], " ")
	if len(first) != 3 || !isToken(first[0]) || first[1] == "" || strings.ContainsFunc(first[1], notInURL) {
		return nil, refuse(RequestInvalid, "its first line is not METHOD TARGET HTTP/1.1")
	}
	h := &head{verb: first[0], fields: http.Header{}}
	h.target.host = asked(first[1])
	switch first[2] {
	case "HTTP/1.1":
		h.minor = 1
	case "HTTP/1.0":
	default:
		return h, refuse(RequestInvalid, "the proxy speaks HTTP/1.1 and HTTP/1.0")
	}
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) || strings.ContainsFunc(value, isControl) {
			return h, refuse(RequestInvalid, "a field is not NAME: VALUE")
		}
		h.fields.Add(textproto.CanonicalMIMEHeaderKey(name), strings.Trim(value, " \t"))
	}
	if r := h.aim(first[1]); r != nil {
		return h, r
	}
	if r := h.sameHost(); r != nil {
		return h, r
	}
	return h, h.frame()
}

// aim parses the target of the request line.
func (h *head) aim(s string) *refusal {
	var err error
	if h.verb == http.MethodConnect {
		if t, err := parseTarget(s, 0); err == nil {
			h.target = t
			return nil
		}
		return refuse(HostInvalid, "request a tunnel as CONNECT host:port")
	}
	if h.verb == http.MethodTrace {
		return refuse(MethodNotAllowed, "the proxy does not forward TRACE")
	}
	scheme, rest, ok := strings.Cut(s, "://")
	switch {
	case !ok:
		return refuse(RequestInvalid, "this is a proxy: it takes GET http://host/ and CONNECT host:port")
	case !strings.EqualFold(scheme, "http"):
		return refuse(SchemeNotAllowed, "only http is forwarded; use CONNECT for other schemes")
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority = rest[:i]
	}
	t, err := parseTarget(authority, 80)
	if err != nil {
		return refuse(HostInvalid, "the URL's host is neither a name nor an address in its usual form")
	}
	h.target = t
	if h.url, err = url.Parse(s); err != nil || h.url.Host != authority || h.url.User != nil || h.url.Opaque != "" {
		return refuse(RequestInvalid, "this is not a URL")
	}
	h.url.Host = t.url()
	if t.port != 80 {
		h.url.Host += ":" + strconv.Itoa(int(t.port))
	}
	return nil
}

// sameHost checks the Host field against the target. A tunnel's client may omit it, or omit its
// port.
func (h *head) sameHost() *refusal {
	hosts := h.fields["Host"]
	connect := h.verb == http.MethodConnect
	switch {
	case len(hosts) > 1:
		return refuse(RequestInvalid, "it has more than one Host field")
	case len(hosts) == 0 && (connect || h.minor == 0):
		return nil
	case len(hosts) == 0:
		return refuse(RequestInvalid, "it has no Host field")
	}
	preset := uint16(80)
	if connect {
		preset = h.target.port
	}
	if t, err := parseTarget(hosts[0], preset); err != nil || t != h.target {
		return refuse(HostMismatch, "the Host field names another host than the request")
	}
	return nil
}

// frame determines where the body ends. It refuses ambiguous framing.
func (h *head) frame() *refusal {
	lengths, codings := h.fields["Content-Length"], h.fields["Transfer-Encoding"]
	switch {
	case len(lengths)+len(codings) == 0:
	case h.verb == http.MethodConnect:
		return refuse(RequestInvalid, "CONNECT has no body")
	case len(lengths)+len(codings) > 1:
		return refuse(RequestInvalid, "its body length is declared more than once")
	case len(codings) == 1:
		if h.minor == 0 || !strings.EqualFold(codings[0], "chunked") {
			return refuse(RequestInvalid, "its body has an encoding that the proxy does not support")
		}
		h.length = -1
	default:
		n, err := strconv.ParseInt(lengths[0], 10, 64)
		if err != nil || strings.ContainsFunc(lengths[0], func(r rune) bool { return r < '0' || r > '9' }) {
			return refuse(RequestInvalid, "its Content-Length is not a number")
		}
		h.length = n
	}
	for _, e := range h.fields["Expect"] {
		if !strings.EqualFold(e, "100-continue") {
			return refuse(RequestInvalid, "the proxy supports only Expect: 100-continue")
		}
		h.expect = h.minor == 1 && h.length != 0
	}
	return nil
}

// hasToken compares the job's credentials in constant time.
func (h *head) hasToken(token string) bool {
	got := h.fields["Proxy-Authorization"]
	if len(got) != 1 {
		return false
	}
	scheme, sent, _ := strings.Cut(got[0], " ")
	want := base64.StdEncoding.EncodeToString([]byte(User + ":" + token))
	return strings.EqualFold(scheme, "Basic") && subtle.ConstantTimeCompare([]byte(strings.TrimSpace(sent)), []byte(want)) == 1
}

// hops are the hop-by-hop fields.
var hops = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect"}

// endToEnd removes hop-by-hop fields from h.
func endToEnd(h http.Header) {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for name := range h {
		if slices.Contains(hops, name) || strings.HasPrefix(name, "Proxy-") {
			delete(h, name)
		}
	}
}

// request builds the request for the host from the parsed fields.
func (h *head) request(body io.Reader) *http.Request {
	fields := h.fields.Clone()
	endToEnd(fields)
	fields.Del("Host")
	fields.Del("Content-Length")
	if fields["User-Agent"] == nil {
		fields["User-Agent"] = []string{""} // otherwise Go adds its own
	}
	r := &http.Request{Method: h.verb, URL: h.url, Host: h.url.Host, Header: fields, ContentLength: h.length,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody}
	if h.length != 0 {
		r.Body = io.NopCloser(body)
	}
	return r
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// notInURL reports whether a character must not appear in a URL: white space, control characters,
// and non-ASCII characters must be percent-encoded, some programs read a backslash as a slash, and
// a fragment is never sent.
func notInURL(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' || r == '#' }
