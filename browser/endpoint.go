package browser

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/coder/websocket"
)

// answer serves the lease's endpoint: what a browser serves below /json and /devtools, limited to
// the lease's pages.
func (s *Session) answer(w http.ResponseWriter, r *http.Request) {
	addr := s.listen.Addr().String()
	token, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.Host != addr || len(r.Header.Values("Origin")) > 0: // from a web page, or by another host name that resolves here
		http.Error(w, "this endpoint is for programs", http.StatusForbidden)
		return
	case subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1:
		http.NotFound(w, r)
		return
	}
	at, err := s.usable()
	var end func()
	if err == nil {
		r, end, err = s.answering(r)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	defer end()
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		s.connect(w, r, at, rest)
		return
	}
	switch name, of, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(rest, "json"), "/"), "/"); {
	case rest == "" || rest == "json/version":
		s.version(w, r, at)
	case !strings.HasPrefix(rest, "json"):
		http.NotFound(w, r)
	case name == "" && of == "" || of == "list":
		s.list(w, r, at)
	case of == "new":
		s.fresh(w, r, at)
	case strings.HasPrefix(of, "close/"):
		s.onPage(w, r, at, "Target.closeTarget", strings.TrimPrefix(of, "close/"))
	case strings.HasPrefix(of, "activate/"):
		s.onPage(w, r, at, "Target.activateTarget", strings.TrimPrefix(of, "activate/"))
	default:
		http.NotFound(w, r)
	}
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_ = json.NewEncoder(w).Encode(v)
}

func failed(w http.ResponseWriter, err error) { http.Error(w, err.Error(), http.StatusBadGateway) }

func (s *Session) version(w http.ResponseWriter, r *http.Request, at *hostBrowser) {
	var v struct {
		Product  string `json:"product"`
		Protocol string `json:"protocolVersion"`
		Agent    string `json:"userAgent"`
		JS       string `json:"jsVersion"`
	}
	if err := at.call(r.Context(), "", "Browser.getVersion", map[string]any{}, &v); err != nil {
		failed(w, err)
		return
	}
	write(w, map[string]string{"Browser": v.Product, "Protocol-Version": v.Protocol, "User-Agent": v.Agent, "V8-Version": v.JS, "webSocketDebuggerUrl": s.socket("browser/lease")})
}

// socket returns the WebSocket URL of an endpoint connection.
func (s *Session) socket(of string) string {
	return "ws://" + s.listen.Addr().String() + "/" + s.token + "/devtools/" + of
}

// info describes a page as defined by the protocol.
type info struct {
	ID       string `json:"targetId"`
	Type     string `json:"type"`
	Title    string `json:"title"`
	URL      string `json:"url"`
	Attached bool   `json:"attached"`
}

// infos returns the lease's pages in the browser's order.
func (s *Session) infos(ctx context.Context, at *hostBrowser) ([]info, error) {
	var all struct {
		List []info `json:"targetInfos"`
	}
	err := at.call(ctx, "", "Target.getTargets", map[string]any{}, &all)
	out := []info{}
	for _, i := range all.List {
		if at.watcher(i.ID) != "" {
			out = append(out, i)
		}
	}
	return out, err
}

// entry describes a page as in /json/list.
func (s *Session) entry(i info) map[string]string {
	return map[string]string{"id": i.ID, "type": i.Type, "title": i.Title, "url": i.URL, "webSocketDebuggerUrl": s.socket("page/" + i.ID)}
}

func (s *Session) list(w http.ResponseWriter, r *http.Request, at *hostBrowser) {
	infos, err := s.infos(r.Context(), at)
	if err != nil {
		failed(w, err)
		return
	}
	out := []map[string]string{}
	for _, i := range infos {
		out = append(out, s.entry(i))
	}
	write(w, out)
}

// fresh creates a page: PUT /json/new?ADDRESS.
func (s *Session) fresh(w http.ResponseWriter, r *http.Request, at *hostBrowser) {
	address, err := url.QueryUnescape(r.URL.RawQuery)
	if address == "" {
		address = blank
	}
	switch {
	case r.Method != http.MethodPut:
		http.Error(w, "use PUT", http.StatusMethodNotAllowed)
		return
	case err != nil || !s.covers(address):
		s.refuse(refusedOrigin, address)
		http.Error(w, s.elsewhere().Message, http.StatusForbidden)
		return
	}
	id, err := s.page(r.Context(), at, address)
	if err != nil {
		failed(w, err)
		return
	}
	write(w, s.entry(info{ID: id, Type: "page", URL: address}))
}

func (s *Session) onPage(w http.ResponseWriter, r *http.Request, at *hostBrowser, method, id string) {
	if at.watcher(id) == "" {
		http.Error(w, "this browser session has no such page", http.StatusNotFound)
		return
	}
	if err := at.call(r.Context(), "", method, map[string]any{"targetId": id}, nil); err != nil {
		failed(w, err)
	}
}

// connect accepts a connection to the browser, as exposed by the lease, or to one of its pages.
func (s *Session) connect(w http.ResponseWriter, r *http.Request, at *hostBrowser, rest string) {
	page, isPage := strings.CutPrefix(rest, "devtools/page/")
	if isPage && at.watcher(page) == "" || !isPage && rest != "" && !strings.HasPrefix(rest, "devtools/browser") {
		http.NotFound(w, r)
		return
	}
	session := ""
	if isPage {
		var err error
		if session, err = join(r.Context(), at, page); err != nil {
			failed(w, err)
			return
		}
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // Accept has responded
	}
	conn.SetReadLimit(fromScript)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	c := &client{lent: s, at: at, conn: conn, page: session, out: make(chan []byte, queued), sessions: map[string]bool{}, cancel: cancel}
	if !s.take(c) {
		c.close()
		return
	}
	if session != "" {
		c.own(session)
	}
	c.serve(ctx)
}

// join attaches to a page.
func join(ctx context.Context, at *hostBrowser, page string) (string, error) {
	var joined struct {
		ID string `json:"sessionId"`
	}
	err := at.call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": page, "flatten": true}, &joined)
	return joined.ID, err
}

// mostClients is the maximum number of connections of a lease.
const mostClients = 16

// take adds a connection to those that are closed when the script ends.
func (s *Session) take(c *client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open || s.over != nil || len(s.clients) >= mostClients {
		return false
	}
	s.clients[c] = true
	return true
}

func (s *Session) leave(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c)
}
