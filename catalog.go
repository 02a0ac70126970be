package metier

import (
	"cmp"
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"metier/internal/catalog"
	"metier/internal/injection"
	"metier/internal/termtext"
	"metier/internal/tokens"
	"metier/policy"
	"metier/settings"
)

// Catalog is what the model sees of the available skills: a filtered,
// budgeted view of the snapshot. Its order is stable, since prompt caches
// depend on it, and what it leaves out is counted and can be reached.
type Catalog struct {
	Entries []CatalogEntry
	Omitted int // skills that could be used and are not listed
	Cut     int // entries with a shortened description
	Dropped int // entries that lost their description
	Text    string
	Format  settings.CatalogFormat
	Place   settings.CatalogPlace // where Text goes: tool, system or none
	Rung    string                // how much Text tells of each entry: full, cut or names; "" without a text
	Tokens  int                   // an estimate of Text
	Budget  int                   // the most tokens Text may take; 0: any number
	Search  string                // the model's tool that finds what is left out, or ""

	guard settings.Injection
	rules []policy.SkillRule
}

// The rungs of the ladder that a catalog goes down until it fits its budget.
// Below the last one names are left out, and counted.
const (
	rungFull  = "full"
	rungCut   = "cut"   // descriptions and notes have one greatest length; no locations where a tool loads skills
	rungNames = "names" // no descriptions
)

// listing is the catalog of one snapshot with what the load tool says of it.
type listing struct {
	snap *Snapshot
	Catalog
	names  []string
	about  string // description of the load tool
	schema json.RawMessage
	may    []int  // the skills of the snapshot that the model may know of, by place
	told   []bool // the same, for each place
}

// InTool reports whether Text belongs in the description of the load tool.
func (c Catalog) InTool() bool { return c.Place == settings.CatalogPlaceTool && c.Text != "" }

// InSystem reports whether Text belongs in the system prompt.
func (c Catalog) InSystem() bool { return c.Place == settings.CatalogPlaceSystem && c.Text != "" }

// shown reports whether there is a catalog at all, so that names may be listed.
func (c Catalog) shown() bool { return c.Place != settings.CatalogPlaceNone }

// partial reports whether there is more to know than the catalog tells, so that
// the model has use for a search.
func (c Catalog) partial() bool { return c.shown() && (c.Omitted > 0 || c.Rung == rungNames) }

// CatalogEntry is one line of a catalog.
type CatalogEntry struct {
	Name          string `json:"name"`
	SkillID       string `json:"skillId,omitempty"` // for models that are shown no paths
	Description   string `json:"description,omitempty"`
	Location      string `json:"location,omitempty"` // SKILL.md as the model may read it
	Compatibility string `json:"compatibility,omitempty"`
}

// toolTextMax is the longest tool description that providers take; a longer
// catalog goes to the system prompt.
const toolTextMax = 60_000

// descMax is how many characters of a description and of a compatibility note
// are shown where the settings say no less: the specification's limit.
const descMax = 1024

// Catalog returns the catalog as it stands now.
func (s *Session) Catalog(context.Context) Catalog {
	c := s.listing().Catalog
	c.Entries = slices.Clone(c.Entries)
	return c
}

// listing is made once for each snapshot.
func (s *Session) listing() *listing {
	snap := s.Snapshot()
	if l := s.listed.Load(); l != nil && l.snap == snap {
		return l
	}
	l := &listing{snap: snap, may: s.known(snap), told: make([]bool, len(snap.skills))}
	for _, i := range l.may {
		l.told[i] = true
	}
	l.Catalog = s.catalog(snap, l.may)
	for _, e := range l.Entries {
		l.names = append(l.names, e.Name)
	}
	// The names stand in the text; a second time in the schema only where the
	// budget has room for them.
	enum := l.shown() && (l.Budget == 0 || l.Rung == rungFull && l.Tokens+tokens.Estimate(strings.Join(l.names, `","`)) <= l.Budget)
	if l.about = strings.TrimSpace(loadText); l.InTool() {
		l.about += "\n\n" + l.Text
	}
	l.schema = loadSchema(l.names, !s.enveloped(), enum, s.cfg.ToolsOnly, s.byID())
	s.listed.Store(l)
	return l
}

// place is where the catalog stands: beside the load tool if there is one,
// else in the prompt if the model can use a skill by reading its file.
func (s *Session) place() settings.CatalogPlace {
	set := s.cfg.Settings
	switch {
	case set.Catalog.Format == settings.CatalogFormatNone:
		return settings.CatalogPlaceNone
	case s.cfg.ToolsOnly && s.loadable():
		return settings.CatalogPlaceTool
	case set.Catalog.Place != settings.CatalogPlaceTool:
		return set.Catalog.Place
	case s.loadable():
		return settings.CatalogPlaceTool
	case s.byReadFile() && s.granted(settings.ToolReadFile):
		return settings.CatalogPlaceSystem
	}
	return settings.CatalogPlaceNone
}

