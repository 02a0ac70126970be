package exectool

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/event"
	"metier/internal/confine"
	"metier/internal/runtimes"
	"metier/internal/termtext"
	"metier/policy"
	"metier/record"
	"metier/sandbox"
	"metier/settings"
)

// Host runs specific scripts directly on this machine, isolated only from this process's
// environment. It comes from a subagent's profile, which the operator controls. A top-level run has
// none. All other scripts stay in the sandbox.
//
// A name alone is not enough to run code on the host. Unless the script's skill is built in or
// comes from the organization, it must also be in Approved, with exactly the tree that runs. For a
// skill of a project or a third party, an entry with the skill's name counts nowhere.
type Host struct {
	Scripts  []string // SKILL:scripts/PATH, SKILL a name or an ID
	Approved []policy.ApprovedScript
	Sandbox  sandbox.Sandbox // runs them: one of level L0
	Path     []string        // absolute folders after the system's in their PATH
	// Leased means that the scripts need Browser, which they find through AGENT_BROWSER_CDP. They
	// are then restricted by the setting host_cdp and to the browser's origin.
	Leased  bool
	Browser Browser // nil: there is no lease
	// Credentials are the scripts, as in Scripts, that sign in somewhere. Each needs a grant of the
	// browser session, bound to its origin. On the host, only scripts with a grant get their
	// skill's secrets.
	Credentials []string
}

// Browser is a browser session for one origin and a limited time, through a separate endpoint. It
// is safe for concurrent use.
type Browser interface {
	Endpoint() string // what scripts are given; it answers between Begin and end
	Origin() string
	Live() error // why it cannot be used, worded for people; nil: it can
	// Granted returns the origin to which the operator bound a script's credentials, and whether
	// there is a grant.
	Granted(entry string) (origin string, ok bool)
	// Begin opens the endpoint for one script. end closes its connections and returns what the
	// script requested from the browser, and what was denied.
	Begin(ctx context.Context) (end func() []event.HostUse, err error)
}

// The environment variable and the argument that pass the browser endpoint to a script.
const (
	cdpEnv  = "AGENT_BROWSER_CDP"
	cdpFlag = "--cdp"
)

// listed reports whether a list names a script of a skill, by name or ID.
func listed(list []string, sk metier.Skill, file string) bool {
	return slices.Contains(list, sk.Name+":"+file) || slices.Contains(list, sk.ID.String()+":"+file)
}

// covering returns the entries that give something to a script of a skill.
func covering(sk metier.Skill, file string) []string {
	id := sk.ID.String() + ":" + file
	if sk.Tier.ByName() {
		return []string{sk.Name + ":" + file, id}
	}
	return []string{id}
}

// on reports whether the profile names a script, which then does not run in the sandbox.
func (h *Host) on(sk metier.Skill, file string) bool { return h != nil && listed(h.Scripts, sk, file) }

// trusted reports whether a skill's scripts may run on the host in their current state.
func (h *Host) trusted(sk metier.Skill, file string) bool {
	if t := sk.Tier.Or(); t == policy.Builtin || t == policy.Org {
		return true
	}
	cover := covering(sk, file)
	return slices.ContainsFunc(h.Scripts, func(e string) bool { return slices.Contains(cover, e) }) &&
		slices.ContainsFunc(h.Approved, func(a policy.ApprovedScript) bool {
			return a.Covers(string(sk.Tree), sandbox.L0.String()) && slices.Contains(cover, a.Entry)
		})
}

// box returns the sandbox in which a script runs.
func (r *runner) box(host bool) sandbox.Sandbox {
	if host {
		return r.Host.Sandbox
	}
	return r.Sandbox
}

// hostRules checks the last gates of a script that runs on the host.
func (r *runner) hostRules(p *prepared, fail refusal) error {
	deny := func(hint, format string, a ...any) error {
		return fail(metier.Denied, "permission_denied", fmt.Sprintf(format, a...), hint)
	}
	if r.Host.Leased {
		if err := r.liveBrowser(deny); err != nil {
			return err
		}
	}
	if err := r.trustedFiles(p, deny); err != nil {
		return err
	}
	if err := r.hostCwd(p, deny); err != nil || !r.Host.Leased {
		return err
	}
	return r.leaseRules(p, deny)
}

