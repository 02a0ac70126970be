// Package skillroots finds the folders of skills that apply to a user and a
// workspace, and opens them as sources.
package skillroots

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/config"
	"metier/filetool"
	"metier/internal/agentdirs"
	"metier/internal/confine"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
)

// Finder finds the roots of skills for one user of a machine.
type Finder struct {
	Env config.Env
	Org string // folder of the machine's skills, [OrgFolder] by default
}

// OrgFolder is where the machine's administrator keeps skills for everybody.
const OrgFolder = "/etc/metier/skills"

// Find lists the roots that apply in a workspace: the named ones in their order,
// or else the configured ones, and then those that the setting roots finds.
func (f Finder) Find(named, harnesses []string, configured []config.Root, set settings.Settings, workspace string, mounts []filetool.Mount) ([]Root, error) {
	out := f.harnessRoots(harnesses, workspace)
	for _, p := range named {
		if !filepath.IsAbs(p) {
			p = filepath.Join(workspace, p)
		}
		r := Root{Path: p, Named: true}
		r.Tier, r.Kind = f.TierOf(p, workspace)
		out = append(out, r)
	}
	if len(named)+len(harnesses) == 0 {
		for _, c := range configured {
			t := policy.Tier(c.Tier)
			if c.Tier != "" && t != policy.ThirdParty && t.Or() == policy.ThirdParty {
				return nil, metier.Errorf(metier.Invalid, "tier_unknown", "tiers: builtin, org, project, user, third_party", "root %s has the unknown tier %q", c.Path, c.Tier)
			}
			r := Root{Path: c.Path, Tier: t, Label: c.Label, Harness: c.Harness, Named: true}
			if t == "" {
				r.Tier, r.Kind = f.TierOf(c.Path, workspace)
			}
			out = append(out, r)
		}
		found, err := f.found(set, workspace)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	for i := range out {
		r := &out[i]
		r.Listed = slices.ContainsFunc(configured, func(c config.Root) bool { return r.Path != "" && confine.Within(c.Path, r.Path) })
		err := f.Place(r, set, workspace, mounts)
		if e, ok := errors.AsType[*metier.Error](err); ok && !r.Named && e.Code == "skills_root_unreadable" {
			r.Unreadable = e // its source reports it as a skill that is refused
		} else if ok && !r.Named {
			r.Unused = true // nobody asked for it: it stops no work
			r.note(skillmd.Error, "root-unusable", "%v", e.Err)
		} else if err != nil {
			return nil, err
		}
	}
	return Label(out), nil
}

// found lists the roots nobody had to name.
func (f Finder) found(set settings.Settings, workspace string) ([]Root, error) {
	var out []Root
	s := set.Discover
	if s.Roots.Has(settings.RootHarness) && workspace != "" && isHarness(workspace) {
		out = append(out, Root{Path: workspace, Tier: policy.Project, Kind: "project", Label: "harness", Bound: workspace, Harness: true})
	}
	if s.Roots.Has(settings.RootProject) && workspace != "" {
		out = append(out, f.ofProject(s, workspace)...)
	}
	if s.Roots.Has(settings.RootHome) {
		out = append(out, f.ofHome(set.Operator.Discover)...)
	}
	if s.Roots.Has(settings.RootEnv) && workspace != "" {
		dirs, err := f.envFolders(s)
		if err != nil {
			return nil, err
		}
		for _, d := range dirs {
			out = append(out, Root{Path: filepath.Join(workspace, filepath.FromSlash(d)), Tier: policy.Project, Kind: "project", Label: d, Bound: workspace})
		}
	}
	if s.Roots.Has(settings.RootOrg) {
		r := Root{Path: f.Org, Tier: policy.Org, Kind: "org", Label: "org"}
		if info, err := os.Stat(r.Path); err == nil && !confine.HeldLike(info, nil) {
			r.Unused = true
			r.note(skillmd.Error, "root-unsafe", "others than the administrator can write to it")
		}
		out = append(out, r)
	}
	if s.Roots.Has(settings.RootBuiltin) {
		out = append(out, Root{Tier: policy.Builtin, Kind: "builtin", Label: "builtin", Yields: true})
	}
	return out, nil
}

// ofProject are the skill folders of the workspace and, where the settings say
// so, of the folders above it that are of the same project.
func (f Finder) ofProject(s settings.Discover, workspace string) []Root {
	dirs := []string{workspace}
	if s.Ancestors == settings.AncestorsYes {
		dirs = append(dirs, f.above(workspace)...)
	}
	own, _ := os.Stat(workspace) // nil owns nothing
	// Links may lead as far as the project does. Where strangers could have put
	// .git in, or a folder in between, it is no larger than the workspace.
	bound := dirs[len(dirs)-1]
	if slices.ContainsFunc(dirs[1:], func(dir string) bool { info, err := os.Stat(dir); return err != nil || !confine.HeldLike(info, own) }) {
		bound = workspace
	}
	var out []Root
	for i, dir := range dirs {
		label := "project"
		if i > 0 {
			label = fmt.Sprintf("project-up%d", i)
		}
		info, err := os.Stat(dir)
		safe := i == 0 || err == nil && confine.HeldLike(info, own)
		for _, agent := range agentdirs.All() {
			if !s.Families.Has(settings.Family(agent.Name)) {
				continue
			}
			for _, sub := range agent.Project {
				r := Root{Path: filepath.Join(dir, filepath.FromSlash(sub)), Tier: policy.Project, Kind: "project", Label: rootLabel(label, agent), Bound: bound, Agent: agent.Name}
				if !confine.Within(bound, dir) {
					r.Bound = dir
				}
				if _, err := os.Lstat(r.Path); i > 0 && err != nil {
					continue
				}
				if !safe {
					r.Unused = true
					r.note(skillmd.Error, "root-unsafe", "others than the owner of the workspace can write to %s", dir)
				}
				out = append(out, r)
			}
		}
	}
	return out
}

// mostAbove bounds how far up a project may begin.
const mostAbove = 64

// above are the folders above a workspace up to the one that holds .git, the
// nearest first; none where there is no such folder below the home and below
// the file system's root.
func (f Finder) above(workspace string) []string {
	home := ""
	if f.Env.Home() != "" {
		home = confine.RealPathOfExisting(f.Env.Home())
	}
	var dirs []string
	for dir := workspace; len(dirs) < mostAbove; {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dirs
		}
		up := filepath.Dir(dir)
		if dir == home || up == home || up == dir || filepath.Dir(up) == up {
			return nil
		}
		dirs = append(dirs, up)
		dir = up
	}
	return nil
}

