package promptescape

import (
	"fmt"
	"strings"
)

// Skill is an activated skill as shown to the model: one element with the skill and source, the
// content, the folder, the relative-path rule, and a list of files.
type Skill struct {
	Name, Source, Dir string
	ThirdParty        bool
	Content           string
	Digest            string // "" where the setting keeps digests out of the text
	Files             []File
	More              int // number of files that are not listed
}

// File is one line of the list.
type File struct {
	Path, Kind, Content string
	Size                int64
	Digest              string
}

// Text returns the element and how many look-alike tags in the content were neutralized.
func (b Skill) Text() (string, int) {
	content, n := Neutralize(b.Content)
	var s strings.Builder
	s.Grow(len(content) + 512 + 80*len(b.Files))
	fmt.Fprintf(&s, `<skill_context name="%s"`, Attribute(b.Name))
	if b.Source != "" {
		fmt.Fprintf(&s, ` source="%s"`, Attribute(b.Source))
	}
	if b.ThirdParty {
		s.WriteString(` origin="third-party, untrusted"`)
	}
	if b.Digest != "" {
		fmt.Fprintf(&s, ` digest="%s"`, Attribute(b.Digest))
	}
	s.WriteString(">\n")
	s.WriteString(content)
	if !strings.HasSuffix(content, "\n") {
		s.WriteByte('\n')
	}
	if b.Dir != "" {
		fmt.Fprintf(&s, "\nSkill directory: %s\nRelative paths in this skill resolve against that directory unless stated otherwise.\n", Plain(b.Dir))
	}
	b.list(&s)
	s.WriteString("</skill_context>\n")
	return s.String(), n
}

func (b Skill) list(s *strings.Builder) {
	if len(b.Files) == 0 {
		return
	}
	s.WriteString("\nFiles of this skill, read only when needed:\n")
	for _, r := range b.Files {
		fmt.Fprintf(s, "- %s (%s, %s, %d bytes", Plain(r.Path), r.Kind, r.Content, r.Size)
		if b.Digest != "" {
			fmt.Fprintf(s, ", %s", r.Digest)
		}
		s.WriteString(")\n")
	}
	if b.More > 0 {
		fmt.Fprintf(s, "- and %d more\n", b.More)
	}
	s.WriteString("Documents elsewhere in the workspace are not files of this skill; read them as workspace files.\n")
}

// Resource is a file of a skill as shown to the model.
type Resource struct {
	Skill, Path, Kind string
	Size              int64
	Offset            int64  // of Content in the file
	Cut               bool   // the file continues after Content
	Encoding          string // of Content; "" is text
	Changed           bool   // differs from the indexed file, which had WasSize bytes
	WasSize           int64
	Late              bool // did not exist when the skill was indexed
	Content           string
	Notes             []string
}

// Text returns the element and how many look-alike tags in the content were neutralized.
func (r Resource) Text() (string, int) {
	var s strings.Builder
	fmt.Fprintf(&s, ` skill="%s" path="%s" kind="%s" size="%d"`, Attribute(r.Skill), Attribute(r.Path), r.Kind, r.Size)
	if r.Offset > 0 {
		fmt.Fprintf(&s, ` offset="%d"`, r.Offset)
	}
	if r.Cut {
		fmt.Fprintf(&s, ` truncated="true" shown="%d"`, len(r.Content))
	}
	if r.Encoding != "" {
		fmt.Fprintf(&s, ` encoding="%s"`, r.Encoding)
	}
	if r.Changed {
		fmt.Fprintf(&s, ` changed="true" indexed-size="%d"`, r.WasSize)
	}
	if r.Late {
		s.WriteString(` late="true"`)
	}
	text, n := Element("skill_resource", s.String(), r.Content)
	for _, note := range r.Notes {
		text += "Note: " + note + "\n"
	}
	return text, n
}
