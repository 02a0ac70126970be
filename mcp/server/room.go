package server

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of what the calls of clients hold at a time, of all and of one principal.
const (
	mostLarge      = 32 // large requests that are read and answered
	mostOfOne      = 8
	mostPrograms   = 32 // scripts that run
	programsOfOne  = 8
	mostListeners  = mostSessions // requests that stay open for news
	listenersOfOne = mostListeners / 2
	mostQuestions  = 64 // forms that wait for their answer, each with the call that needs it
	questionsOfOne = 8
	mostContent    = 64 << 20 // bytes of answers, until they are written
	contentOfOne   = 32 << 20
	answerPart     = 1 << 20          // bytes of an answer that a client has to take within Options.Body
	requestsHeader = "Metier-Request" // of a request, for the handlers of its calls; what a client sends is replaced
)

// room bounds something that principals take and give back. Each has at most half of what the others
// leave, so that a few cannot take all of it.
type room struct {
	most, ofOne int64

	mu  sync.Mutex
	all int64
	by  map[string]int64 // principal
}

// take takes n if there is room.
func (r *room) take(by string, n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.most - (r.all - r.by[by])
	if r.by[by]+n > min(r.ofOne, (left+1)/2) {
		return false
	}
	if r.by == nil {
		r.by = map[string]int64{}
	}
	r.all += n
	r.by[by] += n
	return true
}

func (r *room) give(by string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all -= n
	if r.by[by] -= n; r.by[by] == 0 {
		delete(r.by, by)
	}
}

// busy is the answer to a call for which there is no room.
func busy(text string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too_many_calls: " + text + " at a time; make this call again once another one is answered"}
}

// requests are those over HTTP that are being answered, with what has to be given
// back once they are.
type requests struct {
	mu   sync.Mutex
	last uint64
	open map[string][]func()
}

func (q *requests) begin(r *http.Request) (end func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open == nil {
		q.open = map[string][]func(){}
	}
	q.last++
	id := strconv.FormatUint(q.last, 10)
	q.open[id] = nil
	r.Header.Set(requestsHeader, id)
	return func() {
		q.mu.Lock()
		give := q.open[id]
		delete(q.open, id)
		q.mu.Unlock()
		for _, f := range give {
			f()
		}
	}
}

// later calls give once the request that a call came in is answered, and reports
// whether there is such a request.
func (q *requests) later(req mcp.Request, give func()) bool {
	extra := req.GetExtra()
	if extra == nil || extra.Header == nil {
		return false
	}
	id := extra.Header.Get(requestsHeader)
	q.mu.Lock()
	defer q.mu.Unlock()
	fs, open := q.open[id]
	if open {
		q.open[id] = append(fs, give)
	}
	return open
}

// holds takes room for bytes that a call answers with. done has to be called
// when the call is made; over HTTP the room is given back when the answer is
// written.
func (s *Server) holds(req mcp.Request, n int64) (done func(), err error) {
	by := principal(req)
	if !s.content.take(by, n) {
		return nil, busy("too much is being read")
	}
	give := func() { s.content.give(by, n) }
	if s.requests.later(req, give) {
		return func() {}, nil
	}
	return give, nil
}

// answered takes room for the answers that wait for their client. Files and prompts
// take it for their text themselves. The room for a tool's result is taken
// before the call, because a call cannot be made again where it had effects.
func (s *Server) answered(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if call, is := req.(*mcp.CallToolRequest); is {
			done, err := s.holds(req, int64(resultLimit(req))+s.reads(call))
			if err != nil {
				return nil, err
			}
			defer done()
		}
		r, err := next(ctx, method, req)
		if err != nil {
			return r, err
		}
		done, err := s.holds(req, unheld(r))
		if err != nil {
			return nil, err
		}
		done()
		return r, nil
	}
}

// reads returns the size of the file that a call reads, whole, to answer with a part of it.
func (s *Server) reads(call *mcp.CallToolRequest) int64 {
	var a struct {
		Name, Skill, SkillID, Path string
		FilePath                   string `json:"file_path"`
	}
	x := s.index.Load()
	if json.Unmarshal(call.Params.Arguments, &a) != nil {
		return 0 // no tool takes it
	}
	sk, err := x.snapshot.Find(cmp.Or(a.SkillID, a.Skill, a.Name))
	file := cmp.Or(a.Path, a.FilePath)
	switch i := slices.IndexFunc(x.all, func(v *served) bool { return v.skill.ID == sk.ID }); {
	case err != nil || i < 0:
		return 0
	case file != "":
		return x.all[i].size(file)
	}
	return sk.Head.Size
}

// unheld returns the bytes of an answer for which no room was taken yet.
func unheld(r mcp.Result) int64 {
	switch r := r.(type) {
	case *mcp.CallToolResult:
		return 0
	case *mcp.ReadResourceResult:
		n := int64(0)
		for _, c := range r.Contents {
			n += escapes(c.Text) + int64(len(c.Blob)/3) // as base64
		}
		return min(n, contentOfOne-mostBytes) // a file of any content can be read while nothing else is
	case *mcp.GetPromptResult:
		n := int64(0)
		for _, m := range r.Messages {
			if text, is := m.Content.(*mcp.TextContent); is {
				n += escapes(text.Text)
			}
		}
		return n
	}
	b, _ := json.Marshal(r) // the library reports what cannot be encoded
	return int64(len(b))
}

// escapes returns by how many bytes a text is longer in JSON.
func escapes(text string) (n int64) {
	for _, c := range text {
		switch {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			n++
		case c < ' ', c == '<', c == '>', c == '&':
			n += 5
		case c == '\u2028', c == '\u2029':
			n += 3
		}
	}
	return n
}

// runs takes room for a script.
func (s *Server) runs(req mcp.Request) (done func(), err error) {
	by := principal(req)
	if !s.programs.take(by, 1) {
		return nil, busy("too many scripts run")
	}
	return func() { s.programs.give(by, 1) }, nil
}

// listening bounds the requests by which clients wait for news, each of which
// keeps a session of the protocol.
func (s *Server) listening(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "subscriptions/listen" {
			by := principal(req)
			if !s.listeners.take(by, 1) {
				return nil, busy("too many wait for news")
			}
			defer s.listeners.give(by, 1)
		}
		return next(ctx, method, req)
	}
}

// answer is an answer over HTTP that the client has to take: what it leaves lying
// stays in memory.
type answer struct {
	http.ResponseWriter
	conn *http.ResponseController
	due  time.Duration
}

func (a *answer) extend() { _ = a.conn.SetWriteDeadline(time.Now().Add(a.due)) } // of the kernel's clock; a writer that has none bounds it itself

func (a *answer) Write(p []byte) (n int, err error) {
	for first := true; first || len(p) > 0; first = false {
		part := p[:min(len(p), answerPart)]
		a.extend()
		m, err := a.ResponseWriter.Write(part)
		if n += m; err != nil {
			return n, err
		}
		p = p[len(part):]
	}
	return n, nil
}

func (a *answer) Flush() {
	a.extend()
	_ = a.conn.Flush()
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// held bounds what a request holds, and for how long.
func (s *Server) held(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{w, http.NewResponseController(w), s.opts.Body}
		defer s.requests.begin(r)()
		defer a.extend() // the rest is written after this
		next.ServeHTTP(a, r)
	})
}
