package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/config"
	"metier/internal/agentdirs"
	"metier/internal/confine"
	"metier/internal/visible"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
	"metier/tool"
)

// root is one root of skills of an invocation. It is written into the record,
// so that a resume opens the same ones.
type root struct {
	Path   string      `json:"path"` // host path; "" for the embedded skills
	Tier   policy.Tier `json:"tier"`
	Label  string      `json:"label"`
	Kind   string      `json:"kind,omitempty"`
	Target string      `json:"target,omitempty"`
	// Harness says that it is one: what is in it is named by its path.
	Harness bool `json:"harness,omitempty"`
	// Named roots must exist; found ones may come later.
	Named bool `json:"named,omitempty"`
	// Listed says that it lies in a folder of the operator's configuration.
	Listed bool `json:"listed,omitempty"`
	// Bound is the folder that a root nobody named has to lie in, after links.
	Bound string `json:"bound,omitempty"`
	// Notes is what was found about it, Unused that nothing is taken from it.
	Notes  []metier.Diagnostic `json:"notes,omitempty"`
	Unused bool                `json:"unused,omitempty"`
	// Yields says that its hidden skills give up their names to the project's.
	Yields bool `json:"yields,omitempty"`

	agent agentdirs.Agent // whose folder it is, if a setting found it
}

func (r *root) note(severity skillmd.Severity, code, format string, args ...any) {
	r.Notes = append(r.Notes, metier.Diagnostic{Severity: severity, Code: code, Detail: fmt.Sprintf(format, args...), Path: r.Path})
}

// rootLabel names a root of an agent. The shared .agents folder has no name of
// its own.
func rootLabel(base string, of agentdirs.Agent) string {
	if of.Name == agentdirs.Shared {
		return base
	}
	return base + "-" + of.Name
}

// orgSkills is where the machine's administrator keeps skills for everybody.
const orgSkills = "/etc/metier/skills"

