package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"metier/internal/agentdirs"
	"metier/internal/confine"
	"metier/internal/distinct"
	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/settings"
	"metier/skillroots"
)

// otherFolder is a folder of another agent that is not searched, with the flag
// that includes it.
type otherFolder struct {
	skillroots.Unsearched
	Flag string `json:"flag"`
}

// others counts the skills that are not searched at a place. It returns none if
// flags name the folders to search.
func (sh *skillIndex) others(ctx context.Context, p skillLocation) []otherFolder {
	out := []otherFolder{}
	if len(p.roots)+len(p.harness) > 0 {
		return out
	}
	for _, u := range sh.a.engine().Finder().Unsearched(ctx, sh.settings, sh.workspace, sh.roots) {
		out = append(out, otherFolder{u, includeFlag(u.Agent)})
	}
	return out
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
	return fmt.Sprintf("not searched: %s in folders of other agents: %s; include them with %s", plural.Of(total, "skill"), strings.Join(parts, ", "), includeFlag(distinct.Of(agents)...))
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
func (sh *skillIndex) agentFolderOf(path string) (agent agentdirs.Agent, flag string, ok bool) {
	for _, r := range sh.a.engine().Finder().AgentFolders(skillroots.Everywhere(sh.settings.Discover), sh.workspace) {
		if confine.Within(r.Path, path) {
			i := slices.IndexFunc(agentdirs.All(), func(a agentdirs.Agent) bool { return a.Name == r.Agent })
			return agentdirs.All()[i], includedBy(r, sh.settings.Discover), true
		}
	}
	return agentdirs.Agent{}, "", false
}

// unsearched returns the skill of a name in a folder of an agent that is not
// searched, and the flag that includes the folder.
func (sh *skillIndex) unsearched(name string) (path, flag string, ok bool) {
	if !filepath.IsLocal(name) || filepath.Base(name) != name {
		return "", "", false
	}
	for _, r := range sh.a.engine().Finder().AgentFolders(skillroots.Everywhere(sh.settings.Discover), sh.workspace) {
		if slices.ContainsFunc(sh.roots, func(s skillroots.Root) bool { return s.Path == r.Path }) {
			continue
		}
		path = filepath.Join(r.Path, name)
		if skillroots.HasSkillFile(path) {
			return sh.a.shortPath(path, sh.workspace), includedBy(r, sh.settings.Discover), true
		}
	}
	return "", "", false
}

// includeFlag is the flag that adds an agent's folders to those searched.
func includeFlag(agents ...string) string {
	return "--set root_families=+" + strings.Join(agents, ",")
}

// includedBy is the one flag that includes a folder of an agent under s.
func includedBy(r skillroots.Root, s settings.Discover) string {
	if set := r.IncludedBy(s); set != "" {
		return "--set " + set
	}
	return "--skills-root " + termtext.Word(r.Path)
}
