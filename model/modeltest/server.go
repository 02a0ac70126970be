package modeltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Server simulates a provider. Its methods are safe for concurrent use.
type Server struct {
	URL  string          // the base URL as expected by the provider's official client
	Left <-chan struct{} // receives once for each client that abandoned a hanging reply

	proto    protocol
	http     *httptest.Server
	left     chan struct{}
	mu       sync.Mutex
	turns    []Turn
	answer   func(*Request) Turn
	requests []Request
	issued   map[string][][]string // mark of a call → protected blocks that must be sent back with it; equal marks have alternatives
	n        int
}

// protocol is one provider's wire format.
type protocol interface {
	// base returns the path that clients add to.
	base() string
	// key returns the API key of a request.
	key(http.Header) string
	// decode parses and checks a request. problem is why the provider would reject it.
	decode(path string, body []byte) (r Request, problem string)
	// frames returns the SSE frames of a reply and, by call mark, what must be sent back with it. n
	// is unique.
	frames(t Turn, r Request, n int) (frames []string, issued map[string][]string)
	// fail returns the body of an error response.
	fail(status int, kind, message string) any
	// errorFrame returns an error inside a stream.
	errorFrame(kind string) string
}

// Anthropic starts a server for the Messages API at URL + "/v1/messages".
func Anthropic(t testing.TB) *Server { return start(t, anthropicWire{}) }

// OpenAI starts a server for chat completions at URL + "/chat/completions". URL ends in /v1.
func OpenAI(t testing.TB) *Server { return start(t, openaiWire{}) }

// Gemini starts a server for URL + "/v1beta/models/NAME:streamGenerateContent".
func Gemini(t testing.TB) *Server { return start(t, geminiWire{}) }

// New starts a server outside of a test function, for a testscript. protocol is anthropic, openai,
// or gemini. Call Close afterwards.
func New(name string) (*Server, error) {
	protos := map[string]protocol{"anthropic": anthropicWire{}, "openai": openaiWire{}, "gemini": geminiWire{}}
	p, ok := protos[name]
	if !ok {
		return nil, fmt.Errorf("no stand-in for %q: want anthropic, openai or gemini", name)
	}
	s := &Server{proto: p, left: make(chan struct{}, 64), issued: map[string][][]string{}}
	s.Left = s.left
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.http.URL + p.base()
	return s, nil
}

