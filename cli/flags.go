package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"metier/config"
	"metier/engine"
	"metier/filetool"
)

// placeFlags are the flags that choose a workspace, its skills, and settings.
type placeFlags struct {
	workspace, profile  string
	roots, set, harness []string
}

// add adds the flags. about describes the workspace's role in the command.
func (p *placeFlags) add(fl *pflag.FlagSet, about string) {
	fl.StringVar(&p.workspace, "workspace", "", about)
	fl.StringArrayVar(&p.roots, "skills-root", nil, "skills `folder`, relative to the workspace (repeatable; default: the configured folders)")
	harnessFlag(fl, &p.harness)
	fl.StringVar(&p.profile, "profile", "", "settings `profile`; see 'metier profile list'")
	fl.StringArrayVar(&p.set, "set", nil, "change a setting: `name=value` (repeatable)")
}

// rootFlags are the flags of commands that use skills without a model: the workspace, skills and
// settings to use, and what may run.
type rootFlags struct {
	placeFlags
	programFlags
	artifacts string
}

func (f *rootFlags) add(fl *pflag.FlagSet) {
	f.placeFlags.add(fl, "workspace `folder` for scripts (default: the current one)")
	fl.StringVar(&f.artifacts, "artifact-root", "", "`folder` for the record (default: .metier/runs in the workspace)")
	f.programFlags.add(fl)
}

// rootRequest returns the request for a run without a model.
func (a *app) rootRequest(f rootFlags) (q engine.Request, err error) {
	q = engine.Request{Surface: surface, Workspace: f.workspace, Artifacts: f.artifacts, Roots: f.roots, Harnesses: f.harness, Profile: f.profile}
	f.request(&q)
	q.Layers, err = a.flagLayers(runFlags{rootFlags: f}, config.RunFile{})
	return q, err
}

// harnessFlag adds the flag that all commands that use skills have.
func harnessFlag(fl *pflag.FlagSet, to *[]string) {
	fl.StringArrayVar(to, "harness", nil, "`folder` with a HARNESS.md, relative to the workspace (repeatable); see docs/HARNESS.md")
}

// programFlags are the flags of commands that may run programs.
type programFlags struct {
	scripts []string
	hosts   []string
	sandbox string
	policy  []string
}

func (f *programFlags) add(fl *pflag.FlagSet) {
	fl.StringArrayVar(&f.scripts, "allow-skill-script", nil, "allow this `script`, and approve its skill's current files: SKILL:scripts/PATH, where a project's SKILL is an ID (repeatable)")
	fl.StringArrayVar(&f.hosts, "allow-host", nil, "allow programs and web_fetch to reach this `host` or *.DOMAIN (repeatable; default: no hosts)")
	fl.StringVar(&f.sandbox, "sandbox", "", "`sandbox` for programs: "+backendChoices)
	fl.StringArrayVar(&f.policy, "policy", nil, "policy `file` with grants, rules, and approvals (repeatable); see docs/POLICY.md")
}

// request sets the fields of a request about programs.
func (f programFlags) request(q *engine.Request) {
	q.Scripts, q.Hosts, q.Sandbox, q.Policies = f.scripts, f.hosts, f.sandbox, f.policy
}

// subagentFlags are the flags of runs that may start children.
type subagentFlags struct {
	profiles []string
	dirs     []string
}

func (f *subagentFlags) add(fl *pflag.FlagSet) {
	fl.StringArrayVar(&f.profiles, "allow-subagent-profile", nil, "let the model delegate tasks to subagents with this `profile` (repeatable); see 'metier subagents'")
	fl.StringArrayVar(&f.dirs, "subagent-profiles", nil, "`folder` with more subagent profiles, as NAME.yaml files (repeatable)")
}

// browserFlags are the flags of a run that may share a browser session.
type browserFlags struct{ endpoint, origin, until string }

func (f *browserFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.endpoint, "browser-endpoint", "", "give subagents a session in the browser at this local DevTools `address`: http://127.0.0.1:PORT")
	fl.StringVar(&f.origin, "browser-origin", "", "the only `origin` that the browser session can open: https://app.example")
	fl.StringVar(&f.until, "browser-until", "", "`duration` of the browser session, such as 20m, or its end time (default 1h)")
}

func (f browserFlags) request() engine.BrowserRequest {
	return engine.BrowserRequest{Endpoint: f.endpoint, Origin: f.origin, Until: f.until}
}

// parseMount reads --mount name=,source=,target=,mode=.
func (a *app) parseMount(v string) (filetool.Mount, error) {
	var m filetool.Mount
	for _, part := range strings.Split(v, ",") {
		k, val, ok := strings.Cut(part, "=")
		if !ok {
			return m, wrong("usage", "use --mount name=NAME,source=DIR,target=/PATH,mode=ro", "--mount: %q has no value", part)
		}
		switch k {
		case "name":
			m.Name = val
		case "source":
			m.Source = a.env.Path(val)
		case "target":
			m.Target = val
		case "mode":
			m.Mode = val
		default:
			return m, wrong("usage", "the keys are name, source, target, and mode", "--mount: unknown key %q", k)
		}
	}
	if m.Name == "" || m.Source == "" || !strings.HasPrefix(m.Target, "/") || !slices.Contains([]string{"", "ro", "rw"}, m.Mode) {
		return m, wrong("usage", "use --mount name=NAME,source=DIR,target=/PATH,mode=ro", "--mount %q needs a name, a source, an absolute target, and the mode ro or rw", v)
	}
	return m, nil
}
