package cli

import (
	"context"
	"fmt"
	"strings"

	"metier/internal/distinct"
	"metier/internal/plural"
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

// othersLine lists the folders that are not searched on one line, with one flag that includes
// all of them.
func (sh *skillIndex) othersLine(list []otherFolder) string {
	total := 0
	var parts, agents []string
	for _, f := range list {
		total += f.Skills
		parts = append(parts, fmt.Sprintf("%s (%d)", oneLine(sh.ShortPath(f.Path)), f.Skills))
		agents = append(agents, f.Agent)
	}
	return fmt.Sprintf("not searched: %s in other agents' folders: %s; include them with %s", plural.Of(total, "skill"), strings.Join(parts, ", "), "--set "+skillroots.IncludeFamilies(distinct.Of(agents)...))
}
