package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/mcp/server"
)

// begun sends the head of a large request over HTTP and returns the first line
// of the answer: the server asks for the body, or refuses the request.
func begun(t *testing.T, address, token string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n", token)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// One principal can neither fill the memory with requests that it never ends,
// nor take all slots from another.
func TestHandler_BoundsLargeRequests(t *testing.T) {
	t.Parallel()
	w := start(t, library)
	h := w.http(server.Access{Tokens: map[string]string{"ada": "token-of-ada-1234567890", "bob": "token-of-bob-1234567890"}})
	address := h.Listener.Addr().String()
	for i := range 8 {
		if got := begun(t, address, "token-of-ada-1234567890"); got != "HTTP/1.1 100 Continue" {
			t.Fatalf("request %d: %s", i, got)
		}
	}
	if got := begun(t, address, "token-of-ada-1234567890"); !strings.HasPrefix(got, "HTTP/1.1 503 ") {
		t.Errorf("one more: %s", got)
	}
	if got := begun(t, address, "token-of-bob-1234567890"); got != "HTTP/1.1 100 Continue" {
		t.Errorf("somebody else: %s", got)
	}
	if r := w.over(h, "token-of-ada-1234567890", newest, nil).call("list_skills", nil); r.IsError {
		t.Errorf("a small request: %s", said(r))
	}
}

// The library would need minutes, or hundreds of megabytes, for them.
func TestHandler_RefusesDeepAndWideRequests(t *testing.T) {
	t.Parallel()
	w := start(t, library)
	h := w.http(server.Access{})
	call := func(value string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_skills","arguments":{"x":` + value + `},"_meta":{"io.modelcontextprotocol/protocolVersion":"` + newest +
			`","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	}
	post := func(body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if strings.HasPrefix(body, `{"jsonrpc":"2.0","id":1,"method":"tools/call"`) {
			r.Header.Set("Mcp-Protocol-Version", newest)
			r.Header.Set("Mcp-Method", "tools/call")
			r.Header.Set("Mcp-Name", "list_skills")
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, string(b)
	}
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	many := func(n int) string { return "[{}" + strings.Repeat(",{}", n) + "]" }
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	batch := func(n int) string { return " [" + ping + strings.Repeat(","+ping, n-1) + "]" }
	opening := func(value string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"x":{"y":` + value + `}}},"clientInfo":{"name":"x","version":"1"}}}`
	}
	const kept = "a request that opens a session has at most 16384 bytes and 1000 JSON values\n"
	for body, want := range map[string]string{
		call(deep(98)): "JSON is nested more than 100 deep\n", call(deep(90)): "",
		call(many(200_000)): "JSON has too many values, more than 250000\n", call(many(100_000)): "",
		opening(many(300)): "", opening(many(1000)): kept, opening(`"` + strings.Repeat("x", 16<<10) + `"`): kept,
		batch(33): "more than 32 messages in one request; send fewer at a time\n", batch(32): "",
	} {
		code, text := post(body)
		if want == "" {
			if diff := cmp.Diff(http.StatusOK, code); diff != "" {
				t.Errorf("%.80s (-want +got):\n%s", body, diff)
			}
			continue
		}
		status := http.StatusBadRequest
		if want == kept {
			status = http.StatusRequestEntityTooLarge
		}
		if diff := cmp.Diff([]any{status, want}, []any{code, text}); diff != "" {
			t.Errorf("%.80s (-want +got):\n%s", body, diff)
		}
	}
}

// A session keeps some messages as long as it lasts.
func TestHandler_RefusesWhatSessionsWouldKeep(t *testing.T) {
	t.Parallel()
	w := start(t, library)
	h := w.http(server.Access{})
	session, version := "", ""
	post := func(body string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		} else if version != "" {
			r.Header.Set("Mcp-Protocol-Version", version)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		if id := a.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		if a.StatusCode == http.StatusRequestEntityTooLarge {
			return strings.TrimSpace(string(b))
		}
		return a.Status
	}
	if got := post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`); got != "200 OK" {
		t.Fatal(got)
	}
	message := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":2,"method":"` + method + `","params":` + params + `}`
	}
	long, wide := `"`+strings.Repeat("x", 20_000)+`"`, "[{}"+strings.Repeat(",{}", 2000)+"]"
	const other, meta, twice = "a message other than tools/call and prompts/get has at most 16384 bytes and 1000 JSON values",
		"the _meta of a message has at most 16384 bytes and 1000 JSON values", "a message has the same member twice, or a method that is not text"
	for body, want := range map[string]string{
		message("notifications/initialized", `{"_meta":{"x":`+long+`}}`):                                     other,
		message("notifications/initialized", `{"_meta":{"x":`+wide+`}}`):                                     other,
		"[" + message("ping", "{}") + "," + message("notifications/initialized", `{"_meta":`+wide+`}`) + "]": other,
		message("initialize", `{"clientInfo":{"name":`+long+`}}`):                                            other,
		message("logging/setLevel", `{"level":`+long+`}`):                                                    other,
		message("tools/call", `{"name":"load_skill","_meta":{"x":`+long+`}}`):                                meta,
		message("tools/call", `{"name":"load_skill","_\u006deta":{"x":`+wide+`}}`):                           meta,
		message("tools/call", `{"_meta":{},"_meta":{"x":`+wide+`}}`):                                         twice,
		`{"Method":"tools/call",` + message("notifications/initialized", `{"x":`+long+`}`)[1:]:               twice,
		message("tools/call", `{"name":"unknown","arguments":{"x":`+long+`}}`):                               "200 OK",
		message("prompts/get", `{"name":"unknown","arguments":{"x":`+long+`}}`):                              "200 OK",
		"[" + message("notifications/initialized", `{"_meta":`+wide+`}`) + "] x":                             "400 Bad Request",
		message("ping", `{}`) + "{}":                                                                         "400 Bad Request",
		message("ping", `{}`):                                                                                "200 OK",
	} {
		if diff := cmp.Diff(want, post(body)); diff != "" {
			t.Errorf("%.60s… (-want +got):\n%s", body, diff)
		}
	}
	// In the newer revision, a request that waits would keep as much.
	session, version = "", newest
	for body, want := range map[string]string{
		message("subscriptions/listen", `{"notifications":{},"_meta":{"x":`+wide+`}}`): other,
		message("tools/call", `{"name":"load_skill","_meta":{"x":`+wide+`}}`):          meta,
	} {
		if diff := cmp.Diff(want, post(body)); diff != "" {
			t.Errorf("%.60s… (-want +got):\n%s", body, diff)
		}
	}
}

