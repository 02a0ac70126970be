package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"metier"
	"metier/agent"
	"metier/config"
	"metier/internal/confine"
	"metier/internal/distinct"
	"metier/internal/namedfile"
	"metier/internal/nearest"
	"metier/mcp/host"
	"metier/policy"
	"metier/record"
	"metier/skillroots"
)

// LaunchMCP is the recorded part of a run's MCP servers. Their commands and secrets are not
// recorded: a resume reads the operator's files again.
type LaunchMCP struct {
	Files   []string `json:"files,omitempty"`   // named by flags
	Servers []string `json:"servers,omitempty"` // labels
	Tools   []string `json:"tools,omitempty"`   // granted, as they were written
	// Pins are the digests of the granted tools when the run began.
	Pins map[string]string `json:"pins,omitempty"`
	// Definitions are the digests of the servers' configurations when the run began, by label.
	Definitions map[string]string `json:"definitions,omitempty"`
}

// Servers lists the MCP servers of the configuration and of files, expanded.
func (e *Engine) Servers(op config.Operator, files []string) ([]host.Server, error) {
	out, _, err := e.mcpServers(op, e.Env.Paths(files), e.Env.Dir)
	return out, err
}

// workspaceVar is the variable for the workspace in the configuration of servers.
const workspaceVar = "METIER_WORKSPACE"

// mcpServers returns the servers of the configuration and of the files named by flags, expanded.
// The workspace's own .mcp.json is included only if it is named. From here on, their secrets are
// removed from everything written.
func (e *Engine) mcpServers(op config.Operator, files []string, workspace string) (out []host.Server, secrets []record.Secret, err error) {
	var all []host.Server
	for _, name := range slices.Sorted(maps.Keys(op.MCP.Servers)) {
		all = append(all, op.MCP.Servers[name])
	}
	for _, f := range distinct.Of(slices.Concat(op.MCPFiles, files)) {
		b, err := namedfile.Read(f, maxServers)
		if err != nil {
			return nil, nil, metier.Fieldf(metier.Invalid, "Request.Servers", "mcp_config", "specify an existing file with Request.Servers, or in mcp_config", "read %s: %w", f, err)
		}
		s, err := host.Parse(f, b)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, s...)
	}
	from := map[string]string{}
	for _, s := range all {
		if other, twice := from[s.Label]; twice {
			return nil, nil, metier.Errorf(metier.Invalid, "mcp_config", "rename one of them", "the server %s is defined in both %s and %s", s.Label, other, s.File)
		}
		from[s.Label] = s.File
		s, used, err := s.Expand(func(name string) (string, bool) {
			if name == workspaceVar {
				return workspace, true
			}
			return e.Env.Lookup(name)
		})
		if err != nil {
			return nil, nil, err
		}
		if !used {
			continue
		}
		for name, v := range s.Secrets() {
			secrets = append(secrets, record.Secret{Name: name, Value: v})
		}
		out = append(out, s)
	}
	return out, secrets, nil
}

// OfRoot reports whether a name is that of a skill in a root rather than on a server.
func OfRoot(name string) bool { return !strings.HasPrefix(name, host.MountLabel("")) }

// planServers separates the tools of servers from the granted ones.
func (e *Engine) planServers(l *Launch, q Request, op config.Operator) error {
	m := &LaunchMCP{Files: e.Env.Paths(q.Servers)}
	servers, _, err := e.mcpServers(op, m.Files, l.Workspace)
	if err != nil {
		return err
	}
	for _, s := range servers {
		m.Servers = append(m.Servers, s.Label)
	}
	l.Sources = append(l.Sources, m.Files...)
	l.Sources = append(l.Sources, op.MCPFiles...)
	l.Tools = slices.DeleteFunc(l.Tools, func(t string) bool {
		if !strings.HasPrefix(t, host.Prefix) {
			return false
		}
		m.Tools = append(m.Tools, t)
		return true
	})
	for _, t := range q.Tools {
		if strings.HasPrefix(t, host.Prefix) && !slices.ContainsFunc(m.Servers, func(s string) bool {
			return t == host.Prefix+s || strings.HasPrefix(t, host.Prefix+s+"__") || t == host.Prefix+"*"
		}) {
			return metier.Fieldf(metier.Invalid, "Request.Tools", "tool_unknown", "specify servers with Request.Servers, or in mcp: of the configuration; 'metier mcp ls' lists them", "there is no server for the tool %q", t)
		}
	}
	if len(servers) > 0 {
		l.MCP = m
	}
	return nil
}

