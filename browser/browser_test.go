package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"metier/browser"
	"metier/event"
	"metier/internal/testenv"
)

// site is a test server, and the requests it received.
type site struct {
	*httptest.Server
	mu   sync.Mutex
	hits []string
}

func newSite(t *testing.T, pages map[string]http.HandlerFunc) *site {
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" {
			http.NotFound(w, r)
			return
		}
		s.mu.Lock()
		s.hits = append(s.hits, r.Method+" "+r.URL.RequestURI())
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if p := pages[r.URL.Path]; p != nil {
			p(w, r)
			return
		}
		fmt.Fprintf(w, "<title>%s</title><p>page %s", r.URL.Path, r.URL.Path)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.hits)
}

func html(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
}

// lend opens a shared session of the real browser for an origin.
func lend(t *testing.T, origin string, o *browser.Options) *browser.Session {
	t.Helper()
	l, err := browser.Open(browser.Lease{Endpoint: testenv.Chromium(t), Origin: origin, Until: time.Now().Add(time.Hour)}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func begin(t *testing.T, l *browser.Session) func() []event.HostUse {
	t.Helper()
	end, err := l.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end() })
	return end
}

// devtools is a client of the protocol, one call at a time.
type devtools struct {
	t    *testing.T
	conn *websocket.Conn
	id   int
}

func dial(t *testing.T, address string) *devtools {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(64 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &devtools{t: t, conn: conn}
}

type answer struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// ask makes a call; session is for connections to the browser itself.
func (d *devtools) ask(session, method string, params any) (answer, error) {
	d.t.Helper()
	d.id++
	b, err := json.Marshal(map[string]any{"id": d.id, "method": method, "params": params, "sessionId": session})
	if session == "" {
		b, err = json.Marshal(map[string]any{"id": d.id, "method": method, "params": params})
	}
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.conn.Write(d.t.Context(), websocket.MessageText, b); err != nil {
		return answer{}, err
	}
	for {
		a, err := d.next()
		if err != nil || a.ID == d.id {
			return a, err
		}
	}
}

// next returns the next message. One that does not come fails the test, not the
// whole suite.
func (d *devtools) next() (a answer, err error) {
	ctx, cancel := context.WithTimeout(d.t.Context(), 30*time.Second)
	defer cancel()
	_, b, err := d.conn.Read(ctx)
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	return a, err
}

func (d *devtools) must(method string, params, into any) {
	d.t.Helper()
	a, err := d.ask("", method, params)
	if err != nil || a.Error != nil {
		d.t.Fatalf("%s: %v %+v", method, err, a.Error)
	}
	if into != nil {
		if err := json.Unmarshal(a.Result, into); err != nil {
			d.t.Fatal(err)
		}
	}
}

// refused checks that a call is answered with an error of the session.
func (d *devtools) refused(method string, params any, text string) {
	d.t.Helper()
	a, err := d.ask("", method, params)
	if err != nil || a.Error == nil || !strings.Contains(a.Error.Message, text) {
		d.t.Errorf("%s: %v, %+v %s; want %q", method, err, a.Error, a.Result, text)
	}
}

// until reads events up to one of a method.
func (d *devtools) until(method string) {
	d.t.Helper()
	for {
		a, err := d.next()
		if err != nil {
			d.t.Fatalf("waiting for %s: %v", method, err)
		}
		if a.Method == method {
			return
		}
	}
}

func (d *devtools) eval(expression string) any {
	d.t.Helper()
	var r struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
		Thrown json.RawMessage `json:"exceptionDetails"`
	}
	d.must("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &r)
	if r.Thrown != nil {
		d.t.Fatalf("%s: %s", expression, r.Thrown)
	}
	return r.Result.Value
}

// open goes to a page and waits until it has loaded.
func (d *devtools) open(address string) {
	d.t.Helper()
	d.must("Page.navigate", map[string]any{"url": address}, nil)
	d.until("Page.loadEventFired")
}

type listed struct {
	ID  string `json:"id"`
	URL string `json:"url"`
	WS  string `json:"webSocketDebuggerUrl"`
}

func get(t *testing.T, method, address string, into any) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			t.Fatalf("%s: %d %s: %v", address, res.StatusCode, b, err)
		}
	}
	return res.StatusCode, string(b)
}

