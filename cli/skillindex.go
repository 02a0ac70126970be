package cli

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"

	"metier"
	"metier/engine"
	"metier/settings"
)

// skillLocation holds the flags that locate a command's skills: those that `metier run` would find
// with the same flags.
type skillLocation struct {
	placeFlags
	mcp []string // files of servers whose skills are read too
}

func (p *skillLocation) flags(c *cobra.Command) {
	p.add(c.Flags(), "project `folder` (default: the current one)")
}

// servers adds the flag for commands that also read skills of MCP servers. These are started or
// called, so a command does so only if the user names them.
func (p *skillLocation) servers(c *cobra.Command) {
	c.Flags().StringArrayVar(&p.mcp, "mcp-config", nil, "`file` that lists MCP servers; their skills are included (repeatable)")
}

// skillIndex is the set of skills that a run would find at a location.
type skillIndex struct {
	*engine.Discovery
	a *app
}

// endsSoon trades memory for time: what a short command allocates need not be freed.
func (a *app) endsSoon() {
	if a.env.Get("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// openIndex finds the skills at a location, as a run there would.
func (a *app) openIndex(ctx context.Context, p skillLocation) (*skillIndex, error) {
	a.endsSoon()
	layer, err := setFlag(p.set)
	if err != nil {
		return nil, err
	}
	d, err := a.engine().Discover(ctx, engine.Request{Workspace: p.workspace, Profile: p.profile, Roots: p.roots, Harnesses: p.harness, Servers: p.mcp, Layers: []settings.Layer{layer}})
	if err != nil {
		return nil, err
	}
	a.found = append(a.found, d)
	return &skillIndex{d, a}, nil
}

// denies reports whether the operator denied a skill that the command found.
func (a *app) denies(sk metier.Skill) bool {
	return slices.ContainsFunc(a.found, func(d *engine.Discovery) bool { return d.Denies(sk) })
}

// oneSkill checks the arguments of a command about one skill.
func oneSkill(c *cobra.Command, args []string) error {
	if len(args) == 1 && args[0] != "" {
		return nil
	}
	needs := " needs the name, ID, or path of one skill"
	if len(args) == 1 {
		needs += ", not an empty name"
	}
	return &problem{exit: exitUsage, code: "usage", err: errors.New(nameOf(c) + needs),
		hint: "'metier list' shows the names and IDs"}
}
