package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/internal/confine"
	"metier/internal/diagcodes"
	"metier/internal/distinct"
	"metier/internal/nearest"
	"metier/internal/termtext"
	"metier/policy"
	"metier/skillroots"
)

// Entries finds skills by a user's reference, whatever their state: by ID, by name, or by the path
// of the folder or its SKILL.md.
func (d *Discovery) Entries(ref string) []metier.Skill {
	if found := d.Snapshot.Entries(ref); len(found) > 0 {
		return found
	}
	for _, p := range d.places(ref) {
		if found := d.Snapshot.At(p); len(found) > 0 {
			return found
		}
	}
	return nil
}

// Find returns the active skill with a name, or else the first skill, in any state, with that ID,
// name, or path.
func (d *Discovery) Find(ctx context.Context, ref string) (metier.Skill, error) {
	if sk, err := d.Snapshot.Find(ref); err == nil {
		return sk, nil
	}
	if found := d.Entries(ref); len(found) > 0 {
		return found[0], nil
	}
	return metier.Skill{}, d.nothingAt(ctx, ref)
}

// Denies reports whether the operator denied a skill.
func (d *Discovery) Denies(sk metier.Skill) bool {
	g := policy.Grants{Denied: d.Denied}
	return sk.Effect(&g) == policy.RuleDeny
}

// places returns the forms of a path: as given, with the links of its parents resolved, and with
// all links resolved.
func (d *Discovery) places(ref string) []string {
	p := filepath.Clean(d.e.Env.Path(ref))
	out := []string{p}
	if dir, err := confine.RealPath(filepath.Dir(p)); err == nil {
		out = append(out, filepath.Join(dir, filepath.Base(p)))
	}
	if real, err := confine.RealPath(p); err == nil {
		out = append(out, real)
	}
	return distinct.Of(out)
}

// ShortPath returns a path relative to the workspace or, with ~, to the home folder.
func (d *Discovery) ShortPath(p string) string {
	if rel, err := filepath.Rel(d.Workspace, p); err == nil && d.Workspace != "" && filepath.IsLocal(rel) {
		return rel
	}
	home := d.e.Env.Home()
	if rel, err := filepath.Rel(home, p); err == nil && home != "" && filepath.IsLocal(rel) {
		return filepath.Join("~", rel)
	}
	return p
}

