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

// Code says why a request was refused or ended early.
type Code string

// The codes. Each refusal that can still be answered is a status and one line
// that begins with the code.
const (
	RequestInvalid   Code = "request_invalid"      // 400: no request of HTTP/1, or one that two programs would read in two ways
	HeadTimeout      Code = "head_timeout"         // 408: the request did not arrive in time
	TokenWrong       Code = "token_wrong"          // 407: the job's token is missing or another's
	MethodNotAllowed Code = "method_not_allowed"   // 405
	SchemeNotAllowed Code = "scheme_not_allowed"   // 400: not http, and no tunnel
	HostInvalid      Code = "host_invalid"         // 400: no name and no address in its usual form
	HostMismatch     Code = "host_mismatch"        // 400: the field Host names another host than the request
	HostLiteral      Code = "host_literal"         // 403: an address that no rule names
	HostNotAllowed   Code = "host_not_allowed"     // 403: no rule fits
	PortNotAllowed   Code = "port_not_allowed"     // 403
	AddressNotPublic Code = "address_not_public"   // 403: the name leads to a private, local or special address
	HostUnresolved   Code = "host_unresolved"      // 502: the name has no address
	DialFailed       Code = "dial_failed"          // 502: no address of the host answers
	UpstreamInvalid  Code = "upstream_invalid"     // 502: the host's answer is no HTTP/1 response
	NotTLS           Code = "not_tls"              // a tunnel that does not begin with TLS
	NameMismatch     Code = "server_name_mismatch" // TLS for another host than the tunnel's
	BytesUp          Code = "bytes_up"             // 403: the job sent what it may send
	BytesDown        Code = "bytes_down"           // 403: the job got what it may get
	Idle             Code = "idle"                 // 504: no byte for Rules.Idle
	TooManyOpen      Code = "too_many_connections" // 503
	TooManyHosts     Code = "too_many_hosts"       // 403: the record is full, and nothing is reached off the record
)

var status = map[Code]int{RequestInvalid: 400, HeadTimeout: 408, TokenWrong: 407, MethodNotAllowed: 405, SchemeNotAllowed: 400, HostInvalid: 400,
	HostMismatch: 400, HostUnresolved: 502, DialFailed: 502, UpstreamInvalid: 502, TooManyOpen: 503, Idle: 504}

// Status is the HTTP status a refusal with this code is answered with.
func (c Code) Status() int {
	if s := status[c]; s != 0 {
		return s
	}
	return http.StatusForbidden
}

// refusal is a reason in words that hold nothing a job wrote but what is quoted.
type refusal struct {
	code Code
	text string
}

func (r *refusal) Error() string { return string(r.code) + ": " + r.text }

func refuse(code Code, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// Host is one row of the record: requests with the same target and end.
type Host struct {
	Host      string   `json:"host"` // in its one form; where it has none, what was asked for, quoted, at most 100 bytes of it
	Port      uint16   `json:"port,omitempty"`
	Method    string   `json:"method,omitempty"` // connect or http; "" where the request could not be read
	Code      Code     `json:"code,omitempty"`   // "": allowed, and ended by one of its ends
	Requests  int      `json:"requests"`
	Addresses []string `json:"addresses,omitempty"` // dialed; at most 8, in the order they were first used
	Up        int64    `json:"up"`                  // bytes sent to the host
	Down      int64    `json:"down"`                // bytes it sent
}

// Record is all a job asked for.
type Record struct {
	Hosts    []Host `json:"hosts"`             // by host, port, method, code
	Omitted  int    `json:"omitted,omitempty"` // refused requests beyond the 256 rows that are kept of them
	Up, Down int64
}

type rowKey struct {
	host   string
	port   uint16
	method string
	code   Code
}

// book is the record while it is written.
type book struct {
	mu       sync.Mutex
	rows     map[rowKey]*Host
	reached  int // rows of allowed requests
	refused  int
	omitted  int
	up, down int64
}

// Used is what the job asked for so far.
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

// row finds or makes a row; nil: there is no room.
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

// begin keeps a row for a request that is about to be let through; false: the
// record is full.
func (b *book) begin(k rowKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.row(rowKey{k.host, k.port, k.method, ""}) != nil
}

// end writes down how a request ended.
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

// spend counts n bytes of up or down and says how many of them are within
// limit.
func (b *book) spend(total *int64, n int, limit int64) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	ok := int(min(int64(n), max(0, limit-*total)))
	*total += int64(ok)
	return ok
}

// spent says whether nothing is left of up or down.
func (b *book) spent(total *int64, limit int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return *total >= limit
}

// asked is what may be written down of a target that has no one form: neither
// the path of a URL nor credentials in it.
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

// quoted makes a fact of what a job wrote: printable ASCII, and short.
func quoted(s string) string {
	if len(s) > 100 {
		s = s[:100]
	}
	q := strconv.QuoteToASCII(s)
	return q[1:min(len(q)-1, 101)]
}
