package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// hostBrowser is the lease's part of the browser: a connection, a context of its own, and the pages
// in it, each with a session that watches it.
type hostBrowser struct {
	*wire
	context string

	mu      sync.Mutex
	pages   map[string]string // watching session by target
	making  bool              // a page is being created
	unknown []string          // pages that appeared meanwhile
}

// mostPages is the maximum number of pages of a lease.
const mostPages = 8

// ready connects to the browser if needed and creates the lease's context. The browser discards the
// context with its pages and cookies when the connection ends for any reason.
func (s *Session) ready(ctx context.Context) error {
	s.mu.Lock()
	at := s.at
	s.mu.Unlock()
	if at != nil && at.alive() {
		return nil
	}
	w, err := dial(ctx, s.lease.Endpoint)
	if err != nil {
		return err
	}
	at = &hostBrowser{wire: w, pages: map[string]string{}}
	go w.serve(context.Background())
	if err := s.settle(ctx, at); err != nil {
		w.end(errGone)
		return err
	}
	return nil
}

func (s *Session) settle(ctx context.Context, at *hostBrowser) error {
	var made struct {
		ID string `json:"browserContextId"`
	}
	if err := at.call(ctx, "", "Target.createBrowserContext", map[string]any{"disposeOnDetach": true}, &made); err != nil {
		return err
	}
	if at.context = made.ID; at.context == "" {
		return errors.New("the browser did not create a separate context for the shared session")
	}
	at.listen("", func(m message) { s.happened(at, m) })
	if err := at.call(ctx, "", "Browser.setDownloadBehavior", map[string]any{"behavior": "deny", "browserContextId": at.context}, nil); err != nil {
		return err
	}
	if err := at.call(ctx, "", "Target.setDiscoverTargets", map[string]any{"discover": true}, nil); err != nil {
		return err
	}
	s.mu.Lock()
	if s.over != nil {
		defer s.mu.Unlock()
		return s.over
	}
	s.at = at
	s.mu.Unlock()
	_, err := s.page(ctx, at, blank)
	return err
}

// page creates a page, watches it, and only then navigates it.
func (s *Session) page(ctx context.Context, at *hostBrowser, address string) (id string, err error) {
	s.making.Lock()
	defer s.making.Unlock()
	at.mu.Lock()
	full := len(at.pages) >= mostPages
	at.making = !full
	at.mu.Unlock()
	if full {
		return "", fmt.Errorf("a browser session has at most %d pages", mostPages)
	}
	id, err = s.watched(ctx, at)
	at.mu.Lock()
	popups := slices.DeleteFunc(at.unknown, func(t string) bool { return t == id })
	at.making, at.unknown = false, nil
	at.mu.Unlock()
	for _, p := range popups {
		s.unwanted(at, p)
	}
	if err != nil {
		if id != "" {
			at.send("", "Target.closeTarget", map[string]any{"targetId": id}, nil)
		}
		return "", err
	}
	if address != blank {
		err = at.call(ctx, at.watcher(id), "Page.navigate", map[string]any{"url": address}, nil)
	}
	return id, err
}

// watched creates an empty page whose document requests are paused until they are checked.
func (s *Session) watched(ctx context.Context, at *hostBrowser) (string, error) {
	var made struct {
		ID string `json:"targetId"`
	}
	if err := at.call(ctx, "", "Target.createTarget", map[string]any{"url": blank, "browserContextId": at.context}, &made); err != nil {
		return "", err
	}
	session, err := join(ctx, at, made.ID)
	if err != nil {
		return made.ID, err
	}
	at.listen(session, func(m message) { s.watch(at, m) })
	for _, m := range s.watching() {
		if err := at.call(ctx, session, m.method, m.params, nil); err != nil {
			return made.ID, err
		}
	}
	at.mu.Lock()
	at.pages[made.ID] = session
	at.mu.Unlock()
	return made.ID, nil
}

// settled waits briefly for pending events of the pages.
func (p *hostBrowser) settled() {
	p.mu.Lock()
	sessions := slices.Collect(maps.Values(p.pages))
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, s := range sessions {
		_ = p.call(ctx, s, "Page.getFrameTree", map[string]any{}, nil)
	}
}

// watcher returns the session that watches a page, or "" if there is no such page.
func (p *hostBrowser) watcher(target string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pages[target]
}

