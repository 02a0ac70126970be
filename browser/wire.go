package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/coder/websocket"

	"metier/internal/loopback"
)

// Limits of messages.
const (
	fromBrowser = 64 << 20 // bytes of a message: it may hold a screenshot
	fromScript  = 4 << 20
	queued      = 4096 // messages that wait for a reader
)

// message is a DevTools protocol message in either direction.
type message struct {
	ID      *int64          `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *fault          `json:"error,omitempty"`
	Session string          `json:"sessionId,omitempty"`
}

// fault is an error of the protocol.
type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (f *fault) Error() string { return f.Message }

// wire is the one connection to the browser. All sessions share it.
type wire struct {
	conn *websocket.Conn
	out  chan []byte
	gone chan struct{} // closed with the connection

	mu      sync.Mutex
	last    int64
	waiting map[int64]func(message)
	sinks   map[string]func(message) // by session; "" is the browser's own
	err     error
}

var errGone = errors.New("the browser's connection has ended")

// dial connects to the browser behind an endpoint.
func dial(ctx context.Context, endpoint string) (*wire, error) {
	u, addr, err := address(endpoint)
	if err != nil {
		return nil, err
	}
	client := loopback.Client(addr)
	path := u.Path
	if u.Scheme == "http" || path == "" || path == "/" {
		if path, err = browserPath(ctx, client, addr); err != nil {
			return nil, err
		}
	}
	conn, _, err := websocket.Dial(ctx, "ws://"+addr+path, &websocket.DialOptions{HTTPClient: client}) //nolint:bodyclose // the library keeps it
	if err != nil {
		return nil, fmt.Errorf("the browser does not answer: %w", err)
	}
	conn.SetReadLimit(fromBrowser)
	return &wire{conn: conn, out: make(chan []byte, queued), gone: make(chan struct{}), waiting: map[int64]func(message){}, sinks: map[string]func(message){}}, nil
}

// browserPath requests the path of the browser's WebSocket connection.
func browserPath(ctx context.Context, client *http.Client, addr string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/json/version", nil)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("the browser does not answer: %w", err)
	}
	defer res.Body.Close()
	var v struct {
		URL string `json:"webSocketDebuggerUrl"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, res.Body, 64<<10)).Decode(&v); err != nil || res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s does not answer like a browser (status %d)", addr, res.StatusCode)
	}
	at, err := url.Parse(v.URL)
	if err != nil || at.Path == "" {
		return "", fmt.Errorf("%s answers, but names no browser connection", addr)
	}
	return at.Path, nil
}

// serve reads and writes until the connection ends.
func (w *wire) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			select {
			case b := <-w.out:
				if w.conn.Write(ctx, websocket.MessageText, b) != nil {
					cancel()
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		_, b, err := w.conn.Read(ctx)
		if err != nil {
			w.end(err)
			return
		}
		var m message
		if json.Unmarshal(b, &m) == nil {
			w.deliver(m)
		}
	}
}

func (w *wire) deliver(m message) {
	w.mu.Lock()
	var to func(message)
	if m.ID != nil {
		to = w.waiting[*m.ID]
		delete(w.waiting, *m.ID)
	} else {
		to = w.sinks[m.Session]
	}
	w.mu.Unlock()
	if to != nil {
		to(m)
	}
}

// end closes the connection. Waiting callers get an error.
func (w *wire) end(err error) {
	w.mu.Lock()
	if w.err != nil {
		w.mu.Unlock()
		return
	}
	w.err = err
	waiting := w.waiting
	w.waiting = map[int64]func(message){}
	close(w.gone)
	w.mu.Unlock()
	_ = w.conn.CloseNow()
	for _, f := range waiting {
		f(message{Error: &fault{-32000, errGone.Error()}})
	}
}

func (w *wire) alive() bool {
	select {
	case <-w.gone:
		return false
	default:
		return true
	}
}

// listen registers a handler for the events of a session; nil removes it. The handler must not
// block.
func (w *wire) listen(session string, sink func(message)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if sink == nil {
		delete(w.sinks, session)
		return
	}
	w.sinks[session] = sink
}

// send sends a method. reply, if any, is called once with the response and must not block.
func (w *wire) send(session, method string, params any, reply func(message)) {
	raw, err := json.Marshal(params)
	var b []byte
	if err == nil {
		w.mu.Lock()
		w.last++
		id := w.last
		if w.err == nil && reply != nil {
			w.waiting[id] = reply
		}
		dead := w.err != nil
		w.mu.Unlock()
		if dead {
			err = errGone
		} else {
			b, err = json.Marshal(message{ID: &id, Method: method, Params: raw, Session: session})
		}
	}
	if err != nil {
		if reply != nil {
			reply(message{Error: &fault{-32000, err.Error()}})
		}
		return
	}
	select {
	case w.out <- b:
	case <-w.gone:
	default: // the browser does not read
		w.end(errGone)
	}
}

// call sends a method and waits for its response.
func (w *wire) call(ctx context.Context, session, method string, params, result any) error {
	answer := make(chan message, 1)
	w.send(session, method, params, func(m message) { answer <- m })
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("the browser answers %s: %w", method, m.Error)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
