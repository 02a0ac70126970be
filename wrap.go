package metier

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"
)

// tags are the elements metier wraps text in. Text that comes from a skill, a
// resource or a file may not open or close one of them, or it could pass for
// another skill's or for nobody's.
var tags = regexp.MustCompile(`(?i)<([\s/\x{200b}-\x{200f}\x{2060}\x{feff}]*)(skill_context|skill_content|skill_resources|skill_resource|skill_catalog|available_skills|system-reminder|workspace_file)`)

// neutralize makes untrusted text safe to stand inside one of our elements by
// escaping the angle bracket of each look-alike, and counts them. All other
// bytes stay as they are.
func neutralize(s string) (string, int) {
	n := len(tags.FindAllStringIndex(s, -1))
	if n == 0 {
		return s, 0
	}
	return tags.ReplaceAllString(s, "&lt;$1$2"), n
}

// attribute escapes a value for a double-quoted attribute: markup, quotes,
// line breaks and control characters (A-116).
func attribute(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '&':
			b.WriteString("&amp;")
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '"':
			b.WriteString("&quot;")
		case r == '\'':
			b.WriteString("&#39;")
		case r == '\n' || r == '\r' || r == '\t':
			b.WriteByte(' ')
		default:
			b.WriteString(escapeRune(r))
		}
	}
	return b.String()
}

// escapeRune shows a character that must not reach a terminal or hide in a
// line: controls, bidirectional overrides, zero-width and tag characters.
func escapeRune(r rune) string {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return fmt.Sprintf(`\x%02x`, r)
	case r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff, r >= 0xe0000 && r <= 0xe007f:
		return fmt.Sprintf(`\u{%x}`, r)
	}
	return string(r)
}

// oneLine makes untrusted text one printable line.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, unicode.IsSpace), " ")
	var b strings.Builder
	for _, r := range s {
		b.WriteString(escapeRune(r))
	}
	return b.String()
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
		fmt.Fprintf(&s, "\nSkill directory: %s\nRelative paths in this skill resolve against that directory unless stated otherwise.\n", attribute(b.dir))
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
		fmt.Fprintf(s, "- %s (%s, %s, %d bytes", attribute(r.Path), r.Kind, contentKind(r.Text), r.Size)
		if b.digest != "" {
			fmt.Fprintf(s, ", %s", r.Digest)
		}
		s.WriteString(")\n")
	}
	s.WriteString("Documents elsewhere in the workspace are not files of this skill; read them as workspace files.\n")
}

// resourceText is what the model reads of one file of a skill.
func resourceText(r Reading) string {
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
	content, _ := neutralize(r.Text)
	s.WriteString(">\n" + content)
	if !strings.HasSuffix(content, "\n") {
		s.WriteByte('\n')
	}
	s.WriteString("</skill_resource>\n")
	for _, d := range r.Diagnostics {
		fmt.Fprintf(&s, "Note: %s: %s\n", d.Code, d.Detail)
	}
	return s.String()
}
