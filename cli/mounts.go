package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/policy"
	"metier/settings"
	"metier/skills"
	"metier/source/embedded"
	"metier/source/local"
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
	// Named roots must exist; found ones may come later.
	Named bool `json:"named,omitempty"`
	// Listed says that it lies in a folder of the operator's configuration.
	Listed bool `json:"listed,omitempty"`
}

// roots lists the roots of an invocation: named ones first, in their order,
// then what the setting roots finds by itself.
func (a *app) roots(named []string, configured []rootConfig, s settings.Discover, workspace string, mounts []tool.Mount) ([]root, error) {
	var out []root
	for _, p := range named {
		if !filepath.IsAbs(p) {
			p = filepath.Join(workspace, p)
		}
		r := root{Path: p, Named: true}
		r.Tier, r.Kind = a.tierOf(p, workspace)
		out = append(out, r)
	}
	if len(named) == 0 {
		for _, c := range configured {
			t := policy.Tier(c.Tier)
			if c.Tier != "" && t != policy.ThirdParty && t.Or() == policy.ThirdParty {
				return nil, wrong("tier_unknown", "tiers: builtin, org, project, user, third_party", "root %s has the unknown tier %q", c.Path, c.Tier)
			}
			r := root{Path: c.Path, Tier: t, Label: c.Label, Named: true}
			if t == "" {
				r.Tier, r.Kind = a.tierOf(c.Path, workspace)
			}
			out = append(out, r)
		}
		out = append(out, a.found(s, workspace)...)
	}
	for i := range out {
		out[i].Listed = slices.ContainsFunc(configured, func(c rootConfig) bool { return out[i].Path != "" && within(c.Path, out[i].Path) })
		if err := a.place(&out[i], s, workspace, mounts); err != nil {
			return nil, err
		}
	}
	return labelled(out), nil
}

// found lists the roots nobody had to name.
func (a *app) found(s settings.Discover, workspace string) []root {
	var out []root
	if s.Roots.Has(settings.RootProject) && workspace != "" {
		out = append(out, root{Path: filepath.Join(workspace, ".agents", "skills"), Tier: policy.Project, Kind: "project", Label: "project"})
	}
	if s.Roots.Has(settings.RootHome) && a.home() != "" {
		out = append(out, root{Path: filepath.Join(a.home(), ".agents", "skills"), Tier: policy.User, Kind: "user", Label: "home"})
	}
	if s.Roots.Has(settings.RootEnv) && workspace != "" {
		for _, d := range strings.Split(firstSet(a.env["AGENT_SKILLS_DIRS"], ".agents/skills,.codex/skills"), ",") {
			if d = strings.TrimSpace(d); d != "" {
				out = append(out, root{Path: filepath.Join(workspace, filepath.FromSlash(d)), Tier: policy.Project, Kind: "project", Label: d})
			}
		}
	}
	if s.Roots.Has(settings.RootBuiltin) {
		out = append(out, root{Tier: policy.Builtin, Kind: "builtin", Label: "builtin"})
	}
	return out
}

// tierOf is the tier of a root nobody gave one: project inside the workspace,
// user in the home's own folder, org below /etc/metier, else third_party.
func (a *app) tierOf(p, workspace string) (policy.Tier, string) {
	switch {
	case within(workspace, p):
		return policy.Project, "project"
	case a.home() != "" && within(filepath.Join(a.home(), ".agents", "skills"), p):
		return policy.User, "user"
	case within("/etc/metier/skills", p):
		return policy.Org, "org"
	}
	return policy.ThirdParty, "third_party"
}

// place checks where a root lies (setting root_scope, A-101) and resolves it.
func (a *app) place(r *root, s settings.Discover, workspace string, mounts []tool.Mount) error {
	real, err := r.resolve()
	if err != nil || real == "" {
		return err
	}
	for _, m := range mounts {
		src, err := filepath.EvalSymlinks(m.Source)
		if err == nil && within(src, real) {
			rel, _ := filepath.Rel(src, real) // within
			r.Target = strings.TrimSuffix(m.Target+"/"+filepath.ToSlash(rel), "/.")
			return nil
		}
	}
	if s.RootScope == settings.RootScopeAnywhere || s.RootScope == settings.RootScopeAllowlisted && r.Listed || within(workspace, real) {
		return nil
	}
	return &metier.Error{Op: "skills root", Path: r.Path, Kind: metier.Denied, Code: "skills_root_outside",
		Hint: "move it into the workspace, or declare it with --mount name=NAME,source=DIR,target=/PATH,mode=ro",
		Err:  fmt.Errorf("it lies outside the workspace %s", workspace)}
}

