package skillroots

import (
	"context"
	"path/filepath"
	"slices"

	"metier/internal/confine"
	"metier/settings"
)

// Unsearched is a folder of another agent that has skills and is not searched.
type Unsearched struct {
	Agent  string `json:"agent"`
	Path   string `json:"path"`
	Skills int    `json:"skills"` // without those that are found elsewhere too
}

// Unsearched counts the skills in the folders of agents that the setting
// root_families leaves out, in places that the setting roots searches.
func (f Finder) Unsearched(ctx context.Context, s settings.Settings, workspace string, searched []Root) []Unsearched {
	seen := map[string]bool{}
	for _, r := range searched {
		if r.Path != "" && !r.Unused {
			seen[confine.RealPathOfExisting(r.Path)] = true
		}
	}
	var out []Unsearched
	for _, r := range f.AgentFolders(s.Discover, workspace) {
		if s.Discover.Families.Has(settings.Family(r.Agent)) || r.Unused || f.Place(&r, s.Discover, workspace, nil) != nil {
			continue
		}
		real, err := confine.RealPath(r.Path)
		if err != nil || seen[real] {
			continue
		}
		seen[real] = true
		if n := countSkills(ctx, s, slices.Concat(searched, []Root{r}), seen); n > 0 {
			out = append(out, Unsearched{r.Agent, r.Path, n})
		}
	}
	return out
}

// countSkills counts the skills in the last of the roots whose folders, after
// links, are not in seen or below a folder in seen. It adds them to seen.
func countSkills(ctx context.Context, s settings.Settings, roots []Root, seen map[string]bool) int {
	mounts, err := Mounts(roots, s, nil)
	if err != nil || len(mounts) == 0 {
		return 0
	}
	m, n := mounts[len(mounts)-1], 0
	for head, err := range m.Source.List(ctx) {
		if err != nil || head.FileName == "" {
			continue
		}
		dir, err := confine.RealPath(filepath.Join(m.Root, filepath.FromSlash(head.Path)))
		if err != nil || seen[dir] || dir != filepath.Join(m.Root, filepath.FromSlash(head.Path)) && seen[filepath.Dir(dir)] {
			continue
		}
		seen[dir] = true
		n++
	}
	return n
}
