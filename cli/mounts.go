package cli

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"

	"metier"
	"metier/harness"
	"metier/internal/confine"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
	"metier/skills"
	"metier/source/embedded"
	"metier/source/local"
	"metier/tool"
)

// mountAll opens the roots as sources; kept may be nil.
func mountAll(roots []root, set settings.Settings, kept *scans) ([]metier.Mount, error) {
	var out []metier.Mount
	var allowed []string
	s := set.Discover
	for _, r := range roots {
		if r.Path != "" && !r.Unused {
			allowed = append(allowed, r.Path)
		}
	}
	for _, r := range roots {
		m := metier.Mount{Label: r.Label, Tier: r.Tier, Kind: r.Kind, Root: r.Path, Target: r.Target, Yields: r.Yields, Notes: slices.Clone(r.Notes)}
		if r.Unused {
			m.Source = unused{r}
			out = append(out, m)
			continue
		}
		if r.Path == "" {
			m.Source = embedded.New(skills.FS)
			out = append(out, m)
			continue
		}
		o := local.Options{Scan: s.Scan, FileNames: s.FileNames, Symlinks: s.Symlinks, Nested: s.Nested, AllowedRoots: r.reach(allowed),
			Within: r.Bound, Optional: !r.Named, RefuseHardLinks: r.Tier.Or() == policy.ThirdParty, MaxDepth: s.MaxDepth, MaxDirs: s.MaxDirs, MaxResourceFiles: s.MaxResources}
		kept.into(&o)
		src, err := local.New(r.Path, &o)
		if e, ok := errors.AsType[*metier.Error](err); ok && !r.Named {
			r.note(skillmd.Error, "root-unusable", "%v", e.Err)
			m.Source, m.Notes = unused{r}, r.Notes
			out = append(out, m)
			continue
		}
		if err != nil {
			return nil, err
		}
		if real, err := confine.RealPath(r.Path); err == nil {
			m.Root = real
		}
		if m.Source = src; r.Harness {
			m.ByPath = true
			m.Source = harness.New(r.Path, src, &harness.Options{Layout: set.Harness.Layout, Summary: set.Harness.GroupSummary, Links: s.FollowsLinks(), RefuseHardLinks: o.RefuseHardLinks})
		}
		out = append(out, m)
	}
	return out, nil
}

// unused is the source of a root that nothing is taken from.
type unused struct{ root root }

func (unused) List(context.Context) iter.Seq2[*metier.Head, error] {
	return func(func(*metier.Head, error) bool) {}
}

func (u unused) Open(_ context.Context, path string) (metier.Bundle, error) {
	return nil, &metier.Error{Op: "open", Skill: path, Path: u.root.Path, Kind: metier.NotFound, Code: "skill_not_found", Err: errors.New("nothing is taken from this root")}
}

// Why says of every path in it what is wrong with the root.
func (u unused) Why(string) metier.Diagnostic { return u.root.Notes[len(u.root.Notes)-1] }

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
			m.Source = a.env.Path(val)
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

// workspaceDir resolves the workspace folder.
func (a *app) workspaceDir(p string) (string, error) {
	dir := a.env.Path(cmp.Or(p, a.Dir))
	real, err := confine.RealPath(dir)
	if err != nil {
		code := "workspace_unreadable"
		if errors.Is(err, fs.ErrNotExist) {
			code, err = "workspace_missing", errors.New("there is no such folder")
		}
		return "", &metier.Error{Op: "workspace", Path: dir, Kind: metier.NotFound, Code: code, Hint: "give a folder that exists with --workspace", Err: err}
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return "", &metier.Error{Op: "workspace", Path: dir, Kind: metier.Invalid, Code: "workspace_not_folder", Hint: "give a folder with --workspace", Err: errors.New("it is not a folder")}
	}
	return real, nil
}

// enter resolves the folder of a workspace in which skills and settings are
// read, once what a killed run left there is moved aside.
func (a *app) enter(ctx context.Context, p string) (string, error) {
	real, err := a.workspaceDir(p)
	if err != nil {
		return "", err
	}
	return real, a.sweep(ctx, real)
}
