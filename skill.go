package metier

import (
	"context"
	"slices"
	"strings"

	"metier/event"
	"metier/internal/nfkc"
	"metier/policy"
	"metier/skillmd"
)

// ID is the permanent name of an entry: the operator's label of its source, and
// its path or URI there. Edits do not change it. Names are aliases of IDs.
type ID struct{ Source, Path string }

// String returns "source:path".
func (id ID) String() string { return id.Source + ":" + id.Path }

// Digest is "sha256:" and 64 hex digits, or empty if the bytes were not read
// yet.
type Digest string

// Diagnostic is one finding about an entry: severity, code, detail, and, if
// known, path, line, and column.
type Diagnostic = skillmd.Diagnostic

// EntryKind distinguishes skills from groups and documents, which only
// harnesses have.
type EntryKind string

// The kinds of entry.
const (
	KindSkill    EntryKind = "skill"
	KindGroup    EntryKind = "group"
	KindDocument EntryKind = "document"
)

// Status reports whether a skill was loaded, and if not, why. Every entry has
// one.
type Status string

// The states, as in `metier list`.
const (
	Loaded   Status = "loaded"
	Hidden   Status = "hidden"   // not shown to the model; can be loaded by name
	Disabled Status = "disabled" // disabled by a user
	Shadowed Status = "shadowed" // another skill took the name
	Refused  Status = "refused"  // cannot be used; a diagnostic gives the reason
)

// Skill is one entry of a [Snapshot] after all rules were applied.
type Skill struct {
	ID          ID
	Name        string // for users and models, by the settings identity and match
	Description string
	Slug        string // Name as one safe path segment, unique in the snapshot
	Tier        policy.Tier
	State       Status
	ShadowedBy  ID     // if State is shadowed
	Head        *Head  // as listed; never nil in a snapshot; do not change it
	Root        string // the mount's host path, or ""
	Digest      Digest // of SKILL.md; empty until read whole
	Tree        Digest // over all files; empty until indexed
	Resources   []Resource
	Indexed     bool // Resources, Digest and Tree are filled
	Diagnostics []Diagnostic

	ModelInvocable bool // false: absent from the model's catalog
	UserInvocable  bool // false: absent from lists for users

	rooted policy.Tier // tier of its root, if the operator gave Tier to this tree; else ""
	// keepsName: its name is not free, although it is disabled; see Mount.Reserved
	keepsName bool
	folder    string // name of its folder, if its frontmatter may give it another name; else ""
	target    string // the model's path if the root was declared as a mount, or ""
}

// usable reports whether the skill can be named.
func (sk *Skill) usable() bool { return sk.State == Loaded || sk.State == Hidden }

// Changed returns the skill without the trust in its tree, for files that
// differ from the trusted ones.
func (sk Skill) Changed() Skill {
	if sk.rooted != "" {
		sk.Tier, sk.rooted = sk.rooted, ""
	}
	return sk
}

// Effect returns what the operator's rules for skills say about the skill.
func (sk Skill) Effect(g *policy.Grants) policy.RuleEffect {
	name := foldName(sk.Name)
	if slices.ContainsFunc(g.Denied, func(d string) bool { return foldName(d) == name }) {
		return policy.RuleDeny
	}
	effect, _ := g.Skill(sk.ID.String(), name)
	return effect
}

// Subject returns the skill for policy.
func (sk Skill) Subject() policy.Subject {
	return policy.Subject{ID: sk.ID.String(), Name: nfkc.String(sk.Name), Digest: string(sk.Digest), Tree: string(sk.Tree), Tier: sk.Tier,
		AllowedTools: sk.Head.Front.AllowedTools, Declared: sk.Head.Front.AllowedToolsDeclared}
}

// Version returns the version of the skill that b is of. For a skill of an MCP server, neither a list
// nor a record proves which version is read.
func (sk Skill) Version(ctx context.Context, b Bundle) (v event.SkillVersion, err error) {
	sub := sk.Subject()
	if sub.FromServer() {
		h := b.Head()
		sub.Digest, sub.AllowedTools, sub.Declared = string(h.Digest), h.Front.AllowedTools, h.Front.AllowedToolsDeclared
		m, err := b.Manifest(ctx)
		if err != nil {
			return v, err
		}
		sub.Tree = string(m.Tree)
	}
	v.SkillRef = event.SkillRef{ID: sub.ID, Name: sub.Name, Digest: sub.Digest, Tree: sub.Tree, Tier: sub.Tier}
	v.AllowedTools, v.Declared = sub.AllowedTools, sub.Declared
	return v, nil
}

// Dir returns the host path of the skill's folder, or "".
func (sk Skill) Dir() string {
	if sk.Head == nil {
		return ""
	}
	if sk.Head.Folder != "" {
		return sk.Head.Folder
	}
	if i := strings.LastIndexAny(sk.Head.Location, `/\`); i >= 0 {
		return sk.Head.Location[:i]
	}
	return ""
}

// ResourceKind is the class of a file by the first part of its path.
type ResourceKind string

// The resource kinds.
const (
	Reference ResourceKind = "reference"
	Asset     ResourceKind = "asset"
	Template  ResourceKind = "template"
	Script    ResourceKind = "script"
	Other     ResourceKind = "other"
)

// kindOfPath classifies a slash path inside a skill folder.
func kindOfPath(p string) ResourceKind {
	first, _, nested := strings.Cut(p, "/")
	if !nested {
		return Other
	}
	switch first {
	case "references":
		return Reference
	case "assets":
		return Asset
	case "templates":
		return Template
	case "scripts":
		return Script
	}
	return Other
}

// Resource is one indexed file of a skill.
type Resource struct {
	File
	Kind ResourceKind
	// Runtime is the interpreter of a script: from its shebang if it is known
	// (bash, deno, python3, …), "shebang" for any other shebang, from its
	// extension without a shebang, or "unknown".
	Runtime string
}
