// Package catalog formats a catalog of skills: a header, an entry for each skill, and a footer,
// escaped for each format. It does not decide which skills are listed.
package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"metier/internal/promptescape"
	"metier/internal/termtext"
)

// Form is the format of a catalog according to the settings, with the names of the tools it
// mentions. A name is "" if the tool is not available.
type Form struct {
	XML, JSON, Paths bool // none set: a Markdown list
	InTool           bool // part of the load tool, which describes its own use
	Loadable         bool // a tool loads a skill by its name
	Load, Resource   string
	Search, List     string
}

// Entry is what a catalog shows of a skill, in the form of its JSON. Its texts are untrusted, on
// one line each.
type Entry struct {
	Name          string `json:"name"`
	SkillID       string `json:"skillId,omitempty"`
	Description   string `json:"description,omitempty"`
	Location      string `json:"location,omitempty"`
	Compatibility string `json:"compatibility,omitempty"`
}

// Head returns the introduction: what the list is and how to use a skill with the profile's tools.
// That is reading a file if reading activates the skill, otherwise the load tool.
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

// Entry formats an entry. bare includes only the name and, in XML, the location.
func (f Form) Entry(e Entry, bare bool) string {
	switch {
	case f.XML:
		return xmlEntry(e, bare)
	case f.JSON:
		j, _ := json.Marshal(e) // always encodes
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

// Foot returns the end of the list: how many skills it omits and how to find them. bare is for a
// list of names only.
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
			j, _ := json.Marshal(more) // always encodes
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

// Greatest returns the greatest number up to high that fits. low must fit, and so must every number
// below one that fits. The last call of fits has the result as its argument.
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

// Clamp returns s on one line of at most most characters. Shortened text ends with an ellipsis.
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
