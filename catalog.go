package metier

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"metier/internal/visible"
	"metier/settings"
)

// Catalog is what the model is told about the skills there are: a filtered,
// bounded view of the snapshot. Its order is stable, since prompt caches
// depend on it, and what it leaves out is counted (D8).
type Catalog struct {
	Entries []CatalogEntry
	Omitted int // skills that could be used and are not listed
	Text    string
	Place   settings.CatalogPlace // where Text goes: tool, system or none
}

// listing is the catalog of one snapshot with what the load tool says of it.
type listing struct {
	snap *Snapshot
	Catalog
	names  []string
	schema json.RawMessage
}

// InTool reports whether Text belongs into the description of the load tool.
func (c Catalog) InTool() bool { return c.Place == settings.CatalogPlaceTool && c.Text != "" }

// InSystem reports whether Text belongs into the system prompt.
func (c Catalog) InSystem() bool { return c.Place == settings.CatalogPlaceSystem && c.Text != "" }

// shown reports whether there is a catalog at all, so that names may be listed.
func (c Catalog) shown() bool { return c.Place != settings.CatalogPlaceNone }

// CatalogEntry is one line of a catalog.
type CatalogEntry struct {
	Name          string `json:"name"`
	Description   string `json:"description"`
	Location      string `json:"location,omitempty"` // SKILL.md as the model may read it
	Compatibility string `json:"compatibility,omitempty"`
}

// toolTextMax is the longest tool description that providers take; a longer
// catalog goes to the system prompt (ruling 17).
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
	l := &listing{snap: snap, Catalog: s.catalog(snap)}
	for _, e := range l.Entries {
		l.names = append(l.names, e.Name)
	}
	l.schema = loadSchema(l.names, !s.enveloped(), l.shown())
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
	case set.Catalog.Place != settings.CatalogPlaceTool:
		return set.Catalog.Place
	case set.Tools.Load != "" && set.Activate.ByLoadTool() && s.granted(settings.ToolLoadSkill):
		return settings.CatalogPlaceTool
	case s.byReadFile() && s.granted(settings.ToolReadFile):
		return settings.CatalogPlaceSystem
	}
	return settings.CatalogPlaceNone
}

func (s *Session) catalog(snap *Snapshot) Catalog {
	set := s.cfg.Settings.Catalog
	c := Catalog{Place: s.place()}
	most := descMax
	if set.DescMax > 0 {
		most = min(most, set.DescMax)
	}
	for i := range snap.skills {
		sk := &snap.skills[i]
		if unlisted(sk, s.cfg.Grants.Denied) != "" {
			continue // hidden entirely, not listed and refused
		}
		e := CatalogEntry{Name: visible.Line(sk.Name), Description: clamp(sk.Description, most), Compatibility: clamp(sk.Head.Front.Compatibility, descMax)}
		if set.Format == settings.CatalogFormatPaths || s.byReadFile() {
			e.Location = s.location(sk)
		}
		c.Entries = append(c.Entries, e)
	}
	if set.Max > 0 && len(c.Entries) > set.Max {
		c.Omitted = len(c.Entries) - set.Max
		c.Entries = c.Entries[:set.Max]
	}
	if c.shown() {
		c.Text = s.catalogText(c)
		if c.Place == settings.CatalogPlaceTool && len(c.Text) > toolTextMax {
			c.Place = settings.CatalogPlaceSystem
		}
		if c.Place == settings.CatalogPlaceTool && len(c.Entries) == 0 {
			c.Place = settings.CatalogPlaceSystem // without skills there is no tool to say so
		}
	}
	return c
}

// location is SKILL.md as the model may read it. A path that does not survive
// in one line is given in the form that every file tool takes.
func (s *Session) location(sk *Skill) string {
	d := s.cfg.View.Dir(*sk)
	if d == "" {
		return ""
	}
	if d != visible.Escape(d) {
		d = path.Join(SkillsPath, sk.Slug)
	}
	return d + "/" + sk.Head.FileName
}

// denied reports whether the operator's grants deny a skill; Decide refuses it
// as well.
func (s *Session) denied(sk *Skill) bool { return denies(s.cfg.Grants.Denied, sk) }

func denies(denied []string, sk *Skill) bool {
	return len(denied) > 0 && (slices.Contains(denied, sk.Name) || slices.Contains(denied, sk.ID.String()))
}