// roots lists the roots of an invocation: named ones first, in their order,
// then what the setting roots finds by itself.
func (a *app) roots(named, harnesses []string, configured []config.Root, s settings.Discover, workspace string, mounts []tool.Mount) ([]root, error) {
	out := a.harnessRoots(harnesses, workspace)
	for _, p := range named {
		if !filepath.IsAbs(p) {
			p = filepath.Join(workspace, p)
		}
		r := root{Path: p, Named: true}
		r.Tier, r.Kind = a.tierOf(p, workspace)
		out = append(out, r)
	}
	if len(named)+len(harnesses) == 0 {
		for _, c := range configured {
			t := policy.Tier(c.Tier)
			if c.Tier != "" && t != policy.ThirdParty && t.Or() == policy.ThirdParty {
				return nil, wrong("tier_unknown", "tiers: builtin, org, project, user, third_party", "root %s has the unknown tier %q", c.Path, c.Tier)
			}
			r := root{Path: c.Path, Tier: t, Label: c.Label, Harness: c.Harness, Named: true}
			if t == "" {
				r.Tier, r.Kind = a.tierOf(c.Path, workspace)
			}
			out = append(out, r)
		}
		found, err := a.found(s, workspace)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	for i := range out {
		r := &out[i]
		r.Listed = slices.ContainsFunc(configured, func(c config.Root) bool { return r.Path != "" && confine.Within(c.Path, r.Path) })
		err := a.place(r, s, workspace, mounts)
		if e, ok := errors.AsType[*metier.Error](err); ok && !r.Named {
			r.Unused = true // nobody asked for it: it stops no work
			r.note(skillmd.Error, "root-unusable", "%v", e.Err)
		} else if err != nil {
			return nil, err
		}
	}
	return labelled(out), nil
}

// found lists the roots nobody had to name.
func (a *app) found(s settings.Discover, workspace string) ([]root, error) {
	var out []root
	if s.Roots.Has(settings.RootHarness) && workspace != "" && isHarness(workspace) {
		out = append(out, root{Path: workspace, Tier: policy.Project, Kind: "project", Label: "harness", Bound: workspace, Harness: true})
	}
	if s.Roots.Has(settings.RootProject) && workspace != "" {
		out = append(out, a.ofProject(s, workspace)...)
	}
	if s.Roots.Has(settings.RootHome) {
		out = append(out, a.ofHome(s)...)
	}
	if s.Roots.Has(settings.RootEnv) && workspace != "" {
		dirs, err := a.envFolders(s)
		if err != nil {
			return nil, err
		}
		for _, d := range dirs {
			out = append(out, root{Path: filepath.Join(workspace, filepath.FromSlash(d)), Tier: policy.Project, Kind: "project", Label: d, Bound: workspace})
		}
	}
	if s.Roots.Has(settings.RootOrg) {
		r := root{Path: a.org, Tier: policy.Org, Kind: "org", Label: "org"}
		if info, err := os.Stat(r.Path); err == nil && !confine.HeldLike(info, nil) {
			r.Unused = true
			r.note(skillmd.Error, "root-unsafe", "others than the administrator can write to it")
		}
		out = append(out, r)
	}
	if s.Roots.Has(settings.RootBuiltin) {
		out = append(out, root{Tier: policy.Builtin, Kind: "builtin", Label: "builtin", Yields: true})
	}
	return out, nil
}

// ofProject are the skill folders of the workspace and, where the settings say
// so, of the folders above it that are of the same project.
func (a *app) ofProject(s settings.Discover, workspace string) []root {
	dirs := []string{workspace}
	if s.Ancestors == settings.AncestorsYes {
		dirs = append(dirs, a.above(workspace)...)
	}
	own, _ := os.Stat(workspace) // nil owns nothing
	// Links may lead as far as the project does. Where strangers could have put
	// .git in, or a folder in between, it is no larger than the workspace.
	bound := dirs[len(dirs)-1]
	if slices.ContainsFunc(dirs[1:], func(dir string) bool { info, err := os.Stat(dir); return err != nil || !confine.HeldLike(info, own) }) {
		bound = workspace
	}
	var out []root
	for i, dir := range dirs {
		label := "project"
		if i > 0 {
			label = fmt.Sprintf("project-up%d", i)
		}
		info, err := os.Stat(dir)
		safe := i == 0 || err == nil && confine.HeldLike(info, own)
		for _, f := range agentdirs.All() {
			if !s.Families.Has(settings.Family(f.Name)) {
				continue
			}
			for _, sub := range f.Project {
				r := root{Path: filepath.Join(dir, filepath.FromSlash(sub)), Tier: policy.Project, Kind: "project", Label: rootLabel(label, f), Bound: bound, agent: f}
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
func (a *app) above(workspace string) []string {
	home := ""
	if a.env.Home() != "" {
		home = confine.RealPathOfExisting(a.env.Home())
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

// viewOf is how the model is shown paths of a workspace. Those of paths=repo begin
// at the top of its project.
func (a *app) viewOf(s settings.Settings, workspace string) metier.View {
	v := metier.View{Paths: s.Catalog.Paths, Workspace: workspace}
	if up := a.above(workspace); len(up) > 0 {
		v.Repository = up[len(up)-1]
	}
	return v
}

// ofHome are the skill folders of the home. Links in them are the user's own.
func (a *app) ofHome(s settings.Discover) []root {
	var out []root
	for _, f := range agentdirs.All() {
		if !s.Families.Has(settings.Family(f.Name)) {
			continue
		}
		for _, p := range a.homeFolders(f) {
			out = append(out, root{Path: p, Tier: policy.User, Kind: "user", Label: rootLabel("home", f), agent: f})
		}
	}
	return out
}

// agentFolders lists the skill folders of every known agent in the places that
// the setting roots searches.
func (a *app) agentFolders(s settings.Discover, workspace string) []root {
	s.Families = nil
	for _, name := range agentdirs.Names() {
		s.Families = append(s.Families, settings.Family(name))
	}
	var out []root
	if workspace != "" && (s.Roots.Has(settings.RootProject) || s.Roots.Has(settings.RootEnv)) {
		if !s.Roots.Has(settings.RootProject) {
			s.Ancestors = settings.AncestorsNo
		}
		out = a.ofProject(s, workspace)
	}
	if s.Roots.Has(settings.RootHome) {
		out = append(out, a.ofHome(s)...)
	}
	return out
}

// everywhere is s with all places in which agents keep skills.
func everywhere(s settings.Discover) settings.Discover {
	s.Roots, s.Ancestors = append(slices.Clone(s.Roots), settings.RootProject, settings.RootHome), settings.AncestorsYes
	return s
}

// includedBy is the one flag that has a folder of an agent searched under s.
func includedBy(r root, s settings.Discover) string {
	kind := settings.RootProject
	if r.Tier == policy.User {
		kind = settings.RootHome
	}
	place, family := s.Roots.Has(kind), s.Families.Has(settings.Family(r.agent.Name))
	switch {
	case place && !family:
		return includeFlag(r.agent.Name)
	case family && !place:
		return "--set roots=+" + string(kind)
	}
	return "--skills-root " + visible.Word(r.Path)
}

// homeFolders returns an agent's skill folders in the home.
func (a *app) homeFolders(of agentdirs.Agent) []string {
	return of.HomeFolders(a.env.Home(), func(k string) string { return a.env.Get(k) })
}

// envFolders are the folders that AGENT_SKILLS_DIRS chooses from those of the
// families, in its order; all of them where it says nothing (E-003, E-031).
func (a *app) envFolders(s settings.Discover) ([]string, error) {
	var known, out []string
	for _, f := range agentdirs.All() {
		if s.Families.Has(settings.Family(f.Name)) {
			known = append(known, f.Project...)
		}
	}
	for d := range strings.SplitSeq(a.env.Get("AGENT_SKILLS_DIRS"), ",") {
		if d = strings.TrimSpace(d); d == "" {
			continue
		}
		clean := path.Clean(filepath.ToSlash(d))
		if !slices.Contains(known, clean) {
			return nil, wrong("env_invalid", "supported: "+strings.Join(known, ", ")+" (setting root_families); without the variable all of them are searched",
				"AGENT_SKILLS_DIRS: %q is not a folder of skills that is supported", d)
		}
		out = append(out, clean)
	}
	if len(out) == 0 {
		return known, nil
	}
	return out, nil
}

// tierOf is the tier of a root nobody gave one: project inside the workspace,
// user in the home's own folders, org below /etc/metier, else third_party.
func (a *app) tierOf(p, workspace string) (policy.Tier, string) {
	if confine.Within(workspace, p) {
		return policy.Project, "project"
	}
	for _, f := range agentdirs.All() {
		if slices.ContainsFunc(a.homeFolders(f), func(dir string) bool { return confine.Within(dir, p) }) {
			return policy.User, "user"
		}
	}
	if confine.Within(a.org, p) {
		return policy.Org, "org"
	}
	return policy.ThirdParty, "third_party"
}

// place checks where a root lies (setting root_scope, A-101) and resolves it.
func (a *app) place(r *root, s settings.Discover, workspace string, mounts []tool.Mount) error {
	if r.Unused {
		return nil
	}
	real, err := r.resolve()
	if err != nil || real == "" {
		return err
	}
	if r.Bound != "" && !confine.Within(r.Bound, real) {
		return &metier.Error{Op: "skills root", Path: r.Path, Kind: metier.Denied, Code: "skills_root_outside",
			Hint: "move it in, or name the folder it leads to in the configuration", Err: fmt.Errorf("it is a link that leaves %s", r.Bound)}
	}
	for _, m := range mounts {
		src, err := confine.RealPath(m.Source)
		if err == nil && confine.Within(src, real) {
			rel, _ := filepath.Rel(src, real) // within
			r.Target = strings.TrimSuffix(m.Target+"/"+filepath.ToSlash(rel), "/.")
			return nil
		}
	}
	if s.RootScope == settings.RootScopeAnywhere || s.RootScope == settings.RootScopeAllowlisted && r.Listed || confine.Within(workspace, real) {
		return nil
	}
	return &metier.Error{Op: "skills root", Path: r.Path, Kind: metier.Denied, Code: "skills_root_outside",
		Hint: "move it into the workspace; metier run also takes --mount name=NAME,source=DIR,target=/PATH,mode=ro",
		Err:  fmt.Errorf("it lies outside the workspace %s", workspace)}
}

// resolve returns the root's folder after links, or "" where there is none and nobody named it.
func (r root) resolve() (string, error) {
	if r.Path == "" {
		return "", nil
	}
	op, flag, holds := "skills root", "--skills-root", "a skills root is a folder that holds skill folders"
	if r.Harness {
		op, flag, holds = "harness", "--harness", "a harness is a folder that holds a HARNESS.md"
	}
	real, err := confine.RealPath(r.Path)
	if err != nil {
		if r.Named {
			return "", &metier.Error{Op: op, Path: r.Path, Kind: metier.NotFound, Code: "skills_root_missing",
				Hint: "name a folder that exists with " + flag, Err: errors.New("there is no such folder")}
		}
		return "", nil
	}
	if info, err := os.Stat(real); r.Named && err == nil && !info.IsDir() {
		return "", &metier.Error{Op: op, Path: r.Path, Kind: metier.Invalid, Code: "skills_root_not_folder",
			Hint: holds, Err: errors.New("it is not a folder")}
	}
	return real, nil
}

// reach are the folders a link in the root may lead into: the other roots, and
// all of its project where the root was found there.
func (r root) reach(others []string) []string {
	if r.Bound == "" {
		return others
	}
	return append(slices.Clone(others), r.Bound)
}

// labelled gives every root a label of its own: stable, since IDs carry it. A
// folder that comes twice is one root; the one that counts says so.
func labelled(in []root) []root {
	var out []root
	taken := map[string]bool{}
	seen := map[string]int{}
	for _, r := range in {
		if real, err := confine.RealPath(r.Path); err == nil && r.Path != "" && !r.Unused {
			if i, ok := seen[real]; ok {
				out[i].note(skillmd.Advice, "root-listed-twice", "%s is the same folder; its skills are listed once, with the label %s", r.Path, out[i].Label)
				continue
			}
			seen[real] = len(out)
		}
		base := cmp.Or(r.Label, string(r.Tier), "skills")
		r.Label = base
		for n := 2; taken[r.Label]; n++ {
			r.Label = fmt.Sprintf("%s-%d", base, n)
		}
		taken[r.Label] = true
		out = append(out, r)
	}
	return out
}
