package browser

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/coder/websocket"
)

// client is one connection of a script: to a page, or to the browser as exposed by the lease,
// including its page sessions.
type client struct {
	lent   *Session
	at     *hostBrowser
	conn   *websocket.Conn
	page   string // session of a connection to a page
	out    chan []byte
	cancel context.CancelFunc

	mu       sync.Mutex
	sessions map[string]bool // sessions of a browser connection that belong to it
}

// serve reads and answers requests until either side disconnects.
func (c *client) serve(ctx context.Context) {
	defer c.close()
	go func() {
		defer c.close()
		for {
			select {
			case b := <-c.out:
				if c.conn.Write(ctx, websocket.MessageText, b) != nil {
					return
				}
			case <-ctx.Done():
				return
			case <-c.at.gone:
				return
			}
		}
	}()
	for {
		_, b, err := c.conn.Read(ctx)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(b, &m) != nil || m.ID == nil || m.Method == "" {
			return // not a request of the protocol
		}
		if _, err := c.lent.usable(); err != nil {
			return
		}
		c.take(ctx, m)
	}
}

// close ends the connection and its sessions in the browser.
func (c *client) close() {
	c.cancel()
	_ = c.conn.CloseNow()
	c.lent.leave(c)
	c.mu.Lock()
	sessions := c.sessions
	c.sessions = map[string]bool{}
	c.mu.Unlock()
	for s := range sessions {
		c.at.listen(s, nil)
		c.at.send("", "Target.detachFromTarget", map[string]any{"sessionId": s}, nil)
	}
}

// own routes the events of a session to this connection.
func (c *client) own(session string) {
	c.mu.Lock()
	c.sessions[session] = true
	c.mu.Unlock()
	c.at.listen(session, func(m message) {
		if e, ok := heard(m); ok {
			c.push(e)
		}
	})
}

func (c *client) owns(session string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[session]
}

// lost removes a session that the browser ended. It reports whether the connection served only that
// session.
func (c *client) lost(session string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	had := c.sessions[session]
	delete(c.sessions, session)
	return had && session == c.page
}

// push sends a message to the script. It disconnects a script that does not read.
func (c *client) push(m message) {
	if c.page != "" {
		m.Session = ""
	}
	b, err := json.Marshal(m)
	if err != nil {
		return
	}
	select {
	case c.out <- b:
	default:
		go c.close()
	}
}

// reply answers a request. For an error of the lease itself, result is nil.
func (c *client) reply(to message, result any, f *fault) {
	raw, err := json.Marshal(result)
	if err != nil || result == nil {
		raw = json.RawMessage("{}")
	}
	m := message{ID: to.ID, Session: to.Session, Result: raw}
	if f != nil {
		m.Result, m.Error = nil, f
	}
	c.push(m)
}

// take forwards a request to the browser or answers it.
func (c *client) take(ctx context.Context, m message) {
	session := m.Session
	switch {
	case c.page != "" && session == "":
		session = c.page
	case c.page != "" || session != "" && !c.owns(session):
		c.reply(m, nil, &fault{-32001, "no session of this connection"})
		return
	case session == "":
		c.browser(ctx, m)
		return
	}
	params, code, at := c.lent.vet(m.Method, m.Params)
	if code != "" {
		c.refuse(m, code, at)
		return
	}
	if params == nil {
		params = json.RawMessage("{}")
	}
	c.at.send(session, m.Method, params, func(r message) {
		if r.Error != nil {
			c.reply(m, nil, r.Error)
			return
		}
		c.reply(m, r.Result, nil)
	})
}

func (c *client) refuse(m message, code, at string) {
	c.lent.refuse(code, at)
	if code == refusedOrigin {
		c.reply(m, nil, c.lent.elsewhere())
		return
	}
	c.reply(m, nil, &fault{-32601, "this browser session does not allow " + short(m.Method)})
}

func (s *Session) elsewhere() *fault {
	return &fault{-32000, "this browser session is limited to " + s.lease.Origin}
}

func short(s string) string { return s[:min(len(s), 64)] }

// browser answers requests to the browser itself, limited to the pages of the lease.
func (c *client) browser(ctx context.Context, m message) {
	var p struct {
		Target  string `json:"targetId"`
		Session string `json:"sessionId"`
		URL     string `json:"url"`
	}
	if len(m.Params) > 0 && json.Unmarshal(m.Params, &p) != nil {
		c.refuse(m, refusedMethod, "")
		return
	}
	of := map[string]any{"targetId": p.Target}
	switch m.Method {
	case "Browser.getVersion":
		c.pass(ctx, m, map[string]any{})
		return
	case "Target.setDiscoverTargets":
		c.reply(m, nil, nil) // nothing to discover: getTargets lists the pages
		return
	case "Target.getTargets":
		infos, err := c.lent.infos(ctx, c.at)
		c.done(m, map[string]any{"targetInfos": infos}, err)
		return
	case "Target.createTarget":
		if p.URL == "" {
			p.URL = blank
		}
		if !c.lent.covers(p.URL) {
			c.refuse(m, refusedOrigin, p.URL)
			return
		}
		id, err := c.lent.page(ctx, c.at, p.URL)
		c.done(m, map[string]any{"targetId": id}, err)
		return
	case "Target.detachFromTarget":
		if c.owns(p.Session) {
			c.pass(ctx, m, map[string]any{"sessionId": p.Session})
			return
		}
	case "Target.attachToTarget", "Target.getTargetInfo", "Target.closeTarget", "Target.activateTarget":
		if c.at.watcher(p.Target) == "" {
			break
		}
		if m.Method != "Target.attachToTarget" {
			c.pass(ctx, m, of)
			return
		}
		session, err := join(ctx, c.at, p.Target)
		if err == nil {
			c.own(session)
		}
		c.done(m, map[string]any{"sessionId": session}, err)
		return
	default:
		c.refuse(m, refusedMethod, "")
		return
	}
	c.reply(m, nil, &fault{-32602, "this browser session has no such page"})
}

// pass calls the browser with rebuilt parameters.
func (c *client) pass(ctx context.Context, m message, params map[string]any) {
	var result json.RawMessage
	err := c.at.call(ctx, "", m.Method, params, &result)
	c.done(m, result, err)
}

func (c *client) done(m message, result any, err error) {
	if err != nil {
		c.reply(m, nil, &fault{-32000, err.Error()})
		return
	}
	c.reply(m, result, nil)
}
