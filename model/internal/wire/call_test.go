package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"metier/model"
)

const key = "key-0123456789"

// counted counts the open bodies.
type counted struct{ open atomic.Int64 }

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		c.open.Add(1)
		resp.Body = &closing{resp.Body, &c.open}
	}
	return resp, err
}

type closing struct {
	io.ReadCloser
	open *atomic.Int64
}

func (c *closing) Close() error { c.open.Add(-1); return c.ReadCloser.Close() }

// ask posts to a server that answers with f and returns the events and the error of the call.
func ask(t *testing.T, c Config, f http.HandlerFunc) (got []string, err *model.Error) {
	t.Helper()
	s := httptest.NewServer(f)
	defer s.Close()
	bodies := &counted{}
	c.Provider, c.Base, c.HTTPClient, c.Secrets = "p", s.URL+c.Base, &http.Client{Transport: bodies}, []string{key}
	call := New(c).Post(t.Context(), []byte(`{"a":1}`))
	for e := range call.Events() {
		got = append(got, string(e))
	}
	err = call.Err()
	call.End()
	if n := bodies.open.Load(); n != 0 {
		t.Errorf("%d bodies are open", n)
	}
	return got, err
}

func stream(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Request-Id", "req_7")
		_, _ = io.WriteString(w, s) // the client may have left
	}
}

func TestCallReadsEventsAndHowTheyEnd(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxEvent+1)
	for _, tt := range []struct {
		name, reply string
		events      int
		code        model.Code // "": a clean end
		message     string
	}{
		{"a clean end", "data: {}\n\n: wait\n\ndata: {}\n\n", 2, "", ""},
		{"done", "data: {}\n\ndata: [DONE]\n\ndata: oops\n\n", 1, "", ""},
		{"pings", "event: ping\ndata: ping\n\ndata:\n\ndata: {}\n\n", 1, "", ""},
		{"a lost empty line", "data: {}", 1, "", ""},
		{"a cut last event", "data: {}\n\ndata: {\"a\":", 1, model.CodeCut, "before the reply was complete (request req_7)"},
		{"no JSON", "data: {}\n\ndata: oops\n\ndata: {}\n\n", 1, model.CodeBadReply, "could not be read"},
		{"no object", "data: [1]\n\n", 0, model.CodeBadReply, "could not be read"},
		{"an error event", "event: error\ndata: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n", 0, model.CodeOverloaded, "busy (request req_7)"},
		{"an error of another shape", "event: error\ndata: broken\n\n", 0, model.CodeServer, "without a message"},
		{"an error field", "data: {\"error\":{\"code\":429,\"message\":\"slow " + key + "\"}}\n\n", 0, model.CodeRateLimited, "slow [secret]"},
		{"no error", "data: {\"error\":null}\n\n", 1, "", ""},
		{"a long event", "data: {}\n\ndata: " + long, 1, model.CodeBadReply, "larger than 8 MiB"},
		{"a long stream", "data: {}\n\n" + strings.Repeat(": "+strings.Repeat("x", 4<<20)+"\n\n", 16), 1, model.CodeBadReply, "larger than 64 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ask(t, Config{}, stream(tt.reply))
			if len(got) != tt.events || (err == nil) != (tt.code == "") {
				t.Fatalf("%d events, then %v, want %d, then %q", len(got), err, tt.events, tt.code)
			}
			if err != nil && (err.Code != tt.code || err.Provider != "p" || !strings.Contains(err.Message, tt.message)) {
				t.Errorf("%v, want %s: %s", err, tt.code, tt.message)
			}
		})
	}
}

func TestCallSaysWhatItIsAndWhereItGoes(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	_, err := ask(t, Config{Base: "/proxy/?tenant=1", Path: "v1/a%2Fb:do", Query: "alt=sse", Header: map[string]string{"X-Key": key}},
		func(w http.ResponseWriter, r *http.Request) {
			got = r
			body, _ = io.ReadAll(r.Body) // a short body fails the comparison
			stream("data: {}\n\n")(w, r)
		})
	if err != nil || got.Method != "POST" || got.RequestURI != "/proxy/v1/a%2Fb:do?tenant=1&alt=sse" || string(body) != `{"a":1}` || got.ContentLength != 7 {
		t.Errorf("%v: %s %s with %d bytes %s", err, got.Method, got.RequestURI, got.ContentLength, body)
	}
	for k, want := range map[string]string{"Content-Type": "application/json", "Accept": "text/event-stream", "User-Agent": "metier", "X-Key": key} {
		if v := got.Header.Values(k); !slices.Equal(v, []string{want}) {
			t.Errorf("%s: %q, want %q", k, v, want)
		}
	}
}

func TestCallFollowsNoRedirectWhateverItsTarget(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"/elsewhere", "http://127.0.0.1:1/" + key, "://" + key, ""} {
		for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
			asked := 0
			_, err := ask(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.Header().Set("Location", to)
				w.WriteHeader(status)
			})
			if asked != 1 || err == nil || err.Code != model.CodeBadReply || err.Status != status || strings.Contains(err.Error(), key) {
				t.Errorf("%d to %q: asked %d times, %v", status, to, asked, err)
			}
		}
	}
}

