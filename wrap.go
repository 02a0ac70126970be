package metier

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"metier/internal/visible"
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
