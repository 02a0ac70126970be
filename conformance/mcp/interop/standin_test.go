package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
)

const (
	mostBody     = 8 << 20 // bytes of a request
	mostRequests = 40      // of one client: more is a loop
	shown        = 1500    // bytes of a request in a failure
	final        = "The heron is on one leg."
)

// asked is the content of a request, in any format.
type asked struct {
	tools   []string // names on the wire, by which they are called
	results []string // of tools, as the client returns them, in order
}

// reply is the stand-in's answer: a call of a tool, or a text.
type reply struct {
	tool, args string
	text       string
	turn       int // of the conversation; IDs are derived from it
}

// wire is the format of one provider.
type wire interface {
	// read parses a request, or reports that it is not a model request.
	read(path string, body []byte) (asked, bool)
	// write answers it.
	write(w http.ResponseWriter, path string, body []byte, r reply)
}

// standIn is a model that loads one skill as soon as the tool is offered, reads
// on as the result describes, and then ends the turn.
type standIn struct {
	*httptest.Server
	wire  wire
	skill string

	mu       sync.Mutex
	requests []request
	called   bool
	tool     string // the name by which it called
}

// rest is how a result names the offset of the remaining text.
var rest = regexp.MustCompile(`and offset (\d+) to read on\.\n`)

// request is one that arrived, in order.
type request struct {
	line  string
	body  []byte
	asked asked
	did   string
}

func newStandIn(t *testing.T, w wire, skill string) *standIn {
	s := &standIn{wire: w, skill: skill}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *standIn) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q, toModel := asked{}, false
	if r.Method == http.MethodPost {
		q, toModel = s.wire.read(r.URL.Path, body)
	}
	s.mu.Lock()
	got := request{line: r.Method + " " + r.URL.RequestURI(), body: body, asked: q, did: "404"}
	full := len(s.requests) >= mostRequests
	answer := reply{text: "Herons"} // to titles, summaries and the like
	switch {
	case full || !toModel:
	case len(q.results) > 0 && s.called && rest.MatchString(q.results[len(q.results)-1]):
		m := rest.FindAllStringSubmatch(q.results[len(q.results)-1], -1)
		got.did = "the next call"
		answer = reply{tool: s.tool, args: fmt.Sprintf(`{"name": %q, "offset": %s}`, s.skill, m[len(m)-1][1])}
	case len(q.results) > 0:
		got.did, answer = "the last word", reply{text: final}
	default:
		got.did = "a side answer"
		for _, name := range q.tools {
			if strings.HasSuffix(name, "load_skill") && !s.called {
				s.called, s.tool = true, name
				got.did, answer = "the call of "+name, reply{tool: name, args: string(must(json.Marshal(map[string]string{"name": s.skill})))}
			}
		}
	}
	answer.turn = len(q.results) + 1
	if !full {
		s.requests = append(s.requests, got)
	}
	s.mu.Unlock()
	if full || !toModel {
		http.Error(w, `{"error":{"message":"there is no such thing here"}}`, http.StatusNotFound)
		return
	}
	s.wire.write(w, r.URL.Path, body, answer)
}

// seen returns the requests so far.
func (s *standIn) seen() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.requests...)
}

// story describes what happened, within bounds.
func (s *standIn) story() string {
	var b strings.Builder
	for i, r := range s.seen() {
		fmt.Fprintf(&b, "request %d: %s: got %s; %d tools, results %s\n", i+1, r.line, r.did, len(r.asked.tools), cut(fmt.Sprintf("%q", r.asked.results), shown))
		if i < 6 {
			fmt.Fprintf(&b, "  %s\n", cut(string(r.body), shown))
		}
	}
	return b.String()
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most/2] + fmt.Sprintf(" … %d bytes … ", len(s)-most) + s[len(s)-most/2:]
}

// must is for what cannot fail.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// events writes a stream of server-sent events. The type of each precedes it if
// the format requires that.
type events struct {
	w     http.ResponseWriter
	named bool
}

func (e events) send(kind string, v map[string]any) {
	if e.named {
		v["type"] = kind
		fmt.Fprintf(e.w, "event: %s\n", kind)
	}
	fmt.Fprintf(e.w, "data: %s\n\n", must(json.Marshal(v)))
	if f, ok := e.w.(http.Flusher); ok {
		f.Flush()
	}
}

func stream(w http.ResponseWriter, named bool) events {
	w.Header().Set("Content-Type", "text/event-stream")
	return events{w, named}
}

func whole(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(must(json.Marshal(v)))
}