// trustedFiles requires that the operator trusts a script's files as they are.
func (r *runner) trustedFiles(p *prepared, deny denial) error {
	if r.Host.trusted(p.skill, p.script.Path) {
		return nil
	}
	entry := covering(p.skill, p.script.Path)[0]
	if entry == p.entry() {
		return deny("the operator can approve the script "+termtext.Word(entry), "scripts of the tier %s run on the host only where the operator approved the skill's files as they are", p.skill.Tier.Or())
	}
	return deny("the operator can list the script in the profile and approve it as "+termtext.Word(entry),
		"scripts of the tier %s run on the host only where the operator listed the script by its ID, and approved the skill's files as they are by that ID", p.skill.Tier.Or())
}

type denial func(hint, format string, a ...any) error

// hostCwd requires that a script's working folder, with links resolved, is in the workspace and
// outside its records.
func (r *runner) hostCwd(p *prepared, deny denial) error {
	if r.Workspace == nil {
		return deny("run with a workspace", "a script on the host runs in the workspace, and there is no workspace")
	}
	rel := strings.TrimPrefix(strings.TrimPrefix(p.cwd, sandbox.WorkspaceDir), "/")
	root, err := confine.RealPath(r.Workspace.Host)
	if err == nil {
		var real string
		if real, err = confine.RealPath(filepath.Join(root, filepath.FromSlash(rel))); err == nil {
			if rel, err = filepath.Rel(root, real); err == nil && !filepath.IsLocal(rel) {
				err = errors.New("it leads out of the workspace")
			}
		}
	}
	if err != nil {
		return deny("give another folder of "+sandbox.WorkspaceDir, "the working folder cannot be used: %v", err)
	}
	rel = filepath.ToSlash(rel)
	for _, h := range r.workspace().Hidden {
		if rel == h || strings.HasPrefix(rel, h+"/") {
			return deny("give another folder of "+sandbox.WorkspaceDir, "the working folder has the records of runs, where scripts on the host must not work")
		}
	}
	if p.cwd = sandbox.WorkspaceDir; rel != "." {
		p.cwd += "/" + rel
	}
	return nil
}

// liveBrowser requires a browser session that can be used.
func (r *runner) liveBrowser(deny denial) error {
	if r.Host.Browser == nil {
		return deny("the operator can share one with the run", "no browser is shared with this run")
	}
	if err := r.Host.Browser.Live(); err != nil {
		return deny("continue without the browser; the operator can renew the session on resume", "the shared browser session cannot be used: %v", err)
	}
	return nil
}

// leaseRules restrict a script to its browser session.
func (r *runner) leaseRules(p *prepared, deny denial) error {
	b := r.Host.Browser
	granted, ok := "", false
	for _, e := range covering(p.skill, p.script.Path) {
		if !ok {
			granted, ok = b.Granted(e)
		}
	}
	switch {
	case ok && granted != b.Origin():
		return deny("the operator grants it for "+b.Origin(), "the credentials of this script are bound to %s, and the browser session is limited to %s", granted, b.Origin())
	case !ok && listed(r.Host.Credentials, p.skill, p.script.Path):
		return deny("the operator grants it under browser: grants: in the configuration", "the script signs in with credentials, and has no grant for %s", b.Origin())
	}
	p.granted = ok
	if err := r.cdpRule(p.script.Args, deny); err != nil {
		return err
	}
	for _, a := range p.script.Args {
		if o, is := otherOrigin(a, b); is {
			return deny("work with "+b.Origin()+" only", "the argument names %s, and the browser session is limited to %s", termtext.Line(o), b.Origin())
		}
	}
	return nil
}

// cdpRule enforces the setting host_cdp: a script either passes --cdp with exactly the endpoint of
// its session, or does not pass it.
func (r *runner) cdpRule(args []string, deny denial) error {
	var given []string
	for i, a := range args {
		switch value, has := strings.CutPrefix(a, cdpFlag+"="); {
		case has:
			given = append(given, value)
		case a == cdpFlag && i+1 < len(args):
			given = append(given, args[i+1])
		case a == cdpFlag:
			given = append(given, "")
		}
	}
	if r.Exec.HostCDP != settings.HostCDPRequire {
		if len(given) > 0 {
			return deny("leave "+cdpFlag+" out: the script finds the browser by itself", "a script on the host is not given %s (host_cdp=forbid)", cdpFlag)
		}
		return nil
	}
	hint := "pass " + cdpFlag + " " + r.Host.Browser.Endpoint()
	if len(given) == 0 {
		return deny(hint, "a script on the host is given %s (host_cdp=require)", cdpFlag)
	}
	for _, v := range given {
		if v != r.Host.Browser.Endpoint() {
			return deny(hint, "%s does not specify the endpoint of the browser session", cdpFlag)
		}
	}
	return nil
}

