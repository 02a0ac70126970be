package loopback_test

import (
	"testing"

	"metier/internal/loopback"
)

func TestOnlyThisMachineIsTaken(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"http://127.0.0.1:9222":           "127.0.0.1:9222",
		"http://localhost:9222/x":         "127.0.0.1:9222",
		"http://LOCALHOST:1":              "127.0.0.1:1",
		"ws://[::1]:9222/devtools":        "[::1]:9222",
		"http://127.9.8.7:80":             "127.9.8.7:80",
		"http://[::ffff:127.0.0.1]:80":    "127.0.0.1:80",
		"http://127.0.0.1":                "",
		"https://127.0.0.1:9222":          "",
		"http://192.0.2.1:9222":           "",
		"http://0.0.0.0:9222":             "",
		"http://example.com:9222":         "",
		"http://localhost.example.com:1":  "",
		"http://127.0.0.1.example.com:1":  "",
		"http://127.0.0.1:1@192.0.2.1:80": "",
		"http://2130706433:9222":          "",
		"http://0x7f.1:9222":              "",
		"http://[::1%25lo]:9222":          "",
		"127.0.0.1:9222":                  "",
		"9222":                            "",
		"":                                "",
	} {
		_, got, err := loopback.Endpoint(s, "http", "ws")
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", s, got, err, want)
		}
	}
}