// View is how the model is shown paths of a workspace. Those of paths=repo begin
// at the top of its project.
func (f Finder) View(s settings.Settings, workspace string) metier.View {
	v := metier.View{Paths: s.Catalog.Paths, Workspace: workspace}
	if up := f.above(workspace); len(up) > 0 {
		v.Repository = up[len(up)-1]
	}
	return v
}

// ofHome are the skill folders of the home. Links in them are the user's own.
func (f Finder) ofHome(s settings.Discover) []Root {
	var out []Root
	for _, agent := range agentdirs.All() {
		if !s.Families.Has(settings.Family(agent.Name)) {
			continue
		}
		for _, p := range f.HomeFolders(agent) {
			out = append(out, Root{Path: p, Tier: policy.User, Kind: "user", Label: rootLabel("home", agent), Agent: agent.Name})
		}
	}
	return out
}

// AgentFolders lists the skill folders of every known agent in the places that
// the setting roots searches.
func (f Finder) AgentFolders(s settings.Discover, workspace string) []Root {
	s.Families = nil
	for _, name := range agentdirs.Names() {
		s.Families = append(s.Families, settings.Family(name))
	}
	var out []Root
	if workspace != "" && (s.Roots.Has(settings.RootProject) || s.Roots.Has(settings.RootEnv)) {
		if !s.Roots.Has(settings.RootProject) {
			s.Ancestors = settings.AncestorsNo
		}
		out = f.ofProject(s, workspace)
	}
	if s.Roots.Has(settings.RootHome) {
		out = append(out, f.ofHome(s)...)
	}
	return out
}

// everywhere is s with all places in which agents keep skills.
func everywhere(s settings.Discover) settings.Discover {
	s.Roots, s.Ancestors = append(slices.Clone(s.Roots), settings.RootProject, settings.RootHome), settings.AncestorsYes
	return s
}

// HomeFolders returns an agent's skill folders in the home.
func (f Finder) HomeFolders(of agentdirs.Agent) []string {
	return of.HomeFolders(f.Env.Home(), func(k string) string { return f.Env.Get(k) })
}

// envFolders are the folders that AGENT_SKILLS_DIRS chooses from those of the
// families, in its order; all of them where it says nothing.
func (f Finder) envFolders(s settings.Discover) ([]string, error) {
	var known, out []string
	for _, agent := range agentdirs.All() {
		if s.Families.Has(settings.Family(agent.Name)) {
			known = append(known, agent.Project...)
		}
	}
	for d := range strings.SplitSeq(f.Env.Get("AGENT_SKILLS_DIRS"), ",") {
		if d = strings.TrimSpace(d); d == "" {
			continue
		}
		clean := path.Clean(filepath.ToSlash(d))
		if !slices.Contains(known, clean) {
			return nil, metier.Errorf(metier.Invalid, "env_invalid", "supported: "+strings.Join(known, ", ")+" (setting root_families); if the variable is not set, all of them are searched",
				"AGENT_SKILLS_DIRS: %q is not a supported skills folder", d)
		}
		out = append(out, clean)
	}
	if len(out) == 0 {
		return known, nil
	}
	return out, nil
}

// TierOf is the tier of a root nobody gave one: project inside the workspace,
// user in the home's own folders, org below /etc/metier, else third_party.
func (f Finder) TierOf(p, workspace string) (policy.Tier, string) {
	var paths confine.Paths
	if paths.Within(workspace, p) {
		return policy.Project, "project"
	}
	for _, agent := range agentdirs.All() {
		if slices.ContainsFunc(f.HomeFolders(agent), func(dir string) bool { return paths.Within(dir, p) }) {
			return policy.User, "user"
		}
	}
	if paths.Within(f.Org, p) {
		return policy.Org, "org"
	}
	return policy.ThirdParty, "third_party"
}

// IncludedBy returns the one setting, as NAME=VALUE, with which s includes the folder of
// an agent. It returns "" if one setting is not enough.
func (r Root) IncludedBy(s settings.Discover) string {
	kind := settings.RootProject
	if r.Tier == policy.User {
		kind = settings.RootHome
	}
	place, family := s.Roots.Has(kind), s.Families.Has(settings.Family(r.Agent))
	switch {
	case place && !family:
		return IncludeFamilies(r.Agent)
	case family && !place:
		return "roots=+" + string(kind)
	}
	return ""
}

// OnlyFamilies returns the settings, as NAME=VALUE, that search the folders of
// these agents and nothing else.
func OnlyFamilies(agents ...string) []string {
	return []string{"roots=" + string(settings.RootProject) + "," + string(settings.RootHome), "root_families=" + strings.Join(agents, ",")}
}
