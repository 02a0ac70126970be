package engine

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/agent"
	"metier/agent/subagent"
	"metier/config"
	"metier/internal/distinct"
	"metier/internal/namedfile"
	"metier/policy"
	"metier/settings"
)

// Defaults for limits that are not configured.
const (
	childDepth    = 2
	childTotal    = 32
	childParallel = 4
)

// LaunchSubagents is the part of a launch about children. It is recorded, so that a resumed run
// keeps the profiles it began with.
type LaunchSubagents struct {
	Profiles []subagent.Profile `json:"profiles"` // that may start
	Depth    int                `json:"depth"`
	Total    int                `json:"total"`
	Parallel int                `json:"parallel"`
	At       int                `json:"at"` // how deep this run is itself
}

func (l *LaunchSubagents) names() []string {
	if l == nil {
		return nil
	}
	return profileNames(l.Profiles)
}

// may reports whether a run at this depth can start children.
func (l *LaunchSubagents) may() bool { return l != nil && len(l.Profiles) > 0 && l.At < l.Depth }

// KnownProfile is a profile with its path, which is "" for a built-in profile.
type KnownProfile struct {
	subagent.Profile
	File string `json:"file"`
}

// SubagentProfiles lists the built-in profiles, overridden by the operator's, by name.
func (e *Engine) SubagentProfiles(op config.Operator, dirs []string) ([]KnownProfile, error) {
	var all []KnownProfile
	for _, p := range subagent.Builtin() {
		all = append(all, KnownProfile{Profile: p})
	}
	for _, d := range slices.Concat(op.Subagents.Profiles, e.Env.Paths(dirs)) {
		more, err := subagent.Load(os.DirFS(d))
		if err == nil && len(more) == 0 {
			if _, err = os.Stat(d); err == nil {
				err = errors.New("it contains no NAME.yaml file")
			}
		}
		if err != nil {
			return nil, metier.Errorf(metier.Invalid, "subagent_profile_invalid", "'metier subagents check FILE' checks one; docs/SUBAGENTS.md lists the keys of a profile", "%s: %w", d, namedfile.Cause(err))
		}
		for _, p := range more {
			k := KnownProfile{p, filepath.Join(d, p.Name+".yaml")}
			if i := slices.IndexFunc(all, func(o KnownProfile) bool { return o.Name == p.Name }); i >= 0 {
				all[i] = k
			} else {
				all = append(all, k)
			}
		}
	}
	slices.SortFunc(all, func(a, b KnownProfile) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// subagentProfiles returns the profiles without their paths.
func (e *Engine) subagentProfiles(op config.Operator, dirs []string) ([]subagent.Profile, error) {
	all, err := e.SubagentProfiles(op, dirs)
	var out []subagent.Profile
	for _, p := range all {
		out = append(out, p.Profile)
	}
	return out, err
}

// planSubagents sets what a launch allows for children. Allowing a profile grants the tool that
// starts children. Granting only the tool allows the profile that adds nothing.
func (e *Engine) planSubagents(l *Launch, q Request, op config.Operator) error {
	names := distinct.Of(slices.Concat(op.Subagents.Allow, q.Subagents))
	granted := slices.Contains(l.Tools, settings.ToolDelegateTask)
	l.Sources = append(l.Sources, slices.Concat(op.Subagents.Profiles, e.Env.Paths(q.SubagentDirs))...) // the next run would obey what is written there
	if len(names) == 0 && granted {
		names = []string{subagent.Default}
	}
	if len(names) == 0 || l.Spec.Mode == agent.ModePlan {
		return nil // in plan mode nothing acts, helpers included
	}
	all, err := e.subagentProfiles(op, q.SubagentDirs)
	if err != nil {
		return err
	}
	s := &LaunchSubagents{Depth: childDepth, Total: childTotal, Parallel: childParallel}
	for _, n := range []struct {
		to         *int
		from, most int
		what       string
	}{{&s.Depth, op.Subagents.Depth, 8, "depth"}, {&s.Total, op.Subagents.Total, 1000, "total"}, {&s.Parallel, op.Subagents.Parallel, 32, "parallel"}} {
		if n.from < 0 || n.from > n.most {
			return metier.Errorf(metier.Invalid, "config_invalid", "leave it out for the default", "subagents: %s is not from 1 to %d", n.what, n.most)
		}
		if n.from > 0 {
			*n.to = n.from
		}
	}
	for _, n := range names {
		p, known := subagent.Find(all, n)
		if !known {
			return metier.Errorf(metier.Invalid, "subagent_profile_unknown", "profiles: "+strings.Join(profileNames(all), ", "), "there is no subagent profile %q", n)
		}
		if err := CheckProfile(p); err != nil {
			return err
		}
		s.Profiles = append(s.Profiles, p)
		if len(p.Skills)+len(p.Scripts) > 0 {
			l.keepNames() // a profile grants something to the skills it names
		}
	}
	l.Subagents = s
	for _, t := range []string{settings.ToolDelegateTask, settings.ToolDescribeHandle} {
		if !slices.Contains(l.Tools, t) {
			l.Tools = append(l.Tools, t)
		}
	}
	return nil
}

// CheckProfile rejects a profile that names tools this build does not have.
func CheckProfile(p subagent.Profile) error {
	for _, t := range p.Tools {
		if _, known := config.ToolEffect(t); !known && t != subagent.Inherit && !strings.HasPrefix(t, "mcp__") {
			return metier.Errorf(metier.Invalid, "tool_unknown", "tools: "+subagent.Inherit+", "+strings.Join(config.ToolNames(), ", "), "the subagent profile %s names the tool %q, which does not exist", p.Name, t)
		}
	}
	return nil
}

func profileNames(all []subagent.Profile) []string {
	var out []string
	for _, p := range all {
		out = append(out, p.Name)
	}
	return out
}

// inheritable are the tools that "inherit" in a profile refers to, if the parent has them: those
// that do not run programs, reach the network, or start children.
var inheritable = []string{settings.ToolReadFile, settings.ToolListFiles, settings.ToolSearchFiles, settings.ToolLoadSkill, settings.ToolReadSkillResource,
	settings.ToolSearchSkills, settings.ToolListSkills, settings.ToolLoadContent, settings.ToolWriteFile, settings.ToolEditFile}

// childTools returns the tools of a profile's child. Server tools are those of the parent. Tools
// that start children are left out if the child may not have any.
func childTools(p subagent.Profile, parent []string, more bool) []string {
	out := []string{}
	add := func(t string) {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	for _, t := range p.Tools {
		switch {
		case t == subagent.Inherit:
			for _, have := range parent {
				if slices.Contains(inheritable, have) {
					add(have)
				}
			}
		case strings.HasPrefix(t, "mcp__"):
			for _, have := range parent {
				if have == t || policy.ParsePattern(t).Matches(policy.Request{Tool: have}) {
					add(have)
				}
			}
		case t == settings.ToolDelegateTask && more:
			add(t)
			add(settings.ToolDescribeHandle)
		case t != settings.ToolDelegateTask && t != settings.ToolDescribeHandle:
			add(t)
		}
	}
	return out
}

// profileHosts returns the hosts that a profile's child may reach if the network is not off, and
// whether they are inherited from the parent.
func profileHosts(p subagent.Profile, parent []string) (hosts []string, inherits bool) {
	hosts = []string{}
	for _, h := range p.Hosts {
		if h == subagent.Inherit {
			hosts, inherits = append(hosts, parent...), true
		} else {
			hosts = append(hosts, h)
		}
	}
	return distinct.Of(hosts), inherits
}

// childrenAtOnce returns how many children of the run work concurrently.
func (l Launch) childrenAtOnce() int {
	if l.Spec.MaxTokens > 0 {
		return 1 // each may use what is left of the budget
	}
	return l.Subagents.Parallel
}

// delegation returns the tools with which the run's model starts children.
func (r *Run) delegation() []metier.Tool {
	s := r.launch.Subagents
	if !s.may() || !slices.Contains(r.launch.Tools, settings.ToolDelegateTask) {
		return nil
	}
	if r.family == nil && r.folder != nil { // a dry run has no folder, and begins nothing
		r.family = &family{root: r.folder.Children(), made: map[string]bool{}}
	}
	return subagent.Tools(subagent.Options{Runner: &children{parent: r}, Profiles: s.Profiles, Allowed: s.names(), Inherit: r.settings.Agent.Inherit,
		Parallel: r.launch.childrenAtOnce(), Within: strings.Join(r.launch.chain(), "/"), Check: func(schema json.RawMessage) error { return agent.CheckSchema(schema) }})
}

// only returns the skills a child may use: those it begins with and those its profile lets it load.
// If its parent is a child too, the parent's restrictions also apply.
func (r *Run) only(p subagent.Profile, begin []string, parent *LaunchChild) [][]string {
	own := []string{}
	for _, n := range begin {
		if sk, err := r.snapshot.Find(n); err == nil { // it was found, and nobody else's name counts
			own = append(own, sk.ID.String())
		}
	}
	own = append(own, p.AllowSkills...)
	if parent == nil {
		return [][]string{own}
	}
	return append(slices.Clone(parent.Only), own)
}
