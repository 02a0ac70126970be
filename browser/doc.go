// Package browser gives scripts of skills limited access to a browser on this machine. Anyone who
// has the address of a browser's DevTools protocol controls the whole browser: every page, every
// cookie, and files of the host. A script therefore never gets that address. It gets a separate
// loopback endpoint with a secret path, which
//
//   - uses one browser context, created for the lease and discarded with it, without the user's
//     cookies, sign-ins, and pages;
//   - forwards only listed methods, each one validated. None of them reads saved state, or reads
//     or writes files;
//   - pauses every document request of a page and rejects it unless it is for the lease's one
//     origin. This includes redirects, forms, and frames, also frames in separate processes;
//   - answers only while a script runs. The lease ends at its expiry time, with the run, or when a
//     page reaches another origin.
//
// Subresources that a page loads, such as images or scripts of other origins, are not restricted. A
// page that opens another page has it closed, but the request may already have been sent. A script
// on the host also has the host's network: the lease restricts the browser, not the script.
package browser

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"metier"
	"metier/internal/loopback"
)

// Lease is the browser access that an operator grants.
type Lease struct {
	Endpoint string    `json:"endpoint"` // of the browser: http or ws, a loopback address and a port
	Origin   string    `json:"origin"`   // http or https, a host, and a port unless it is the default
	Until    time.Time `json:"until"`    // expiry time; required
	Grants   []Grant   `json:"grants,omitempty"`
}

// Grant lets one script use the credentials that the configuration declares for
// its skill, on one origin.
type Grant struct {
	Script string `yaml:"script" json:"script"` // SKILL:scripts/PATH
	Origin string `yaml:"origin" json:"origin"`
}

// Options configure a lease. Nil and zero fields select the defaults.
type Options struct {
	Now func() time.Time
	// After calls f after d, unless stop is called first.
	After  func(d time.Duration, f func()) (stop func() bool)
	Logger *slog.Logger
}

func (o *Options) or() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Now == nil {
		out.Now = time.Now
	}
	if out.After == nil {
		out.After = func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

func invalid(hint, format string, a ...any) error {
	return &metier.Error{Op: "lease", Kind: metier.Invalid, Code: "lease_invalid", Hint: hint, Err: fmt.Errorf(format, a...)}
}

// Check validates a lease and returns it with normalized origins.
func (l Lease) Check() (Lease, error) {
	_, at, err := address(l.Endpoint)
	if err != nil {
		return l, err
	}
	origin, err := Origin(l.Origin)
	switch {
	case err != nil:
		return l, err
	case l.Until.IsZero():
		return l, invalid("set the end of the browser session", "a browser session needs an end time")
	case strings.HasSuffix(origin, "://"+at) || strings.HasSuffix(origin, "://"+strings.Replace(at, "127.0.0.1", "localhost", 1)):
		return l, invalid("name the origin of the page to work with", "the origin is the browser's own endpoint")
	}
	l.Origin, l.Until = origin, l.Until.Round(0) // use the wall clock: the monotonic clock stops while a machine sleeps
	grants := make([]Grant, 0, len(l.Grants))
	for _, g := range l.Grants {
		if g.Origin, err = Origin(g.Origin); err != nil {
			return l, err
		}
		grants = append(grants, g)
	}
	l.Grants = grants
	return l, nil
}

// address parses a browser endpoint and returns its address as IP:PORT.
func address(endpoint string) (u *url.URL, addr string, err error) {
	if u, addr, err = loopback.Endpoint(endpoint, "http", "ws"); err != nil {
		err = invalid("use http://127.0.0.1:PORT, where the browser was started with --remote-debugging-port=PORT", "the browser endpoint: %w", err)
	}
	return u, addr, err
}

// Origin parses an origin and normalizes it: lower case, no default port.
func Origin(s string) (string, error) {
	const hint = "write it as https://example.com or http://127.0.0.1:8080; a name with other letters in its xn-- form"
	u, err := url.Parse(s)
	if err != nil || u.Opaque != "" || u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.ForceQuery || strings.ContainsRune(s, '#') {
		return "", invalid(hint, "%q is not an origin", s)
	}
	o, err := originOf(s)
	if err != nil {
		return "", invalid(hint, "%q is not an origin: %w", s, err)
	}
	return o, nil
}

// originOf returns the origin of a web address.
func originOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	if scheme != "http" && scheme != "https" {
		return "", errors.New("its scheme is not http or https")
	}
	if host == "" || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`\%*<>^|"{}`, r) }) {
		return "", errors.New("it names no plain host")
	}
	if port == "" || port == defaultPort[scheme] {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		return scheme + "://" + host, nil
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

var defaultPort = map[string]string{"http": "80", "https": "443"}
