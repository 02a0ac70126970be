package browser_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// leaving are six frames that go to another origin after they load. Each loads
// twice, and held counts those that their page's policy blocked.
func leaving(to string) string {
	return `<script>loads = held = 0; addEventListener("securitypolicyviolation", e => { held += e.effectiveDirective === "frame-src" })</script>` +
		strings.Repeat(`<iframe sandbox="allow-scripts" onload="loads++" srcdoc="<script>onload = () => setTimeout(() => { location = '`+to+`/left' })</script>"></iframe>`, 6)
}

// ended waits for them in some windows, and returns those in which the policy did
// not hold.
func ended(d *devtools, windows string) any {
	return d.eval("new Promise(r => { const all = " + windows + ", wait = () => all.every(w => w.loads >= 12) ? r(all.map(w => w.held).filter(n => n < 6).join()) : setTimeout(wait, 5); wait() })")
}

// A frame that a page creates runs before any session can watch it. Its page's
// policy blocks it, whatever comes first. Frames of the page's own origin are not
// affected.
func TestFramesThatNobodyWaitsForStay(t *testing.T) {
	t.Parallel()
	other := newSite(t, nil)
	many := leaving(other.URL)
	s := newSite(t, map[string]http.HandlerFunc{
		"/many":   html(many + `<iframe src="/own" onload="own = frames[6].document.body.textContent"></iframe>`),
		"/nested": html(`<iframe src="/many"></iframe><iframe srcdoc="` + strings.NewReplacer("&", "&amp;", `"`, "&quot;").Replace(many) + `"></iframe>`),
		"/own":    html("of the origin"),
	})
	for path, in := range map[string]string{"/many": "[window]", "/nested": "[frames[0], frames[1]]"} {
		l := lend(t, s.URL, nil)
		end := begin(t, l)
		d := first(t, l)
		d.open(s.URL + path)
		if few := ended(d, in); few != "" {
			t.Errorf("%s: of six frames the policy held %v", path, few)
		}
		if own := d.eval(in + "[0].own"); own != "of the origin" {
			t.Errorf("the frame of the page's own origin holds %v", own)
		}
		refused := 0
		for _, u := range end() {
			if u.Code == "origin_refused" {
				refused += u.Requests
			}
		}
		if refused == 0 {
			t.Errorf("%s: the record does not say it", path)
		}
	}
	if hits := other.seen(); len(hits) > 0 {
		t.Errorf("the other origin was asked: %q", hits)
	}
}

// Documents of SVG and XML can have frames, too.
func TestFramesInXMLDocumentsStay(t *testing.T) {
	t.Parallel()
	other := newSite(t, nil)
	many := strings.NewReplacer(`<iframe `, `<iframe xmlns="http://www.w3.org/1999/xhtml" `, `srcdoc="<script>`, `srcdoc="&lt;script>`, `)</script>"`, `)&lt;/script>"`, `<script>loads`, `<script xmlns="http://www.w3.org/1999/xhtml">loads`).Replace(leaving(other.URL))
	document := func(media, before, after string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			_, _ = io.WriteString(w, before+many+after)
		}
	}
	s := newSite(t, map[string]http.HandlerFunc{
		"/svg": document("image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg"><foreignObject width="9" height="9">`, `</foreignObject></svg>`),
		"/xml": document("application/xml", "<r>", "</r>"),
	})
	for _, path := range []string{"/svg", "/xml"} {
		l := lend(t, s.URL, nil)
		begin(t, l)
		d := first(t, l)
		d.open(s.URL + path)
		if few := ended(d, "[window]"); few != "" {
			t.Errorf("%s: of six frames the policy held %v", path, few)
		}
	}
	if hits := other.seen(); len(hits) > 0 {
		t.Errorf("the other origin was asked: %q", hits)
	}
}

// The policy also applies to documents that a service worker creates.
func TestFramesInDocumentsOfServiceWorkersStay(t *testing.T) {
	t.Parallel()
	other := newSite(t, nil)
	s := newSite(t, map[string]http.HandlerFunc{
		"/worker": html(`<script>ready = navigator.serviceWorker.register('/sw.js').then(() => navigator.serviceWorker.ready)</script>`),
		"/sw.js": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = fmt.Fprintf(w, "oninstall = () => skipWaiting(); onactivate = e => e.waitUntil(clients.claim()); onfetch = e => e.respondWith(new Response(`%s`, {headers: {'Content-Type': 'text/html'}}))",
				strings.ReplaceAll(leaving(other.URL), "</", `<\/`))
		},
	})
	l := lend(t, s.URL, nil)
	begin(t, l)
	d := first(t, l)
	d.open(s.URL + "/worker")
	d.eval("ready.then(() => true)")
	d.open(s.URL + "/after")
	if few := ended(d, "[window]"); few != "" {
		t.Errorf("of six frames the policy held %v", few)
	}
	if hits := other.seen(); len(hits) > 0 {
		t.Errorf("the other origin was asked: %q", hits)
	}
}

// A document reaches its page as it was sent, whatever its type.
func TestDocumentsComeAsTheyWereSent(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]http.HandlerFunc{
		"/packed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Security-Policy", "img-src 'none'")
			http.SetCookie(w, &http.Cookie{Name: "sid", Value: "kept", HttpOnly: true})
			w.WriteHeader(http.StatusNotFound)
			z := gzip.NewWriter(w)
			_, _ = z.Write([]byte("<title>Gr\xfc\xdfe</title><body onload=\"document.title += ' ' + document.cookie\"><img src=/seen.png>"))
			_ = z.Close()
		},
		"/who": func(w http.ResponseWriter, r *http.Request) {
			c, err := r.Cookie("sid")
			html(fmt.Sprint(c, err != nil))(w, r)
		},
		"/plain": html("<!doctype html><html lang=en><head><title>t</title></head><body>b</body></html>"),
		"/data": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"a":1}`))
		},
		"/empty": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/html") },
		"/again": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/own", http.StatusSeeOther) },
		"/own":   func(w http.ResponseWriter, r *http.Request) { html(r.Method+" "+r.URL.Path)(w, r) },
		"/form":  html(`<form id=f method=post action="/own"><input name=a value=b></form>`),
	})
	l := lend(t, s.URL, nil)
	begin(t, l)
	d := first(t, l)
	for _, tt := range []struct{ path, ask, want string }{
		{"/packed", "document.title", "Grüße"},
		{"/who", "document.body.textContent", "sid=kept false"},
		{"/plain", "document.compatMode + document.childNodes.length + document.documentElement.outerHTML", `CSS1Compat2<html lang="en"><head><title>t</title></head><body>b</body></html>`},
		{"/data", "document.body.textContent.slice(0, 7)", `{"a":1}`},
		{"/empty", "document.contentType", "text/html"},
		{"/again", "document.body.textContent", "GET /own"},
	} {
		d.open(s.URL + tt.path)
		if got := d.eval(tt.ask); got != tt.want {
			t.Errorf("%s: %v, want %q", tt.path, got, tt.want)
		}
	}
	d.open(s.URL + "/form")
	d.eval("document.getElementById('f').submit()")
	d.until("Page.loadEventFired")
	if got := d.eval("document.body.textContent"); got != "POST /own" {
		t.Errorf("a form: %v", got)
	}
	for _, hit := range s.seen() {
		if strings.Contains(hit, "seen.png") {
			t.Error("the page's own policy does not count")
		}
	}
}
