package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/internal/egress"
	"metier/internal/intake"
	"metier/internal/peeruser"
)

// Access restricts who may call over HTTP.
type Access struct {
	// Tokens are the bearer tokens by principal. If empty, everyone who can reach the address may
	// call, except as SameUser says.
	Tokens map[string]string
	// SameUser admits only programs on this machine that run as the same user, or as root. Only
	// on Linux can their user be determined; elsewhere, all requests are refused.
	SameUser bool
	// Hosts are the allowed values of the Host header, with or without a port, besides loopback
	// names. Rejecting others prevents DNS rebinding.
	Hosts []string
	// Origins are the web pages that may call, such as https://example.org. A request without an
	// Origin header passes this check.
	Origins []string
}

// Check returns an error for a host or an origin that no request could match.
func (a Access) Check() error {
	for _, h := range a.Hosts {
		if !isHost(h) {
			return metier.Fieldf(metier.Invalid, "Access.Hosts", "usage", "use a host name such as skills.example.org or skills.example.org:8443, without a scheme, a path, or a wildcard", "Access.Hosts: %q is not a host name", h)
		}
	}
	for _, o := range a.Origins {
		if normalOrigin(o) == "" {
			return metier.Fieldf(metier.Invalid, "Access.Origins", "usage", "use the scheme, the host, and the port of the web page, such as https://app.example.org or http://localhost:3000, without a path or a wildcard", "Access.Origins: %q is not an origin", o)
		}
	}
	return nil
}

// isHost reports whether text is a host, with or without a port.
func isHost(text string) bool {
	host := text
	if h, port, err := net.SplitHostPort(text); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
		if host = h; strings.Contains(h, ":") {
			host = "[" + h + "]"
		}
	}
	_, err := egress.Form(host)
	return err == nil && !strings.HasSuffix(host, ".")
}

const (
	mostBody    = 4 << 20  // bytes of a request
	mostValues  = 250_000  // in a request
	mostBatch   = 32       // messages in a request
	mostKept    = 16 << 10 // bytes of what a session can keep of one message
	keptValues  = 1000     // JSON values in it
	largeBody   = 64 << 10 // a request with more is large
	idleSession = 30 * time.Minute
)

// Handler serves the streamable HTTP transport. Requests of 2026-07-28 and later are stateless;
// older clients use sessions.
func (s *Server) Handler(a Access) http.Handler {
	get := func(*http.Request) *mcp.Server { return s.mcp }
	// Access.host is stricter than the library's localhost protection and knows the allowed hosts.
	single := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true, Logger: s.opts.Logger, MaxRequestBodyBytes: mostBody, PropagateRequestCancellation: true, DisableLocalhostProtection: true})
	legacy := &mcp.StreamableHTTPOptions{Logger: s.opts.Logger, MaxRequestBodyBytes: mostBody, SessionTimeout: idleSession, DisableLocalhostProtection: true}
	if s.opts.Resume > 0 {
		kept := mcp.NewMemoryEventStore(nil)
		kept.SetMaxBytes(s.opts.Resume)
		legacy.EventStore = kept
	}
	sessions := mcp.NewStreamableHTTPHandler(get, legacy)
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isStateless(r) {
			single.ServeHTTP(w, r)
			return
		}
		if r.Method == http.MethodDelete { // the library waits for the session's running calls
			s.sessions.ends(r.Header.Get("Mcp-Session-Id"), userOf(auth.TokenInfoFromContext(r.Context())))
		}
		sessions.ServeHTTP(w, r)
	})
	h = s.held(bounded(h))
	if len(a.Tokens) > 0 {
		const challenge = "WWW-Authenticate"
		answer := h
		known := auth.RequireBearerToken(a.verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Del(challenge)
			admitted(r.Context(), userOf(auth.TokenInfoFromContext(r.Context())))
			answer.ServeHTTP(w, r)
		}))
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(challenge, "Bearer") // for the response that refuses the request
			known.ServeHTTP(w, r)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := a.user(r); err != nil {
			s.opts.Logger.Info("refused a client", "reason", err)
			http.Error(w, "only programs run by the user who started this server can call it; its operator can require tokens instead", http.StatusForbidden)
			return
		}
		if len(a.Tokens) == 0 {
			admitted(r.Context(), "")
		}
		if !a.host(r.Host) {
			http.Error(w, "this server does not have that host name; its operator can allow it", http.StatusMisdirectedRequest)
			return
		}
		if o := r.Header.Get("Origin"); o != "" && !a.origin(o, scheme(r)+"://"+r.Host) {
			http.Error(w, "pages from that origin cannot call this server; its operator can allow it", http.StatusForbidden)
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			due := http.NewResponseController(w)
			_ = due.SetReadDeadline(time.Now().Add(s.opts.Body)) // ignored if w has no deadlines; it must set its own limit
			r.Body = &coming{ReadCloser: r.Body, guard: intake.Guard{Many: mostValues}, whole: func() { _ = due.SetReadDeadline(time.Time{}) }}
		}
		h.ServeHTTP(w, r)
	})
}

