package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"metier/internal/agentdirs"
	"metier/internal/confine"
	"metier/settings"
)

// otherFolder is a folder of another agent that has skills and is not searched.
type otherFolder struct {
	Agent  string `json:"agent"`
	Path   string `json:"path"`
	Skills int    `json:"skills"` // without those that are found elsewhere too
	Flag   string `json:"flag"`   // what includes it
}

// otherFolders counts the skills in the folders of agents that the setting
// root_families leaves out, in places that the setting roots searches.
func (a *app) otherFolders(ctx context.Context, s settings.Settings, workspace string, searched []root) []otherFolder {
	seen := map[string]bool{}
	for _, r := range searched {
		if r.Path != "" && !r.Unused {
			seen[confine.RealPathOfExisting(r.Path)] = true
		}
	}
	var out []otherFolder
	for _, r := range a.agentFolders(s.Discover, workspace) {
		if s.Discover.Families.Has(settings.Family(r.agent.Name)) || r.Unused || a.place(&r, s.Discover, workspace, nil) != nil {
			continue
		}
		real, err := confine.RealPath(r.Path)
		if err != nil || seen[real] {
			continue
		}
		seen[real] = true
		if n := countSkills(ctx, s, slices.Concat(searched, []root{r}), seen); n > 0 {
			out = append(out, otherFolder{r.agent.Name, r.Path, n, includeFlag(r.agent.Name)})
		}
	}
	return out
}

// others counts what is not searched at a place. Named folders are the only
// ones that are meant, so then it returns none.
func (sh *shelf) others(ctx context.Context, p skillPlace) []otherFolder {
	if len(p.roots)+len(p.harness) > 0 {
		return []otherFolder{}
	}
	return append([]otherFolder{}, sh.a.otherFolders(ctx, sh.settings, sh.workspace, sh.roots)...)
}

// countSkills counts the skills in the last of the roots whose folders, after
// links, are not in seen or below a folder in seen. It adds them to seen.
func countSkills(ctx context.Context, s settings.Settings, roots []root, seen map[string]bool) int {
	mounts, err := mountAll(roots, s, nil)
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

// includeFlag is the flag that adds an agent's folders to those searched.
func includeFlag(agents ...string) string {
	return "--set root_families=+" + strings.Join(agents, ",")
}

// otherFoldersLine reports folders that are not searched on one line, with one
// flag that includes all of them.
func (a *app) otherFoldersLine(list []otherFolder, workspace string) string {
	total := 0
	var parts, agents []string
	for _, f := range list {
		total += f.Skills
		parts = append(parts, fmt.Sprintf("%s (%d)", oneLine(a.shortPath(f.Path, workspace)), f.Skills))
		agents = append(agents, f.Agent)
	}
	return fmt.Sprintf("not searched: %s in folders of other agents: %s; include them with %s", plural(total, "skill"), strings.Join(parts, ", "), includeFlag(dedupe(agents)...))
}

// shortPath writes a path relative to the workspace or, with ~, to the home.
func (a *app) shortPath(p, workspace string) string {
	if rel, err := filepath.Rel(workspace, p); err == nil && workspace != "" && filepath.IsLocal(rel) {
		return rel
	}
	if rel, err := filepath.Rel(a.env.Home(), p); err == nil && a.env.Home() != "" && filepath.IsLocal(rel) {
		return filepath.Join("~", rel)
	}
	return p
}

// agentFolderOf returns the agent in whose folder a path is, and the flag that
// includes that folder under the settings.
func (sh *shelf) agentFolderOf(path string) (agent agentdirs.Agent, flag string, ok bool) {
	for _, r := range sh.a.agentFolders(everywhere(sh.settings.Discover), sh.workspace) {
		if confine.Within(r.Path, path) {
			return r.agent, includedBy(r, sh.settings.Discover), true
		}
	}
	return agentdirs.Agent{}, "", false
}

// unsearched returns the skill of a name in a folder of an agent that is not
// searched, and the flag that includes the folder.
func (sh *shelf) unsearched(name string) (path, flag string, ok bool) {
	if !filepath.IsLocal(name) || filepath.Base(name) != name {
		return "", "", false
	}
	for _, r := range sh.a.agentFolders(everywhere(sh.settings.Discover), sh.workspace) {
		if slices.ContainsFunc(sh.roots, func(s root) bool { return s.Path == r.Path }) {
			continue
		}
		path = filepath.Join(r.Path, name)
		if hasSkillFile(path) {
			return sh.a.shortPath(path, sh.workspace), includedBy(r, sh.settings.Discover), true
		}
	}
	return "", "", false
}
