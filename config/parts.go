package config

import (
	"cmp"
	"os"
	"path/filepath"

	"metier/browser"
	"metier/mcp/host"
)

// Subagents configures the subagents of runs.
type Subagents struct {
	Allow    []string `yaml:"allow"`    // profiles that may start
	Profiles []string `yaml:"profiles"` // folders of NAME.yaml files
	Depth    int      `yaml:"depth"`    // children of children; 1: children begin none
	Total    int      `yaml:"total"`    // children of one run
	Parallel int      `yaml:"parallel"` // children at once
}

// SubagentsDir is the name of the folder of subagent profiles beside a
// configuration file.
const SubagentsDir = "subagents"

// place resolves folders against the configuration file and adds the folder of
// profiles beside it, if there is one.
func (c *Subagents) place(file string) {
	for i, d := range c.Profiles {
		if !filepath.IsAbs(d) {
			c.Profiles[i] = filepath.Join(filepath.Dir(file), d)
		}
	}
	own := filepath.Join(filepath.Dir(file), SubagentsDir)
	if info, err := os.Stat(own); err == nil && info.IsDir() {
		c.Profiles = append([]string{own}, c.Profiles...)
	}
}

func (c *Subagents) merge(over Subagents) {
	c.Allow = append(c.Allow, over.Allow...)
	c.Profiles = append(c.Profiles, over.Profiles...)
	for _, n := range []struct {
		to   *int
		from int
	}{{&c.Depth, over.Depth}, {&c.Total, over.Total}, {&c.Parallel, over.Parallel}} {
		if n.from != 0 {
			*n.to = n.from
		}
	}
}

// Browser configures the browser session that subagents share.
type Browser struct {
	Endpoint string          `yaml:"endpoint"` // its DevTools address on this machine
	Origin   string          `yaml:"origin"`   // the one that pages may be of
	Until    string          `yaml:"until"`    // how long from a run's beginning, or a time (RFC 3339)
	Path     []string        `yaml:"path"`     // more folders that scripts on the host find programs in
	Grants   []browser.Grant `yaml:"grants"`
}

// place resolves folders against the configuration file.
func (c *Browser) place(file string) {
	for i, d := range c.Path {
		if !filepath.IsAbs(d) {
			c.Path[i] = filepath.Join(filepath.Dir(file), d)
		}
	}
}

func (c *Browser) merge(over Browser) {
	c.Endpoint, c.Origin, c.Until = cmp.Or(over.Endpoint, c.Endpoint), cmp.Or(over.Origin, c.Origin), cmp.Or(over.Until, c.Until)
	c.Path, c.Grants = append(c.Path, over.Path...), append(c.Grants, over.Grants...)
}

// MCP lists the MCP servers of a configuration file.
type MCP struct {
	Servers map[string]host.Server `yaml:"servers"`
}

// placeServers records the file that each server is configured in.
func (c *File) placeServers(file string) {
	for name, s := range c.MCP.Servers {
		s.Label, s.File = name, file
		c.MCP.Servers[name] = s
	}
	for i, f := range c.MCPFiles {
		if !filepath.IsAbs(f) {
			c.MCPFiles[i] = filepath.Join(filepath.Dir(file), f)
		}
	}
}
