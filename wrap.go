package metier

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"metier/internal/wrap"
	"metier/settings"
)

// block is what the model reads of an activated skill: one element that names
// skill and source, holds the content, the folder, the relative-path rule and
// a capped list of files.
type block struct {
	name, source, dir string
	tier              string
	content           string
	digest            string // "" where the setting keeps it out of the text
	resources         []Resource
	most              int // listed resources; 0 lists none
}

// render returns the element and how many look-alike tags of the content were
// neutralized.
func (b block) render() (string, int) {
	content, n := wrap.Neutralize(b.content)
	var s strings.Builder
	s.Grow(len(content) + 512 + 80*min(b.most, len(b.resources)))
	fmt.Fprintf(&s, `<skill_context name="%s"`, wrap.Attribute(b.name))
	if b.source != "" {
		fmt.Fprintf(&s, ` source="%s"`, wrap.Attribute(b.source))
	}
	if b.tier == "third_party" {
		s.WriteString(` origin="third-party, untrusted"`)
	}
	if b.digest != "" {
		fmt.Fprintf(&s, ` digest="%s"`, wrap.Attribute(b.digest))
	}
	s.WriteString(">\n")
	s.WriteString(content)
	if !strings.HasSuffix(content, "\n") {
		s.WriteByte('\n')
	}
	if b.dir != "" {
		fmt.Fprintf(&s, "\nSkill directory: %s\nRelative paths in this skill resolve against that directory unless stated otherwise.\n", wrap.Plain(b.dir))
	}
	b.list(&s)
	s.WriteString("</skill_context>\n")
	return s.String(), n
}

func (b block) list(s *strings.Builder) {
	if b.most == 0 || len(b.resources) == 0 {
		return
	}
	s.WriteString("\nFiles of this skill, read only when needed:\n")
	for i, r := range b.resources {
		if i == b.most {
			fmt.Fprintf(s, "- and %d more\n", len(b.resources)-i)
			break
		}
		fmt.Fprintf(s, "- %s (%s, %s, %d bytes", wrap.Plain(r.Path), r.Kind, contentKind(r.Text), r.Size)
		if b.digest != "" {
			fmt.Fprintf(s, ", %s", r.Digest)
		}
		s.WriteString(")\n")
	}
	s.WriteString("Documents elsewhere in the workspace are not files of this skill; read them as workspace files.\n")
}

// resourceText is what the model reads of one file of a skill, and how many
// look-alike tags were neutralized.
func resourceText(r Reading) (string, int) {
	var s strings.Builder
	fmt.Fprintf(&s, `<skill_resource skill="%s" path="%s" kind="%s" size="%d"`, wrap.Attribute(r.Skill), wrap.Attribute(path.Clean(r.Path)), r.Kind, r.Size)
	if r.Truncated {
		fmt.Fprintf(&s, ` truncated="true" shown="%d"`, len(r.Text))
	}
	if r.Encoding != "" {
		fmt.Fprintf(&s, ` encoding="%s"`, r.Encoding)
	}
	if r.Matches != nil && !*r.Matches {
		fmt.Fprintf(&s, ` changed="true" indexed-size="%d"`, r.IndexedSize)
	}
	if r.Late {
		s.WriteString(` late="true"`)
	}
	content, n := wrap.Neutralize(r.Text)
	s.Grow(len(content) + 128)
	s.WriteString(">\n")
	s.WriteString(content)
	if !strings.HasSuffix(content, "\n") {
		s.WriteByte('\n')
	}
	s.WriteString("</skill_resource>\n")
	for _, d := range r.Diagnostics {
		fmt.Fprintf(&s, "Note: %s: %s\n", d.Code, d.Detail)
	}
	return s.String(), n
}

// form is how a catalog is written: what the settings make of its format and
// place, and the names of the tools it speaks of.
type form struct {
	xml, json, paths bool // none: a Markdown list
	inTool           bool // it stands beside the load tool, which says how it is used
	loadable         bool
	list             string // the tool that lists skills, or ""
	tools            settings.Tools
}

