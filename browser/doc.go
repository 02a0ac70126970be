// Package browser lends a browser that runs on this machine to scripts of
// skills. Who holds the address of a browser's DevTools protocol holds the whole
// browser: every page, every cookie, and files of the host. So a script never
// gets that address. It gets an endpoint of the lease's own on loopback, with a
// path nobody can guess, which
//
//	has one browser context, made for the lease and thrown away with it: no
//	    cookie, sign-in or page of whoever uses the browser is in it
//	passes on the methods of a list, checked one by one, and no others: none
//	    that reads saved state, or reads or writes files
//	has every document that a page asks for stopped before it is sent, and
//	    refused unless it is of the lease's one origin: redirects, forms and
//	    frames too, those that the browser keeps in processes of their own as well
//	answers only while a script runs, until the lease ends: at its time, with
//	    the run, or when a page is somewhere else after all
//
// What a page itself loads, pictures or scripts of other origins, is the page's
// matter. A page that it opens is closed, and may have been asked for by then. A
// script on the host has the host's network besides: the lease bounds the
// browser, not the script.
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

// Lease is what an operator lends.
type Lease struct {
	Endpoint string    `json:"endpoint"` // the browser's own: http or ws, a loopback address and a port
	Origin   string    `json:"origin"`   // http or https, a host, and a port unless it is the scheme's
	Until    time.Time `json:"until"`    // when it ends; it has to
	Grants   []Grant   `json:"grants,omitempty"`
}

// Grant lets one script use the credentials that the configuration declares for
// its skill, on one origin.
type Grant struct {
	Script string `yaml:"script" json:"script"` // SKILL:scripts/PATH
	Origin string `yaml:"origin" json:"origin"`
}

// Options of a lease. Nil, and zero fields, are defaults.
type Options struct {
	Now func() time.Time
	// After calls f once d has passed, unless stop is called before.
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

// Check says what is wrong with a lease, and gives it with its origins in their
// plain form.
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
		return l, invalid("name the origin of the page that is worked with", "the origin is the browser's own endpoint")
	}
	l.Origin, l.Until = origin, l.Until.Round(0) // by the wall clock: a machine that sleeps stops the other one
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

// address is where a browser's endpoint is, as IP:PORT.
func address(endpoint string) (u *url.URL, addr string, err error) {
	if u, addr, err = loopback.Endpoint(endpoint, "http", "ws"); err != nil {
		err = invalid("name it as http://127.0.0.1:PORT, where the browser was started with --remote-debugging-port=PORT", "the endpoint of the browser: %w", err)
	}
	return u, addr, err
}

// Origin reads an origin and gives its plain form: lower case, no port where it
// is the scheme's own.
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

// originOf is the origin of an address of the web.
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
