// Package config reads what the operator and a project wrote down: configuration
// files, policy files, run files, and the secrets they name. It checks them and
// merges them, and acts on none of it.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"

	"metier"
	"metier/internal/confine"
	"metier/internal/namedfile"
	"metier/internal/yaml"
	"metier/model"
	"metier/model/provider"
	"metier/policy"
	"metier/settings"
)

// File is one configuration file of the operator.
type File struct {
	Profile   string            `yaml:"profile"`
	Set       map[string]string `yaml:"set"`
	Skills    []Root            `yaml:"skills"`
	Deny      []string          `yaml:"deny"` // skills, by name or ID
	Tools     []string          `yaml:"allow_tools"`
	Model     string            `yaml:"model"`
	BaseURLs  map[string]string `yaml:"base_urls"` // provider → URL
	Prices    map[string]Price  `yaml:"prices"`    // provider:name → US dollars per million tokens
	Artifacts string            `yaml:"artifact_root"`
	Scripts   []string          `yaml:"allow_skill_scripts"` // SKILL:scripts/PATH; allowed, not approved
	Hosts     []string          `yaml:"allow_hosts"`
	Sandbox   Sandbox           `yaml:"sandbox"`
	Browser   Browser           `yaml:"browser"`
	Secrets   []Secret          `yaml:"secrets"`
	Policy    string            `yaml:"policy"` // a policy file, see docs/POLICY.md
	MCP       MCP               `yaml:"mcp"`
	MCPFiles  []string          `yaml:"mcp_config"` // files of the shape {"mcpServers": …}
	Subagents Subagents         `yaml:"subagents"`
}

// Sandbox configures what programs run in.
type Sandbox struct {
	Backend  string   `yaml:"backend"`
	Runsc    string   `yaml:"runsc"`    // gVisor's program, absolute
	Platform string   `yaml:"platform"` // of gVisor: systrap, ptrace or kvm
	Visible  []string `yaml:"visible"`  // more folders of the host that programs may read
}

// Root is a folder of skills.
type Root struct {
	Path    string `yaml:"path"`
	Tier    string `yaml:"tier"`
	Label   string `yaml:"label"`
	Harness bool   `yaml:"harness"` // the folder holds a HARNESS.md
}

// Price is what a model costs, in US dollars per million tokens.
type Price struct {
	Input      float64 `yaml:"input"`
	Output     float64 `yaml:"output"`
	CacheRead  float64 `yaml:"cache_read"`
	CacheWrite float64 `yaml:"cache_write"`
}

// Price returns what a model costs, or nil if the configuration names no price.
func (o Operator) Price(id string) *model.Price {
	p, said := o.Prices[id]
	if !said {
		return nil
	}
	return &model.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
}

// Models returns the options with which models are opened.
func (o Operator) Models(env Env) provider.Options {
	return provider.Options{Env: env.Get, Path: env.Path, BaseURLs: o.BaseURLs}
}

// Project is a workspace's metier.yaml. It can only narrow what the operator
// allows.
type Project struct {
	Set  map[string]string `yaml:"set"`
	Deny []string          `yaml:"deny"`
}

// Operator is the configuration of the operator: /etc/metier/config.yaml and
// ~/.config/metier/config.yaml, merged.
type Operator struct {
	File
	Layers   []settings.Layer // the settings of each file, weakest first
	Policies []string         // policy files of all files; their rules add up

	profileFile, modelFile string // the files that set Profile and Model
}

// DefaultModel returns the model of runs that name none, and what sets it. Both are "" if nothing
// does.
func (o Operator) DefaultModel(env Env) (id, from string) {
	return first(env, "METIER_MODEL", o.Model, "model in "+o.modelFile)
}

// DefaultProfile returns the profile of requests that name none, and what sets it, or "" if nothing
// does.
func (o Operator) DefaultProfile(env Env) (name, from string) {
	if name, from = first(env, "METIER_PROFILE", o.Profile, "profile in "+o.profileFile); name == "" {
		name = settings.DefaultProfile
	}
	return name, from
}

// first returns the value of a variable, or else that of a file, with its origin.
func first(env Env, variable, value, file string) (string, string) {
	switch v := env.Get(variable); {
	case v != "":
		return v, variable
	case value != "":
		return value, file
	}
	return "", ""
}

// Load reads the operator's configuration files. A missing file is skipped, unless
// METIER_CONFIG names it. A file that cannot be read is an error that names it.
func Load(env Env) (Operator, error) {
	var op Operator
	for _, p := range env.Files() {
		var c File
		found, err := env.read(p, &c)
		if err != nil {
			return op, err
		}
		if !found {
			continue
		}
		for i := range c.Skills {
			if !filepath.IsAbs(c.Skills[i].Path) {
				c.Skills[i].Path = filepath.Join(filepath.Dir(p), c.Skills[i].Path)
			}
		}
		if err := checkSecrets(p, c.Secrets); err != nil {
			return op, err
		}
		for i := range c.Secrets {
			if f := c.Secrets[i].File; f != "" && !filepath.IsAbs(f) {
				c.Secrets[i].File = filepath.Join(filepath.Dir(p), f) // and never in the workspace the command happens to be in
			}
		}
		if c.Policy != "" && !filepath.IsAbs(c.Policy) {
			c.Policy = filepath.Join(filepath.Dir(p), c.Policy)
		}
		c.placeServers(p)
		c.Browser.place(p)
		c.Subagents.place(p)
		if c.Profile != "" {
			op.profileFile = p
		}
		if c.Model != "" {
			op.modelFile = p
		}
		op.merge(c)
		if len(c.Set) > 0 {
			op.Layers = append(op.Layers, settings.Layer{Name: p, Operator: true, Values: c.Set})
		}
	}
	return op, nil
}

