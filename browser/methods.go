package browser

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// passed are the methods that a script may use on a page, by domain. All others are rejected:
// cookies and storage (Network.getAllCookies, Storage), files (DOM.setFileInputFiles, IO,
// Page.captureSnapshot, Page.printToPDF, Browser.setDownloadBehavior), interception (Fetch), other
// targets (Target), and the browser itself.
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

// networkEvents are the events of the Network domain that a script receives. The others concern
// cookies, or kinds of connections that this list does not cover.
var networkEvents = strings.Fields("requestWillBeSent requestServedFromCache responseReceived dataReceived loadingFinished loadingFailed")

// signedIn are the members of those events that hold credentials. Scripts cannot read them, since
// even the page's own code may not read some cookies.
var signedIn = strings.Fields("cookie cookie2 set-cookie set-cookie2 authorization proxy-authorization headerstext requestheaderstext")

// heard returns an event of a page in the form a script receives it. It returns false if the script
// does not receive it.
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

// navigation holds the allowed parameters of Page.navigate.
type navigation struct {
	URL            string `json:"url"`
	Referrer       string `json:"referrer,omitempty"`
	TransitionType string `json:"transitionType,omitempty"`
	FrameID        string `json:"frameId,omitempty"`
}

// world holds the allowed parameters of Page.createIsolatedWorld.
type world struct {
	FrameID   string `json:"frameId"`
	WorldName string `json:"worldName,omitempty"`
}

// blank is the empty page, which belongs to no origin.
const blank = "about:blank"

// vet checks a request of a script on a page. It rebuilds the relevant parameters, so that the
// browser reads exactly what was checked. If the request is rejected, code is the recorded reason
// and at the address it concerns.
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
		w := world{} // drops the option that would give access to all origins
		if json.Unmarshal(params, &w) != nil {
			return nil, refusedMethod, ""
		}
		v = w
	case "Network.enable":
		v = struct{}{} // drops all parameters
	default:
		return params, "", ""
	}
	out, err := json.Marshal(v)
	if err != nil {
		return nil, refusedMethod, ""
	}
	return out, "", ""
}

// Codes of rejected requests.
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
