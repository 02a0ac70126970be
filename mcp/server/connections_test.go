package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"metier/mcp/server"
)

// Clients without a token close each other's connections, and no others.
func TestLimitConnections_OfStrangers(t *testing.T) {
	t.Parallel()
	w := start(t, library)
	h := httptest.NewUnstartedServer(w.server.Handler(server.Access{Tokens: map[string]string{"ada": "token-of-ada-1234567890"}}))
	server.LimitConnections(h.Config)
	h.Start()
	t.Cleanup(h.Close)
	dial := func(from string) net.Conn { return dialFrom(t, from, h) }
	const token, unknown = "token-of-ada-1234567890", "another-token-1234567890"
	want := func(who string, c net.Conn, token string, status int) {
		t.Helper()
		if got := statusOf(t, c, token); got != status {
			t.Errorf("%s: status %d, want %d", who, got, status)
		}
	}
	own, refused, elsewhere := dial("127.0.0.1"), dial("127.0.0.1"), dial("127.0.0.2")
	want("a principal", own, token, http.StatusBadRequest)
	want("a stranger", refused, unknown, http.StatusUnauthorized)
	flood := make([]net.Conn, 300)
	for i := range flood {
		flood[i] = dial("127.0.0.1")
	}
	want("a principal's new connection", dial("127.0.0.1"), token, http.StatusBadRequest)
	const closed = 300 + 3 - 256 // with the stranger's, and the new one, which was a stranger's at first
	for i, c := range append([]net.Conn{refused}, flood...)[:closed] {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("connection %d is open", i)
		}
	}
	want("the first that is not closed", flood[closed-1], unknown, http.StatusUnauthorized)
	want("the last", flood[len(flood)-1], unknown, http.StatusUnauthorized)
	want("another address", elsewhere, unknown, http.StatusUnauthorized)
	want("the principal's first connection", own, token, http.StatusBadRequest)
}

// A stranger with many addresses closes only older connections.
func TestLimitConnections_OfManyAddresses(t *testing.T) {
	t.Parallel()
	w := start(t, library)
	h := httptest.NewUnstartedServer(w.server.Handler(server.Access{Tokens: map[string]string{"ada": "token-of-ada-1234567890"}}))
	server.LimitConnections(h.Config)
	h.Start()
	t.Cleanup(h.Close)
	for i := range 300 {
		dialFrom(t, fmt.Sprintf("127.9.%d.%d", i/200, 1+i%200), h)
	}
	for range 3 {
		if got := statusOf(t, dialFrom(t, "127.0.0.1", h), "token-of-ada-1234567890"); got != http.StatusBadRequest {
			t.Errorf("a principal's new connection: status %d, want %d", got, http.StatusBadRequest)
		}
	}
}

func dialFrom(t *testing.T, address string, h *httptest.Server) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c, err := d.DialContext(t.Context(), "tcp", h.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// statusOf sends a request without a message.
func statusOf(t *testing.T, c net.Conn, token string) int {
	t.Helper()
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", token)
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	_, _ = io.Copy(io.Discard, a.Body)
	return a.StatusCode
}
