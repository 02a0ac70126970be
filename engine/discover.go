package engine

import (
	"context"
	"errors"
	"slices"

	"metier"
	"metier/agent"
	"metier/config"
	"metier/mcp/host"
	"metier/settings"
	"metier/skillroots"
)

// Discovery contains the skills that a run of a request would find, and the settings, tools, and
// rules that determine which of them its model sees.
type Discovery struct {
	Workspace string
	Settings  settings.Settings
	Roots     []skillroots.Root
	Tools     []string // the default tools of a run
	Denied    []string // skills that the operator denied, by name or ID
	Snapshot  *metier.Snapshot
	Scans     *skillroots.Scans

	e      *Engine
	setBy  settings.Origins
	policy *LaunchPolicy
	host   *host.Host // of the request's servers, or nil
}

// Discover finds the skills that a run of the request would have, like `metier list`. It uses only
// the locations, the settings, and the MCP servers in the request. Servers run until Close.
func (e *Engine) Discover(ctx context.Context, q Request) (_ *Discovery, err error) {
	p, err := e.resolve(ctx, q)
	if err != nil {
		return nil, err
	}
	d := &Discovery{Workspace: p.launch.Workspace, Settings: p.settings, Roots: p.launch.Roots, Denied: p.launch.Denied, e: e, setBy: p.setBy}
	d.Settings.Tools.Default = harnessTools(d.Settings.Tools.Default, d.Roots)
	if d.Tools, err = grantedTools(nil, nil, p.op, d.Settings, agent.ModeChat); err != nil {
		return nil, err
	}
	if d.policy, _, err = e.PolicyOf(q.Policies, p.op); err != nil {
		return nil, err
	}
	more := q.Custom.Mounts
	if len(q.Servers) > 0 {
		if err := d.openServers(ctx, q.Servers); err != nil {
			return nil, err
		}
		more = slices.Concat(more, d.host.Mounts())
	}
	d.Scans = e.Scans(ctx)
	if d.Snapshot, err = e.Snapshot(ctx, d.Roots, d.Settings, d.Workspace, d.Scans, more...); err == nil {
		err = checkHarnesses(ctx, d.Snapshot, d.Roots)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Discovery) openServers(ctx context.Context, files []string) error {
	servers, _, err := d.e.mcpServers(config.Operator{}, d.e.Env.Paths(files), d.Workspace)
	if err != nil {
		return err
	}
	d.host, err = d.e.OpenHost(ctx, servers, &host.Options{Dir: d.Workspace, Cache: d.e.serverCache(d.Workspace, d.Roots)})
	return err
}

// Close stops the servers of the request.
func (d *Discovery) Close() error {
	if d.host == nil {
		return nil
	}
	return d.host.Close()
}

// Catalog returns what a run would show its model about the skills.
func (d *Discovery) Catalog(ctx context.Context) (metier.Catalog, error) {
	l := Launch{Workspace: d.Workspace, Roots: d.Roots, Tools: d.Tools, Denied: d.Denied, Policy: d.policy}
	return d.e.catalog(ctx, l, d.Settings, d.Snapshot)
}
