package metier

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"metier/internal/visible"
	"metier/settings"
)

// elements are what metier wraps text in. Text that comes from a skill, a
// resource or a file may not open or close one of them, or it could pass for
// another skill's or for nobody's.
var elements = []string{"skill_context", "skill_content", "skill_resources", "skill_resource", "skill_catalog", "available_skills",
	"system-reminder", "workspace_file"}

// neutralize makes untrusted text safe to stand inside one of our elements by
// escaping the angle bracket of each look-alike, and counts them: any case,
// with white space, slashes or invisible characters anywhere, and the wide
// bracket. All other bytes stay as they are.
func neutralize(s string) (string, int) {
	var b strings.Builder
	n, done := 0, 0
	next := func(s string) int { return strings.IndexByte(s, '<') }
	if strings.Contains(s, "＜") || strings.Contains(s, "﹤") {
		next = func(s string) int { return strings.IndexAny(s, "<＜﹤") }
	}
	for at := 0; at < len(s); {
		i := next(s[at:])
		if i < 0 {
			break
		}
		at += i
		_, size := utf8.DecodeRuneInString(s[at:])
		if opensElement(s[at+size:]) {
			b.WriteString(s[done:at] + "&lt;")
			n, done = n+1, at+size
		}
		at += size
	}
	if n == 0 {
		return s, 0
	}
	b.WriteString(s[done:])
	return b.String(), n
}

// opensElement reports whether the text after an angle bracket reads as the
// name of one of our elements.
func opensElement(s string) bool {
	if plain := strings.TrimLeft(s, "/ "); plain != "" && plain[0] < utf8.RuneSelf && plain[0] > ' ' && !strings.ContainsRune("sawSAW", rune(plain[0])) {
		return false // an ordinary tag
	}
	const most = 64 // invisible characters in a row that are looked through
	var name []rune
	skipped := 0
	for _, r := range s {
		switch {
		case len(name) == 0 && (unicode.IsSpace(r) || r == '/'), visible.Hidden(r), unicode.Is(unicode.Mn, r):
			if skipped++; skipped > most {
				return true // nobody writes this for an honest reason
			}
			continue
		}
		skipped = 0
		if name == nil {
			name = make([]rune, 0, 24)
		}
		name = append(name, unicode.ToLower(foldWide(r)))
		open := false
		for _, e := range elements {
			if len(name) <= len(e) && string(name) == e[:len(name)] {
				if len(name) == len(e) {
					return true
				}
				open = true
			}
		}
		if !open {
			return false
		}
	}
	return false
}

// foldWide maps full-width and look-alike forms that read as ASCII.
func foldWide(r rune) rune {
	switch {
	case r >= 0xff01 && r <= 0xff5e:
		return r - 0xfee0
	case r == 0x17f: // long s
		return 's'
	case r == 0x212a: // kelvin
		return 'k'
	}
	return r
}

// attribute escapes a value for a double-quoted attribute: markup, quotes,
// line breaks, control and invisible characters (A-116).
func attribute(s string) string {
	return markup.Replace(visible.Escape(blanks.Replace(s)))
}

var (
	markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")
	blanks = strings.NewReplacer("\n", " ", "\r", " ", "\t", " ")
)

// plain makes an untrusted path fit to stand in a line inside an element.
func plain(s string) string {
	s, _ = neutralize(visible.Escape(s))
	return s
}

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
	content, n := neutralize(b.content)
	var s strings.Builder
	s.Grow(len(content) + 512 + 80*min(b.most, len(b.resources)))
	fmt.Fprintf(&s, `<skill_context name="%s"`, attribute(b.name))
	if b.source != "" {
		fmt.Fprintf(&s, ` source="%s"`, attribute(b.source))
	}
	if b.tier == "third_party" {
		s.WriteString(` origin="third-party, untrusted"`)
	}
	if b.digest != "" {
		fmt.Fprintf(&s, ` digest="%s"`, attribute(b.digest))
	}
	s.WriteString(">\n")
	s.WriteString(content)
	if !strings.HasSuffix(content, "\n") {
		s.WriteByte('\n')
	}
	if b.dir != "" {
		fmt.Fprintf(&s, "\nSkill directory: %s\nRelative paths in this skill resolve against that directory unless stated otherwise.\n", plain(b.dir))
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
		fmt.Fprintf(s, "- %s (%s, %s, %d bytes", plain(r.Path), r.Kind, contentKind(r.Text), r.Size)
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
	fmt.Fprintf(&s, `<skill_resource skill="%s" path="%s" kind="%s" size="%d"`, attribute(r.Skill), attribute(path.Clean(r.Path)), r.Kind, r.Size)
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
	content, n := neutralize(r.Text)
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
	text := "- " + markdown(e.Name)
	if rung != rungNames {
		text += ": " + markdown(e.Description)
	}
	if f.paths && e.Location != "" {
		text += " → read " + markdown(e.Location)
	}
	return text + "\n"
}

func xmlEntry(e CatalogEntry, rung string) string {
	var b strings.Builder
	if rung == rungNames {
		fmt.Fprintf(&b, `  <skill name="%s"`, attribute(e.Name))
		if e.Location != "" {
			fmt.Fprintf(&b, ` location="%s"`, attribute(e.Location))
		}
		b.WriteString("/>\n")
		return b.String()
	}
	fmt.Fprintf(&b, "  <skill>\n    <name>%s</name>\n    <description>%s</description>\n", attribute(e.Name), attribute(e.Description))
	if e.Location != "" {
		fmt.Fprintf(&b, "    <location>%s</location>\n", attribute(e.Location))
	}
	if e.Compatibility != "" {
		fmt.Fprintf(&b, "    <compatibility>%s</compatibility>\n", attribute(e.Compatibility))
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

// markdown keeps one line of untrusted text from ending its list item or
// opening one of our elements.
func markdown(s string) string {
	s, _ = neutralize(s)
	return strings.ReplaceAll(s, "`", "'")
}