// otherOrigin returns the address in an argument if the browser session does not cover it. The
// session itself restricts the browser to its origin, whatever a script requests. This check
// reports the problem before anything starts.
func otherOrigin(arg string, b Browser) (string, bool) {
	if arg == b.Endpoint() || arg == cdpFlag+"="+b.Endpoint() {
		return "", false
	}
	u, err := url.Parse(arg)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "ws", "wss", "ftp", "file"}, strings.ToLower(u.Scheme)) {
		return "", false
	}
	o, err := url.Parse(b.Origin())
	if err == nil && strings.EqualFold(o.Scheme, u.Scheme) && strings.EqualFold(o.Hostname(), u.Hostname()) && port(o) == port(u) && u.User == nil {
		return "", false
	}
	return u.Scheme + "://" + u.Host, true
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
}

// environment returns the environment of a program, on the host or in the sandbox.
func (r *runner) environment(host bool) []string {
	env := Environment()
	if !host {
		return env
	}
	search := append([]string{runtimes.SearchPath}, slices.DeleteFunc(slices.Clone(r.Host.Path), func(d string) bool { return !filepath.IsAbs(d) })...)
	env = append(env, "PATH="+strings.Join(search, string(filepath.ListSeparator)))
	if r.Host.Leased && r.Host.Browser != nil {
		env = append(env, cdpEnv+"="+r.Host.Browser.Endpoint())
	}
	return env
}

// useBrowser opens the browser for a script that uses one. As an additional safeguard, its endpoint
// is removed from the script's output.
func (r *runner) useBrowser(ctx context.Context, host bool) (end func() []event.HostUse, hide []record.Secret, err error) {
	if !host || !r.Host.Leased {
		return func() []event.HostUse { return nil }, nil, nil
	}
	if end, err = r.Host.Browser.Begin(ctx); err != nil {
		return nil, nil, &metier.Error{Op: "run", Kind: metier.Unavailable, Code: "browser_unavailable", Hint: "the operator has to check that the browser answers at its endpoint", Err: err}
	}
	at := r.Host.Browser.Endpoint()
	_, rest, _ := strings.Cut(at, "://")
	return end, []record.Secret{{Name: cdpEnv, Value: at}, {Name: cdpEnv, Value: rest}}, nil
}

// leased reports to the model what its browser denied, and that the session ended.
func (r *runner) leased(res metier.Result, uses []event.HostUse) metier.Result {
	if !r.Host.Leased || len(res.Parts) == 0 {
		return res
	}
	var b strings.Builder
	for _, u := range uses {
		switch {
		case u.Code == "":
		case u.Host != "":
			fmt.Fprintf(&b, "The browser did not go to %s:%d (%s): the browser session is limited to %s.\n", termtext.Line(u.Host), u.Port, u.Code, r.Host.Browser.Origin())
		default:
			fmt.Fprintf(&b, "The browser session refused requests that it does not allow (%s), times: %d.\n", u.Code, u.Requests)
		}
	}
	if err := r.Host.Browser.Live(); err != nil {
		fmt.Fprintf(&b, "The browser session can no longer be used: %v.\n", err)
	}
	res.Parts[0].Text += b.String()
	return res
}

// about describes to the model which scripts run on the host, and how.
func (h *Host) about(cdp settings.HostCDP) string {
	if h == nil || len(h.Scripts) == 0 {
		return ""
	}
	text := " These scripts run directly on the host, in the workspace: " + strings.Join(slices.Sorted(slices.Values(h.Scripts)), ", ") + "."
	switch {
	case !h.Leased:
		return text
	case h.Browser == nil:
		return text + " They need a browser, but this run has no browser session."
	}
	text += " They share a browser session that can only reach " + h.Browser.Origin() + "."
	if cdp == settings.HostCDPRequire {
		text += " Pass them " + cdpFlag + " with the endpoint of the session. A call without it is refused, and the error gives the endpoint."
	}
	return text
}