// connect opens the servers of a run and finds which of their tools the operator granted. A resumed
// run keeps its servers and tools. Those that are missing or changed are reported.
func (r *Run) connect(ctx context.Context) error {
	m := r.launch.MCP
	if m == nil {
		return nil
	}
	servers, secrets, err := r.e.mcpServers(r.op, m.Files, r.launch.Workspace)
	if err != nil {
		return err
	}
	r.secrets = secrets
	o := &host.Options{Dir: r.launch.Workspace, Cache: r.e.serverCache(r.launch.Workspace, r.launch.Roots)}
	if r.launch.resumed {
		servers = slices.DeleteFunc(servers, func(s host.Server) bool { return !slices.Contains(m.Servers, s.Label) })
		for _, l := range m.Servers {
			if !slices.ContainsFunc(servers, func(s host.Server) bool { return s.Label == l }) {
				r.note("mcp_server_unknown", "the run's server %s is no longer configured", l)
			}
		}
		if !r.onDrift().Reloads() {
			o.Pins = m.Pins
			if servers, err = r.unchanged(servers); err != nil {
				return err
			}
		}
	}
	if r.host, err = r.e.OpenHost(ctx, servers, o); err != nil {
		return err
	}
	if r.owned = append(r.owned, r.host); r.launch.resumed {
		return nil
	}
	m.Pins, m.Definitions = map[string]string{}, map[string]string{}
	for _, s := range servers {
		if m.Definitions[s.Label], err = s.Definition(); err != nil {
			return err
		}
	}
	pins := r.host.Pins()
	var names []string
	defer func() { r.noteUnmatched(m, names) }()
	for _, t := range r.host.Tools() {
		spec, _ := t.Spec(ctx, nil)
		names = append(names, spec.Canonical)
		granted := slices.ContainsFunc(m.Tools, func(p string) bool {
			return p == spec.Canonical || policy.ParsePattern(p).Matches(policy.Request{Tool: spec.Canonical})
		})
		if granted && (r.launch.Spec.Mode != agent.ModePlan || spec.Effect == policy.Read) {
			r.launch.Tools = append(r.launch.Tools, spec.Canonical)
			m.Pins[spec.Canonical] = pins[spec.Canonical]
		}
	}
	return nil
}

// unchanged returns the servers whose configuration is the same as when the run began. A program may
// have changed the file that configures the others, and servers run outside of the sandbox. Runs of
// earlier versions recorded no definitions.
func (r *Run) unchanged(servers []host.Server) (out []host.Server, err error) {
	const hint = "check the file, then resume with ResumeOptions.OnDrift reload to start it as it is now"
	for _, s := range servers {
		was, known := r.launch.MCP.Definitions[s.Label]
		is, err := s.Definition()
		if err != nil {
			return nil, err
		}
		if !known || was == is {
			out = append(out, s)
			continue
		}
		if r.onDrift().Ends() {
			return nil, &metier.Error{Op: "resume", Path: s.File, Kind: metier.Drift, Code: "mcp_server_changed", Hint: hint + ", or with warn to continue without it",
				Err: fmt.Errorf("the configuration of the server %s changed since the run began", s.Label)}
		}
		r.note("mcp_server_changed", "the run continues without the server %s: its configuration in %s changed since the run began; %s", s.Label, s.File, hint)
	}
	return out, nil
}

// noteUnmatched reports granted tools that a working server does not have. names are the tools of all
// servers.
func (r *Run) noteUnmatched(m *LaunchMCP, names []string) {
	for _, granted := range m.Tools {
		p := policy.ParsePattern(granted)
		matches := func(name string) bool { return name == granted || p.Matches(policy.Request{Tool: name}) }
		for _, label := range m.Servers {
			prefix := host.Prefix + label + "__"
			works := slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, prefix) })
			if strings.HasPrefix(granted, prefix) && works && !slices.ContainsFunc(names, matches) {
				r.note("tool_unknown", "the server %s has no tool %q%s", label, granted, nearest.Hint(granted, names))
			}
		}
	}
}

// serverCache returns the folder for files of servers' skills. It is in the user's cache. It is "" if
// a run finds skills there or its tools write there.
func (e *Engine) serverCache(workspace string, roots []skillroots.Root) string {
	dir, _ := e.Env.CacheDir(CacheServers)
	if dir == "" || confine.Within(workspace, dir) || slices.ContainsFunc(roots, func(r skillroots.Root) bool { return confine.Within(r.Path, dir) }) {
		return ""
	}
	return dir
}

// maxServers is the maximum size of a file of MCP servers, in bytes.
const maxServers = 1 << 20

// CacheServers is the name of the folder in the user's cache that keeps files of MCP servers.
const CacheServers = "mcp"

// OpenHost connects to servers.
func (e *Engine) OpenHost(ctx context.Context, servers []host.Server, o *host.Options) (*host.Host, error) {
	o.Version, o.Now, o.Logger, o.Env = e.o.Version, e.Now, e.Logger(), e.Env.Lookup
	return host.Open(ctx, servers, o)
}

func (r *Run) served() []metier.Tool {
	if r.host == nil {
		return nil
	}
	return r.host.Tools()
}

// scanSkills lists the skills of the roots and of the servers.
func (r *Run) scanSkills(ctx context.Context) (*metier.Snapshot, error) {
	more := r.custom.Mounts
	if r.host != nil {
		more = slices.Concat(more, r.host.Mounts())
	}
	return r.listSkills(ctx, more)
}

func (r *Run) listSkills(ctx context.Context, more []metier.Mount) (*metier.Snapshot, error) {
	snap, err := r.e.Snapshot(ctx, r.launch.Roots, r.settings, r.launch.Workspace, nil, more...)
	if err != nil {
		return nil, err
	}
	return snap, r.checkSkills(snap)
}
