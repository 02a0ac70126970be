package subagent

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"metier/internal/yaml"
	"metier/policy"
)

// Profile is one kind of child, as the operator wrote it down.
type Profile struct {
	Name        string `yaml:"name" json:"name"`
	Description string `yaml:"description" json:"description"` // one line, told to the parent's model
	// Skills the child begins with, exact names. One that is not there makes a
	// weaker child and no error.
	Skills []string `yaml:"skills" json:"skills,omitempty"`
	// AllowSkills are patterns (* is any text) of skills a call may name and the child
	// may load besides. None: no others.
	AllowSkills []string `yaml:"allow_skills" json:"allowSkills,omitempty"`
	Scripts     []string `yaml:"scripts" json:"scripts,omitempty"` // exactly those that may run: SKILL:scripts/PATH
	Tools       []string `yaml:"tools" json:"tools"`               // canonical names; inherit stands for those of the parent that run nothing
	Hosts       []string `yaml:"hosts" json:"hosts,omitempty"`     // that its tools may reach; inherit stands for the parent's
	Model       string   `yaml:"model" json:"model,omitempty"`     // provider:name; "" is the parent's
	MaxTurns    int      `yaml:"max_turns" json:"maxTurns"`
	MaxTokens   int64    `yaml:"max_tokens" json:"maxTokens,omitempty"` // 0: what the parent has left
	Target      string   `yaml:"target" json:"executionTarget"`         // where Scripts run: sandbox (default) or host
	// Browser says that the scripts on the host work in the browser that the operator lent,
	// and in no other way.
	Browser bool `yaml:"browser" json:"browser,omitempty"`
	// Instructions follow the system prompt of the child.
	Instructions string `yaml:"instructions" json:"instructions,omitempty"`
}

// Limits of profiles.
const (
	maxTurns     = 64
	defaultTurns = 8
	MaxFile      = 64 << 10 // bytes of a profile's file
)

// Inherit stands in Profile.Tools and Profile.Hosts for what the parent has.
const Inherit = "inherit"

// Where scripts of a profile run.
const (
	TargetSandbox = "sandbox"
	TargetHost    = "host"
)

// Default is the profile that is allowed wherever the tool is: it adds nothing
// to what its parent may do.
const Default = "default"

//go:embed profiles/*.yaml
var builtin embed.FS

// Builtin returns the profiles that metier brings: author, browser, default and
// web_fetch.
func Builtin() []Profile {
	sub, err := fs.Sub(builtin, "profiles")
	if err != nil {
		panic(err) // the folder is embedded
	}
	out, err := Load(sub)
	if err != nil {
		panic(err) // a test parses them
	}
	return out
}

// Load reads the *.yaml files of a folder of the operator's, by name. A file
// that cannot be understood is an error that names it, and so is one that has
// not the name of its profile.
func Load(dir fs.FS) ([]Profile, error) {
	names, err := fs.Glob(dir, "*.yaml")
	if err != nil {
		return nil, err
	}
	var out []Profile
	for _, n := range names {
		info, err := fs.Stat(dir, n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n, err)
		}
		if !info.Mode().IsRegular() || info.Size() > MaxFile {
			return nil, fmt.Errorf("%s: it is not a file, or has more than %d bytes", n, MaxFile)
		}
		b, err := fs.ReadFile(dir, n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n, err)
		}
		p, err := Parse(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n, err)
		}
		if p.Name+".yaml" != n {
			return nil, fmt.Errorf("%s: the file of the profile %q is named %s.yaml", n, p.Name, p.Name)
		}
		out = append(out, p)
	}
	return out, nil
}

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// Parse reads one profile. Unknown keys, and values that mean nothing, are
// errors.
func Parse(b []byte) (Profile, error) {
	var p Profile
	if err := yaml.Decode(b, &p); err != nil {
		return p, err
	}
	if p.MaxTurns == 0 {
		p.MaxTurns = defaultTurns
	}
	if p.Target == "" {
		p.Target = TargetSandbox
	}
	switch {
	case !nameForm.MatchString(p.Name):
		return p, fmt.Errorf("name %q must have at most 64 lowercase letters, digits, underscores, and hyphens", p.Name)
	case strings.TrimSpace(p.Description) == "" || len(p.Description) > 500:
		return p, errors.New("description is missing, or longer than 500 bytes: the model chooses by it")
	case p.MaxTurns < 1 || p.MaxTurns > maxTurns:
		return p, fmt.Errorf("max_turns must be between 1 and %d", maxTurns)
	case p.MaxTokens < 0:
		return p, errors.New("max_tokens is below zero")
	case p.Target != TargetSandbox && p.Target != TargetHost:
		return p, fmt.Errorf("target %q is neither %s nor %s", p.Target, TargetSandbox, TargetHost)
	case p.Target == TargetHost && len(p.Scripts) == 0:
		return p, errors.New("target host needs scripts: exactly those run there")
	case p.Browser && p.Target != TargetHost:
		return p, errors.New("browser needs target: host, where browsers are")
	case len(p.Tools) == 0:
		return p, errors.New("tools is missing: list tools, or use inherit")
	}
	for _, s := range p.Skills {
		if strings.ContainsAny(s, "*?[") || strings.TrimSpace(s) == "" {
			return p, fmt.Errorf("skills: %q is not an exact name; put patterns in allow_skills", s)
		}
	}
	for _, a := range p.AllowSkills {
		if (policy.SkillRule{Effect: policy.RuleAllow, Skill: a}).Check() != nil || strings.TrimSpace(a) != a {
			return p, fmt.Errorf("allow_skills: %q is not a name or pattern", a)
		}
	}
	for _, s := range p.Scripts {
		skill, file, ok := strings.Cut(s, ":scripts/")
		if !ok || skill == "" || file == "" || strings.ContainsAny(s, "*?") || path.Clean(file) != file || strings.HasPrefix(file, "..") {
			return p, fmt.Errorf("scripts: %q is not written as SKILL:scripts/PATH", s)
		}
	}
	return p, nil
}

// Lets reports whether a call may name a skill, and the child load it: one of
// the profile's, or one that its patterns take in. id is "" where there is none
// of that name.
func (p Profile) Lets(id, name string) bool {
	return slices.Contains(p.Skills, name) || slices.ContainsFunc(p.AllowSkills, func(a string) bool { return policy.Listed(a, id, name) })
}

// Find returns the profile of a name.
func Find(all []Profile, name string) (Profile, bool) {
	if i := slices.IndexFunc(all, func(p Profile) bool { return p.Name == name }); i >= 0 {
		return all[i], true
	}
	return Profile{}, false
}
