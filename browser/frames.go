package browser

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

// asking is a method with its parameters.
type asking struct {
	method string
	params map[string]any
}

// watching returns the requests that prepare a session for watching a page, or a frame in a process
// of its own.
func (s *Session) watching() []asking {
	return []asking{
		{"Fetch.enable", map[string]any{"patterns": []any{map[string]any{"urlPattern": "*", "resourceType": "Document", "requestStage": "Request"}}}},
		{"Audits.enable", map[string]any{}}, // reports frames that framing blocked
		{"Page.enable", map[string]any{}},
		{"Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": fmt.Sprintf(framing, s.lease.Origin), "worldName": "lease", "runImmediately": true}},
		{"Target.setAutoAttach", map[string]any{"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true}},
	}
}

// framing adds a policy to each document before it is parsed: its frames must stay in its origin.
// The browser enforces it before any request is sent, even for frames that start before a session
// can watch them, such as a sandboxed frame with srcdoc. In a sandbox, 'self' matches nothing, so
// the policy also names the origin. The element inserted for the policy is removed at once.
//
//go:embed framing.js
var framing string

// kept handles an issue of a page: a frame that its policy blocked.
func (s *Session) kept(params json.RawMessage) {
	var e struct {
		Issue struct {
			Details struct {
				Policy struct {
					Address   string `json:"blockedURL"`
					Directive string `json:"violatedDirective"`
				} `json:"contentSecurityPolicyIssueDetails"`
			} `json:"details"`
		} `json:"issue"`
	}
	if json.Unmarshal(params, &e) != nil || e.Issue.Details.Policy.Directive != "frame-src" {
		return
	}
	if o, err := originOf(e.Issue.Details.Policy.Address); err != nil || o != s.lease.Origin {
		s.refuse(refusedOrigin, e.Issue.Details.Policy.Address)
	}
}

// apart handles a session of a target that belongs to a watched page and runs in a separate
// process, such as a sandboxed frame. The session of the page does not pause the documents of such
// a frame, so the frame needs a watching session of its own before it continues.
func (s *Session) apart(at *hostBrowser, params json.RawMessage) {
	var e struct {
		Session string `json:"sessionId"`
		Info    info   `json:"targetInfo"`
	}
	if json.Unmarshal(params, &e) != nil || e.Session == "" {
		return // it stays paused
	}
	if e.Info.Type != "iframe" {
		at.send(e.Session, "Runtime.runIfWaitingForDebugger", map[string]any{}, nil)
		return
	}
	at.listen(e.Session, func(m message) { s.watch(at, m) })
	s.ask(at, e.Session, s.watching())
}

// ask sends the watching requests of a frame in turn, and resumes it if its address is allowed.
func (s *Session) ask(at *hostBrowser, session string, steps []asking) {
	if len(steps) > 0 {
		at.send(session, steps[0].method, steps[0].params, func(m message) {
			if m.Error == nil {
				s.ask(at, session, steps[1:])
			}
		})
		return
	}
	at.send(session, "Page.getFrameTree", map[string]any{}, func(m message) {
		var is struct {
			Tree struct {
				Frame struct {
					URL string `json:"url"`
				} `json:"frame"`
			} `json:"frameTree"`
		}
		if m.Error != nil {
			return
		}
		if json.Unmarshal(m.Result, &is) != nil || !s.mayBe(is.Tree.Frame.URL, false) {
			s.left(is.Tree.Frame.URL)
			return
		}
		at.send(session, "Runtime.runIfWaitingForDebugger", map[string]any{}, nil)
	})
}

// left ends the lease because a page is at an address that is not allowed.
func (s *Session) left(address string) {
	s.refuse(refusedOrigin, address)
	s.o.Logger.Warn("a page left its allowed origin: the browser session ends")
	s.end(ErrLeft)
}