// head says what the list is and how a skill is used, in the words of
// the profile's tools: by reading a file where that activates, else by the load
// tool (B-018, B-042, B-043, E-050).
func (f form) head() string {
	if f.paths {
		return "## Available Skills\n\n" +
			"You have access to specialized skills. To activate a skill, use the read_file\n" +
			"tool to read the skill's SKILL.md file at one of these paths, then follow the\n" +
			"instructions within. Resolve relative paths in a skill against the directory\n" +
			"that holds its SKILL.md:\n\n"
	}
	how := "Skills are ready-made instructions for certain tasks."
	var use []string
	if f.tools.Load != "" {
		use = append(use, fmt.Sprintf("when one fits the task, load it with %s", f.tools.Load))
	}
	if f.tools.Resource != "" {
		use = append(use, fmt.Sprintf("read a file it mentions with %s", f.tools.Resource))
	}
	if len(use) > 0 && !f.inTool {
		how += " " + strings.ToUpper(use[0][:1]) + strings.Join(use, "; ")[1:] + "."
	}
	how += " Available skills:\n\n"
	switch {
	case f.xml:
		how += "<available_skills>\n"
	case f.json:
		how += `{"skills":[`
	}
	return how
}

// entry is one entry in the form of the catalog, escaped for it.
func (f form) entry(e CatalogEntry, rung string) string {
	switch {
	case f.xml:
		return xmlEntry(e, rung)
	case f.json:
		j, _ := json.Marshal(e) // plain data
		return string(j) + ","
	}
	text := "- " + wrap.Markdown(e.Name)
	if rung != rungNames {
		text += ": " + wrap.Markdown(e.Description)
	}
	if f.paths && e.Location != "" {
		text += " → read " + wrap.Markdown(e.Location)
	}
	return text + "\n"
}

func xmlEntry(e CatalogEntry, rung string) string {
	var b strings.Builder
	if rung == rungNames {
		fmt.Fprintf(&b, `  <skill name="%s"`, wrap.Attribute(e.Name))
		if e.Location != "" {
			fmt.Fprintf(&b, ` location="%s"`, wrap.Attribute(e.Location))
		}
		b.WriteString("/>\n")
		return b.String()
	}
	fmt.Fprintf(&b, "  <skill>\n    <name>%s</name>\n    <description>%s</description>\n", wrap.Attribute(e.Name), wrap.Attribute(e.Description))
	if e.Location != "" {
		fmt.Fprintf(&b, "    <location>%s</location>\n", wrap.Attribute(e.Location))
	}
	if e.Compatibility != "" {
		fmt.Fprintf(&b, "    <compatibility>%s</compatibility>\n", wrap.Attribute(e.Compatibility))
	}
	b.WriteString("  </skill>\n")
	return b.String()
}

// foot ends the list and says how many skills it leaves out and how
// they are reached.
func (f form) foot(c Catalog) string {
	more := ""
	switch {
	case c.Omitted > 0 && c.Search != "":
		more = "find them with " + c.Search
	case c.Omitted > 0 && f.list != "":
		more = "page through them with " + f.list
	case c.Omitted > 0 && f.loadable:
		more = "each can be loaded by its exact name"
	case c.Rung == rungNames && c.Search != "":
		more = c.Search + " finds and describes them"
	case c.Rung == rungNames && f.list != "":
		more = f.list + " describes them"
	}
	if f.json {
		foot := "]"
		if c.Omitted > 0 {
			foot += fmt.Sprintf(`,"omitted":%d`, c.Omitted)
		}
		if more != "" {
			j, _ := json.Marshal(more) // plain data
			foot += `,"more":` + string(j)
		}
		return foot + "}"
	}
	foot := ""
	if f.xml {
		foot = "</available_skills>\n"
	}
	switch {
	case c.Omitted > 0 && more != "":
		foot += fmt.Sprintf("(%d more omitted; %s)\n", c.Omitted, more)
	case c.Omitted > 0:
		foot += fmt.Sprintf("(%d more omitted)\n", c.Omitted)
	case more != "":
		foot += "(Names only; " + more + ".)\n"
	}
	return foot
}