// first connects to the session's page.
func first(t *testing.T, l *browser.Session) *devtools {
	t.Helper()
	var pages []listed
	get(t, "GET", l.Endpoint()+"/json/list", &pages)
	if len(pages) == 0 {
		t.Fatal("the lease has no page")
	}
	d := dial(t, pages[0].WS)
	d.must("Page.enable", map[string]any{}, nil)
	return d
}

func TestPagesOfTheLeaseAreWorkedWith(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	l := lend(t, s.URL, nil)
	end := begin(t, l)
	var v map[string]string
	get(t, "GET", l.Endpoint()+"/json/version", &v)
	if !strings.HasPrefix(v["Browser"], "Chrome/") || !strings.HasPrefix(v["webSocketDebuggerUrl"], "ws"+strings.TrimPrefix(l.Endpoint(), "http")+"/") {
		t.Errorf("version %v", v)
	}
	d := first(t, l)
	d.open(s.URL + "/one")
	if got := d.eval("document.body.innerText"); got != "page /one" {
		t.Errorf("the page says %q", got)
	}
	var shot struct{ Data string }
	if d.must("Page.captureScreenshot", map[string]any{}, &shot); len(shot.Data) < 100 {
		t.Errorf("a picture of %d characters", len(shot.Data))
	}
	var made listed
	if status, body := get(t, "PUT", l.Endpoint()+"/json/new?"+s.URL+"/two", &made); status != 200 {
		t.Fatalf("a new page: %d %s", status, body)
	}
	var pages []listed
	get(t, "GET", l.Endpoint()+"/json", &pages)
	if len(pages) != 2 {
		t.Errorf("pages %v", pages)
	}
	if status, body := get(t, "GET", l.Endpoint()+"/json/close/"+made.ID, nil); status != 200 {
		t.Errorf("closing it: %d %s", status, body)
	}
	uses := end()
	if len(uses) != 1 || uses[0].Requests < 2 || uses[0].Code != "" || uses[0].Method != "browser" {
		t.Errorf("uses %+v", uses)
	}
}

// Everything works for an ordinary user, whose browser has its own sandbox if
// the machine allows that.
func TestLeaseOfAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	if !testenv.OrdinaryUser(t) {
		return
	}
	s := newSite(t, nil)
	l := lend(t, s.URL, nil)
	end := begin(t, l)
	d := first(t, l)
	d.open(s.URL + "/one")
	if got := d.eval("document.body.innerText"); got != "page /one" {
		t.Errorf("the page says %q", got)
	}
	end()
}

// A connection to the browser shows only the session's own pages.
func TestBrowserItselfIsTheLeases(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	endpoint := testenv.Chromium(t)
	var foreign listed
	get(t, "PUT", endpoint+"/json/new?about:blank", &foreign) // a page that is not part of the session
	l := lend(t, s.URL, nil)
	begin(t, l)
	d := dial(t, "ws"+strings.TrimPrefix(l.Endpoint(), "http"))
	d.must("Browser.getVersion", map[string]any{}, nil)
	d.must("Target.setDiscoverTargets", map[string]any{"discover": true}, nil)
	var all struct {
		Infos []struct {
			ID string `json:"targetId"`
		} `json:"targetInfos"`
	}
	d.must("Target.getTargets", map[string]any{}, &all)
	if len(all.Infos) != 1 || all.Infos[0].ID == foreign.ID {
		t.Fatalf("targets %+v, somebody else's is %s", all, foreign.ID)
	}
	for _, m := range []string{"Target.attachToTarget", "Target.closeTarget", "Target.activateTarget", "Target.getTargetInfo"} {
		d.refused(m, map[string]any{"targetId": foreign.ID, "flatten": true}, "no such page")
	}
	if status, _ := get(t, "GET", l.Endpoint()+"/json/close/"+foreign.ID, nil); status != 404 {
		t.Errorf("somebody else's page could be closed: %d", status)
	}
	if _, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(l.Endpoint(), "http")+"/devtools/page/"+foreign.ID, nil); err == nil {
		t.Error("somebody else's page could be connected to")
	}
	for _, m := range []string{"Target.setAutoAttach", "Target.createBrowserContext", "Target.attachToBrowserTarget", "Target.exposeDevToolsProtocol", "Target.getBrowserContexts", "Storage.getCookies",
		"Browser.close", "Browser.setDownloadBehavior", "SystemInfo.getProcessInfo", "Target.sendMessageToTarget"} {
		d.refused(m, map[string]any{}, "does not allow")
	}
	d.refused("Target.createTarget", map[string]any{"url": "http://127.0.0.1:1/"}, "limited to "+s.URL)
	var made, joined struct {
		Target  string `json:"targetId"`
		Session string `json:"sessionId"`
	}
	d.must("Target.createTarget", map[string]any{"url": s.URL + "/x"}, &made)
	d.must("Target.attachToTarget", map[string]any{"targetId": made.Target, "flatten": true}, &joined)
	if a, err := d.ask(joined.Session, "Runtime.evaluate", map[string]any{"expression": "1+1"}); err != nil || a.Error != nil || !strings.Contains(string(a.Result), "2") {
		t.Errorf("in a session: %v %+v", err, a)
	}
	if a, _ := d.ask("0000", "Runtime.evaluate", map[string]any{"expression": "1+1"}); a.Error == nil {
		t.Error("a session of nobody answers")
	}
	if a, _ := d.ask(joined.Session, "Network.getAllCookies", map[string]any{}); a.Error == nil {
		t.Error("a session gives cookies")
	}
}