// A host or an origin that no request can match is a mistake of the operator.
func TestAccess_Check(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		field string // of the error; "": none
		hosts []string
		pages []string
	}{
		{"", nil, nil},
		{"", []string{"skills.example.org", "Skills.example.org:8443", "build_host", "192.0.2.1", "fd00::1", "[fd00::1]", "[fd00::1]:80"}, nil},
		{"", nil, []string{"https://example.org", "http://Localhost:3000", "https://example.org/", "http://[fd00::1]:80", "chrome-extension://abcdef"}},
		{"Access.Hosts", []string{"skills.example.org", "http://skills.example.org"}, nil},
		{"Access.Hosts", []string{"skills.example.org/mcp"}, nil},
		{"Access.Hosts", []string{"*.example.org"}, nil},
		{"Access.Hosts", []string{""}, nil},
		{"Access.Hosts", []string{"skills.example.org:"}, nil},
		{"Access.Hosts", []string{"skills.example.org:0"}, nil},
		{"Access.Hosts", []string{"skills.example.org:65536"}, nil},
		{"Access.Hosts", []string{"a, b"}, nil},
		{"Access.Origins", nil, []string{"https://example.org", "example.org"}},
		{"Access.Origins", nil, []string{"example.org:443"}},
		{"Access.Origins", nil, []string{"//example.org"}},
		{"Access.Origins", nil, []string{"https://example.org/page"}},
		{"Access.Origins", nil, []string{"https://*.example.org"}},
		{"Access.Origins", nil, []string{"https://user@example.org"}},
		{"Access.Origins", nil, []string{"https://example.org:65536"}},
		{"Access.Origins", nil, []string{"https://"}},
		{"Access.Origins", nil, []string{"*"}},
		{"Access.Origins", nil, []string{"null"}},
		{"Access.Origins", nil, []string{""}},
	} {
		err := server.Access{Hosts: tt.hosts, Origins: tt.pages}.Check()
		field := ""
		if e, ok := errors.AsType[*metier.Error](err); ok {
			field = e.Field
		}
		if field != tt.field || (err == nil) != (tt.field == "") {
			t.Errorf("hosts %q, origins %q: %v", tt.hosts, tt.pages, err)
		}
	}
}