// scheme returns the scheme of a request as received by this process. Forwarding headers can be
// forged, so a TLS proxy in front must be allowed with --allow-origin.
func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// coming is a request body with a read deadline, which is cleared once the body is complete.
type coming struct {
	io.ReadCloser
	whole func()
	guard intake.Guard
}

func (c *coming) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	if bad := c.guard.See(b[:n]); bad != nil {
		return 0, bad
	}
	if err == io.EOF {
		c.whole()
	}
	return n, err
}

type readAgain struct {
	io.Reader
	io.Closer
}

// isStateless reports whether a request is of a revision without sessions.
func isStateless(r *http.Request) bool {
	return r.Header.Get("Mcp-Session-Id") == "" && r.Header.Get("Mcp-Protocol-Version") >= stateless
}

// bounded rejects a large request while too many others are active, one of which too much would be
// kept, a batch of too many messages, and a body that is not exactly one JSON value, so that
// the library reads what was checked. It also reports bodies that are nested too deeply or have too
// many values, for which the library's error would be vague.
func bounded(next http.Handler) http.Handler {
	l := &room{most: mostLarge, ofOne: mostOfOne}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			b, err := io.ReadAll(io.LimitReader(r.Body, mostBody+1))
			if err == nil && len(b) > 0 && len(b) <= mostBody && !json.Valid(b) {
				err = errors.New("the body is not one JSON value") // the library reads the first of several
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			if why := keptTooMuch(b, !isStateless(r) && r.Header.Get("Mcp-Session-Id") == ""); why != "" {
				http.Error(w, why, http.StatusRequestEntityTooLarge)
				return
			}
			if batched(b) {
				http.Error(w, fmt.Sprintf("more than %d messages in one request; send fewer at a time", mostBatch), http.StatusBadRequest)
				return
			}
			r.Body = readAgain{io.MultiReader(bytes.NewReader(b), r.Body), r.Body} // the rest of what is too large
		}
		next.ServeHTTP(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength >= 0 && r.ContentLength <= largeBody {
			h.ServeHTTP(w, r)
			return
		}
		by := userOf(auth.TokenInfoFromContext(r.Context()))
		if !l.take(by, 1) {
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Connection", "close") // otherwise the body is read first
			http.Error(w, "too many large requests at a time; send this one again", http.StatusServiceUnavailable)
			return
		}
		defer l.give(by, 1)
		h.ServeHTTP(w, r)
	})
}

// verify compares against every token, so that its timing reveals nothing.
func (a Access) verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	given, found := sha256.Sum256([]byte(token)), ""
	for who, t := range a.Tokens {
		if sum := sha256.Sum256([]byte(t)); subtle.ConstantTimeCompare(sum[:], given[:]) == 1 {
			found = who
		}
	}
	if found == "" {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: found}, nil
}

// user returns why the user whose program sent a request may not call, or nil.
func (a Access) user(r *http.Request) error {
	if !a.SameUser {
		return nil
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	remote, err := net.ResolveTCPAddr("tcp", r.RemoteAddr)
	if err != nil {
		return err
	}
	return peeruser.Allowed(local, remote)
}

// host reports whether a request may use host to call this server.
func (a Access) host(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() || strings.EqualFold(name, "localhost") {
		return true
	}
	return slices.ContainsFunc(a.Hosts, func(h string) bool {
		return strings.EqualFold(strings.Trim(h, "[]"), name) || strings.EqualFold(h, host)
	})
}

// origin reports whether a web page may call: one with the scheme, host, and port of this address,
// or of an allowed origin. A default port may be omitted.
func (a Access) origin(origin, self string) bool {
	from := normalOrigin(origin)
	return from != "" && (from == normalOrigin(self) || slices.ContainsFunc(a.Origins, func(o string) bool { return from == normalOrigin(o) }))
}

// normalOrigin returns an origin in lower case with its port, or "" if text is not an origin, such
// as null.
func normalOrigin(text string) string {
	u, err := url.Parse(strings.TrimSuffix(text, "/"))
	if err != nil || u.Scheme == "" || !isHost(u.Host) || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Scheme + "://" + net.JoinHostPort(u.Hostname(), port))
}
