package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"metier"
	"metier/internal/distinct"
	"metier/internal/plural"
	"metier/internal/termtext"
	"metier/settings"
	"metier/skillroots"
)

// otherFolder is a folder of another agent that is not searched, with the flag that includes it.
type otherFolder struct {
	skillroots.Unsearched
	Flag string `json:"flag"`
}

// others counts the skills in folders that are not searched. It returns none if flags name the
// folders to search.
func (sh *skillIndex) others(ctx context.Context, p skillLocation) []otherFolder {
	out := []otherFolder{}
	if len(p.roots)+len(p.harness) > 0 {
		return out
	}
	for _, u := range sh.a.engine().Finder().Unsearched(ctx, sh.Settings, sh.Workspace, sh.Roots) {
		out = append(out, otherFolder{u, "--set " + skillroots.IncludeFamilies(u.Agent)})
	}
	return out
}

// otherFoldersLine lists the folders that are not searched on one line, with one flag that includes
// all of them.
func (a *app) otherFoldersLine(list []otherFolder, workspace string) string {
	total := 0
	var parts, agents []string
	for _, f := range list {
		total += f.Skills
		parts = append(parts, fmt.Sprintf("%s (%d)", oneLine(a.shortPath(f.Path, workspace)), f.Skills))
		agents = append(agents, f.Agent)
	}
	return fmt.Sprintf("not searched: %s in other agents' folders: %s; include them with %s", plural.Of(total, "skill"), strings.Join(parts, ", "), "--set "+skillroots.IncludeFamilies(distinct.Of(agents)...))
}

// shortPath returns a path relative to the workspace or, with ~, to the home folder.
func (a *app) shortPath(p, workspace string) string {
	if rel, err := filepath.Rel(workspace, p); err == nil && workspace != "" && filepath.IsLocal(rel) {
		return rel
	}
	if rel, err := filepath.Rel(a.env.Home(), p); err == nil && a.env.Home() != "" && filepath.IsLocal(rel) {
		return filepath.Join("~", rel)
	}
	return p
}

// inAgentFolder returns why the skill at a path is not found and how to include it, if it is in the
// folder of another agent.
func (sh *skillIndex) inAgentFolder(path string) (reason, fix string, ok bool) {
	r, agent, ok := sh.a.engine().Finder().AgentFolder(path, sh.Settings.Discover, sh.Workspace)
	if !ok {
		return "", "", false
	}
	return "it is in a skill folder of " + agent.Title + ", which is not searched", "include that folder with " + includedBy(r, sh.Settings.Discover), true
}

// includedBy returns the flag that includes a folder of another agent under s.
func includedBy(r skillroots.Root, s settings.Discover) string {
	if set := r.IncludedBy(s); set != "" {
		return "--set " + set
	}
	return "--skills-root " + termtext.Word(r.Path)
}

// outsider is a skill in a folder that is not searched.
type outsider struct {
	skill    metier.Skill
	snapshot *metier.Snapshot // of this skill alone
	reason   string           // why it is not searched
	fix      string           // what includes it
}

// outside reads the skill at a path outside the searched folders. It returns nil if the path is in
// a searched folder or has no SKILL.md.
func (sh *skillIndex) outside(ctx context.Context, subject string) (*outsider, error) {
	dir := ""
	for _, p := range sh.places(subject) {
		if sh.Snapshot.ExplainPath(ctx, p).Rule != "outside-roots" {
			return nil, nil
		}
		if strings.EqualFold(filepath.Base(p), "SKILL.md") {
			p = filepath.Dir(p)
		}
		dir = p
	}
	if !skillroots.HasSkillFile(dir) {
		return nil, nil
	}
	r := skillroots.Root{Path: dir, Named: true, Label: "path"}
	r.Tier, r.Kind = sh.a.engine().Finder().TierOf(dir, sh.Workspace)
	snap, err := sh.a.engine().Snapshot(ctx, []skillroots.Root{r}, sh.Settings, sh.Workspace, nil)
	if err != nil {
		return nil, err
	}
	found := snap.At(dir)
	if len(found) == 0 {
		return nil, nil
	}
	parent := filepath.Dir(dir)
	o := &outsider{skill: found[0], snapshot: snap, reason: "no searched folder contains it", fix: "search its parent with --skills-root " + termtext.Word(parent) + ", or add that folder to skills: in the configuration"}
	if reason, fix, ok := sh.inAgentFolder(dir); ok {
		o.reason, o.fix = reason, fix
	}
	return o, nil
}