// unlisted is the rule that keeps a skill out of every catalog, "" for none.
func unlisted(sk *Skill, denied []string) string {
	switch {
	case sk.State != Loaded:
		return "not-loaded"
	case !sk.ModelInvocable:
		return "disable-model-invocation"
	case denies(denied, sk):
		return "denied"
	}
	return ""
}

// clamp makes one line of at most most characters; where something is cut off,
// the last one is an ellipsis.
func clamp(s string, most int) string {
	const room = 16 // bytes of the longest escape or character
	cut := len(s) > room*most
	if cut {
		s = strings.ToValidUTF8(s[:room*most], "")
	}
	s = visible.Line(s)
	if !cut && utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	return strings.TrimRight(string(r[:min(len(r), most-1)]), " ") + "…"
}

func (s *Session) catalogText(c Catalog) string {
	if len(c.Entries) == 0 {
		if s.cfg.Settings.Catalog.Empty == settings.EmptyCatalogSayNone {
			return "No skills are configured."
		}
		return ""
	}
	var b strings.Builder
	b.WriteString(s.catalogIntro(c))
	switch s.cfg.Settings.Catalog.Format {
	case settings.CatalogFormatXML:
		xmlCatalog(&b, c.Entries)
	case settings.CatalogFormatJSON:
		j, _ := json.Marshal(struct { // plain data
			Skills  []CatalogEntry `json:"skills"`
			Omitted int            `json:"omitted,omitempty"`
		}{c.Entries, c.Omitted})
		b.Write(j)
		return b.String()
	case settings.CatalogFormatPaths:
		for _, e := range c.Entries {
			fmt.Fprintf(&b, "- %s: %s", markdown(e.Name), markdown(e.Description))
			if e.Location != "" {
				fmt.Fprintf(&b, " → read %s", markdown(e.Location))
			}
			b.WriteByte('\n')
		}
	default:
		for _, e := range c.Entries {
			fmt.Fprintf(&b, "- %s: %s\n", markdown(e.Name), markdown(e.Description))
		}
	}
	if c.Omitted > 0 {
		fmt.Fprintf(&b, "(%d more omitted)\n", c.Omitted)
	}
	return strings.TrimRight(b.String(), "\n")
}

// catalogIntro says what the list is and how a skill is used, in the words of
// the profile's tools: by reading a file where that activates, else by the load
// tool (B-018, B-042, B-043, E-050).
func (s *Session) catalogIntro(c Catalog) string {
	set := s.cfg.Settings
	if set.Catalog.Format == settings.CatalogFormatPaths {
		return "## Available Skills\n\n" +
			"You have access to specialized skills. To activate a skill, use the read_file\n" +
			"tool to read the skill's SKILL.md file at one of these paths, then follow the\n" +
			"instructions within. Resolve relative paths in a skill against the directory\n" +
			"that holds its SKILL.md:\n\n"
	}
	how := "Skills are ready-made instructions for certain tasks."
	if c.Place == settings.CatalogPlaceTool {
		return how + " Available skills:\n\n"
	}
	var use []string
	if set.Tools.Load != "" {
		use = append(use, fmt.Sprintf("when one fits the task, load it with %s", set.Tools.Load))
	}
	if set.Tools.Resource != "" {
		use = append(use, fmt.Sprintf("read a file it mentions with %s", set.Tools.Resource))
	}
	if len(use) > 0 {
		how += " " + strings.ToUpper(use[0][:1]) + strings.Join(use, "; ")[1:] + "."
	}
	return how + " Available skills:\n\n"
}

func xmlCatalog(b *strings.Builder, entries []CatalogEntry) {
	b.WriteString("<available_skills>\n")
	for _, e := range entries {
		fmt.Fprintf(b, "  <skill>\n    <name>%s</name>\n    <description>%s</description>\n", attribute(e.Name), attribute(e.Description))
		if e.Location != "" {
			fmt.Fprintf(b, "    <location>%s</location>\n", attribute(e.Location))
		}
		if e.Compatibility != "" {
			fmt.Fprintf(b, "    <compatibility>%s</compatibility>\n", attribute(e.Compatibility))
		}
		b.WriteString("  </skill>\n")
	}
	b.WriteString("</available_skills>\n")
}

// markdown keeps one line of untrusted text from ending its list item or
// opening one of our elements.
func markdown(s string) string {
	s, _ = neutralize(s)
	return strings.ReplaceAll(s, "`", "'")
}
