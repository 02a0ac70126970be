package metier

import (
	"context"
	"io"
	"iter"

	"metier/policy"
	"metier/settings"
	"metier/skillmd"
)

// Source lists and opens the entries of one origin. It must be safe for concurrent use. Its trust
// is set by the operator's [Mount].
type Source interface {
	// List yields the known entries in byte order of Path. Open may open more. The caller owns the
	// heads. An invalid entry is a Head with diagnostics; an error ends the listing. List opens
	// only SKILL.md files.
	List(ctx context.Context) iter.Seq2[*Head, error]
	// Open opens the entry at path, listed or not. The error has Kind NotFound if it does not
	// exist.
	Open(ctx context.Context, path string) (Bundle, error)
}

// Bundle is one opened entry with fixed content: a directory handle, a zip file, or a row version.
type Bundle interface {
	// Head reads SKILL.md and returns the entry as of the first call. Call it before Close.
	Head() Head
	// Manifest lists all files, including SKILL.md, in byte order of Path. It omits files that
	// cannot be read or are outside, and names them in Manifest.Diagnostics.
	Manifest(ctx context.Context) (Manifest, error)
	// Open returns the current bytes of a file. The caller limits, hashes, and compares them,
	// because sources are not trusted. Errors have Kind NotFound, Denied (outside the skill), or
	// Invalid (not a file).
	Open(ctx context.Context, file string) (io.ReadCloser, error)
	Close() error
}

// Head is the listed part of an entry. It is pure syntax without settings, so it can be cached.
type Head struct {
	Path     string // slash path in the source; "." if the root is the skill
	Location string // host path of SKILL.md after links, or ""
	Folder   string // host path of the folder, or "" if it is that of Location
	FileName string // SKILL.md or skill.md
	Kind     EntryKind
	Front    skillmd.Front
	// FirstParagraph is set if the frontmatter has no description.
	FirstParagraph string
	Empty          bool   // the file is empty or blank
	Plain          bool   // the file has no frontmatter
	Broken         bool   // the frontmatter cannot be used; a diagnostic gives the reason
	Escaped        bool   // the folder is outside the root; a diagnostic gives its location
	TextOnly       bool   // it is stored as text, and has no files besides FileName
	Remote         bool   // its files are remote, and each is fetched when it is needed
	Digest         Digest // of the whole file if it was read completely, else ""
	Size           int64
	ModTime        int64 // Unix nanoseconds, or 0
	Diagnostics    []Diagnostic
}

// Manifest lists all files of an entry. Tree is the digest over the sorted (path, mode, digest).
// Dynamic entries have no fixed content, so stored approvals cannot cover them.
type Manifest struct {
	Files       []File
	Tree        Digest
	Dynamic     bool
	Diagnostics []Diagnostic
}

// File is one file of a manifest.
type File struct {
	Path     string
	Size     int64
	Digest   Digest
	Exec     bool
	Text     bool   // no NUL and valid UTF-8 in the first 8,192 bytes
	Shebang  string // the first line if it begins with #!, at most 256 bytes
	Location string // host path after links, or ""
}

// Mount is a source with the operator's options for it.
type Mount struct {
	Label  string
	Tier   policy.Tier // "" is third_party
	Kind   string      // its name in the setting precedence: project, user, org, builtin, third_party, db; "" = the tier
	Source Source
	Root   string // host path of the root, or ""
	Target string // the model's path of the root if it was declared as a mount, or ""

	// Space prefixes every name, as SPACE:NAME, so that no bare name refers to a skill of this
	// mount. If two skills of the mount have the same name, their paths replace it.
	Space string

	// ByPath names its skills by their paths, as in a harness. The naming rules of the settings do
	// not apply to their own names.
	ByPath bool

	// Yields gives the name of a skill that is hidden from models to another skill that models may
	// use.
	Yields bool

	// Parse replaces the parse settings of the snapshot for this mount. nil keeps them.
	Parse *settings.Parse

	Notes []Diagnostic // findings about the root itself, such as a second path that was dropped
	// OS is the operating system of its scripts, as a GOOS value; "" is the current one.
	OS string
	// Off reports whether a user disabled a skill, and where that is stored, for display. nil means
	// that no skill is disabled.
	Off func(h *Head, id ID, name string) (where string, off bool)
	// Reserved reports whether the name of a disabled skill is not free for skills of the tier project
	// and below, because a file of the workspace disabled it. nil means no.
	Reserved func(h *Head, id ID, name string) bool
	// Trusted returns the tier that the operator gave to one tree of a skill, or "". Only such
	// skills are hashed for a snapshot. The tier applies only while the skill's files match the
	// tree, and is at most project or user.
	Trusted func(h *Head, id ID) (tier policy.Tier, tree Digest)
	// Origin returns the tier of the place that a skill was installed from, or "". The skill has that
	// tier if it is lower than the mount's. nil means that no skill has one.
	Origin func(h *Head) policy.Tier
}

// TierOf returns the tier of a skill of the mount, unless the operator gave it another one.
func (m Mount) TierOf(h *Head) policy.Tier {
	if m.Origin != nil {
		if t := m.Origin(h); t != "" && trust(t) < trust(m.Tier.Or()) {
			return t
		}
	}
	return m.Tier.Or()
}