// resolve returns the root's folder after links, or "" where there is none and nobody named it.
func (r root) resolve() (string, error) {
	if r.Path == "" {
		return "", nil
	}
	real, err := filepath.EvalSymlinks(r.Path)
	if err != nil {
		if r.Named {
			return "", &metier.Error{Op: "skills root", Path: r.Path, Kind: metier.NotFound, Code: "skills_root_missing",
				Hint: "name a folder that exists with --skills-root", Err: errors.New("there is no such folder")}
		}
		return "", nil
	}
	if info, err := os.Stat(real); err == nil && !info.IsDir() {
		return "", &metier.Error{Op: "skills root", Path: r.Path, Kind: metier.Invalid, Code: "skills_root_not_folder",
			Hint: "a skills root is a folder that holds skill folders", Err: errors.New("it is not a folder")}
	}
	return real, nil
}

// labelled gives every root a label of its own: stable, since IDs carry it.
func labelled(in []root) []root {
	var out []root
	taken := map[string]bool{}
	seen := map[string]bool{}
	for _, r := range in {
		if real, err := filepath.EvalSymlinks(r.Path); err == nil && r.Path != "" {
			if seen[real] {
				continue // the same folder twice is one root
			}
			seen[real] = true
		}
		base := firstSet(r.Label, string(r.Tier), "skills")
		r.Label = base
		for n := 2; taken[r.Label]; n++ {
			r.Label = fmt.Sprintf("%s-%d", base, n)
		}
		taken[r.Label] = true
		out = append(out, r)
	}
	return out
}

// mountAll opens the roots as sources.
func mountAll(roots []root, s settings.Discover) ([]metier.Mount, error) {
	var out []metier.Mount
	var allowed []string
	for _, r := range roots {
		if r.Path != "" {
			allowed = append(allowed, r.Path)
		}
	}
	for _, r := range roots {
		m := metier.Mount{Label: r.Label, Tier: r.Tier, Kind: r.Kind, Root: r.Path, Target: r.Target}
		if r.Path == "" {
			m.Source = embedded.New(skills.FS)
			out = append(out, m)
			continue
		}
		src, err := local.New(r.Path, &local.Options{Scan: s.Scan, FileNames: s.FileNames, Symlinks: s.Symlinks, AllowedRoots: allowed,
			Optional: !r.Named, RefuseHardLinks: r.Tier.Or() == policy.ThirdParty, MaxDepth: s.MaxDepth, MaxDirs: s.MaxDirs, MaxResourceFiles: s.MaxResources})
		if err != nil {
			return nil, err
		}
		if real, err := filepath.EvalSymlinks(r.Path); err == nil {
			m.Root = real
		}
		m.Source = src
		out = append(out, m)
	}
	return out, nil
}

// snapshot lists the roots and applies the rules.
func snapshot(ctx context.Context, roots []root, s settings.Settings) (*metier.Snapshot, error) {
	mounts, err := mountAll(roots, s.Discover)
	if err != nil {
		return nil, err
	}
	return metier.Build(ctx, mounts, s.Parse, s.Names, s.Read.IndexRoot, s.Discover.ResourceIndex == settings.ResourceIndexStart)
}

// parseMount reads --mount name=,source=,target=,mode=.
func (a *app) parseMount(v string) (tool.Mount, error) {
	var m tool.Mount
	for _, part := range strings.Split(v, ",") {
		k, val, ok := strings.Cut(part, "=")
		if !ok {
			return m, wrong("usage", "write it as --mount name=NAME,source=DIR,target=/PATH,mode=ro", "--mount: %q has no value", part)
		}
		switch k {
		case "name":
			m.Name = val
		case "source":
			m.Source = a.path(val)
		case "target":
			m.Target = val
		case "mode":
			m.Mode = val
		default:
			return m, wrong("usage", "the keys are name, source, target and mode", "--mount: unknown key %q", k)
		}
	}
	if m.Name == "" || m.Source == "" || !strings.HasPrefix(m.Target, "/") || !slices.Contains([]string{"", "ro", "rw"}, m.Mode) {
		return m, wrong("usage", "write it as --mount name=NAME,source=DIR,target=/PATH,mode=ro", "--mount %q needs a name, a source, an absolute target and the mode ro or rw", v)
	}
	return m, nil
}

// within reports whether p is dir or lies below it, links resolved where they
// exist.
func within(dir, p string) bool {
	if dir == "" {
		return false
	}
	dir, p = realPath(dir), realPath(p)
	rel, err := filepath.Rel(dir, p)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

func realPath(p string) string {
	if r, err := filepath.EvalSymlinks(p); err == nil {
		return r
	}
	return filepath.Clean(p)
}

// workspaceDir resolves the workspace folder.
func (a *app) workspaceDir(p string) (string, error) {
	dir := a.path(firstSet(p, a.Dir))
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		code := "workspace_missing"
		if !errors.Is(err, fs.ErrNotExist) {
			code = "workspace_unreadable"
		}
		return "", &metier.Error{Op: "workspace", Path: dir, Kind: metier.NotFound, Code: code, Hint: "give a folder that exists with --workspace", Err: err}
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return "", &metier.Error{Op: "workspace", Path: dir, Kind: metier.Invalid, Code: "workspace_not_folder", Hint: "give a folder with --workspace", Err: errors.New("it is not a folder")}
	}
	return real, nil
}
