package metier

import (
	"context"
	"io"
	"iter"

	"metier/policy"
	"metier/skillmd"
)

// Source lists and opens the entries of one origin. It is safe for concurrent
// use and says nothing about its own trust: the operator's Mount does.
type Source interface {
	// List yields every entry it knows in byte order of Path, perhaps not all
	// that Open can open. The caller owns the heads. A bad entry is a Head with
	// diagnostics; an error ends the listing. It opens SKILL.md files only.
	List(ctx context.Context) iter.Seq2[*Head, error]
	// Open pins the entry at path, listed or not. The error has Kind NotFound
	// if there is none.
	Open(ctx context.Context, path string) (Bundle, error)
}

// Bundle is one entry held still: a directory handle, a zip, a row version.
type Bundle interface {
	// Head is the entry as it is when this is first asked, before Close; it reads SKILL.md.
	Head() Head
	// Manifest lists all files, SKILL.md included, in byte order of Path. What
	// could not be read or lies outside is missing there and named in
	// Manifest.Diagnostics.
	Manifest(ctx context.Context) (Manifest, error)
	// Open returns the bytes as they are now. The caller caps, hashes and
	// compares: no source vouches for itself. Errors have Kind NotFound,
	// Denied (outside the skill) or Invalid (not a file).
	Open(ctx context.Context, file string) (io.ReadCloser, error)
	Close() error
}

// Head is what a listing knows of an entry: syntax only, no setting applied,
// so that it may be cached.
type Head struct {
	Path     string // slash path in the source; "." when the root is the skill
	Location string // host path of SKILL.md for people, or ""
	FileName string // SKILL.md or skill.md
	Kind     EntryKind
	Front    skillmd.Front
	// FirstParagraph is set when the front has no description.
	FirstParagraph string
	Empty          bool   // the file is empty or blank
	Plain          bool   // the file has no frontmatter at all
	Broken         bool   // the frontmatter cannot be used; a diagnostic says why
	Escaped        bool   // the folder leaves the root; a diagnostic says where
	Remote         bool   // its files are elsewhere, and each is fetched when it is needed and not before
	Digest         Digest // of the whole file when it was read whole, else ""
	Size           int64
	ModTime        int64 // Unix nanoseconds, or 0
	Diagnostics    []Diagnostic
}

// Manifest is all files of an entry. Tree is the digest over the sorted
// (path, mode, digest). Dynamic entries have no fixed content, so no stored
// approval can name them.
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

// Mount is what the operator says about a source.
type Mount struct {
	Label  string
	Tier   policy.Tier // "" is third_party
	Kind   string      // how precedence names it: project, user, org, builtin, third_party, db; "" = the tier
	Source Source
	Root   string // host path of the root, or ""
	Target string // the model's path of the root where it was declared (--mount), or ""

	// Space stands before every name, as SPACE:NAME, so that no bare name means a skill of it; where two names in it are
	// one, the path stands for the name.
	Space string

	// ByPath says that its skills are named by their paths, as those of a harness are; the names they give themselves are
	// free, whatever the settings ask of a skill's name.
	ByPath bool

	// Yields says that its skills give up their name to one that models may use,
	// where they themselves are hidden from models.
	Yields bool

	Notes []Diagnostic // what was found about the root itself, such as another name of it that was dropped
	// OS is the system its scripts would run on, as runtime.GOOS has it; "" is this one.
	OS string
	// Off says whether a person switched a skill off, and where that is kept, for people. nil: none is.
	Off func(h *Head, id ID, name string) (where string, off bool)
	// Trusted gives the tier that the operator gave to one tree of a skill, or "". Only such skills are hashed when
	// they are listed. The tier is taken while the skill's files are that tree, and it is at most project or user.
	Trusted func(h *Head, id ID) (tier policy.Tier, tree Digest)
}
