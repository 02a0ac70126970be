package browser

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// passed are the methods that a script may use on a page, by domain. What is
// not here is refused: cookies and storage (Network.getAllCookies, Storage),
// files (DOM.setFileInputFiles, IO, Page.captureSnapshot, Page.printToPDF,
// Browser.setDownloadBehavior), interception (Fetch), other targets (Target),
// the browser itself.
var passed = map[string]string{
	"Page": "enable disable navigate reload stopLoading getFrameTree getLayoutMetrics captureScreenshot handleJavaScriptDialog bringToFront " +
		"getNavigationHistory navigateToHistoryEntry setLifecycleEventsEnabled createIsolatedWorld",
	"Runtime": "enable disable evaluate callFunctionOn getProperties awaitPromise releaseObject releaseObjectGroup runIfWaitingForDebugger",
	"DOM": "enable disable getDocument querySelector querySelectorAll getOuterHTML describeNode resolveNode requestNode requestChildNodes getAttributes focus " +
		"getBoxModel getContentQuads scrollIntoViewIfNeeded performSearch getSearchResults discardSearchResults",
	"Input":         "dispatchKeyEvent dispatchMouseEvent dispatchTouchEvent insertText",
	"Accessibility": "enable disable getFullAXTree getPartialAXTree getRootAXNode queryAXTree",
	"Network":       "enable disable",
	"Emulation":     "setDeviceMetricsOverride clearDeviceMetricsOverride setFocusEmulationEnabled",
	"Log":           "enable disable",
	"Inspector":     "enable disable",
}

// passes reports whether a script may use a method on a page.
func passes(method string) bool {
	domain, name, ok := strings.Cut(method, ".")
	return ok && slices.Contains(strings.Fields(passed[domain]), name)
}

// networkEvents are the events of the domain Network that a script gets. The
// others are about cookies, or about connections that this list does not know.
var networkEvents = strings.Fields("requestWillBeSent requestServedFromCache responseReceived dataReceived loadingFinished loadingFailed")

// signedIn are the members of those events that hold what signs the page in,
// which no script reads: a cookie may be closed even to the page's own code.
var signedIn = strings.Fields("cookie cookie2 set-cookie set-cookie2 authorization proxy-authorization headerstext requestheaderstext")

// heard gives an event of a page as a script gets it, if it does.
func heard(m message) (message, bool) {
	name, network := strings.CutPrefix(m.Method, "Network.")
	if !network {
		return m, true
	}
	if !slices.Contains(networkEvents, name) {
		return m, false
	}
	d := json.NewDecoder(bytes.NewReader(m.Params))
	d.UseNumber()
	var params any
	if d.Decode(&params) != nil {
		return m, false
	}
	signOut(params)
	b, err := json.Marshal(params)
	m.Params = b
	return m, err == nil
}

// signOut removes the members of signedIn from a JSON value, at any depth.
func signOut(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, member := range v {
			if slices.Contains(signedIn, strings.ToLower(k)) {
				delete(v, k)
			} else {
				signOut(member)
			}
		}
	case []any:
		for _, member := range v {
			signOut(member)
		}
	}
}

// navigation is what a script may say of a Page.navigate.
type navigation struct {
	URL            string `json:"url"`
	Referrer       string `json:"referrer,omitempty"`
	TransitionType string `json:"transitionType,omitempty"`
	FrameID        string `json:"frameId,omitempty"`
}

// world is what a script may say of a Page.createIsolatedWorld.
type world struct {
	FrameID   string `json:"frameId"`
	WorldName string `json:"worldName,omitempty"`
}

// blank is the page that belongs to no origin and shows nothing.
const blank = "about:blank"

// vet looks at what a script asks of a page and gives its parameters anew,
// where they count, so that the browser reads what was checked. code is what is
// wrong, as the record has it, at the address it is about.
func (s *Session) vet(method string, params json.RawMessage) (out json.RawMessage, code, at string) {
	if !passes(method) {
		return nil, refusedMethod, ""
	}
	var v any
	switch method {
	case "Page.navigate":
		n := navigation{}
		if json.Unmarshal(params, &n) != nil {
			return nil, refusedMethod, ""
		}
		if !s.covers(n.URL) {
			return nil, refusedOrigin, n.URL
		}
		v = n
	case "Page.createIsolatedWorld":
		w := world{} // without the access to all origins that may be asked for
		if json.Unmarshal(params, &w) != nil {
			return nil, refusedMethod, ""
		}
		v = w
	case "Network.enable":
		v = struct{}{} // nothing of what it says
	default:
		return params, "", ""
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil, refusedMethod, ""
	}
	return out, "", ""
}

// The codes of what a lease refused.
const (
	refusedOrigin = "origin_refused"
	refusedMethod = "method_refused"
	refusedPopup  = "popup_refused"
)

// covers reports whether a page of the lease may be at an address.
func (s *Session) covers(address string) bool {
	if address == blank {
		return true
	}
	o, err := originOf(address)
	return err == nil && o == s.lease.Origin
}
