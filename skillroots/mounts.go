package skillroots

import (
	"context"
	"errors"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"metier"
	"metier/harness"
	"metier/internal/confine"
	"metier/policy"
	"metier/settings"
	"metier/skillmd"
	"metier/skills"
	"metier/source/embedded"
	"metier/source/local"
)

// Mounts opens roots as sources. kept can be nil.
func Mounts(roots []Root, set settings.Settings, kept *Scans) ([]metier.Mount, error) {
	var out []metier.Mount
	var allowed []string
	for _, r := range roots {
		if r.Path != "" && !r.Unused {
			allowed = append(allowed, r.Path)
		}
	}
	for _, r := range roots {
		set := forRoot(set, r)
		s := set.Discover
		m := metier.Mount{Label: r.Label, Tier: r.Tier, Kind: r.Kind, Root: r.Path, Target: r.Target, Yields: r.Yields, Notes: slices.Clone(r.Notes)}
		if r.Tier == policy.Project {
			m.Parse = &set.Parse
		}
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

// forRoot returns the settings that apply to a root. A workspace narrows them for its own skills
// only: with other skills gone, their names would be free for its own.
func forRoot(set settings.Settings, r Root) settings.Settings {
	if r.Tier == policy.Project {
		return set
	}
	return set.AsOperator()
}

// unused is the source of a root that nothing is taken from.
type unused struct{ root Root }

func (unused) List(context.Context) iter.Seq2[*metier.Head, error] {
	return func(func(*metier.Head, error) bool) {}
}

func (u unused) Open(_ context.Context, path string) (metier.Bundle, error) {
	return nil, &metier.Error{Op: "open", Skill: path, Path: u.root.Path, Kind: metier.NotFound, Code: "skill_not_found", Err: errors.New("nothing is taken from this root")}
}

// Why says of every path in it what is wrong with the root.
func (u unused) Why(string) metier.Diagnostic { return u.root.Notes[len(u.root.Notes)-1] }

// Scans holds the index on disk that a listing may use, and collects what each
// listing did. Commands that show skills have one. Runs have none, because an
// index is a file that any program of the user can write.
type Scans struct {
	Index string // folder, or ""
	Now   func() time.Time
	List  []local.Scanned
}

func (s *Scans) into(o *local.Options) {
	if s != nil {
		o.Index, o.Now = s.Index, s.Now
		o.Scanned = func(x local.Scanned) { s.List = append(s.List, x) }
	}
}

// HasSkillFile reports whether a folder has a SKILL.md under one of its names.
func HasSkillFile(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(entries, IsSkillFile)
}

// IsSkillFile reports whether an entry of a folder is its SKILL.md, in any case.
func IsSkillFile(e os.DirEntry) bool { return strings.EqualFold(e.Name(), "SKILL.md") }
