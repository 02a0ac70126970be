package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"metier"
	"metier/agent/subagent"
	"metier/browser"
	"metier/config"
	"metier/exectool"
	"metier/record"
	"metier/sandbox/unconfined"
	"metier/settings"
)

// lentFor is the default duration of a browser session.
const lentFor = time.Hour

// planBrowser sets the browser session of a launch from flags, then from the configuration. If
// neither asks for one, there is none.
func (e *Engine) planBrowser(l *Launch, f BrowserRequest, op config.Operator) error {
	c := op.Browser
	c.Endpoint, c.Origin, c.Until = cmp.Or(f.Endpoint, c.Endpoint), cmp.Or(f.Origin, c.Origin), cmp.Or(f.Until, c.Until)
	if c.Endpoint == "" && c.Origin == "" {
		if c.Until == "" {
			return nil
		}
		return metier.Fieldf(metier.Invalid, "Request.Browser.Endpoint", "lease_invalid", "specify the browser with Request.Browser.Endpoint, and its origin with Request.Browser.Origin", "Request.Browser.Until is set without a browser")
	}
	if c.Endpoint == "" {
		return metier.Fieldf(metier.Invalid, "Request.Browser.Endpoint", "lease_invalid", "specify the browser with Request.Browser.Endpoint", "Request.Browser.Origin is set without a browser")
	}
	until, err := e.until(c.Until)
	if err != nil {
		return err
	}
	for _, g := range c.Grants {
		if _, err := ScriptEntries("browser: grants: script", []string{g.Script}); err != nil {
			return err
		}
	}
	lease, err := browser.Lease{Endpoint: c.Endpoint, Origin: c.Origin, Until: until, Grants: c.Grants}.Check()
	if err != nil {
		return err
	}
	l.Browser = &lease
	l.keepNames() // the skill that works in the browser keeps its own
	return nil
}

// keepNames makes every root keep the names of its skills, also of those that models do not see.
func (l *Launch) keepNames() {
	for i := range l.Roots {
		l.Roots[i].Yields = false
	}
}

// until returns when a browser session ends.
func (e *Engine) until(s string) (time.Time, error) {
	if s == "" {
		return e.Now().Add(lentFor), nil
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return e.Now().Add(d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, metier.Fieldf(metier.Invalid, "Request.Browser.Until", "lease_invalid", "use a duration such as 20m, or a time such as 2030-01-02T15:04:05Z", "Request.Browser.Until %q is neither a duration nor a time", s)
	}
	return t, nil
}

// checkTarget rejects running a run's own scripts on the host. Only a subagent's profile can do
// that, for specific scripts.
func checkTarget(t settings.Target) error {
	if t != settings.TargetHost {
		return nil
	}
	return metier.Fieldf(metier.Invalid, "Request.Layers", "execution_target_refused", "allow a subagent whose profile has target: host with Request.Subagents",
		"a run's own scripts cannot run on the host (script_target=host)")
}

// signIn are the scripts of the built-in skill that sign in to a site.
var signIn = []string{"agent-browser:scripts/authenticated-session.sh"}

// onHost returns what a child's profile runs on the host, or nil. Each child has its own browser
// session and shares no pages or cookies with other children.
func (r *Run) onHost() (*exectool.Host, error) {
	c := r.launch.Child
	if c == nil || c.Manifest.Target != subagent.TargetHost {
		return nil, nil
	}
	bare := unconfined.New(&unconfined.Options{Temp: r.e.staging(r.launch.Workspace)})
	r.owned = append(r.owned, bare)
	h := &exectool.Host{Scripts: r.launch.Scripts, Approved: r.launch.Approved, Sandbox: bare, Leased: c.Browser, Credentials: slices.Clone(signIn), Path: slices.Clone(r.op.Browser.Path)}
	if self, err := os.Executable(); err == nil {
		h.Path = append(h.Path, filepath.Dir(self)) // what comes with metier lies beside it
	}
	b := r.launch.Browser
	if b == nil || !c.Browser {
		return h, nil
	}
	lent, err := browser.Open(*b, &browser.Options{Now: r.e.Now, Logger: r.logger()})
	if err != nil {
		return nil, err
	}
	r.owned = append(r.owned, lent)
	h.Browser = lent
	return h, nil
}

// renewBrowser renews the browser session of a resumed run if the request asks for it.
func (e *Engine) renewBrowser(l *Launch, f BrowserRequest, op config.Operator) error {
	if f == (BrowserRequest{}) {
		return nil
	}
	if was := l.Browser; was != nil {
		f.Endpoint, f.Origin = cmp.Or(f.Endpoint, was.Endpoint), cmp.Or(f.Origin, was.Origin)
	}
	l.browserRenewed = true
	return e.planBrowser(l, f, op)
}

// recordLease records a renewed browser session, so that the next resume finds it.
func (r *Run) recordLease(ctx context.Context) (ref record.Ref, err error) {
	if !r.launch.browserRenewed {
		return ref, nil
	}
	b, err := json.Marshal(r.launch.Browser)
	if err != nil {
		return ref, err
	}
	return r.folder.Blobs().Put(ctx, "application/json", b)
}

// noteLease reports that the browser session of a resumed run is no longer usable, while it can
// still be renewed. Otherwise the run's subagents cannot do what they need it for.
func (r *Run) noteLease() {
	b := r.launch.Browser
	if b == nil || r.e.Now().Before(b.Until) {
		return
	}
	r.note("browser_expired", "the shared browser session ended at %s, so subagents work without it; resume with ResumeOptions.Browser.Until to renew it", b.Until.UTC().Format(time.RFC3339))
}