// Check reads one of [Env.Files]. found is false if it does not exist.
func Check(env Env, path string) (found bool, err error) {
	var c File
	return env.read(path, &c)
}

// read decodes a configuration file. A missing file that METIER_CONFIG names is an
// error: what it denies would be allowed.
func (e Env) read(path string, c *File) (found bool, err error) {
	found, err = readYAML(path, c)
	for _, r := range c.Skills {
		if t := policy.Tier(r.Tier); err == nil && r.Tier != "" && t != policy.ThirdParty && t.Or() == policy.ThirdParty {
			err = metier.Errorf(metier.Invalid, "tier_unknown", "tiers: builtin, org, project, user, third_party", "%s: skills: the root %s has the unknown tier %q", path, r.Path, r.Tier)
		}
	}
	if err == nil && !found && e.Vars["METIER_CONFIG"] != "" {
		return false, metier.Errorf(metier.NotFound, "config_missing", "set METIER_CONFIG to an existing file, or unset it", "METIER_CONFIG is set to %s, which does not exist", path)
	}
	return found, err
}

// merge lays a later file over the earlier ones.
func (o *Operator) merge(c File) {
	if c.Profile != "" {
		o.Profile = c.Profile
	}
	if c.Model != "" {
		o.Model = c.Model
	}
	if c.Artifacts != "" {
		o.Artifacts = c.Artifacts
	}
	if c.Tools != nil {
		o.Tools = c.Tools
	}
	if c.Sandbox.Backend != "" {
		o.Sandbox.Backend = c.Sandbox.Backend
	}
	if c.Sandbox.Runsc != "" {
		o.Sandbox.Runsc, o.Sandbox.Platform = c.Sandbox.Runsc, c.Sandbox.Platform
	}
	if c.Policy != "" {
		o.Policies = append(o.Policies, c.Policy)
	}
	o.MCP.Servers = merged(o.MCP.Servers, c.MCP.Servers)
	o.MCPFiles = append(o.MCPFiles, c.MCPFiles...)
	o.Subagents.merge(c.Subagents)
	o.Sandbox.Visible = append(o.Sandbox.Visible, c.Sandbox.Visible...)
	o.Browser.merge(c.Browser)
	o.Scripts = append(o.Scripts, c.Scripts...)
	o.Hosts = append(o.Hosts, c.Hosts...)
	o.Secrets = append(o.Secrets, c.Secrets...)
	o.Skills = append(o.Skills, c.Skills...)
	o.Deny = append(o.Deny, c.Deny...)
	o.BaseURLs = merged(o.BaseURLs, c.BaseURLs)
	o.Prices = merged(o.Prices, c.Prices)
}

func merged[V any](into, from map[string]V) map[string]V {
	if into == nil {
		into = map[string]V{}
	}
	maps.Copy(into, from)
	return into
}

// readYAML decodes a file strictly. found is false when it does not exist.
func readYAML(path string, into any) (found bool, err error) {
	b, err := namedfile.Read(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, metier.Errorf(metier.Invalid, "config_unreadable", "make the file readable or remove it", "read %s: %w", path, err)
	}
	if err := yaml.Decode(b, into); err != nil {
		return true, metier.Errorf(metier.Invalid, "config_invalid", "fix the line shown in the message", "%s:%w", path, err)
	}
	return true, nil
}

// Resolve computes the settings that apply in a workspace. From weakest to
// strongest: the profile, the operator's files, more, and the workspace's own
// metier.yaml, which can only narrow. It also returns the skills that metier.yaml
// denies. An empty profile means METIER_PROFILE, the configured one, or default.
func (o Operator) Resolve(env Env, profile, workspace string, more ...settings.Layer) (settings.Settings, settings.Origins, []string, error) {
	name, from := profile, ""
	if name == "" {
		name, from = o.DefaultProfile(env)
	}
	layer, err := settings.Profile(name)
	if err != nil && from != "" {
		err = fmt.Errorf("%s: %w", from, err)
	}
	if err != nil {
		return settings.Settings{}, nil, nil, err
	}
	layers := append([]settings.Layer{layer}, o.Layers...)
	layers = append(layers, more...)
	var denied []string
	if workspace != "" {
		c, err := readProject(workspace)
		if err != nil {
			return settings.Settings{}, nil, nil, err
		}
		denied = c.Deny
		if len(c.Set) > 0 {
			layers = append(layers, settings.Layer{Name: filepath.Join(workspace, ProjectFile), Values: c.Set})
		}
	}
	s, origins, err := settings.Resolve(layers...)
	return s, origins, denied, err
}

const ProjectFile = "metier.yaml"

// readProject reads a workspace's own settings. The workspace is not trusted:
// the file is opened beneath it and its size is bounded.
func readProject(workspace string) (Project, error) {
	var c Project
	const most = 1 << 20
	path := filepath.Join(workspace, ProjectFile)
	b, more, err := confine.ReadBeneath(workspace, ProjectFile, most)
	if confine.CodeOf(err) == confine.NotFound {
		return c, nil
	}
	if err == nil && more {
		err = fmt.Errorf("it is larger than %d bytes", most)
	}
	if err != nil {
		return c, metier.Errorf(metier.Invalid, "config_unreadable", "make it a plain, readable file or remove it", "read %s: %w", path, err)
	}
	if err := yaml.Decode(b, &c); err != nil {
		return c, metier.Errorf(metier.Invalid, "config_invalid", "fix the line shown in the message; metier.yaml in a workspace may contain only set and deny", "%s:%w", path, err)
	}
	return c, nil
}
