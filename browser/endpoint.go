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

// answer serves the endpoint of the lease: what a browser serves below /json
// and /devtools, of the lease's own pages.
func (l *Lent) answer(w http.ResponseWriter, r *http.Request) {
	addr := l.listen.Addr().String()
	token, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.Host != addr || len(r.Header.Values("Origin")) > 0: // a page, or a name that leads here
		http.Error(w, "this endpoint is for programs", http.StatusForbidden)
		return
	case subtle.ConstantTimeCompare([]byte(token), []byte(l.token)) != 1:
		http.NotFound(w, r)
		return
	}
	at, err := l.usable()
	var end func()
	if err == nil {
		r, end, err = l.answering(r)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	defer end()
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		l.connect(w, r, at, rest)
		return
	}
	switch name, of, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(rest, "json"), "/"), "/"); {
	case rest == "" || rest == "json/version":
		l.version(w, r, at)
	case !strings.HasPrefix(rest, "json"):
		http.NotFound(w, r)
	case name == "" && of == "" || of == "list":
		l.list(w, r, at)
	case of == "new":
		l.fresh(w, r, at)
	case strings.HasPrefix(of, "close/"):
		l.onPage(w, r, at, "Target.closeTarget", strings.TrimPrefix(of, "close/"))
	case strings.HasPrefix(of, "activate/"):
		l.onPage(w, r, at, "Target.activateTarget", strings.TrimPrefix(of, "activate/"))
	default:
		http.NotFound(w, r)
	}
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_ = json.NewEncoder(w).Encode(v)
}

func failed(w http.ResponseWriter, err error) { http.Error(w, err.Error(), http.StatusBadGateway) }

func (l *Lent) version(w http.ResponseWriter, r *http.Request, at *place) {
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
	write(w, map[string]string{"Browser": v.Product, "Protocol-Version": v.Protocol, "User-Agent": v.Agent, "V8-Version": v.JS, "webSocketDebuggerUrl": l.socket("browser/lease")})
}

// socket is the address of a connection of the endpoint.
func (l *Lent) socket(of string) string {
	return "ws://" + l.listen.Addr().String() + "/" + l.token + "/devtools/" + of
}

// info is a page as the protocol shows it.
type info struct {
	ID       string `json:"targetId"`
	Type     string `json:"type"`
	Title    string `json:"title"`
	URL      string `json:"url"`
	Attached bool   `json:"attached"`
}

// infos are the lease's own pages, in the browser's order.
func (l *Lent) infos(ctx context.Context, at *place) ([]info, error) {
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

// entry is a page as /json/list shows it.
func (l *Lent) entry(i info) map[string]string {
	return map[string]string{"id": i.ID, "type": i.Type, "title": i.Title, "url": i.URL, "webSocketDebuggerUrl": l.socket("page/" + i.ID)}
}

func (l *Lent) list(w http.ResponseWriter, r *http.Request, at *place) {
	infos, err := l.infos(r.Context(), at)
	if err != nil {
		failed(w, err)
		return
	}
	out := []map[string]string{}
	for _, i := range infos {
		out = append(out, l.entry(i))
	}
	write(w, out)
}

// fresh makes a page: PUT /json/new?ADDRESS.
func (l *Lent) fresh(w http.ResponseWriter, r *http.Request, at *place) {
	address, err := url.QueryUnescape(r.URL.RawQuery)
	if address == "" {
		address = blank
	}
	switch {
	case r.Method != http.MethodPut:
		http.Error(w, "use PUT", http.StatusMethodNotAllowed)
		return
	case err != nil || !l.covers(address):
		l.refuse(refusedOrigin, address)
		http.Error(w, l.elsewhere().Message, http.StatusForbidden)
		return
	}
	id, err := l.page(r.Context(), at, address)
	if err != nil {
		failed(w, err)
		return
	}
	write(w, l.entry(info{ID: id, Type: "page", URL: address}))
}

func (l *Lent) onPage(w http.ResponseWriter, r *http.Request, at *place, method, id string) {
	if at.watcher(id) == "" {
		http.Error(w, "the lease has no such page", http.StatusNotFound)
		return
	}
	if err := at.call(r.Context(), "", method, map[string]any{"targetId": id}, nil); err != nil {
		failed(w, err)
	}
}

// connect takes a connection to the browser, as the lease shows it, or to one
// of its pages.
func (l *Lent) connect(w http.ResponseWriter, r *http.Request, at *place, rest string) {
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
		return // it has answered
	}
	conn.SetReadLimit(fromScript)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	c := &client{lent: l, at: at, conn: conn, page: session, out: make(chan []byte, queued), sessions: map[string]bool{}, cancel: cancel}
	if !l.take(c) {
		c.close()
		return
	}
	if session != "" {
		c.own(session)
	}
	c.serve(ctx)
}

// join attaches to a page.
func join(ctx context.Context, at *place, page string) (string, error) {
	var joined struct {
		ID string `json:"sessionId"`
	}
	err := at.call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": page, "flatten": true}, &joined)
	return joined.ID, err
}

// mostClients is how many connections the scripts of a lease may have.
const mostClients = 16

// take counts a connection among those that end with the script.
func (l *Lent) take(c *client) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open || l.over != nil || len(l.clients) >= mostClients {
		return false
	}
	l.clients[c] = true
	return true
}

func (l *Lent) leave(c *client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.clients, c)
}
