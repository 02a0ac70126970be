package browser

import (
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

// navigation is what a script may say of a Page.navigate.
type navigation struct {
	URL            string `json:"url"`
	Referrer       string `json:"referrer,omitempty"`
	TransitionType string `json:"transitionType,omitempty"`
	FrameID        string `json:"frameId,omitempty"`
}

// blank is the page that belongs to no origin and shows nothing.
const blank = "about:blank"

// vet looks at what a script asks of a page and gives its parameters anew,
// where they count, so that the browser reads what was checked. code is what is
// wrong, as the record has it, at the address it is about.
func (l *Lent) vet(method string, params json.RawMessage) (out json.RawMessage, code, at string) {
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
		if !l.covers(n.URL) {
			return nil, refusedOrigin, n.URL
		}
		v = n
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
func (l *Lent) covers(address string) bool {
	if address == blank {
		return true
	}
	o, err := originOf(address)
	return err == nil && o == l.lease.Origin
}
