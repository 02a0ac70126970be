package metier

import (
	"encoding/json"
	"path"
)

// Registry is the list of skills at one moment, in the shape of
// skill-registry.json (contracts §2.1, A-154). Type, runs and times are the
// artifact's.
type Registry struct {
	SkillsRoot        string            `json:"skillsRoot"`
	SandboxSkillsRoot string            `json:"sandboxSkillsRoot"`
	Roots             []RegistryRoot    `json:"roots"`
	Skills            []RegistrySkill   `json:"skills"`
	Diagnostics       []Diagnostic      `json:"diagnostics"`
	Others            []RegistryOutcome `json:"others"` // what was found and is not in Skills (D7)
}

// RegistryRoot is one mounted root.
type RegistryRoot struct {
	Label string `json:"label"`
	Tier  string `json:"tier"`
	Path  string `json:"path"`
}

// RegistryOutcome is an entry that is not offered.
type RegistryOutcome struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	State      Status `json:"state"`
	ShadowedBy string `json:"shadowedBy,omitempty"`
}

// RegistrySkill is one skill of the registry.
type RegistrySkill struct {
	ID               string             `json:"id"`
	Name             string             `json:"name"`
	Description      string             `json:"description"`
	Tier             string             `json:"tier"`
	State            Status             `json:"state"`
	SkillPath        string             `json:"skillPath"`
	SkillDir         string             `json:"skillDir"`
	SandboxSkillPath string             `json:"sandboxSkillPath"`
	SandboxSkillDir  string             `json:"sandboxSkillDir"`
	Digest           string             `json:"digest"`
	Tree             string             `json:"tree"`
	Indexed          bool               `json:"indexed"`
	Resources        []RegistryResource `json:"resources"`
	Frontmatter      json.RawMessage    `json:"frontmatter"`
	Diagnostics      []Diagnostic       `json:"diagnostics"`
}

// RegistryResource is one file of a skill in the registry.
type RegistryResource struct {
	Path                string          `json:"path"`
	Kind                ResourceKind    `json:"kind"`
	ResourcePath        string          `json:"resourcePath"`
	SandboxResourcePath string          `json:"sandboxResourcePath"`
	SizeBytes           int64           `json:"sizeBytes"`
	Digest              string          `json:"digest"`
	ContentKind         string          `json:"contentKind"` // text, binary
	Script              *RegistryScript `json:"script,omitempty"`
	Diagnostics         []Diagnostic    `json:"diagnostics"`
}

// RegistryScript is what a file under scripts/ says of itself.
type RegistryScript struct {
	Executable bool   `json:"executable"`
	Shebang    string `json:"shebang,omitempty"`
	Runtime    string `json:"runtime"`
}

// Registry describes the snapshot. Sandbox paths are always the ones of
// paths=sandbox, whatever the model is shown.
func (n *Snapshot) Registry(v View) Registry {
	r := Registry{Roots: []RegistryRoot{}, Skills: []RegistrySkill{}, Others: []RegistryOutcome{}, Diagnostics: nonNil(n.Diagnostics())}
	for i, m := range n.mounts {
		r.Roots = append(r.Roots, RegistryRoot{Label: m.Label, Tier: string(m.Tier.Or()), Path: m.Root})
		if i == 0 {
			r.SkillsRoot, r.SandboxSkillsRoot = m.Root, SkillsPath
			if rel, ok := v.inside(m.Root); ok {
				r.SandboxSkillsRoot = path.Join(WorkspacePath, rel)
			}
		}
	}
	for _, sk := range n.All() {
		if sk.State != Loaded && sk.State != Hidden {
			o := RegistryOutcome{ID: sk.ID.String(), Name: sk.Name, State: sk.State}
			if sk.State == Shadowed {
				o.ShadowedBy = sk.ShadowedBy.String()
			}
			r.Others = append(r.Others, o)
			continue
		}
		r.Skills = append(r.Skills, v.registrySkill(sk))
	}
	return r
}

func (v View) registrySkill(sk Skill) RegistrySkill {
	dir := v.sandbox(sk)
	out := RegistrySkill{ID: sk.ID.String(), Name: sk.Name, Description: sk.Description, Tier: string(sk.Tier.Or()), State: sk.State,
		SkillPath: sk.Head.Location, SkillDir: sk.Dir(), SandboxSkillDir: dir, SandboxSkillPath: path.Join(dir, sk.Head.FileName),
		Digest: string(sk.Digest), Tree: string(sk.Tree), Indexed: sk.Indexed, Resources: []RegistryResource{},
		Frontmatter: sk.Head.Front.JSON(), Diagnostics: nonNil(sk.Diagnostics)}
	for _, f := range sk.Resources {
		res := RegistryResource{Path: f.Path, Kind: f.Kind, ResourcePath: f.Location, SandboxResourcePath: path.Join(dir, f.Path),
			SizeBytes: f.Size, Digest: string(f.Digest), ContentKind: contentKind(f.Text), Diagnostics: []Diagnostic{}}
		if f.Kind == Script {
			res.Script = &RegistryScript{Executable: f.Exec, Shebang: f.Shebang, Runtime: f.Runtime}
		}
		out.Resources = append(out.Resources, res)
	}
	return out
}

func contentKind(text bool) string {
	if text {
		return "text"
	}
	return "binary"
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