// Wherever a page wants to go, no request is sent to another origin.
func TestNoDocumentOfAnotherOriginIsAskedFor(t *testing.T) {
	t.Parallel()
	other := newSite(t, nil)
	pages := map[string]http.HandlerFunc{
		"/redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/redirected", http.StatusFound)
		},
		"/form":    html(`<form id=f method=post action="` + other.URL + `/posted"><input name=a value=secret></form>`),
		"/frame":   html(`<iframe src="` + other.URL + `/framed"></iframe><p>here`),
		"/refresh": html(`<meta http-equiv=refresh content="0;url=` + other.URL + `/refreshed">`),
		// The browser runs sandboxed frames in separate processes.
		"/apart":   html(`<iframe id=f sandbox="allow-scripts" src="/goes" onload="loads = (window.loads || 0) + 1"></iframe>`),
		"/written": html(`<iframe sandbox="allow-scripts" onload="loads = (window.loads || 0) + 1" srcdoc="<script>onload = () => setTimeout(() => { location = '` + other.URL + `/written' })</script>"></iframe>`),
		"/deep":    html(`<iframe sandbox="allow-scripts" src="/inner"></iframe>`),
		"/inner":   html(`<script>onmessage = e => { if (e.data === 1) parent.postMessage(loads, '*') }</script><iframe sandbox="allow-scripts" src="/goes" onload="loads = (window.loads || 0) + 1"></iframe>`),
		"/goes":    html(`<script>onload = () => setTimeout(() => { location = '` + other.URL + `/apart' })</script>`),
	}
	s := newSite(t, pages)
	const twice = "new Promise(r => { const wait = () => window.loads > 1 ? r() : setTimeout(wait, 5); wait() })"
	testenv.Chromium(t) // one for all of them
	for name, do := range map[string]func(*devtools){
		"it is told to": func(d *devtools) {
			d.refused("Page.navigate", map[string]any{"url": other.URL + "/told"}, "limited to "+s.URL)
		},
		"in other letters": func(d *devtools) {
			d.refused("Page.navigate", map[string]any{"URL": other.URL + "/told"}, "limited to "+s.URL)
		},
		"a file": func(d *devtools) {
			d.refused("Page.navigate", map[string]any{"url": "file:///etc/passwd"}, "limited to")
		},
		"the browser's own": func(d *devtools) { d.refused("Page.navigate", map[string]any{"url": "chrome://version"}, "limited to") },
		"a script":          func(d *devtools) { d.refused("Page.navigate", map[string]any{"url": "javascript:1"}, "limited to") },
		"a redirect": func(d *devtools) {
			d.must("Page.navigate", map[string]any{"url": s.URL + "/redirect"}, nil)
			d.until("Page.loadEventFired")
		},
		"a refresh": func(d *devtools) { d.open(s.URL + "/refresh"); d.until("Page.loadEventFired") },
		"a frame":   func(d *devtools) { d.open(s.URL + "/frame") },
		"a form": func(d *devtools) {
			d.open(s.URL + "/form")
			d.eval("document.getElementById('f').submit()")
			d.until("Page.loadEventFired")
		},
		"a script of the page": func(d *devtools) {
			d.open(s.URL + "/")
			d.eval("void (location.href = '" + other.URL + "/scripted')")
			d.until("Page.loadEventFired")
		},
		"a sandboxed frame": func(d *devtools) {
			d.open(s.URL + "/apart")
			d.eval(twice)
		},
		"a sandboxed frame that the page wrote": func(d *devtools) {
			d.open(s.URL + "/written")
			d.eval(twice)
		},
		"the page for its sandboxed frame": func(d *devtools) {
			d.open(s.URL + "/apart")
			d.eval("void (document.getElementById('f').src = '" + other.URL + "/moved')")
			d.eval(twice)
		},
		"a sandboxed frame in another": func(d *devtools) {
			d.open(s.URL + "/deep")
			d.eval("new Promise(r => { onmessage = e => { if (e.data > 1) r() }; const ask = () => { frames[0].postMessage(1, '*'); setTimeout(ask, 5) }; ask() })")
		},
		"a user in the address": func(d *devtools) {
			d.refused("Page.navigate", map[string]any{"url": strings.Replace(s.URL, "http://", "http://"+strings.TrimPrefix(other.URL, "http://")+`\@`, 1)}, "limited to")
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := lend(t, s.URL, nil)
			end := begin(t, l)
			do(first(t, l))
			uses := end()
			if !slices.ContainsFunc(uses, func(u event.HostUse) bool { return u.Code == "origin_refused" }) {
				t.Errorf("the record does not say it: %+v", uses)
			}
			if err := l.Live(); err != nil {
				t.Errorf("the lease ended: %v", err)
			}
		})
	}
	if hits := other.seen(); len(hits) > 0 {
		t.Errorf("the other origin was asked: %q", hits)
	}
}

