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

// watching is what makes a session the one by which the lease watches a page, or
// a frame that the browser keeps apart from its page.
func (s *Session) watching() []asking {
	return []asking{
		{"Fetch.enable", map[string]any{"patterns": []any{map[string]any{"urlPattern": "*", "resourceType": "Document", "requestStage": "Request"}}}},
		{"Audits.enable", map[string]any{}}, // tells what framing kept from leaving
		{"Page.enable", map[string]any{}},
		{"Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": fmt.Sprintf(framing, s.lease.Origin), "worldName": "lease", "runImmediately": true}},
		{"Target.setAutoAttach", map[string]any{"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true}},
	}
}

// framing gives each document a policy beside its own, before any of it is read:
// its frames stay with its origin. The browser holds a frame to it before anything
// is sent, also one that began before a session could watch it, as a sandboxed
// frame with srcdoc does. In a sandbox 'self' is nobody, so the origin is named,
// too. What is put into the document for it is taken out at once.
//
//go:embed framing.js
var framing string

// kept takes an issue of a page: a frame that its policy kept from leaving.
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

// apart takes a session of something that belongs to a watched page and that the
// browser keeps in a process of its own: a frame that is sandboxed, say. The
// documents of such a frame are not stopped by its page's session, so it has to
// be watched by one of its own before it goes on.
func (s *Session) apart(at *hostBrowser, params json.RawMessage) {
	var e struct {
		Session string `json:"sessionId"`
		Info    info   `json:"targetInfo"`
	}
	if json.Unmarshal(params, &e) != nil || e.Session == "" {
		return // it stays stopped
	}
	if e.Info.Type != "iframe" {
		at.send(e.Session, "Runtime.runIfWaitingForDebugger", map[string]any{}, nil)
		return
	}
	at.listen(e.Session, func(m message) { s.watch(at, m) })
	s.ask(at, e.Session, s.watching())
}

// ask has a frame watched step by step, and then go on from where it may be.
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

// left ends the lease of a page that is somewhere else after all.
func (s *Session) left(address string) {
	s.refuse(refusedOrigin, address)
	s.o.Logger.Warn("a leased page is somewhere else: the lease ends")
	s.end(ErrLeft)
}