func start(t testing.TB, p protocol) *Server {
	t.Helper()
	s, err := New(strings.TrimSuffix(fmt.Sprintf("%T", p)[len("modeltest."):], "Wire"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Close closes the server and its open connections.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Say adds turns to the script. Each accepted request uses the next one. When none is left, the
// server responds with 500.
func (s *Server) Say(turns ...Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns = append(s.turns, turns...)
}

// Answer sets a function that computes turns after the end of the script. f may run concurrently.
func (s *Server) Answer(f func(*Request) Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// Requests returns the requests so far, including rejected ones.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *Server) serve(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(io.LimitReader(hr.Body, 32<<20))
	if err != nil {
		return // the client disconnected
	}
	r, problem := s.proto.decode(hr.URL.Path, body)
	r.Header, r.Path, r.Body = hr.Header.Clone(), hr.URL.Path, body
	status := http.StatusBadRequest
	if k := s.proto.key(hr.Header); k != Key {
		status, problem = http.StatusUnauthorized, "Incorrect API key provided: "+k
	}
	if problem == "" {
		problem = s.unguarded(r)
	}
	r.Refused = problem
	t, n := s.next(&r)
	if problem != "" {
		s.refuse(w, Fault{Status: status, Message: problem})
		return
	}
	if f := t.Fault; f != nil && f.Status != 0 {
		s.refuse(w, *f)
		return
	}
	if t.Fault != nil && t.Fault.HTML {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!doctype html><title>Sign in</title><p>Sign in to the network first.")
		return
	}
	frames, issued := s.proto.frames(t, r, n)
	s.mu.Lock()
	for k, v := range issued {
		s.issued[k] = append(s.issued[k], v)
	}
	s.mu.Unlock()
	s.stream(w, hr, frames, t.Fault)
}

// next records the request and returns the turn that answers it.
func (s *Server) next(r *Request) (t Turn, n int) {
	s.mu.Lock()
	s.requests = append(s.requests, *r)
	s.n++
	n = s.n
	answer := s.answer
	switch {
	case r.Refused != "":
		answer = nil
	case len(s.turns) > 0:
		t, answer = s.turns[0], nil
		s.turns = s.turns[1:]
	case answer == nil:
		t.Fault = &Fault{Status: 500, Message: "the stand-in has no turn left: Say more"}
	}
	s.mu.Unlock()
	if answer != nil {
		t = answer(r)
	}
	return t, n
}

// unguarded finds calls that were sent back without the blocks issued with them, and blocks that
// were never issued.
func (s *Server) unguarded(r Request) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[string]bool{}
	for _, sets := range s.issued {
		for _, b := range slices.Concat(sets...) {
			known[b] = true
		}
	}
	for i, m := range r.Messages {
		for _, g := range m.guards {
			if !known[g] {
				return fmt.Sprintf("messages.%d: a reasoning block or signature is not as it was issued: %s", i, g)
			}
		}
		for _, c := range m.Calls {
			sets := s.issued[c.mark()]
			whole := func(set []string) bool {
				return !slices.ContainsFunc(set, func(b string) bool { return !slices.Contains(m.guards, b) })
			}
			if len(sets) > 0 && !slices.ContainsFunc(sets, whole) {
				return fmt.Sprintf("messages.%d: call %s came back without %s", i, c.Tool, strings.Join(sets[0], " "))
			}
		}
	}
	return ""
}

// mark identifies a call: by its ID or, if the provider has none, by its content.
func (c SentCall) mark() string {
	if c.ID != "" {
		return c.ID
	}
	return c.Tool + " " + canonical([]byte(c.Args))
}

func (s *Server) refuse(w http.ResponseWriter, f Fault) {
	for k, v := range f.Header {
		w.Header().Set(k, v)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	if f.BrokenJSON {
		fmt.Fprint(w, "upstream connect error or disconnect/reset before headers")
		return
	}
	_ = json.NewEncoder(w).Encode(s.proto.fail(f.Status, f.Kind, f.Message)) // the client may have disconnected
}

func (s *Server) stream(w http.ResponseWriter, hr *http.Request, frames []string, f *Fault) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flush := w.(http.Flusher).Flush
	half := len(frames) / 2
	left := -1
	if f != nil && f.Cut != 0 {
		left = f.Cut
		if left < 0 {
			left = len(strings.Join(frames, "")) / 2
		}
	}
	if f != nil && f.Short {
		frames = frames[:len(frames)*2/3]
	}
	for i, frame := range frames {
		if f != nil && i == half {
			switch {
			case f.Event != "":
				fmt.Fprint(w, s.proto.errorFrame(f.Event))
				return
			case f.Garbage:
				fmt.Fprint(w, "event: message\ndata: {\"type\": <oops>\n\n")
				return
			case f.Hang:
				flush()
				<-hr.Context().Done()
				s.left <- struct{}{}
				return
			}
		}
		if left >= 0 && left <= len(frame) {
			fmt.Fprint(w, frame[:left])
			flush()
			panic(http.ErrAbortHandler) // closes the connection without the end of the body
		}
		left -= min(len(frame), max(left, 0))
		fmt.Fprint(w, frame)
		flush()
	}
}

// canonical returns JSON with sorted keys and unchanged numbers.
func canonical(b []byte) string {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(b)
	}
	return compact(v)
}

func compact(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // frames always encode
	}
	return strings.TrimSpace(b.String())
}

// pieces splits a text into n runes each, so that deltas split words and escapes.
func pieces(s string, n int) []string {
	var out []string
	for r := []rune(s); len(r) > 0; r = r[min(n, len(r)):] {
		out = append(out, string(r[:min(n, len(r))]))
	}
	return out
}

// unknown finds a key of o that is not allowed.
func unknown(o map[string]json.RawMessage, allowed string) string {
	var bad []string
	for k := range o {
		if !slices.Contains(strings.Fields(allowed), k) {
			bad = append(bad, k)
		}
	}
	slices.Sort(bad)
	return strings.Join(bad, ", ")
}