// A page that opens another page has it closed.
func TestPagesOpenNoPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	l := lend(t, s.URL, nil)
	end := begin(t, l)
	d := first(t, l)
	d.open(s.URL + "/")
	d.eval("void window.open('about:blank', '_blank', 'noopener')")
	d.eval("new Promise(r => { const w = window.open('" + s.URL + "/popup'); const wait = () => w.closed ? r() : setTimeout(wait, 5); wait() })")
	var pages []listed
	if get(t, "GET", l.Endpoint()+"/json/list", &pages); len(pages) != 1 {
		t.Errorf("pages %v", pages)
	}
	if uses := end(); !slices.ContainsFunc(uses, func(u event.HostUse) bool { return u.Code == "popup_refused" }) {
		t.Errorf("uses %+v", uses)
	}
}

// Calls that read saved state or touch files are not passed on. Cookies of
// another context are not visible either.
func TestSavedStateAndFilesAreOutOfReach(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]http.HandlerFunc{"/cookie": func(_ http.ResponseWriter, _ *http.Request) {}})
	endpoint := testenv.Chromium(t)
	var mine listed
	get(t, "PUT", endpoint+"/json/new?about:blank", &mine)
	owner := dial(t, mine.WS) // the browser's own user, signed in
	owner.must("Page.enable", map[string]any{}, nil)
	owner.open(s.URL + "/")
	owner.eval("document.cookie = 'session=canary; max-age=600'")
	owner.eval("localStorage.setItem('token', 'canary')")
	l := lend(t, s.URL, nil)
	begin(t, l)
	d := first(t, l)
	d.open(s.URL + "/")
	if got := d.eval("document.cookie + localStorage.getItem('token')"); got != "null" {
		t.Errorf("the lease sees %q", got)
	}
	for _, m := range []string{"Network.getAllCookies", "Network.getCookies", "Network.setCookie", "Storage.getCookies", "Storage.getStorageKeyForFrame", "DOMStorage.getDOMStorageItems", "Page.captureSnapshot",
		"Page.printToPDF", "Page.setDownloadBehavior", "Browser.setDownloadBehavior", "DOM.setFileInputFiles", "IO.read", "Fetch.disable", "Fetch.enable", "Fetch.continueRequest", "Target.setAutoAttach",
		"Target.createTarget", "Browser.close", "Tracing.start", "Page.startScreencast", "HeapProfiler.takeHeapSnapshot", "Debugger.enable", "Page.close", "Page.crash", "page.enable", "Page", "Page.",
		"Page.enable ", "Runtime.evaluate.x"} {
		d.refused(m, map[string]any{}, "does not allow")
	}
}

