package engine

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/config"
	"metier/internal/distinct"
	"metier/internal/plural"
	"metier/policy"
)

// LaunchPolicy is the content of a run's policy files when it began. What they grant is in the
// lists of the launch.
type LaunchPolicy struct {
	Files     []string           `json:"files"`
	Rules     []policy.Rule      `json:"rules,omitempty"`
	Skills    []policy.SkillRule `json:"skills,omitempty"`
	BindArgs  bool               `json:"bindArgs,omitempty"`
	Approvals int                `json:"approvals,omitempty"` // how many of the approved scripts are from them
}

// PolicyOf reads the policy files of the configuration and of a request. Their rules are combined.
// Rules can refer to the given custom tools.
func (e *Engine) PolicyOf(flags []string, op config.Operator, custom ...string) (_ *LaunchPolicy, g policy.Grants, _ error) {
	files, err := e.policyFiles(flags, op)
	if err != nil || len(files) == 0 {
		return nil, g, err
	}
	for _, p := range files {
		f, err := config.ReadPolicy(p, custom...)
		if err != nil {
			return nil, g, err
		}
		f.Grant(&g)
	}
	return &LaunchPolicy{Files: files, Rules: g.Rules, Skills: g.Skills, BindArgs: g.BindArgs, Approvals: len(g.Approved)}, g, nil
}

// policyFiles returns the policy files of the configuration and of a request.
func (e *Engine) policyFiles(flags []string, op config.Operator) ([]string, error) {
	files := slices.Clone(op.Policies)
	for _, flag := range flags {
		if flag == "" {
			return nil, metier.Fieldf(metier.Invalid, "Request.Policies", "policy_file_unreadable", "specify a readable policy file", "Request.Policies has an empty name")
		}
		files = append(files, e.Env.Path(flag))
	}
	return files, nil
}

// planPolicy adds what policy files grant to the launch, and protects the files from tools.
func (l *Launch) planPolicy(p *LaunchPolicy, g policy.Grants) {
	if p == nil {
		return
	}
	l.Policy = p
	l.Scripts, l.Hosts = distinct.Of(append(l.Scripts, g.Scripts...)), distinct.Of(append(l.Hosts, g.Hosts...))
	l.Approved = append(l.Approved, g.Approved...)
	l.Sources = append(l.Sources, p.Files...)
}

// strictest adds the denials in the configuration's current policy files to those a resumed run
// began with.
func (l *Launch) strictest(op config.Operator) error {
	for _, p := range op.Policies {
		f, err := config.ReadPolicy(p, l.Tools...)
		if err != nil {
			return err
		}
		if l.Policy == nil {
			l.Policy = &LaunchPolicy{Files: []string{}}
		}
		for _, u := range f.Rules {
			if u.Effect == policy.RuleDeny && !slices.Contains(l.Policy.Rules, u) {
				l.Policy.Rules = append(l.Policy.Rules, u)
			}
		}
		more := slices.Clone(f.Skills)
		for i := range more {
			if more[i].Effect == policy.RuleAsk {
				more[i].Effect = policy.RuleAllow // only denials are added
			}
		}
		l.Policy.Skills = policy.AddSkills(l.Policy.Skills, more)
	}
	return nil
}

// grant adds the rules to grants.
func (p *LaunchPolicy) grant(g *policy.Grants) {
	if p != nil {
		g.Rules, g.Skills, g.BindArgs = p.Rules, p.Skills, p.BindArgs
	}
}

// Words describes the policy in one line.
func (p *LaunchPolicy) Words() string {
	var names []string
	for _, f := range p.Files {
		names = append(names, filepath.Base(f))
	}
	s := fmt.Sprintf("%s: %s, %s, %s", strings.Join(names, ", "), plural.Of(len(p.Rules), "rule"), plural.Of(len(p.Skills), "rule")+" of skills", plural.Of(p.Approvals, "approval"))
	if p.BindArgs {
		s += " that bind arguments"
	}
	return s
}
