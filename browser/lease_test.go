package browser_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unsafe"

	"metier"
	"metier/browser"
)

func TestOriginsHaveOneForm(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"https://app.example":            "https://app.example",
		"HTTPS://App.Example:443/":       "https://app.example",
		"http://app.example:80":          "http://app.example",
		"http://app.example:443":         "http://app.example:443",
		"http://127.0.0.1:8080":          "http://127.0.0.1:8080",
		"http://[::1]:8080":              "http://[::1]:8080",
		"http://[::1]":                   "http://[::1]",
		"https://xn--bcher-kva.example":  "https://xn--bcher-kva.example",
		"https://bücher.example":         "",
		"https://app.example/path":       "",
		"https://app.example?":           "",
		"https://app.example?x":          "",
		"https://app.example#":           "",
		"https://user@app.example":       "",
		`https://evil.example\@good.com`: "",
		"https://*.example":              "",
		"https://":                       "",
		"app.example":                    "",
		"file:///etc":                    "",
		"chrome://settings":              "",
		"javascript:alert(1)":            "",
		"null":                           "",
		"":                               "",
	} {
		got, err := browser.Origin(s)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", s, got, err, want)
		}
		if err != nil && metier.CodeOf(err) != "lease_invalid" {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestLeaseIsChecked(t *testing.T) {
	t.Parallel()
	good := browser.Lease{Endpoint: "http://127.0.0.1:9222", Origin: "https://app.example", Until: time.Unix(1, 0), Grants: []browser.Grant{{Script: "a:scripts/b.sh", Origin: "https://APP.example:443"}}}
	l, err := good.Check()
	if err != nil || l.Grants[0].Origin != "https://app.example" || good.Grants[0].Origin == l.Grants[0].Origin {
		t.Errorf("%+v %v", l, err)
	}
	for name, tt := range map[string]struct {
		change func(*browser.Lease)
		says   string
	}{
		"no endpoint":            {func(l *browser.Lease) { l.Endpoint = "" }, "--remote-debugging-port"},
		"another machine":        {func(l *browser.Lease) { l.Endpoint = "http://192.0.2.1:9222" }, "loopback"},
		"no port":                {func(l *browser.Lease) { l.Endpoint = "http://127.0.0.1" }, "endpoint"},
		"no origin":              {func(l *browser.Lease) { l.Origin = "" }, "not an origin"},
		"no end":                 {func(l *browser.Lease) { l.Until = time.Time{} }, "needs an end"},
		"the browser itself":     {func(l *browser.Lease) { l.Origin = "http://127.0.0.1:9222" }, "own endpoint"},
		"that by its name":       {func(l *browser.Lease) { l.Origin = "http://localhost:9222" }, "own endpoint"},
		"a grant without origin": {func(l *browser.Lease) { l.Grants = []browser.Grant{{Script: "a:scripts/b.sh"}} }, "not an origin"},
	} {
		l := good
		tt.change(&l)
		if _, err := browser.Open(l, nil); metier.CodeOf(err) != "lease_invalid" || !strings.Contains(err.Error()+metierHint(err), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// metierHint returns the hint of an error.
func metierHint(err error) string {
	if e, ok := err.(*metier.Error); ok {
		return e.Hint
	}
	return ""
}

// Among several grants, the one of the session's origin counts. A script
// without one has none.
func TestGrantsAreByScriptAndOrigin(t *testing.T) {
	t.Parallel()
	l, err := browser.Open(browser.Lease{Endpoint: "http://127.0.0.1:1", Origin: "https://b.example", Until: time.Now().Add(time.Hour),
		Grants: []browser.Grant{{"s:scripts/x.sh", "https://a.example"}, {"s:scripts/x.sh", "https://b.example"}, {"s:scripts/y.sh", "https://a.example"}, {"s:scripts/x.sh", "https://c.example"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for entry, want := range map[string]string{"s:scripts/x.sh": "https://b.example", "s:scripts/y.sh": "https://a.example", "s:scripts/z.sh": ""} {
		if got, ok := l.Granted(entry); got != want || ok != (want != "") {
			t.Errorf("%s: %q %v, want %q", entry, got, ok, want)
		}
	}
}

// asleep is t after the machine slept: the wall clock advanced, the monotonic
// clock in t did not.
func asleep(t time.Time, d time.Duration) time.Time {
	const second = 1 << 30 // the unit of wall in a time with both clocks
	(*struct{ wall uint64 })(unsafe.Pointer(&t)).wall += uint64(d/time.Second) * second
	return t
}

// A session ends at its time of day, even if the machine slept in between.
func TestLive_CountsTheTimeThatAMachineSleeps(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	if woken := asleep(begun, 2*time.Hour); woken.Round(0).Sub(begun.Round(0)) != 2*time.Hour || woken.Sub(begun) != 0 {
		t.Fatalf("%v is not %v after a sleep", woken, begun)
	}
	now := begun
	l, err := browser.Open(browser.Lease{Endpoint: "http://127.0.0.1:9", Origin: "https://app.example", Until: begun.Add(time.Hour)},
		&browser.Options{Now: func() time.Time { return now }, After: func(time.Duration, func()) func() bool { return func() bool { return true } }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := l.Live(); err != nil {
		t.Errorf("before its end: %v", err)
	}
	now = asleep(begun, 2*time.Hour)
	if err := l.Live(); !errors.Is(err, browser.ErrExpired) {
		t.Errorf("after its end: %v", err)
	}
}
