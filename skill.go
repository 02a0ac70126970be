package metier

import (
	"strings"

	"metier/policy"
	"metier/skillmd"
)

// ID names an entry for ever: the operator's label of its source and its path
// or URI there. It is stable over edits; names are aliases of IDs.
type ID struct{ Source, Path string }

// String returns "source:path".
func (id ID) String() string { return id.Source + ":" + id.Path }

// Digest is "sha256:" and 64 hex digits, or empty where the bytes were not
// read yet.
type Digest string

// Diagnostic is one finding about an entry: severity, code, detail and, where
// known, path, line and column.
type Diagnostic = skillmd.Diagnostic

// EntryKind tells skills from the groups and documents only a harness has.
type EntryKind string

// The kinds of entry.
const (
	KindSkill    EntryKind = "skill"
	KindGroup    EntryKind = "group"
	KindDocument EntryKind = "document"
)

// Status is where a skill on disk ended up. Every entry has one.
type Status string

// The states of `metier list`.
const (
	Loaded   Status = "loaded"
	Hidden   Status = "hidden"   // not shown to the model; may be named
	Disabled Status = "disabled" // switched off by a person
	Shadowed Status = "shadowed" // another skill has the name
	Refused  Status = "refused"  // cannot be used; a diagnostic says why
)

// Skill is one entry of a Snapshot after all rules were applied.
type Skill struct {
	ID          ID
	Name        string // what people and models call it, per the settings identity and match
	Description string
	Slug        string // Name as one safe path segment, unique in the snapshot
	Tier        policy.Tier
	State       Status
	ShadowedBy  ID     // when State is shadowed
	Head        *Head  // as it was listed; never nil in a snapshot, not to be changed
	Root        string // the mount's host path, or ""
	Digest      Digest // of SKILL.md; empty until read whole
	Tree        Digest // over all files; empty until indexed
	Resources   []Resource
	Indexed     bool // Resources, Digest and Tree are filled
	Diagnostics []Diagnostic

	ModelInvocable bool // false: absent from the model's catalog
	UserInvocable  bool // false: absent from lists for people

	rooted policy.Tier // tier of its root, where Tier was given to this tree by the operator; else ""
	folder string      // name of its folder, where its frontmatter may give it another name; else ""
	target string      // the model's path where the root was declared as a mount, or ""
}

// usable reports whether the skill may be named at all.
func (sk *Skill) usable() bool { return sk.State == Loaded || sk.State == Hidden }

// Changed is the skill after some of its files were seen to differ from the
// trusted ones: what the operator gave to the tree is gone.
func (sk Skill) Changed() Skill {
	if sk.rooted != "" {
		sk.Tier, sk.rooted = sk.rooted, ""
	}
	return sk
}

// Subject is the skill as policy sees it.
func (sk Skill) Subject() policy.Subject {
	return policy.Subject{ID: sk.ID.String(), Name: sk.Name, Digest: string(sk.Digest), Tree: string(sk.Tree), Tier: sk.Tier,
		AllowedTools: sk.Head.Front.AllowedTools, Declared: sk.Head.Front.AllowedToolsDeclared}
}

// Dir is the host path of the skill's folder, or "".
func (sk Skill) Dir() string {
	if sk.Head == nil {
		return ""
	}
	if i := strings.LastIndexAny(sk.Head.Location, `/\`); i >= 0 {
		return sk.Head.Location[:i]
	}
	return ""
}

// ResourceKind is the class of a file by its first path part.
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
	// Runtime is, for scripts, what would run it: the interpreter of the
	// shebang if it is one we know (bash, deno, python3, …), "shebang" for
	// another one, by extension otherwise, or "unknown".
	Runtime string
}
