package install

import (
	"cmp"
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/harness"
	"metier/internal/distinct"
	"metier/internal/plural"
	"metier/policy"
	"metier/settings"
	"metier/source/local"
)

// Fetched is the content of a source in a folder.
type Fetched struct {
	Source Source
	Dir    string   // the folder
	Commit string   // of a repository
	Digest string   // of the bytes of an archive or a file, or of the manifest of an artifact
	Notes  []string // what the source contains beside skills that a user should know; safe to print
	// digests are those of the artifacts of an index, by the folder of the skill.
	digests   map[string]string
	listed    map[string]bool // names that an index lists
	parts     map[string]bool // of a repository: files and folders that can be parts of plugins
	harnesses bool            // it contains harnesses instead of skills
	inner     string          // folder of an archive that contains the plugin
	wrapper   string          // name that the skill of an archive must have; "": any
	faults    []fault         // of skills
	done      func() error
}

// Close removes what was fetched. The folder of a local source stays.
func (f *Fetched) Close() error {
	if f.done == nil {
		return nil
	}
	return f.done()
}

// Found is the skills in what was fetched.
type Found struct {
	*Fetched
	Skills  []metier.Skill // by path
	snap    *metier.Snapshot
	plugins map[metier.ID]*plugin
}

// Find finds the skills in what was fetched. set are the settings by which they would be loaded.
func Find(ctx context.Context, f *Fetched, set settings.Settings) (*Found, error) {
	dir := filepath.Join(f.Dir, filepath.FromSlash(f.Source.Path))
	src, err := local.New(dir, &local.Options{FileNames: set.Discover.FileNames, Entry: entryFile(f.harnesses)})
	if err != nil {
		return nil, err
	}
	mount := metier.Mount{Label: "source", Tier: policy.ThirdParty, Source: src, Root: dir}
	snap, err := metier.Build(ctx, []metier.Mount{mount}, set.Parse, set.Names, set.Read.IndexRoot, false)
	if err != nil {
		return nil, err
	}
	out := &Found{Fetched: f, snap: snap, Skills: snap.All()}
	slices.SortFunc(out.Skills, func(a, b metier.Skill) int { return strings.Compare(a.ID.Path, b.ID.Path) })
	if f.harnesses {
		return out, out.asHarnesses()
	}
	if err := out.findPlugins(dir); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(dir, harness.File)); err == nil {
		f.Notes = append(f.Notes, "the source is a harness: without it, its skills can lack what HARNESS.md says")
	}
	if len(out.Skills) == 0 {
		return nil, metier.Fieldf(metier.NotFound, "Request.Source", "source_without_skills", "use a folder that contains a SKILL.md, or contains folders that do", "%s contains no skill%s", f.Source, f.also())
	}
	return out, nil
}

// also returns the notes as a part of a message.
func (f *Fetched) also() string {
	if len(f.Notes) == 0 {
		return ""
	}
	return "; " + strings.Join(f.Notes, "; ")
}

// Choose returns the skills with these names. Without names, it returns the only skill, or all of
// them if all is set.
func (f *Found) Choose(names []string, all bool) ([]metier.Skill, error) {
	if len(names) > 0 && all {
		return nil, metier.Fieldf(metier.Invalid, "Request.All", "skills_not_chosen", "omit one of them", "both all skills and some of them are chosen")
	}
	if len(names) == 0 {
		if len(f.Skills) > 1 && !all {
			return nil, metier.Fieldf(metier.Invalid, "Request.Skills", "skills_not_chosen", "name them with Request.Skills, or choose all with Request.All", "%s contains %s: %s",
				f.Source, plural.Of(len(f.Skills), "skill"), brieflyNamed(f.Names()))
		}
		return f.Skills, nil
	}
	var out []metier.Skill
	chosen, called := map[metier.ID]bool{}, f.called()
	for _, n := range names {
		found := called[n]
		switch {
		case len(found) == 0:
			return nil, metier.Fieldf(metier.NotFound, "Request.Skills", "skill_not_found", "the source contains: "+brieflyNamed(f.Names()), "%s contains no skill %q", f.Source, n)
		case len(found) > 1:
			paths := make([]string, len(found))
			for i, sk := range found {
				paths[i] = sk.ID.Path
			}
			return nil, metier.Fieldf(metier.Invalid, "Request.Skills", "skill_ambiguous", "name the folder instead: "+strings.Join(paths, ", "), "%s contains %d skills %q", f.Source, len(found), n)
		}
		if sk := found[0]; !chosen[sk.ID] {
			chosen[sk.ID] = true
			out = append(out, sk)
		}
	}
	return out, nil
}

// called returns the skills by each name that a user can choose them by: their name, folder, and path.
func (f *Found) called() map[string][]metier.Skill {
	out := map[string][]metier.Skill{}
	for _, sk := range f.Skills {
		for _, n := range distinct.Of([]string{sk.Name, path.Base(sk.ID.Path), sk.ID.Path}) {
			out[n] = append(out[n], sk)
		}
	}
	return out
}

// Names returns the names of the skills, or the paths of those without a name.
func (f *Found) Names() []string {
	var out []string
	for _, sk := range f.Skills {
		out = append(out, cmp.Or(sk.Name, sk.ID.Path))
	}
	return distinct.Of(out)
}
