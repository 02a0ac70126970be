package install

import (
	"regexp"
	"strings"

	"metier"
	"metier/internal/confusable"
	"metier/internal/plural"
	"metier/internal/skillname"
	"metier/internal/termtext"
)

// maxRequirements limits the requirements of one skill.
const maxRequirements = 256

// requirement is a skill that another one needs: an item of metadata.requires.
type requirement struct {
	text     string
	name     string  // of the skill, in the same source or installed; "" with from
	from     *Source // another source that the requirement names
	versions versions
}

// sourceForm limits the sources of requirements to text that means the same in every shell.
var sourceForm = regexp.MustCompile(`^[A-Za-z0-9._/@#:+-]+$`)

// requirementsOf reads the requirements of a skill.
func requirementsOf(sk metier.Skill) ([]requirement, error) {
	texts := sk.Head.Front.Requires
	if len(texts) > maxRequirements {
		return nil, badRequirement("it requires %s; at most %d are allowed", plural.Of(len(texts), "skill"), maxRequirements)
	}
	var out []requirement
	for _, text := range texts {
		r, err := parseRequirement(text)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func badRequirement(format string, args ...any) error {
	return metier.Fieldf(metier.Invalid, "Request.SkipRequirements", "requirement_invalid",
		"ask the author of the skill to fix metadata.requires, or set Request.SkipRequirements to install it without the skills that it requires", format, args...)
}

// parseRequirement reads an item such as "pdf", "pdf >=1.2 <2", or "acme/skills#pdf".
func parseRequirement(text string) (requirement, error) {
	first, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	r := requirement{text: text}
	var err error
	if r.versions, err = parseVersions(rest); err != nil {
		return r, badRequirement("metadata.requires contains %s: %s", termtext.Quote(text), termtext.Line(cutText(err.Error())))
	}
	if strings.ContainsAny(first, "/:") {
		src, err := Parse(first, "/", "")
		if err != nil || src.Local() || !sourceForm.MatchString(first) {
			return r, badRequirement("metadata.requires contains %s, which is not a source of skills on the web or in a repository", termtext.Quote(text))
		}
		r.from = &src
		return r, nil
	}
	r.name = first
	if bad := skillname.Problems(first, false, false); len(bad) > 0 || checkName(first) != nil {
		return r, badRequirement("metadata.requires contains %s, which is not the name of a skill", termtext.Quote(text))
	}
	if mixed := confusable.Mixed(first); mixed != "" {
		return r, badRequirement("metadata.requires contains %s: %s", termtext.Quote(text), mixed)
	}
	return r, nil
}

// refused is a requirement that keeps a skill from being installed.
type refused struct {
	by  string // the skill that has it
	err *metier.Error
}

// versionOf returns the version that a skill declares, or "" if it is not a version.
func versionOf(sk metier.Skill) string {
	for _, f := range sk.Head.Front.Metadata {
		if v := strings.TrimSpace(f.Value.Text); f.Key == "version" {
			if _, ok := parseVersion(v); ok {
				return v
			}
		}
	}
	return ""
}

// versionText describes a version.
func versionText(v string) string {
	if v == "" {
		return "a skill without a version"
	}
	return "version " + v
}
