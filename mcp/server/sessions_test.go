package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier"
	"metier/mcp/server"
)

// A client that opens too many sessions closes its own.
func TestNobodyTakesTheRoomOfOthers(t *testing.T) {
	t.Parallel()
	w := start(t, library)
	h := w.http(server.Access{Tokens: map[string]string{"ann": "token-of-ann-0123456789", "bob": "token-of-bob-0123456789"}})
	bob := w.over(h, "token-of-bob-0123456789", older, nil)
	bob.call("list_skills", nil)
	first := w.over(h, "token-of-ann-0123456789", older, nil)
	for range 810 {
		initialize(t, h.URL, "token-of-ann-0123456789")
	}
	if _, err := first.ListTools(t.Context(), nil); err == nil {
		t.Error("the first session of who has the most is still there")
	}
	if r := bob.call("list_skills", nil); r.IsError {
		t.Error(said(r))
	}
	if r := w.over(h, "token-of-bob-0123456789", newest, nil).call("list_skills", nil); r.IsError {
		t.Error(said(r))
	}
}

// wait is a tool that works until its call is canceled.
type wait struct {
	echo
	begun chan struct{}
}

func (t wait) Invoke(ctx context.Context, _ *metier.ToolContext) (metier.Result, error) {
	close(t.begun)
	<-ctx.Done()
	return metier.Result{}, ctx.Err()
}

// A client that ends a session does not wait for its calls, and only the client
// can end it.
func TestAnEndedSessionCancelsItsCalls(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	w := start(t, library, func(w *fixture) {
		w.tools = append(w.tools, wait{begun: begun})
		w.options = func(o *server.Options) { o.Tools = map[string]string{"echo": "Wait"} }
	})
	h := w.http(server.Access{Tokens: map[string]string{"ann": "token-of-ann-0123456789", "bob": "token-of-bob-0123456789"}})
	c := w.over(h, "token-of-ann-0123456789", older, nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{}})
	}()
	<-begun
	drop := func(token string) int {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, h.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		q.Header.Set("Mcp-Session-Id", c.ID())
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		return r.StatusCode
	}
	if code := drop("token-of-bob-0123456789"); code < 400 {
		t.Errorf("another principal is answered with %d", code)
	}
	select {
	case <-ended:
		t.Error("another principal ended the call")
	default:
	}
	if code := drop("token-of-ann-0123456789"); code >= 300 {
		t.Errorf("answered with %d", code)
	}
	<-ended
}

// initialize opens a session and leaves it open.
func initialize(t *testing.T, url, token string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
		q.Header.Set(k, v)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != http.StatusOK || r.Header.Get("Mcp-Session-Id") == "" {
		t.Fatal(r.Status, err)
	}
}

// A request whose body does not arrive is dropped. A complete one has no such
// limit.
func TestABodyThatDoesNotComeIsGivenUp(t *testing.T) {
	t.Parallel()
	w := start(t, library, func(w *fixture) { w.body = 200 * time.Millisecond })
	h := w.http(server.Access{})
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", h.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil { // only if it fails
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 4") {
		t.Errorf("%q, %v", b, err)
	}
}

// A session that makes room for another one does not keep it with a call that waits for an answer.
func TestASessionThatMakesRoomCancelsItsCalls(t *testing.T) {
	t.Parallel()
	shown, ended := make(chan struct{}), make(chan error)
	w := start(t, library, asking)
	h := w.http(server.Access{Tokens: tokens})
	c := w.over(h, tokens["bob"], older, &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		close(shown)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	go func() {
		_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "load_skill", Arguments: map[string]any{"name": "guide"}})
		ended <- err
	}()
	<-shown
	for range 801 {
		initialize(t, h.URL, tokens["bob"])
	}
	if err := <-ended; err == nil {
		t.Error("the call of a session that was closed succeeded")
	}
	if got := <-w.ends; got != (server.Client{Session: c.ID()}) {
		t.Errorf("the session %+v ended, want that of the call", got)
	}
}

// A server that stops does not wait for a user's answer.
func TestClose_CancelsCallsThatWaitForAnAnswer(t *testing.T) {
	t.Parallel()
	shown := make(chan struct{})
	w := start(t, library, asking)
	c := w.over(w.http(server.Access{}), "", older, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		close(shown)
		<-t.Context().Done()
		return nil, t.Context().Err()
	}})
	ended := make(chan error)
	go func() {
		_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "load_skill", Arguments: map[string]any{"name": "guide"}})
		ended <- err
	}()
	<-shown
	w.open.Add(1) // the fixture closes it again
	if err := w.server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the call succeeded")
	}
}