// loadable reports whether the model has a tool that loads a skill by its name.
func (s *Session) loadable() bool {
	return s.cfg.Settings.Tools.Load != "" && s.cfg.Settings.Activate.ByLoadTool() && s.granted(settings.ToolLoadSkill)
}

// known lists the skills the model may hear of, by their place in the snapshot.
func (s *Session) known(snap *Snapshot) []int {
	var may []int
	for i := range snap.skills {
		if unlisted(&snap.skills[i], &s.cfg.Grants, s.cfg.Settings.Activate.Injection) == "" {
			may = append(may, i)
		}
	}
	return may
}

func (s *Session) catalog(snap *Snapshot, all []int) Catalog {
	set := s.cfg.Settings
	c := Catalog{Format: set.Catalog.Format, Place: s.place(), Budget: set.Catalog.Budget, guard: set.Activate.Injection, rules: s.cfg.Grants.Skills}
	if set.Tools.Search != "" && s.granted(settings.ToolSearchSkills) && c.shown() {
		c.Search = set.Tools.Search
	}
	total := len(all)
	if most := set.Catalog.Max; most > 0 && most < total {
		all = favoured(snap, all)(most)
	}
	if len(all) > 0 {
		s.fit(&c, snap, all, total)
	}
	if !c.shown() {
		c.Rung = ""
		return c
	}
	if total == 0 && set.Catalog.Empty == settings.EmptyCatalogSayNone {
		c.Text = "No skills are configured."
	}
	c.Tokens = tokens.Estimate(c.Text)
	if c.Place == settings.CatalogPlaceTool && len(c.Text) > toolTextMax {
		c.Place = settings.CatalogPlaceSystem
	}
	if c.Place == settings.CatalogPlaceTool && total == 0 {
		c.Place = settings.CatalogPlaceSystem // without skills there is no tool to say so
	}
	return c
}

// The lengths to which descriptions are cut. Steps keep the text as it is while
// a few skills come and go; less than the shortest says nothing.
const (
	shortestCut = 48
	cutStep     = 8
)

// fit goes down the ladder until the text fits the budget: as much as the
// settings allow, then everything cut to the greatest common length that fits,
// then names, then as many names as fit. The costs of head, entries and foot
// add up, so a text that is too long is not written out.
func (s *Session) fit(c *Catalog, snap *Snapshot, all []int, total int) {
	most := descMax
	if m := s.cfg.Settings.Catalog.DescMax; m > 0 {
		most = min(most, m)
	}
	f := catalog.Form{XML: c.Format == settings.CatalogFormatXML, JSON: c.Format == settings.CatalogFormatJSON, Paths: c.Format == settings.CatalogFormatPaths,
		InTool: c.Place == settings.CatalogPlaceTool, Loadable: s.loadable(), Load: s.cfg.Settings.Tools.Load, Resource: s.cfg.Settings.Tools.Resource,
		Search: c.Search, List: s.listTool()}
	try := func(list []int, rung string, cut int) bool {
		next := *c
		next.Rung, next.Omitted, next.Entries = rung, total-len(list), make([]CatalogEntry, 0, min(len(list), 1024))
		next.Cut, next.Dropped = 0, 0
		if !c.shown() {
			for _, i := range list {
				next.Entries = append(next.Entries, s.entry(&snap.skills[i], rung, cut))
			}
			*c = next
			return true
		}
		head, foot := f.Head(), f.Foot(next.Omitted, rung == rungNames)
		cost := tokens.Estimate(head) + tokens.Estimate(foot)
		body := make([]string, 0, min(len(list), 1024))
		for _, i := range list {
			e := s.entry(&snap.skills[i], rung, cut)
			text := f.Entry(catalog.Entry(e), rung == rungNames)
			if cost += tokens.Estimate(text); c.Budget > 0 && cost > c.Budget {
				return false
			}
			next.Entries, body = append(next.Entries, e), append(body, text)
		}
		for at, i := range list {
			next.count(&snap.skills[i], next.Entries[at])
		}
		next.Text = strings.TrimRight(head+strings.TrimSuffix(strings.Join(body, ""), ",")+foot, "\n")
		*c = next
		return true
	}
	low, high := shortestCut/cutStep, (most-1)/cutStep
	switch {
	case try(all, rungFull, most):
	case low <= high && try(all, rungCut, low*cutStep):
		catalog.Greatest(low, high, func(n int) bool { return try(all, rungCut, n*cutStep) })
	case try(all, rungNames, 0):
	default:
		// Every name costs a token or more, so no more of them can fit.
		few := favoured(snap, all)
		if n := catalog.Greatest(0, min(len(all)-1, c.Budget), func(n int) bool { return try(few(n), rungNames, 0) }); n == 0 {
			c.Rung, c.Omitted, c.Cut, c.Dropped = rungNames, total, 0, 0
			c.Text = strings.TrimRight(f.Head()+f.Foot(total, true), "\n") // the count stands, whatever the budget
		}
	}
}