// Requests of a page between scripts are in the record of the next script. So
// are requests that an answer of the endpoint still made when its script ended.
func TestBegin_RecordsWhatPagesDoBetweenScripts(t *testing.T) {
	t.Parallel()
	hold, came := make(chan struct{}), make(chan struct{})
	s := newSite(t, map[string]http.HandlerFunc{"/hold": func(http.ResponseWriter, *http.Request) { <-hold }, "/later": func(http.ResponseWriter, *http.Request) { close(came) }})
	documents := func(uses []event.HostUse) int { return uses[0].Requests }
	l := lend(t, s.URL, nil)
	end := begin(t, l)
	d := first(t, l)
	d.open(s.URL + "/one")
	d.eval("fetch('/hold').then(() => { let f = document.createElement('iframe'); f.src = '/later'; document.body.append(f) }); 1")
	if diff := cmp.Diff(1, documents(end())); diff != "" {
		t.Errorf("documents of the first script: %s", diff)
	}
	close(hold)
	<-came
	if diff := cmp.Diff(1, documents(begin(t, l)())); diff != "" {
		t.Errorf("documents of the next one: %s", diff)
	}

	end = begin(t, l)
	var all sync.WaitGroup
	for k := range 6 {
		all.Go(func() { _, _ = get(t, http.MethodPut, l.Endpoint()+"/json/new?"+s.URL+fmt.Sprintf("/new%d", k), nil) })
	}
	recorded := documents(end())
	all.Wait()
	made := 0
	for _, hit := range s.seen() {
		if strings.HasPrefix(hit, "GET /new") {
			made++
		}
	}
	if recorded += documents(begin(t, l)()); made > recorded {
		t.Errorf("%d documents are recorded of %d", recorded, made)
	}
}

// The events of a page's requests have no cookies or credentials: the next
// script does not read what one script of the session got.
func TestEvents_HoldNoCookies(t *testing.T) {
	t.Parallel()
	const canary = "canary-of-the-session"
	var sent atomic.Int64
	s := newSite(t, map[string]http.HandlerFunc{"/login": func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "sid", Value: canary, HttpOnly: true, Path: "/"})
	}, "/moved": func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "again", Value: canary, HttpOnly: true, Path: "/"})
		http.Redirect(w, r, "/again", http.StatusFound)
	}, "/again": func(_ http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie("sid"); err == nil && c.Value == canary {
			sent.Add(1)
		}
	}})
	l := lend(t, s.URL, nil)
	end := begin(t, l)
	first(t, l).open(s.URL + "/login")
	end()
	begin(t, l)
	d := first(t, l)
	d.must("Network.enable", map[string]any{}, nil)
	var seen []string
	for _, path := range []string{"/again", "/moved"} {
		d.id++
		b, err := json.Marshal(map[string]any{"id": d.id, "method": "Page.navigate", "params": map[string]any{"url": s.URL + path}})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.conn.Write(t.Context(), websocket.MessageText, b); err != nil {
			t.Fatal(err)
		}
		for a := (answer{}); a.Method != "Page.loadEventFired"; {
			if a, err = d.next(); err != nil {
				t.Fatal(err)
			}
			if name, network := strings.CutPrefix(a.Method, "Network."); network {
				seen = append(seen, name)
			}
			if strings.Contains(string(a.Params), canary) {
				t.Errorf("%s: %s", a.Method, a.Params)
			}
		}
	}
	slices.Sort(seen)
	want := []string{"loadingFinished", "requestWillBeSent", "responseReceived"}
	if got := slices.Compact(seen); !slices.Equal(slices.DeleteFunc(got, func(s string) bool { return !slices.Contains(want, s) }), want) {
		t.Errorf("the script got %q of its requests, want %q", got, want)
	}
	if diff := cmp.Diff(int64(2), sent.Load()); diff != "" {
		t.Errorf("requests with the cookie: %s", diff)
	}
}

