// Package catalog writes the text of a catalog of skills: a head, an entry for
// each skill, a foot, in each format and escaped for it. Who is in a catalog is
// not its business.
package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"metier/internal/promptescape"
	"metier/internal/termtext"
)

// Form is how a catalog is written: what the settings make of its format and
// place, and the names of the tools it speaks of, "" for those there are not.
type Form struct {
	XML, JSON, Paths bool // none: a Markdown list
	InTool           bool // it stands beside the load tool, which says how it is used
	Loadable         bool // a tool loads a skill by its name
	Load, Resource   string
	Search, List     string
}

// Entry is what is told of one skill, as JSON writes it. Its texts are
// anybody's, on one line each.
type Entry struct {
	Name          string `json:"name"`
	SkillID       string `json:"skillId,omitempty"`
	Description   string `json:"description,omitempty"`
	Location      string `json:"location,omitempty"`
	Compatibility string `json:"compatibility,omitempty"`
}

// Head says what the list is and how a skill is used, in the words of
// the profile's tools: by reading a file where that activates, else by the load
// tool.
func (f Form) Head() string {
	if f.Paths {
		return "## Available Skills\n\n" +
			"You have access to specialized skills. To activate a skill, use the read_file\n" +
			"tool to read the skill's SKILL.md file at one of these paths, then follow the\n" +
			"instructions within. Resolve relative paths in a skill against the directory\n" +
			"that holds its SKILL.md:\n\n"
	}
	how := "Skills are ready-made instructions for certain tasks."
	var use []string
	if f.Load != "" {
		use = append(use, fmt.Sprintf("when one fits the task, load it with %s", f.Load))
	}
	if f.Resource != "" {
		use = append(use, fmt.Sprintf("read a file it mentions with %s", f.Resource))
	}
	if len(use) > 0 && !f.InTool {
		how += " " + strings.ToUpper(use[0][:1]) + strings.Join(use, "; ")[1:] + "."
	}
	how += " Available skills:\n\n"
	switch {
	case f.XML:
		how += "<available_skills>\n"
	case f.JSON:
		how += `{"skills":[`
	}
	return how
}

// Entry writes one entry; bare leaves out all but name and, in XML, location.
func (f Form) Entry(e Entry, bare bool) string {
	switch {
	case f.XML:
		return xmlEntry(e, bare)
	case f.JSON:
		j, _ := json.Marshal(e) // plain data
		return string(j) + ","
	}
	text := "- " + promptescape.Markdown(e.Name)
	if e.SkillID != "" {
		text += " (" + promptescape.Markdown(e.SkillID) + ")"
	}
	if !bare {
		text += ": " + promptescape.Markdown(e.Description)
	}
	if f.Paths && e.Location != "" {
		text += " → read " + promptescape.Markdown(e.Location)
	}
	return text + "\n"
}

func xmlEntry(e Entry, bare bool) string {
	var b strings.Builder
	if bare {
		fmt.Fprintf(&b, `  <skill name="%s"`, promptescape.Attribute(e.Name))
		if e.Location != "" {
			fmt.Fprintf(&b, ` location="%s"`, promptescape.Attribute(e.Location))
		}
		b.WriteString("/>\n")
		return b.String()
	}
	fmt.Fprintf(&b, "  <skill>\n    <name>%s</name>\n", promptescape.Attribute(e.Name))
	if e.SkillID != "" {
		fmt.Fprintf(&b, "    <skillId>%s</skillId>\n", promptescape.Attribute(e.SkillID))
	}
	fmt.Fprintf(&b, "    <description>%s</description>\n", promptescape.Attribute(e.Description))
	if e.Location != "" {
		fmt.Fprintf(&b, "    <location>%s</location>\n", promptescape.Attribute(e.Location))
	}
	if e.Compatibility != "" {
		fmt.Fprintf(&b, "    <compatibility>%s</compatibility>\n", promptescape.Attribute(e.Compatibility))
	}
	b.WriteString("  </skill>\n")
	return b.String()
}

// Foot ends the list and says how many skills it leaves out and how they are
// reached. bare is a list of names alone.
func (f Form) Foot(omitted int, bare bool) string {
	more := ""
	switch {
	case omitted > 0 && f.Search != "":
		more = "find them with " + f.Search
	case omitted > 0 && f.List != "":
		more = "page through them with " + f.List
	case omitted > 0 && f.Loadable:
		more = "each can be loaded by its exact name"
	case bare && f.Search != "":
		more = f.Search + " finds and describes them"
	case bare && f.List != "":
		more = f.List + " describes them"
	}
	if f.JSON {
		foot := "]"
		if omitted > 0 {
			foot += fmt.Sprintf(`,"omitted":%d`, omitted)
		}
		if more != "" {
			j, _ := json.Marshal(more) // plain data
			foot += `,"more":` + string(j)
		}
		return foot + "}"
	}
	foot := ""
	if f.XML {
		foot = "</available_skills>\n"
	}
	switch {
	case omitted > 0 && more != "":
		foot += fmt.Sprintf("(%d more omitted; %s)\n", omitted, more)
	case omitted > 0:
		foot += fmt.Sprintf("(%d more omitted)\n", omitted)
	case more != "":
		foot += "(Names only; " + more + ".)\n"
	}
	return foot
}

// Greatest returns the greatest number up to high that fits, where low does and
// every number below one that fits does. The last call of fits is with it.
func Greatest(low, high int, fits func(int) bool) int {
	last := -1
	for low < high {
		mid := (low + high + 1) / 2
		if last = mid; fits(mid) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	if last != low {
		fits(low)
	}
	return low
}

// Clamp makes one line of at most most characters. A line that is cut ends with
// an ellipsis.
func Clamp(s string, most int) string {
	const widest = 16 // bytes of the longest escape or character
	cut := len(s) > widest*most
	if cut {
		s = strings.ToValidUTF8(s[:widest*most], "")
	}
	s = termtext.Line(s)
	if !cut && utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)
	return strings.TrimRight(string(r[:min(len(r), most-1)]), " ") + "…"
}