// count adds what the entry of a skill leaves out of its description.
func (c *Catalog) count(sk *Skill, e CatalogEntry) {
	switch {
	case e.Description == "" && sk.Description != "":
		c.Dropped++
	case e.Description != "" && e.Description != termtext.Line(sk.Description):
		c.Cut++
	}
}

// favoured gives the first so many of the skills, those of trusted tiers before
// others, so that many of a stranger's do not push one's own out. The order of
// what it gives is that of the snapshot.
func favoured(snap *Snapshot, all []int) func(n int) []int {
	ranked := slices.Clone(all)
	slices.SortStableFunc(ranked, func(a, b int) int { return cmp.Compare(trust(snap.skills[b].Tier), trust(snap.skills[a].Tier)) })
	return func(n int) []int {
		out := slices.Clone(ranked[:n])
		slices.Sort(out)
		return out
	}
}

// entry is what a rung tells of a skill.
func (s *Session) entry(sk *Skill, rung string, cut int) CatalogEntry {
	e := CatalogEntry{Name: termtext.Line(sk.Name)}
	if rung == rungFull || !s.loadable() { // else the name is enough to load it
		e.SkillID = s.shownID(sk)
	}
	if (s.cfg.Settings.Catalog.Format == settings.CatalogFormatPaths || s.byReadFile()) && (rung == rungFull || !s.loadable()) {
		e.Location = s.location(sk)
	}
	switch rung {
	case rungFull:
		e.Description, e.Compatibility = catalog.Clamp(sk.Description, cut), catalog.Clamp(sk.Head.Front.Compatibility, descMax)
	case rungCut:
		e.Description, e.Compatibility = catalog.Clamp(sk.Description, cut), catalog.Clamp(sk.Head.Front.Compatibility, cut)
	}
	return e
}

// listTool is the name of the tool that lists skills, as far as the model has it.
func (s *Session) listTool() string {
	if !s.granted(settings.ToolListSkills) || !listable(s.cfg.Settings) {
		return ""
	}
	return s.cfg.Settings.Tools.List
}

// listable reports whether there is a tool that lists skills: where catalogs
// are off it would tell what they may not.
func listable(set settings.Settings) bool {
	return set.Tools.List != "" && set.Catalog.Format != settings.CatalogFormatNone
}

// location is SKILL.md as the model may read it. A path that does not survive
// in one line is given in the form that every file tool takes.
func (s *Session) location(sk *Skill) string {
	d := s.cfg.View.Dir(*sk)
	if d == "" {
		return ""
	}
	if d != termtext.Escape(d) {
		d = path.Join(SkillsPath, sk.Slug)
	}
	return d + "/" + sk.Head.FileName
}

// byID reports whether the model names skills by their IDs, because it is shown
// no paths.
func (s *Session) byID() bool { return s.cfg.View.None() }

// shownID is the ID by which the model names a skill, or "".
func (s *Session) shownID(sk *Skill) string {
	if !s.byID() {
		return ""
	}
	return termtext.Line(sk.ID.String())
}

// denied reports whether the operator denies a skill. So does Decide.
func (s *Session) denied(sk *Skill) bool {
	return sk.Effect(&s.cfg.Grants) == policy.RuleDeny
}

// unlisted is the rule that keeps a skill out of every catalog, "" for none.
func unlisted(sk *Skill, g *policy.Grants, guard settings.Injection) string {
	switch {
	case sk.State != Loaded:
		return "not-loaded"
	case !sk.ModelInvocable:
		return "disable-model-invocation"
	case sk.Effect(g) == policy.RuleDeny:
		return "denied"
	case BlocksInjection(guard, sk.Tier) && suspect(sk):
		return "injection-blocked"
	}
	return ""
}

// BlocksInjection reports whether text of a tier that reads like an injection is
// withheld from the model.
func BlocksInjection(guard settings.Injection, t policy.Tier) bool {
	return guard.Blocks(t.Or() == policy.ThirdParty)
}

// suspect reports whether what a catalog would tell of a skill looks like an
// injection.
func suspect(sk *Skill) bool {
	return injection.Orders(injection.Find(sk.Name + "\n\n" + sk.Description + "\n\n" + sk.Head.Front.Compatibility))
}
