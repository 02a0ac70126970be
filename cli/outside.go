package cli

import (
	"context"
	"path/filepath"
	"strings"

	"metier"
	"metier/internal/termtext"
	"metier/skillroots"
)

// outsider is a skill in a folder that is not searched.
type outsider struct {
	skill    metier.Skill
	snapshot *metier.Snapshot // of this skill alone
	reason   string           // why it is not searched
	fix      string           // what includes it
}

// outside reads the skill at a path that is in no searched folder. It returns
// nil if the path is in one or has no SKILL.md.
func (sh *skillIndex) outside(ctx context.Context, subject string) (*outsider, error) {
	dir := ""
	for _, p := range sh.places(subject) {
		if sh.snapshot.ExplainPath(ctx, p).Rule != "outside-roots" {
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
	r.Tier, r.Kind = sh.a.engine().Finder().TierOf(dir, sh.workspace)
	snap, err := sh.a.engine().Snapshot(ctx, []skillroots.Root{r}, sh.settings, sh.workspace, nil)
	if err != nil {
		return nil, err
	}
	found := snap.At(dir)
	if len(found) == 0 {
		return nil, nil
	}
	parent := filepath.Dir(dir)
	o := &outsider{skill: found[0], snapshot: snap, reason: "no searched folder contains it", fix: "search its parent with --skills-root " + termtext.Word(parent) + ", or add that folder to skills: in the configuration"}
	if agent, flag, ok := sh.agentFolderOf(dir); ok {
		o.reason, o.fix = "it is in a skill folder of "+agent.Title+", which is not searched", "include that folder with "+flag
	}
	return o, nil
}