// A page that reaches another origin anyway, here through the owner of the
// browser, ends the session.
func TestLeaseEndsWhereAPageLeaves(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	l := lend(t, s.URL, nil)
	end := begin(t, l)
	d := first(t, l)
	d.open(s.URL + "/")
	var pages []listed
	get(t, "GET", l.Endpoint()+"/json/list", &pages)
	owner := dial(t, "ws"+strings.TrimPrefix(testenv.Chromium(t), "http")+"/devtools/page/"+pages[0].ID)
	_, _ = owner.ask("", "Page.navigate", map[string]any{"url": "data:text/html,elsewhere"})
	for {
		if _, err := d.next(); err != nil {
			break // disconnected
		}
	}
	if err := l.Live(); !errors.Is(err, browser.ErrLeft) {
		t.Errorf("live: %v", err)
	}
	if uses := end(); !slices.ContainsFunc(uses, func(u event.HostUse) bool { return u.Code == "origin_refused" }) {
		t.Errorf("uses %+v", uses)
	}
	gone(t, s.URL)
}

// The session ends at its time: connections are cut, and the browser keeps
// nothing.
func TestLeaseEndsAtItsTime(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	var mu sync.Mutex
	now := time.Now()
	var due func()
	l := lend(t, s.URL, &browser.Options{Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now },
		After: func(_ time.Duration, f func()) func() bool { due = f; return func() bool { return true } }})
	end := begin(t, l)
	d := first(t, l)
	d.open(s.URL + "/")
	mu.Lock()
	now = now.Add(2 * time.Hour)
	mu.Unlock()
	due()
	if _, err := d.ask("", "Runtime.evaluate", map[string]any{"expression": "1"}); err == nil {
		t.Error("an open connection goes on")
	}
	if status, body := get(t, "GET", l.Endpoint()+"/json/list", nil); status != 403 || !strings.Contains(body, "its time is over") {
		t.Errorf("%d %s", status, body)
	}
	end()
	if _, err := l.Begin(t.Context()); !errors.Is(err, browser.ErrExpired) {
		t.Errorf("another script: %v", err)
	}
	gone(t, s.URL)
}

// gone waits until the browser has no page at an origin.
func gone(t *testing.T, origin string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	endpoint := testenv.Chromium(t)
	for {
		var pages []listed
		get(t, "GET", endpoint+"/json/list", &pages)
		if !slices.ContainsFunc(pages, func(p listed) bool { return strings.HasPrefix(p.URL, origin) }) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the browser still has %v", pages)
		}
	}
}

// Between scripts, and after the run, the endpoint answers no requests.
func TestEndpointIsForScriptsWhileTheyRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	l := lend(t, s.URL, nil)
	closed := func(when string) {
		t.Helper()
		if status, body := get(t, "GET", l.Endpoint()+"/json/list", nil); status != 403 {
			t.Errorf("%s: %d %s", when, status, body)
		}
	}
	closed("before")
	end := begin(t, l)
	d := first(t, l)
	d.open(s.URL + "/kept")
	end()
	closed("between")
	if _, err := d.ask("", "Runtime.evaluate", map[string]any{"expression": "1"}); err == nil {
		t.Error("a connection outlives its script")
	}
	end = begin(t, l)
	if got := first(t, l).eval("location.pathname"); got != "/kept" {
		t.Errorf("the next script finds the page at %q", got)
	}
	end()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if res, err := http.Get(l.Endpoint() + "/json/list"); err == nil { //nolint:noctx // it answers no one
		res.Body.Close()
		t.Errorf("after the run it answers %d", res.StatusCode)
	}
	if !errors.Is(l.Live(), browser.ErrClosed) {
		t.Errorf("live: %v", l.Live())
	}
	gone(t, s.URL)
}

// A client without the secret path, or a page, learns nothing.
func TestEndpointIsASecret(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	l := lend(t, s.URL, nil)
	begin(t, l)
	base := l.Endpoint()[:strings.LastIndex(l.Endpoint(), "/")]
	for _, p := range []string{"", "/", "/json/list", "/json/version", "/x/json/list", strings.TrimPrefix(l.Endpoint(), base)[:5] + "/json/list"} {
		if status, _ := get(t, "GET", base+p, nil); status != 404 {
			t.Errorf("%s: %d", p, status)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"a page":       func(r *http.Request) { r.Header.Set("Origin", s.URL) },
		"another name": func(r *http.Request) { r.Host = "rebound.example" },
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", l.Endpoint()+"/json/list", nil)
		if err != nil {
			t.Fatal(err)
		}
		change(req)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 403 {
			t.Errorf("%s: %d", name, res.StatusCode)
		}
	}
}
