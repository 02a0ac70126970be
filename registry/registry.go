// Package registry has the shapes of skill-registry.json: the skills of one
// moment, as the record keeps them and artifacts show them.
package registry

import (
	"encoding/json"
	"fmt"
	"slices"

	"metier/skillmd"
)

// List is the list of skills at one moment, in the shape of
// skill-registry.json. Type, runs and times are the
// artifact's.
type List struct {
	SkillsRoot        string               `json:"skillsRoot"`
	SandboxSkillsRoot string               `json:"sandboxSkillsRoot"`
	Roots             []Root               `json:"roots"`
	Skills            []Skill              `json:"skills"`
	Diagnostics       []skillmd.Diagnostic `json:"diagnostics"`
	Others            []Other              `json:"others"` // what was found and is not in Skills
}

// Root is one mounted root.
type Root struct {
	Label string `json:"label"`
	Tier  string `json:"tier"`
	Path  string `json:"path"`
}

// Other is an entry that is not offered.
type Other struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	State      string `json:"state"`
	ShadowedBy string `json:"shadowedBy,omitempty"`
}

// Skill is one skill of the registry.
type Skill struct {
	ID               string               `json:"id"`
	Name             string               `json:"name"`
	Description      string               `json:"description"`
	Tier             string               `json:"tier"`
	State            string               `json:"state"`
	SkillPath        string               `json:"skillPath"`
	SkillDir         string               `json:"skillDir"`
	SandboxSkillPath string               `json:"sandboxSkillPath"`
	SandboxSkillDir  string               `json:"sandboxSkillDir"`
	Digest           string               `json:"digest"`
	Tree             string               `json:"tree"`
	Indexed          bool                 `json:"indexed"`
	Resources        []Resource           `json:"resources"`
	Frontmatter      json.RawMessage      `json:"frontmatter"`
	Diagnostics      []skillmd.Diagnostic `json:"diagnostics"`
}

// Resource is one file of a skill in the registry.
type Resource struct {
	Path                string               `json:"path"`
	Kind                string               `json:"kind"`
	ResourcePath        string               `json:"resourcePath"`
	SandboxResourcePath string               `json:"sandboxResourcePath"`
	SizeBytes           int64                `json:"sizeBytes"`
	Digest              string               `json:"digest"`
	ContentKind         string               `json:"contentKind"` // text, binary
	Script              *Script              `json:"script,omitempty"`
	Diagnostics         []skillmd.Diagnostic `json:"diagnostics"`
}

// Script is what a file under scripts/ says of itself.
type Script struct {
	Executable bool   `json:"executable"`
	Shebang    string `json:"shebang,omitempty"`
	Runtime    string `json:"runtime"`
}

// Read returns the list that a record holds.
func Read(b []byte) (List, error) {
	var l List
	if err := json.Unmarshal(b, &l); err != nil {
		return l, fmt.Errorf("the recorded list of skills: %w", err)
	}
	return l, nil
}

// ByID returns the skills of the list by ID.
func (l List) ByID() map[string]Skill {
	out := make(map[string]Skill, len(l.Skills))
	for _, sk := range l.Skills {
		out[sk.ID] = sk
	}
	return out
}

// File returns a file of the skill by its path in the skill's folder.
func (s Skill) File(path string) (Resource, bool) {
	i := slices.IndexFunc(s.Resources, func(r Resource) bool { return r.Path == path })
	if i < 0 {
		return Resource{}, false
	}
	return s.Resources[i], true
}

// Front returns the recorded frontmatter. One that cannot be read back keeps
// the skill from models and people and allows it no tools.
func (s Skill) Front() skillmd.Front {
	doc, found := skillmd.Parse(slices.Concat([]byte("---\n"), s.Frontmatter, []byte("\n---\n"))) // JSON is YAML
	if slices.ContainsFunc(found, func(d skillmd.Diagnostic) bool { return d.Severity == skillmd.Error }) {
		no := false
		return skillmd.Front{Present: true, AllowedToolsDeclared: true, DisableModelInvocation: true, UserInvocable: &no}
	}
	return doc.Front
}