// missing returns the error for an unknown name, with suggestions. It returns nil for a path that
// exists.
func (d *Discovery) missing(ref string) error {
	_, err := os.Lstat(d.e.Env.Path(ref))
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unknown := func(code, hint, text string) error {
		return &metier.Error{Op: "find", Skill: ref, Kind: metier.NotFound, Code: code, Hint: hint, Err: errors.New(text)}
	}
	if !OfRoot(ref) && d.host == nil {
		return unknown("skill_not_found", "specify the file that lists its server with Request.Servers, or use 'metier mcp inspect SERVER'", "MCP servers are searched only if you specify them")
	}
	if len(d.Roots) == 0 {
		return unknown("skill_registry_missing", "specify a skills folder with Request.Roots", "there is no skills root")
	}
	var names []string
	for sk := range d.Snapshot.Each() {
		names = append(names, termtext.Line(sk.Name))
	}
	text := "no skill has this name"
	if strings.ContainsAny(ref, `/\`) {
		text += ", and nothing exists at this path"
	}
	hint := ""
	if path, r, ok := d.e.Finder().InAgentFolder(ref, d.Settings.Discover, d.Workspace, d.Roots); ok {
		hint = d.ShortPath(path) + " is in a folder that is not searched; include it with " + d.including(r)
	}
	return unknown("skill_not_found", hint, text+nearest.Hint(ref, distinct.Of(names)))
}

// nothingAt returns the error for a name or path that is not a skill that runs find here, with the
// reason and the fix.
func (d *Discovery) nothingAt(ctx context.Context, ref string) error {
	u, err := d.Unlisted(ctx, ref)
	if err != nil {
		return err
	}
	text := "there is no skill at this path: "
	if u.Skill.Name != "" {
		text = "runs do not find this skill: "
	}
	return &metier.Error{Path: ref, Kind: metier.NotFound, Code: "skill_not_found", Hint: u.Fix, Err: errors.New(text + u.Reason)}
}

// Unlisted explains why a path is not a skill of the snapshot.
type Unlisted struct {
	Path   string
	Rule   string
	Reason string
	Fix    string

	// Skill is the skill at the path and Snapshot has only this skill, if it is in a folder that is
	// not searched. Otherwise, Snapshot is nil.
	Skill    metier.Skill
	Snapshot *metier.Snapshot
}

// ruleOutside is the rule for paths outside the searched folders.
const ruleOutside = "outside-roots"

// Unlisted explains a path that is not a skill of the snapshot. For a name, or a path that does not
// exist, it returns an error with suggestions.
func (d *Discovery) Unlisted(ctx context.Context, ref string) (u Unlisted, err error) {
	if err := d.missing(ref); err != nil {
		return u, err
	}
	places := d.places(ref)
	for _, p := range places {
		if u.Rule == "" || u.Rule == ruleOutside {
			e := d.Snapshot.ExplainPath(ctx, p)
			u = Unlisted{Path: places[0], Rule: e.Rule, Reason: e.Reason, Fix: e.Fix}
		}
	}
	if u.Rule != ruleOutside {
		return u, nil
	}
	path := places[len(places)-1]
	dir := path
	if strings.EqualFold(filepath.Base(dir), "SKILL.md") {
		dir = filepath.Dir(dir)
	}
	if err := d.outside(ctx, dir, &u); err != nil {
		return u, err
	}
	switch {
	case u.Snapshot != nil:
		u.Reason, u.Fix = "no searched folder contains it", "search its parent with Request.Roots "+termtext.Word(filepath.Dir(dir))+", or add that folder to skills: in the configuration"
		d.inAgentFolder(dir, &u)
	case d.inAgentFolder(path, &u):
	case noSkillFile(path):
		r, _ := diagcodes.Of("no-skill-file")
		u.Rule, u.Reason, u.Fix = "no-skill-file", r.Why, r.Fix
	}
	return u, nil
}

// outside reads the skill in a folder outside the searched folders, if there is one.
func (d *Discovery) outside(ctx context.Context, dir string, u *Unlisted) error {
	if !skillroots.HasSkillFile(dir) {
		return nil
	}
	r := skillroots.Root{Path: dir, Named: true, Label: "path"}
	r.Tier, r.Kind = d.e.Finder().TierOf(dir, d.Workspace)
	snap, err := d.e.Snapshot(ctx, []skillroots.Root{r}, d.Settings, d.Workspace, nil)
	if err != nil {
		return err
	}
	if found := snap.At(dir); len(found) > 0 {
		u.Skill, u.Snapshot = found[0], snap
	}
	return nil
}

// inAgentFolder sets the reason and the fix for a path in the folder of another agent, and reports
// whether it is in one.
func (d *Discovery) inAgentFolder(path string, u *Unlisted) bool {
	r, agent, ok := d.e.Finder().AgentFolder(path, d.Settings.Discover, d.Workspace)
	if ok {
		u.Reason, u.Fix = "it is in a skill folder of "+agent.Title+", which is not searched", "include that folder with "+d.including(r)
	}
	return ok
}

// including returns the field, with its value, that includes a folder of another agent.
func (d *Discovery) including(r skillroots.Root) string {
	if set := r.IncludedBy(d.Settings.Discover); set != "" {
		return "Request.Layers " + set
	}
	return "Request.Roots " + termtext.Word(r.Path)
}

// noSkillFile reports whether a path is a folder without a SKILL.md.
func noSkillFile(path string) bool {
	entries, err := os.ReadDir(path)
	return err == nil && !slices.ContainsFunc(entries, skillroots.IsSkillFile)
}

// NotSearched returns why runs do not find the skill in a folder, and the fix, or "" if they do, in
// this workspace or in one that the folder is in.
func (d *Discovery) NotSearched(ctx context.Context, dir string) (string, error) {
	if len(d.Entries(dir)) > 0 || d.ofOther(dir) {
		return "", nil
	}
	u, err := d.Unlisted(ctx, dir)
	if err != nil {
		return "", err
	}
	for _, r := range d.Roots {
		if r.Tier == policy.Project && confine.Within(d.Workspace, r.Path) {
			return u.Reason + "; move it to " + d.ShortPath(r.Path) + ", or " + u.Fix, nil
		}
	}
	return u.Reason + "; " + u.Fix, nil
}

// ofOther reports whether runs in another workspace search the folder of a skill.
func (d *Discovery) ofOther(dir string) bool {
	parent := filepath.Dir(d.e.Env.Path(dir))
	return slices.ContainsFunc(d.Roots, func(r skillroots.Root) bool {
		rel, err := filepath.Rel(d.Workspace, r.Path)
		return err == nil && filepath.IsLocal(rel) && strings.HasSuffix(parent, string(filepath.Separator)+rel)
	})
}
