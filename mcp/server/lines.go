package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"metier/internal/intake"
)

// lines passes on the lines of a stream that are JSON-RPC messages, and answers the others with an
// error. Each message of a batch is a line of its own. The protocol library would end the session at the first of them.
type lines struct {
	in   *bufio.Reader
	out  io.Writer // of the answers
	most int       // bytes of a line

	batches batches
	rest    []byte   // of the line that is being passed on
	queue   [][]byte // lines that follow it
	err     error    // what follows them
}

func newLines(in io.Reader, out io.Writer) *lines {
	return &lines{in: bufio.NewReaderSize(in, 64<<10), out: out, most: mcp.DefaultMaxLineLength}
}

// Read implements [io.Reader]. It never returns bytes of two lines, so that the library's limit
// applies to each.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if len(l.queue) > 0 {
			l.rest, l.queue = l.queue[0], l.queue[1:]
			break
		}
		if l.err != nil {
			return 0, l.err
		}
		var line []byte
		var long bool
		line, long, l.err = l.next()
		m, bad := check(line)
		switch {
		case long:
			bad = &badLine{jsonrpc.CodeParseError, fmt.Errorf("a line can have at most %d bytes", l.most)}
		case bad == nil && !l.batches.begin(m.calls, m.batched):
			bad = &badLine{jsonrpc.CodeInvalidRequest, errors.New("a batch that is not answered yet has a request with the same id")}
		}
		switch {
		case bad == nil:
			l.queue = m.lines(line)
		case bad.code != 0:
			if _, err := l.out.Write(bad.answer(line)); err != nil {
				return 0, err
			}
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// next returns a line with its end. Of a line that is too long, it returns nothing.
func (l *lines) next() (line []byte, long bool, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		if long = long || len(line)+len(part) > l.most; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// badLine is why a line is not passed on. A line with the code 0 is not answered.
type badLine struct {
	code int64
	err  error
}

// check returns the messages of a line, or why it is not a message or a batch of messages.
func check(line []byte) (*message, *badLine) {
	text := bytes.TrimSpace(line)
	if len(text) == 0 {
		return nil, &badLine{}
	}
	if err := (&intake.Guard{}).See(text); err != nil {
		return nil, &badLine{jsonrpc.CodeInvalidRequest, err}
	}
	if !json.Valid(text) {
		return nil, &badLine{jsonrpc.CodeParseError, errors.New("the line is not JSON; send each message on a line of its own")}
	}
	m := &message{batched: text[0] == '['}
	if !m.batched {
		m.parts = append(m.parts, text)
	} else if err := json.Unmarshal(text, &m.parts); err != nil || len(m.parts) == 0 {
		return nil, &badLine{jsonrpc.CodeInvalidRequest, errors.New("the batch is empty")}
	}
	seen := map[jsonrpc.ID]bool{}
	for _, text := range m.parts {
		one, err := jsonrpc.DecodeMessage(text)
		if err != nil {
			return nil, notMessage(text, err)
		}
		if r, is := one.(*jsonrpc.Request); is && r.IsCall() {
			if seen[r.ID] {
				return nil, &badLine{jsonrpc.CodeInvalidRequest, errors.New("two requests of the batch have the same id")}
			}
			seen[r.ID] = true
			m.calls = append(m.calls, r.ID)
		}
	}
	return m, nil
}

// notMessage returns what is wrong with JSON that is not a message. A response is not answered,
// because its sender could answer in the same way, without end.
func notMessage(text []byte, err error) *badLine {
	var response struct {
		Method json.RawMessage `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if json.Unmarshal(text, &response) == nil && response.Method == nil && (response.Result != nil || response.Error != nil) {
		return &badLine{}
	}
	return &badLine{jsonrpc.CodeInvalidRequest, fmt.Errorf("the line is not a JSON-RPC message: %w", err)}
}

// answer returns the response to a line. It has the ID of the request if the line is one.
func (b *badLine) answer(line []byte) []byte {
	var request struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(line, &request) != nil || len(request.ID) == 0 || !strings.ContainsRune(`"-0123456789`, rune(request.ID[0])) {
		request.ID = json.RawMessage("null") // neither text nor a number
	}
	text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": request.ID, "error": map[string]any{"code": b.code, "message": b.err.Error()}}) // cannot fail
	return append(text, '\n')
}

// shared is a writer for several goroutines. It ignores Close.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

func (s *shared) Close() error { return nil }