func TestErrorAnswersNameTheRequestAndAreBounded(t *testing.T) {
	t.Parallel()
	_, err := ask(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Request-Id", "req_1 "+key)
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(429)
		fmt.Fprintf(w, `{"error":{"message":"%s"}}`, strings.Repeat("word ", 1000))
	})
	if err == nil || err.Code != model.CodeRateLimited || err.RetryAfter != 3*time.Second || len(err.Message) > 700 || !strings.HasSuffix(err.Message, "… (request req_1 [secret])") {
		t.Errorf("%v", err)
	}
	_, err = ask(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Request-Id", strings.Repeat("x", 1000))
		w.WriteHeader(500)
		_, _ = io.CopyN(w, &repeat{s: "x"}, 1<<20) // the client leaves
	})
	if err == nil || err.Code != model.CodeServer || strings.Contains(err.Message, "xxx") {
		t.Errorf("%v", err)
	}
}

func TestSettingsThatCannotWorkShowAtTheFirstCall(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{
		{Base: ""}, {Base: "localhost:11434/v1"}, {Base: "ftp://x"}, {Base: "http://"}, {Base: "http://x y/" + key}, {Base: "http://user:" + key + "@[::1"},
		{Base: "http://127.0.0.1:1", Header: map[string]string{"X-Key": key + "\n"}},
	} {
		call := New(c).Post(t.Context(), nil)
		for range call.Events() {
			t.Error("an event from nowhere")
		}
		if err := call.Err(); err == nil || err.Code != model.CodeBadRequest || err.Retryable() || strings.Contains(err.Error(), key) {
			t.Errorf("%q: %v", c.Base, err)
		}
		call.End()
	}
}

func TestUnreachableHoldsNoPassword(t *testing.T) {
	t.Parallel()
	call := New(Config{Base: "http://user:" + key + "@127.0.0.1:1/" + key, Secrets: []string{key}}).Post(t.Context(), nil)
	defer call.End()
	if err := call.Err(); err == nil || err.Code != model.CodeUnreachable || strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("%v", err)
	}
}

// hang answers nothing, or starts an answer, and signals when the client is
// gone.
func hang(left chan<- struct{}, begin func(http.ResponseWriter)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client leaves
		begin(w)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		left <- struct{}{}
	}
}

func TestAnAnswerThatDoesNotBeginEndsTheCall(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"headers": 0, "the body of an error": 500} {
		left := make(chan struct{}, 1)
		_, err := ask(t, Config{Wait: 2 * time.Second}, func(w http.ResponseWriter, r *http.Request) { // long enough for headers on a busy machine
			if status != 0 {
				hang(left, func(w http.ResponseWriter) { w.WriteHeader(status) })(w, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			left <- struct{}{}
		})
		if err == nil || err.Status != status || (status == 0) != (err.Code == model.CodeUnreachable && strings.HasSuffix(err.Message, "in 2s")) {
			t.Errorf("%s: %v", name, err)
		}
		<-left
	}
}

func TestAReplyThatOnlyPingsEndsTheCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keep   string
		config Config
		events bool
	}{
		"pings":    {"event: ping\ndata: {}\n\n", Config{Wait: time.Second}, false},
		"comments": {": still here\n\n", Config{Wait: time.Second}, false},
		"events, too long": {"data: {}\n\n", Config{Wait: time.Minute, Now: func() func() time.Time {
			at := time.Unix(0, 0)
			return func() time.Time { at = at.Add(time.Hour); return at }
		}()}, true},
	} {
		left := make(chan struct{}, 1)
		got, err := ask(t, c.config, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, c.keep); err != nil {
					break
				}
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(time.Millisecond):
				}
			}
			left <- struct{}{}
		})
		if err == nil || err.Code != model.CodeCut || !err.Retryable() || !strings.Contains(err.Message, "nothing of the reply came") || (len(got) > 0) != c.events {
			t.Errorf("%s: %d events, %v", name, len(got), err)
		}
		<-left
	}
}

func TestEndAndCancelCloseTheConnection(t *testing.T) {
	t.Parallel()
	reason := errors.New("enough")
	for _, by := range []string{"end", "cancel"} {
		left := make(chan struct{}, 1)
		s := httptest.NewServer(hang(left, func(w http.ResponseWriter) { stream("data: {}\n\ndata: {}\n\n")(w, nil) }))
		ctx, cancel := context.WithCancelCause(t.Context())
		call := New(Config{Provider: "p", Base: s.URL}).Post(ctx, nil)
		n := 0
		for range call.Events() {
			n++
			if by == "end" {
				break
			}
			cancel(reason) // the second event has arrived, but is not shown
		}
		if by == "end" {
			call.End()
		}
		<-left
		if err := call.Err(); n != 1 || by == "cancel" && (err == nil || err.Code != model.CodeCanceled || !errors.Is(err, reason)) {
			t.Errorf("%s: %d events, %v", by, n, err)
		}
		call.End()
		cancel(nil)
		s.Close()
	}
}

// A provider that keeps the connection open after its last event does not delay the
// reply.
func TestDoneIsTheEndThoughTheConnectionStays(t *testing.T) {
	t.Parallel()
	left := make(chan struct{}, 1)
	got, err := ask(t, Config{}, hang(left, func(w http.ResponseWriter) { stream("data: {}\n\ndata: [DONE]\n\n")(w, nil) }))
	if len(got) != 1 || err != nil {
		t.Errorf("%d events, %v", len(got), err)
	}
	<-left
}
