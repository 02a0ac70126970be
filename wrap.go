package metier

import (
	"fmt"
	"path"
	"strings"

	"metier/internal/wrap"
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
