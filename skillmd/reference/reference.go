// Package reference judges a skill as skills-ref 0.1.0 does, the validator that the Agent Skills specification names, with its
// oddities: the frontmatter ends at the second --- wherever that stands, a byte order mark is refused, flow lists are refused,
// nested metadata reads as Python prints it. Nobody else should read a skill this way; package skillmd follows the
// specification. docs/internal/conformance.md lists the differences.
//
// Messages are those of skills-ref, except what follows "Invalid YAML in frontmatter: ". Where skills-ref ends with an
// exception, the functions here return an error.
package reference

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"metier/internal/nfkc"
	"metier/internal/yaml"
)

// The limits of skills-ref, in characters.
const (
	maxName          = 64
	maxDescription   = 1024
	maxCompatibility = 500
)

// Skill is a folder to be judged.
type Skill struct {
	Path string // as pathlib prints it; used in messages
	base string
}

// At names a skill by its folder, or by the path of its SKILL.md in any letter case. A relative path is looked up in base; base
// "" is the working folder.
func At(base, path string) Skill {
	s := Skill{Path: pure(path), base: base}
	if strings.EqualFold(s.name(), "skill.md") {
		if info, err := os.Stat(s.place()); err == nil && info.Mode().IsRegular() {
			s.Path = parent(s.Path)
		}
	}
	return s
}

// place is where the operating system finds the path.
func (s Skill) place() string {
	if filepath.IsAbs(s.Path) {
		return s.Path
	}
	return filepath.Join(s.base, s.Path)
}

// name is the last part of the path as it was given: nothing for ".", ".." for "..".
func (s Skill) name() string {
	if s.Path == "." || s.Path == string(filepath.Separator) {
		return ""
	}
	return s.Path[strings.LastIndexByte(s.Path, filepath.Separator)+1:]
}

// Exists reports whether anything is at the path: the command of skills-ref refuses its arguments otherwise.
func (s Skill) Exists() bool {
	_, err := os.Stat(s.place())
	return err == nil
}

// Find gives the path of the SKILL.md in a folder, else of its skill.md, else "". No other spelling counts.
func Find(dir string) string {
	for _, name := range []string{"SKILL.md", "skill.md"} {
		p := filepath.Join(dir, name)
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return ""
}

// find is Find, with an error for a folder that cannot be searched, on which skills-ref ends with an exception.
func (s Skill) find() (string, error) {
	file := Find(s.place())
	if file == "" {
		if _, err := os.Stat(filepath.Join(s.place(), "SKILL.md")); os.IsPermission(err) {
			return "", err
		}
	}
	return file, nil
}

// Validate gives the messages of skills-ref in its order; none means that the skill is valid.
func (s Skill) Validate() ([]string, error) {
	info, err := os.Stat(s.place())
	switch {
	case err != nil && os.IsPermission(err):
		return nil, err
	case err != nil:
		return []string{"Path does not exist: " + s.Path}, nil
	case !info.IsDir():
		return []string{"Not a directory: " + s.Path}, nil
	}
	file, err := s.find()
	switch {
	case err != nil:
		return nil, err
	case file == "":
		return []string{"Missing required file: SKILL.md"}, nil
	}
	content, err := read(file)
	if err != nil {
		return nil, err
	}
	f, message, err := parse(content)
	switch {
	case err != nil:
		return nil, err
	case message != "":
		return []string{message}, nil
	}
	return f.problems(s.name()), nil
}

var allowed = []string{"allowed-tools", "compatibility", "description", "license", "metadata", "name"}

// problems are the rules about fields.
func (f fields) problems(folder string) []string {
	var out, extra []string
	for _, e := range f {
		if !slices.Contains(allowed, e.Key.Text) {
			extra = append(extra, e.Key.Text)
		}
	}
	if len(extra) > 0 {
		slices.Sort(extra)
		out = append(out, fmt.Sprintf("Unexpected fields in frontmatter: %s. Only ['%s'] are allowed.",
			strings.Join(extra, ", "), strings.Join(allowed, "', '")))
	}
	if name := f.get("name"); name == nil {
		out = append(out, "Missing required field in frontmatter: name")
	} else {
		out = append(out, nameProblems(name, folder)...)
	}
	switch d := f.get("description"); {
	case d == nil:
		out = append(out, "Missing required field in frontmatter: description")
	case blank(d):
		out = append(out, "Field 'description' must be a non-empty string")
	default:
		out = append(out, tooLong("Description", d.Text, maxDescription)...)
	}
	if c := f.get("compatibility"); c != nil {
		if c.Kind != yaml.Scalar {
			return append(out, "Field 'compatibility' must be a string")
		}
		out = append(out, tooLong("Compatibility", c.Text, maxCompatibility)...)
	}
	return out
}

func tooLong(what, text string, most int) []string {
	if n := utf8.RuneCountInString(text); n > most {
		return []string{fmt.Sprintf("%s exceeds %d character limit (%d chars)", what, most, n)}
	}
	return nil
}

func nameProblems(n *yaml.Node, folder string) []string {
	if blank(n) {
		return []string{"Field 'name' must be a non-empty string"}
	}
	var out []string
	name := nfkc.String(strip(n.Text))
	out = append(out, tooLong("Skill name '"+name+"'", name, maxName)...)
	if name != strings.ToLower(name) {
		out = append(out, "Skill name '"+name+"' must be lowercase")
	}
	if strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-") {
		out = append(out, "Skill name cannot start or end with a hyphen")
	}
	if strings.Contains(name, "--") {
		out = append(out, "Skill name cannot contain consecutive hyphens")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r != '-' && !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
		out = append(out, "Skill name '"+name+"' contains invalid characters. Only letters, digits, and hyphens are allowed.")
	}
	if nfkc.String(folder) != name {
		out = append(out, "Directory name '"+folder+"' must match skill name '"+name+"'")
	}
	return out
}

// Prompt is the block of available skills that to-prompt prints, without the last line end. A name and a description are
// escaped for XML, a path is not. The first skill that cannot be read ends it.
func Prompt(skills []Skill) (string, error) {
	var b strings.Builder
	b.WriteString("<available_skills>\n")
	for _, s := range skills {
		p, err := s.Properties()
		if err != nil {
			return "", err
		}
		dir, err := filepath.Abs(s.place())
		if err != nil {
			return "", err
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		for _, e := range [][2]string{{"name", escape(p.Name)}, {"description", escape(p.Description)}, {"location", Find(dir)}} {
			if e[0] == "name" {
				b.WriteString("<skill>\n")
			}
			fmt.Fprintf(&b, "<%[1]s>\n%[2]s\n</%[1]s>\n", e[0], e[1])
		}
		b.WriteString("</skill>\n")
	}
	b.WriteString("</available_skills>")
	return b.String(), nil
}

// escape writes the five characters as Python's html.escape does.
func escape(s string) string {
	return strings.NewReplacer("&#39;", "&#x27;", "&#34;", "&quot;").Replace(html.EscapeString(s))
}
