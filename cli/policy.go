package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"metier/config"
	"metier/policy"
)

// launchPolicy is what policy files say of a run, as they were read when it
// began. What they grant is in the lists of the launch.
type launchPolicy struct {
	Files     []string           `json:"files"`
	Rules     []policy.Rule      `json:"rules,omitempty"`
	Skills    []policy.SkillRule `json:"skills,omitempty"`
	BindArgs  bool               `json:"bindArgs,omitempty"`
	Approvals int                `json:"approvals,omitempty"` // how many of the approved scripts are from them
}

// policyOf reads the policy files of the configuration and of the flags. None of
// them takes back what another says: their rules add up.
func (a *app) policyOf(flags []string, op config.Operator) (_ *launchPolicy, g policy.Grants, _ error) {
	files := slices.Clone(op.Policies)
	for _, flag := range flags {
		if flag == "" {
			return nil, g, wrong("policy_file_unreadable", "name a policy file that can be read; without its rules nothing starts", "--policy names no file")
		}
		files = append(files, a.env.Path(flag))
	}
	if len(files) == 0 {
		return nil, g, nil
	}
	for _, p := range files {
		f, err := config.ReadPolicy(p)
		if err != nil {
			return nil, g, err
		}
		f.Grant(&g)
	}
	return &launchPolicy{Files: files, Rules: g.Rules, Skills: g.Skills, BindArgs: g.BindArgs, Approvals: len(g.Approved)}, g, nil
}

// planPolicy puts what policy files grant into the launch. No tool writes them.
func (l *launch) planPolicy(p *launchPolicy, g policy.Grants) {
	if p == nil {
		return
	}
	l.Policy = p
	l.Scripts, l.Hosts = dedupe(append(l.Scripts, g.Scripts...)), dedupe(append(l.Hosts, g.Hosts...))
	l.Approved = append(l.Approved, g.Approved...)
	l.Sources = append(l.Sources, p.Files...)
}

// strictest adds the denials of today's policy files of the configuration to
// those a resumed run began with.
func (l *launch) strictest(op config.Operator) error {
	for _, p := range op.Policies {
		f, err := config.ReadPolicy(p)
		if err != nil {
			return err
		}
		if l.Policy == nil {
			l.Policy = &launchPolicy{Files: []string{}}
		}
		for _, u := range f.Rules {
			if u.Effect == policy.RuleDeny && !slices.Contains(l.Policy.Rules, u) {
				l.Policy.Rules = append(l.Policy.Rules, u)
			}
		}
		for _, u := range f.Skills {
			if u.Effect == policy.RuleDeny && !slices.Contains(l.Policy.Skills, u) {
				l.Policy.Skills = append(l.Policy.Skills, u)
			}
		}
	}
	return nil
}

// grant adds the rules to grants.
func (p *launchPolicy) grant(g *policy.Grants) {
	if p != nil {
		g.Rules, g.Skills, g.BindArgs = p.Rules, p.Skills, p.BindArgs
	}
}

// words say it in a line.
func (p *launchPolicy) words() string {
	var names []string
	for _, f := range p.Files {
		names = append(names, filepath.Base(f))
	}
	s := fmt.Sprintf("%s: %s, %s, %s", strings.Join(names, ", "), plural(len(p.Rules), "rule"), plural(len(p.Skills), "rule")+" of skills", plural(p.Approvals, "approval"))
	if p.BindArgs {
		s += " that bind arguments"
	}
	return s
}