// happened handles an event of the browser. Pages that the lease did not create, such as pop-ups,
// are closed, since they were not watched from the start.
func (s *Session) happened(at *hostBrowser, m message) {
	var e struct {
		Session string `json:"sessionId"`
		Target  string `json:"targetId"`
		Info    struct {
			Target  string `json:"targetId"`
			Type    string `json:"type"`
			Context string `json:"browserContextId"`
		} `json:"targetInfo"`
	}
	if json.Unmarshal(m.Params, &e) != nil {
		return
	}
	switch m.Method {
	case "Target.targetCreated":
		if e.Info.Context != at.context || e.Info.Type != "page" {
			return
		}
		at.mu.Lock()
		_, known := at.pages[e.Info.Target]
		making := at.making
		if !known && making {
			at.unknown = append(at.unknown, e.Info.Target)
		}
		at.mu.Unlock()
		if !known && !making {
			s.unwanted(at, e.Info.Target)
		}
	case "Target.targetDestroyed":
		at.mu.Lock()
		delete(at.pages, e.Target)
		at.mu.Unlock()
	case "Target.detachedFromTarget":
		s.detached(at, e.Session)
	}
}

// unwanted closes a page that the lease did not create.
func (s *Session) unwanted(at *hostBrowser, target string) {
	s.refuse(refusedPopup, "")
	at.send("", "Target.closeTarget", map[string]any{"targetId": target}, nil)
}

// detached removes a session. A page that is no longer watched is closed.
func (s *Session) detached(at *hostBrowser, session string) {
	at.listen(session, nil)
	at.mu.Lock()
	for target, of := range at.pages {
		if of == session {
			delete(at.pages, target)
			at.send("", "Target.closeTarget", map[string]any{"targetId": target}, nil)
		}
	}
	at.mu.Unlock()
	s.mu.Lock()
	var cut []*client
	for c := range s.clients {
		if c.lost(session) {
			cut = append(cut, c)
		}
	}
	s.mu.Unlock()
	for _, c := range cut {
		c.close()
	}
}

// watch handles an event of a page. Each document request is allowed or rejected, and the resulting
// address is checked again.
func (s *Session) watch(at *hostBrowser, m message) {
	switch m.Method {
	case "Fetch.requestPaused":
		var e struct {
			ID      string `json:"requestId"`
			Request struct {
				URL string `json:"url"`
			} `json:"request"`
		}
		if json.Unmarshal(m.Params, &e) != nil {
			return // it stays paused
		}
		if err := s.Live(); err != nil { // the timer does not run while the machine sleeps
			go s.end(err)
			return
		}
		if o, err := originOf(e.Request.URL); err == nil && o == s.lease.Origin {
			s.passedOn()
			at.send(m.Session, "Fetch.continueRequest", map[string]any{"requestId": e.ID}, nil)
			return
		}
		s.refuse(refusedOrigin, e.Request.URL)
		at.send(m.Session, "Fetch.failRequest", map[string]any{"requestId": e.ID, "errorReason": "BlockedByClient"}, nil)
	case "Page.frameNavigated":
		var e struct {
			Frame struct {
				URL    string `json:"url"`
				Parent string `json:"parentId"`
			} `json:"frame"`
		}
		if json.Unmarshal(m.Params, &e) != nil || !s.mayBe(e.Frame.URL, e.Frame.Parent == "") {
			s.left(e.Frame.URL)
		}
	case "Audits.issueAdded":
		s.kept(m.Params)
	case "Target.attachedToTarget":
		s.apart(at, m.Params)
	case "Target.detachedFromTarget":
		var e struct {
			Session string `json:"sessionId"`
		}
		if json.Unmarshal(m.Params, &e) == nil {
			at.listen(e.Session, nil)
		}
	}
}

// mayBe reports whether a frame may be at the address it reports.
func (s *Session) mayBe(address string, top bool) bool {
	inner := strings.TrimPrefix(address, "blob:")
	if address == "" || s.covers(inner) || strings.HasPrefix(address, "chrome-error://") {
		return true
	}
	o, err := originOf(inner)
	return !top && (err != nil || o == s.lease.Origin) // about:srcdoc, data: and similar, in a frame of a page
}

// hostPort returns the host and port of an address, for the record.
func hostPort(address string) (string, int) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "", 0
	}
	p := u.Port()
	if p == "" {
		p = defaultPort[strings.ToLower(u.Scheme)]
	}
	n, _ := strconv.Atoi(p)
	return u.Hostname(), n
}
