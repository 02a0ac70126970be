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

// place is what a lease has in the browser: a connection, a context of its own,
// and pages in it, each with a session by which the lease watches it.
type place struct {
	*wire
	context string

	mu      sync.Mutex
	pages   map[string]string // target to the session that watches it
	making  bool              // the browser was asked for a page
	unknown []string          // pages that came up meanwhile
}

// mostPages is how many pages a lease may have.
const mostPages = 8

// ready connects to the browser where that has not been done, and makes a
// context of the lease's own: the browser throws it away, pages and cookies with
// it, when the connection ends, however that comes about.
func (l *Lent) ready(ctx context.Context) error {
	l.mu.Lock()
	at := l.at
	l.mu.Unlock()
	if at != nil && at.alive() {
		return nil
	}
	w, err := dial(ctx, l.lease.Endpoint)
	if err != nil {
		return err
	}
	at = &place{wire: w, pages: map[string]string{}}
	go w.serve(context.Background())
	if err := l.settle(ctx, at); err != nil {
		w.end(errGone)
		return err
	}
	return nil
}

func (l *Lent) settle(ctx context.Context, at *place) error {
	var made struct {
		ID string `json:"browserContextId"`
	}
	if err := at.call(ctx, "", "Target.createBrowserContext", map[string]any{"disposeOnDetach": true}, &made); err != nil {
		return err
	}
	if at.context = made.ID; at.context == "" {
		return errors.New("the browser makes no context of its own for the lease")
	}
	at.listen("", func(m message) { l.happened(at, m) })
	if err := at.call(ctx, "", "Browser.setDownloadBehavior", map[string]any{"behavior": "deny", "browserContextId": at.context}, nil); err != nil {
		return err
	}
	if err := at.call(ctx, "", "Target.setDiscoverTargets", map[string]any{"discover": true}, nil); err != nil {
		return err
	}
	l.mu.Lock()
	if l.over != nil {
		defer l.mu.Unlock()
		return l.over
	}
	l.at = at
	l.mu.Unlock()
	_, err := l.page(ctx, at, blank)
	return err
}

// page makes a page, watches it, and then only has it go somewhere.
func (l *Lent) page(ctx context.Context, at *place, address string) (id string, err error) {
	l.making.Lock()
	defer l.making.Unlock()
	at.mu.Lock()
	full := len(at.pages) >= mostPages
	at.making = !full
	at.mu.Unlock()
	if full {
		return "", fmt.Errorf("a lease has at most %d pages", mostPages)
	}
	id, err = l.watched(ctx, at)
	at.mu.Lock()
	popups := slices.DeleteFunc(at.unknown, func(s string) bool { return s == id })
	at.making, at.unknown = false, nil
	at.mu.Unlock()
	for _, p := range popups {
		l.unwanted(at, p)
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

// watched makes an empty page whose documents are stopped until the lease has
// seen where they come from.
func (l *Lent) watched(ctx context.Context, at *place) (string, error) {
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
	at.listen(session, func(m message) { l.watch(at, m) })
	for _, m := range l.watching() {
		if err := at.call(ctx, session, m.method, m.params, nil); err != nil {
			return made.ID, err
		}
	}
	at.mu.Lock()
	at.pages[made.ID] = session
	at.mu.Unlock()
	return made.ID, nil
}

// settled waits a moment until what pages did so far has been told.
func (p *place) settled() {
	p.mu.Lock()
	sessions := slices.Collect(maps.Values(p.pages))
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, s := range sessions {
		_ = p.call(ctx, s, "Page.getFrameTree", map[string]any{}, nil)
	}
}

// watcher is the session that watches a page, "" where there is no such page.
func (p *place) watcher(target string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pages[target]
}

// happened takes an event of the browser. Pages that nobody asked for, as a
// page opens them, are closed: nothing watched them from the start.
func (l *Lent) happened(at *place, m message) {
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
			l.unwanted(at, e.Info.Target)
		}
	case "Target.targetDestroyed":
		at.mu.Lock()
		delete(at.pages, e.Target)
		at.mu.Unlock()
	case "Target.detachedFromTarget":
		l.detached(at, e.Session)
	}
}

// unwanted closes a page that the lease did not make.
func (l *Lent) unwanted(at *place, target string) {
	l.refuse(refusedPopup, "")
	at.send("", "Target.closeTarget", map[string]any{"targetId": target}, nil)
}

// detached forgets a session. A page that is no longer watched is closed.
func (l *Lent) detached(at *place, session string) {
	at.listen(session, nil)
	at.mu.Lock()
	for target, s := range at.pages {
		if s == session {
			delete(at.pages, target)
			at.send("", "Target.closeTarget", map[string]any{"targetId": target}, nil)
		}
	}
	at.mu.Unlock()
	l.mu.Lock()
	var cut []*client
	for c := range l.clients {
		if c.lost(session) {
			cut = append(cut, c)
		}
	}
	l.mu.Unlock()
	for _, c := range cut {
		c.close()
	}
}

// watch takes an event of a page: each document it wants is let through or
// refused, and where it is after all is looked at again.
func (l *Lent) watch(at *place, m message) {
	switch m.Method {
	case "Fetch.requestPaused":
		var e struct {
			ID      string `json:"requestId"`
			Request struct {
				URL string `json:"url"`
			} `json:"request"`
		}
		if json.Unmarshal(m.Params, &e) != nil {
			return // it stays stopped
		}
		if err := l.Live(); err != nil { // the machine slept, and so did the lease's timer
			go l.end(err)
			return
		}
		if o, err := originOf(e.Request.URL); err == nil && o == l.lease.Origin {
			l.passedOn()
			at.send(m.Session, "Fetch.continueRequest", map[string]any{"requestId": e.ID}, nil)
			return
		}
		l.refuse(refusedOrigin, e.Request.URL)
		at.send(m.Session, "Fetch.failRequest", map[string]any{"requestId": e.ID, "errorReason": "BlockedByClient"}, nil)
	case "Page.frameNavigated":
		var e struct {
			Frame struct {
				URL    string `json:"url"`
				Parent string `json:"parentId"`
			} `json:"frame"`
		}
		if json.Unmarshal(m.Params, &e) != nil || !l.mayBe(e.Frame.URL, e.Frame.Parent == "") {
			l.left(e.Frame.URL)
		}
	case "Audits.issueAdded":
		l.kept(m.Params)
	case "Target.attachedToTarget":
		l.apart(at, m.Params)
	case "Target.detachedFromTarget":
		var e struct {
			Session string `json:"sessionId"`
		}
		if json.Unmarshal(m.Params, &e) == nil {
			at.listen(e.Session, nil)
		}
	}
}

// mayBe reports whether a frame may be where it says it is.
func (l *Lent) mayBe(address string, top bool) bool {
	inner := strings.TrimPrefix(address, "blob:")
	if address == "" || l.covers(inner) || strings.HasPrefix(address, "chrome-error://") {
		return true
	}
	o, err := originOf(inner)
	return !top && (err != nil || o == l.lease.Origin) // about:srcdoc, data: and the like, in a frame of a page
}

// hostPort is the host and port of an address, for the record.
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
