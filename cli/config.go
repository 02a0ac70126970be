package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"metier/internal/confine"
	"metier/internal/yaml"
	"metier/model"
	"metier/settings"
)

// config is one configuration file. /etc/metier/config.yaml and
// ~/.config/metier/config.yaml together are the operator; metier.yaml in a
// workspace may only narrow.
type config struct {
	Profile   string                 `yaml:"profile"`
	Set       map[string]string      `yaml:"set"`
	Skills    []rootConfig           `yaml:"skills"`
	Deny      []string               `yaml:"deny"` // skills, by name or ID
	Tools     []string               `yaml:"allow_tools"`
	Model     string                 `yaml:"model"`
	BaseURLs  map[string]string      `yaml:"base_urls"` // provider → URL
	Prices    map[string]priceConfig `yaml:"prices"`    // provider:name → US dollars per million tokens
	Artifacts string                 `yaml:"artifact_root"`
	Scripts   []string               `yaml:"allow_skill_scripts"` // SKILL:scripts/PATH; allowed, not approved
	Hosts     []string               `yaml:"allow_hosts"`
	Sandbox   sandboxConfig          `yaml:"sandbox"`
	Browser   browserConfig          `yaml:"browser"`
	Secrets   []secretConfig         `yaml:"secrets"`
	Policy    string                 `yaml:"policy"` // a policy file, see docs/POLICY.md
	MCP       mcpConfig              `yaml:"mcp"`
	MCPFiles  []string               `yaml:"mcp_config"` // files of the shape {"mcpServers": …}
	Subagents subagentConfig         `yaml:"subagents"`
}

// sandboxConfig says what programs run in.
type sandboxConfig struct {
	Backend  string   `yaml:"backend"`
	Runsc    string   `yaml:"runsc"`    // gVisor's program, absolute
	Platform string   `yaml:"platform"` // of gVisor: systrap, ptrace or kvm
	Visible  []string `yaml:"visible"`  // more folders of the host that programs may read
}

// rootConfig is a root of skills the operator names.
type rootConfig struct {
	Path  string `yaml:"path"`
	Tier  string `yaml:"tier"`
	Label string `yaml:"label"`
	// Harness says that the folder holds a HARNESS.md.
	Harness bool `yaml:"harness"`
}

type priceConfig struct {
	Input      float64 `yaml:"input"`
	Output     float64 `yaml:"output"`
	CacheRead  float64 `yaml:"cache_read"`
	CacheWrite float64 `yaml:"cache_write"`
}

// price is what the operator says a model costs; nil: nothing.
func (o operator) price(id string) *model.Price {
	p, said := o.Prices[id]
	if !said {
		return nil
	}
	return &model.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
}

// projectConfig is what a workspace's metier.yaml may say: less, never more.
type projectConfig struct {
	Set  map[string]string `yaml:"set"`
	Deny []string          `yaml:"deny"`
}

// operator is the operator's configuration, put together.
type operator struct {
	config
	layers   []settings.Layer
	policies []string // of all files: one cannot take back what another says
}

// configPaths are the operator's files, weakest first.
func (a *app) configPaths() []string {
	paths := []string{"/etc/metier/config.yaml"}
	switch {
	case a.env["METIER_CONFIG"] != "":
		return []string{a.path(a.env["METIER_CONFIG"])}
	case a.env["XDG_CONFIG_HOME"] != "":
		paths = append(paths, filepath.Join(a.env["XDG_CONFIG_HOME"], "metier", "config.yaml"))
	case a.home() != "":
		paths = append(paths, filepath.Join(a.home(), ".config", "metier", "config.yaml"))
	}
	return paths
}

// operatorConfig reads the operator's files; a file that is not there is
// nothing, one that cannot be read is an error naming it.
func (a *app) operatorConfig() (operator, error) {
	var op operator
	for _, p := range a.configPaths() {
		var c config
		found, err := readYAML(p, &c)
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
		op.merge(c)
		if len(c.Set) > 0 {
			op.layers = append(op.layers, settings.Layer{Name: p, Operator: true, Values: c.Set})
		}
	}
	return op, nil
}

// merge lays a later file over the earlier ones.
func (o *operator) merge(c config) {
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
		o.policies = append(o.policies, c.Policy)
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
	for k, v := range from {
		into[k] = v
	}
	return into
}

// readYAML decodes a file strictly. found is false when it does not exist.
func readYAML(path string, into any) (found bool, err error) {
	b, err := readNamed(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, wrong("config_unreadable", "make the file readable or remove it", "read %s: %w", path, err)
	}
	if err := yaml.Decode(b, into); err != nil {
		return true, wrong("config_invalid", "fix the line that is named", "%s:%w", path, err)
	}
	return true, nil
}

// resolve lays the settings of an invocation on top of each other: profile,
// the operator's files, a run file, the flags, then the workspace's own file,
// which may only narrow.
func (a *app) resolve(op operator, profile, workspace string, more ...settings.Layer) (settings.Settings, settings.Origins, []string, error) {
	name := firstSet(profile, a.env["METIER_PROFILE"], op.Profile, "default")
	layer, err := settings.Profile(name)
	if err != nil {
		return settings.Settings{}, nil, nil, err
	}
	layers := append([]settings.Layer{layer}, op.layers...)
	layers = append(layers, more...)
	var denied []string
	if workspace != "" {
		c, err := readProject(workspace)
		if err != nil {
			return settings.Settings{}, nil, nil, err
		}
		denied = c.Deny
		if len(c.Set) > 0 {
			layers = append(layers, settings.Layer{Name: filepath.Join(workspace, projectFile), Values: c.Set})
		}
	}
	s, origins, err := settings.Resolve(layers...)
	return s, origins, denied, err
}

const projectFile = "metier.yaml"

// readProject reads a workspace's own settings. The workspace is not trusted:
// the file is opened beneath it and its size is bounded.
func readProject(workspace string) (projectConfig, error) {
	var c projectConfig
	const most = 1 << 20
	path := filepath.Join(workspace, projectFile)
	b, more, err := beneath(workspace, projectFile, most)
	if confine.CodeOf(err) == confine.NotFound {
		return c, nil
	}
	if err == nil && more {
		err = fmt.Errorf("it is larger than %d bytes", most)
	}
	if err != nil {
		return c, wrong("config_unreadable", "make it a plain, readable file or remove it", "read %s: %w", path, err)
	}
	if err := yaml.Decode(b, &c); err != nil {
		return c, wrong("config_invalid", "fix the line that is named; a workspace may say set and deny", "%s:%w", path, err)
	}
	return c, nil
}

// setFlag reads --set name=value flags.
func setFlag(pairs []string) (settings.Layer, error) {
	l := settings.Layer{Name: "flag --set", Operator: true, Values: map[string]string{}}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return l, wrong("usage", "write it as --set name=value; 'metier profile show' lists the names", "--set %q has no name or no value", p)
		}
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		if more, adds := strings.CutPrefix(v, "+"); adds && l.Values[k] != "" {
			v = l.Values[k] + ", " + more
		}
		l.Values[k] = v
	}
	return l, nil
}

func firstSet(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// state is the folder for what metier keeps about the user: heads of records.
func (a *app) state() (string, error) {
	if x := a.env["XDG_STATE_HOME"]; x != "" {
		return filepath.Join(x, "metier"), nil
	}
	if h := a.home(); h != "" {
		return filepath.Join(h, ".local", "state", "metier"), nil
	}
	return "", fmt.Errorf("there is no home folder: set HOME or XDG_STATE_HOME")
}
