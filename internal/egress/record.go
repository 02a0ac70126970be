package egress

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Code is the reason why a request was refused or ended early.
type Code string

// Codes of refusals. If a response can still be sent, it has the status and one line that begins
// with the code.
const (
	RequestInvalid   Code = "request_invalid"      // 400: not an HTTP/1 request, or ambiguous
	HeadTimeout      Code = "head_timeout"         // 408: the request did not arrive in time
	TokenWrong       Code = "token_wrong"          // 407: the job's token is missing or wrong
	MethodNotAllowed Code = "method_not_allowed"   // 405
	SchemeNotAllowed Code = "scheme_not_allowed"   // 400: not http, and not a tunnel
	HostInvalid      Code = "host_invalid"         // 400: neither a name nor an address in canonical form
	HostMismatch     Code = "host_mismatch"        // 400: the Host field differs from the requested host
	HostLiteral      Code = "host_literal"         // 403: an address without a rule
	HostNotAllowed   Code = "host_not_allowed"     // 403: no rule matches
	PortNotAllowed   Code = "port_not_allowed"     // 403
	AddressNotPublic Code = "address_not_public"   // 403: the name resolves to a private, local, or special address
	HostUnresolved   Code = "host_unresolved"      // 502: the name has no address
	DialFailed       Code = "dial_failed"          // 502: no address of the host accepts connections
	UpstreamInvalid  Code = "upstream_invalid"     // 502: the host's response is not HTTP/1
	NotTLS           Code = "not_tls"              // a tunnel that does not begin with TLS
	NameMismatch     Code = "server_name_mismatch" // TLS for a different host than the tunnel's
	BytesUp          Code = "bytes_up"             // 403: the job sent as many bytes as it may
	BytesDown        Code = "bytes_down"           // 403: the job received as many bytes as it may
	Idle             Code = "idle"                 // 504: no data for Rules.Idle
	TooManyOpen      Code = "too_many_connections" // 503
	TooManyHosts     Code = "too_many_hosts"       // 403: the record is full, and unrecorded access is not allowed
)

var status = map[Code]int{RequestInvalid: 400, HeadTimeout: 408, TokenWrong: 407, MethodNotAllowed: 405, SchemeNotAllowed: 400, HostInvalid: 400,
	HostMismatch: 400, HostUnresolved: 502, DialFailed: 502, UpstreamInvalid: 502, TooManyOpen: 503, Idle: 504}

// Status returns the HTTP status of a refusal with this code.
func (c Code) Status() int {
	if s := status[c]; s != 0 {
		return s
	}
	return http.StatusForbidden
}

// refusal is a reason in words. Anything in it that the job wrote is quoted.
type refusal struct {
	code Code
	text string
}

func (r *refusal) Error() string { return string(r.code) + ": " + r.text }

func refuse(code Code, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// Host is an entry of the record: requests with the same target and outcome.
type Host struct {
	Host      string   `json:"host"` // in canonical form, or at most 100 bytes of the requested host, quoted, if it has none
	Port      uint16   `json:"port,omitempty"`
	Method    string   `json:"method,omitempty"` // connect or http; "" where the request could not be read
	Code      Code     `json:"code,omitempty"`   // "": allowed, and ended by one of its ends
	Requests  int      `json:"requests"`
	Addresses []string `json:"addresses,omitempty"` // dialed; at most 8, in order of first use
	Up        int64    `json:"up"`                  // bytes sent to the host
	Down      int64    `json:"down"`                // bytes received from the host
}

// Record lists all requests of a job.
type Record struct {
	Hosts    []Host `json:"hosts"`             // by host, port, method, code
	Omitted  int    `json:"omitted,omitempty"` // refused requests beyond the 256 recorded entries
	Up, Down int64
}

type rowKey struct {
	host   string
	port   uint16
	method string
	code   Code
}

// book is the record while it is being written.
type book struct {
	mu       sync.Mutex
	rows     map[rowKey]*Host
	reached  int // entries of allowed requests
	refused  int
	omitted  int
	up, down int64
}

// Used returns the requests of the job so far.
func (p *Proxy) Used() Record {
	b := &p.book
	b.mu.Lock()
	defer b.mu.Unlock()
	out := Record{Hosts: make([]Host, 0, len(b.rows)), Omitted: b.omitted, Up: b.up, Down: b.down}
	for _, h := range b.rows {
		if h.Requests > 0 {
			row := *h
			row.Addresses = slices.Clone(h.Addresses)
			out.Hosts = append(out.Hosts, row)
		}
	}
	slices.SortFunc(out.Hosts, func(a, b Host) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Method, b.Method), cmp.Compare(a.Code, b.Code))
	})
	return out
}

// row finds or creates an entry. It returns nil if the record is full.
func (b *book) row(k rowKey) *Host {
	if h := b.rows[k]; h != nil {
		return h
	}
	n := &b.refused
	if k.code == "" {
		n = &b.reached
	}
	if *n >= maxRows {
		return nil
	}
	*n++
	h := &Host{Host: k.host, Port: k.port, Method: k.method, Code: k.code}
	b.rows[k] = h
	return h
}

// begin reserves an entry for a request that is about to be allowed. It returns false if the record
// is full.
func (b *book) begin(k rowKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.row(rowKey{k.host, k.port, k.method, ""}) != nil
}

// end records how a request ended.
func (b *book) end(k rowKey, address string, up, down int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.row(k)
	if h == nil {
		b.omitted++
		return
	}
	h.Requests++
	h.Up += up
	h.Down += down
	if address != "" && len(h.Addresses) < 8 && !slices.Contains(h.Addresses, address) {
		h.Addresses = append(h.Addresses, address)
	}
}

// spend adds n bytes to total, which counts sent or received bytes. It returns how many of them are
// within limit.
func (b *book) spend(total *int64, n int, limit int64) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	ok := int(min(int64(n), max(0, limit-*total)))
	*total += int64(ok)
	return ok
}

// spent reports whether the limit is used up.
func (b *book) spent(total *int64, limit int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return *total >= limit
}

// asked returns the part of an invalid target that may be recorded: without the path of a URL and
// without credentials.
func asked(s string) string {
	if _, rest, ok := strings.Cut(s, "://"); ok {
		s = rest
	}
	s, _, _ = strings.Cut(s, "/")
	s, _, _ = strings.Cut(s, "?")
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		s = s[i:]
	}
	return quoted(s)
}

// quoted converts text from a job for the record: printable ASCII, and short.
func quoted(s string) string {
	if len(s) > 100 {
		s = s[:100]
	}
	q := strconv.QuoteToASCII(s)
	return q[1:min(len(q)-1, 101)]
}
