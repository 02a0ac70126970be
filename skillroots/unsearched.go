package skillroots

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"metier/internal/agentdirs"
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
		if forRoot(s, r).Discover.Families.Has(settings.Family(r.Agent)) || r.Unused || f.Place(&r, s, workspace, nil) != nil {
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

// IncludeFamilies returns the setting, as NAME=VALUE, that adds the folders of
// agents to those that are searched.
func IncludeFamilies(agents ...string) string { return "root_families=+" + strings.Join(agents, ",") }

// AgentFolder returns the folder of an agent that a path is in, and the agent.
func (f Finder) AgentFolder(path string, s settings.Discover, workspace string) (r Root, of agentdirs.Agent, ok bool) {
	for _, r := range f.AgentFolders(everywhere(s), workspace) {
		if confine.Within(r.Path, path) {
			i := slices.IndexFunc(agentdirs.All(), func(a agentdirs.Agent) bool { return a.Name == r.Agent })
			return r, agentdirs.All()[i], true
		}
	}
	return r, of, false
}

// InAgentFolder returns the path of the skill of a name in the folder of an agent
// that is not among the searched roots, and that folder.
func (f Finder) InAgentFolder(name string, s settings.Discover, workspace string, searched []Root) (path string, r Root, ok bool) {
	if !filepath.IsLocal(name) || filepath.Base(name) != name {
		return "", r, false
	}
	for _, r := range f.AgentFolders(everywhere(s), workspace) {
		path := filepath.Join(r.Path, name)
		if !slices.ContainsFunc(searched, func(s Root) bool { return s.Path == r.Path }) && HasSkillFile(path) {
			return path, r, true
		}
	}
	return "", r, false
}
