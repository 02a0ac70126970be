// Package local is a source of skills in a folder on disk.
//
// The folder's content is untrusted. Every file is opened through internal/confine and every walk
// is bounded. Everything is in byte order of names, whatever order the file system returns. A
// symlink is resolved once, checked against the bounds, and then its target is opened without
// following links.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"metier"
	"metier/internal/confine"
	"metier/settings"
	"metier/source/internal/entry"
)

// Options are the options of New. The zero value means the defaults described here.
type Options struct {
	Scan      settings.Scan      // default recursive; grouped finds the same skills
	Nested    settings.Nested    // default no
	FileNames settings.FileNames // default exact
	// Entry, if set, is the name of the file that makes a folder an entry, instead of SKILL.md.
	Entry    string
	Symlinks settings.Symlinks // default ignore
	// AllowedRoots are other folders that a symlink in the root may lead into. Missing folders are
	// ignored.
	AllowedRoots []string
	// Installed accepts what agents accept in their skills folders: also skill.md, and with AllowedRoots,
	// links that stay in the root or in those.
	Installed bool
	// Within, if set, is a folder that must contain the root after links are resolved. Otherwise,
	// opening it fails with Denied (setting root_scope).
	Within string
	// Optional treats a missing root as empty, and checks for it again at every List and Open. A
	// root that cannot be read or is not a folder produces an entry in the listing instead of an
	// error.
	Optional bool
	// RefuseHardLinks leaves out files with more than one hard link, because another link may be
	// outside. Use it for roots that other users can write.
	RefuseHardLinks bool

	MaxDepth         int      // folders below the root; default 12
	MaxDirs          int      // folders looked into in one List; default 100,000
	MaxResourceDepth int      // folders below a skill; default 8
	MaxResourceDirs  int      // folders of one skill; default 1,000
	MaxResourceFiles int      // files of one skill, SKILL.md included; default 2,000
	MaxFileBytes     int64    // of one file that is hashed; default 256 MiB
	MaxSkillBytes    int64    // of all files of a skill; default 1 GiB
	Skip             []string // names of folders never looked into; nil: .git .metier .github .hub .archive node_modules

	// Index is a folder that caches what List read, so that the next List opens only what changed.
	// "" disables it. It is created if it does not exist, and processes can share it. The result of
	// List is the same if it is disabled or unusable.
	Index string
	// Scanned, if set, is called for each List.
	Scanned func(Scanned)
	Now     func() time.Time // nil: time.Now
}

var skipDefault = []string{".git", ".metier", ".github", ".hub", ".archive", "node_modules"}

// Source lists the skills of one folder. It keeps no files open between calls.
type Source struct {
	given    string // as the operator wrote it
	root     string // resolved, "" while an optional root is missing
	opt      Options
	names    []string // file names that make a skill
	children bool
	nested   bool // a skill's folder is searched for more skills
	links    bool
}

// New returns a source for the folder root. The folder is resolved here, once: if it or a parent
// later becomes a symlink, calls fail. Errors are *metier.Error: NotFound (no such folder), Denied
// (outside Within), Invalid (not a folder).
func New(root string, o *Options) (*Source, error) {
	s := &Source{given: root}
	if o != nil {
		s.opt = *o
		s.opt.Skip = slices.Clone(o.Skip)
		s.opt.AllowedRoots = slices.Clone(o.AllowedRoots)
	}
	orDefault(&s.opt.MaxDepth, 12)
	orDefault(&s.opt.MaxDirs, 100_000)
	orDefault(&s.opt.MaxResourceDepth, 8)
	orDefault(&s.opt.MaxResourceDirs, 1_000)
	orDefault(&s.opt.MaxResourceFiles, 2_000)
	orDefault(&s.opt.MaxFileBytes, 256<<20)
	orDefault(&s.opt.MaxSkillBytes, 1<<30)
	if s.opt.Skip == nil {
		s.opt.Skip = skipDefault
	}
	if s.opt.Now == nil {
		s.opt.Now = time.Now
	}
	s.names = entry.FileNames(s.opt.FileNames == settings.FileNamesLower || s.opt.Installed)
	if s.opt.Entry != "" {
		s.names = []string{s.opt.Entry}
	}
	s.children = s.opt.Scan == settings.ScanChildren
	s.nested = s.opt.Nested == settings.NestedYes
	s.links = s.opt.Symlinks == settings.SymlinksInBounds || s.opt.Installed && len(s.opt.AllowedRoots) > 0
	path, err := s.resolve()
	if err != nil {
		if s.opt.Optional && (metier.KindOf(err) == metier.NotFound || s.unusable(err) != nil) {
			return s, nil
		}
		return nil, err
	}
	if !s.opt.Optional {
		s.root = path
	}
	d, err := s.openRoot(path)
	if err != nil {
		if s.opt.Optional && s.unusable(err) != nil {
			return s, nil
		}
		return nil, err
	}
	return s, d.Close()
}

func orDefault[T int | int64](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Root returns the folder with links resolved, or as it was given if it is optional.
func (s *Source) Root() string { return cmp.Or(s.root, s.given) }

// resolve returns the root's path with links resolved, after checking its bounds.
func (s *Source) resolve() (string, error) {
	if s.root != "" {
		return s.root, nil
	}
	path, err := confine.Resolve(s.given)
	if err != nil {
		return "", s.rootError(err)
	}
	if s.opt.Within == "" {
		return path, nil
	}
	bound, err := confine.Resolve(s.opt.Within)
	if err != nil {
		return "", s.rootError(err)
	}
	if _, ok := inside(bound, path); !ok {
		return "", &metier.Error{Op: "scan", Path: s.given, Kind: metier.Denied, Code: "skill_scan_outside_root",
			Hint: "name a folder inside " + s.opt.Within, Err: errors.New("the skills folder leaves the folder it must lie in")}
	}
	return path, nil
}

func (s *Source) openRoot(path string) (*confine.Dir, error) {
	d, err := confine.OpenDir(path)
	if err != nil {
		return nil, s.rootError(err)
	}
	return d, nil
}

func (s *Source) rootError(err error) error {
	e := &metier.Error{Op: "scan", Path: s.given, Kind: metier.Unavailable, Code: "unresolvable_skill_scan_path", Err: err}
	switch confine.CodeOf(err) {
	case confine.NotFound:
		e.Kind, e.Hint = metier.NotFound, "create the folder, or specify another one"
	case confine.NotRegular:
		e.Kind, e.Hint = metier.Invalid, "name a folder that holds skills"
	case confine.Outside:
		e.Kind, e.Code, e.Hint = metier.Denied, "skill_scan_outside_root", "the folder was replaced by a symlink while in use; check it and try again"
	case confine.Permission:
		e.Kind, e.Code, e.Hint = metier.Denied, "permission_denied", "make the folder readable"
	}
	return e
}

// unusable returns the entry for an unusable root that the user did not name explicitly. Such a
// root must not prevent the skills of other roots from being listed. A root outside its bounds has
// no entry.
func (s *Source) unusable(err error) *metier.Head {
	code, detail := "", ""
	switch {
	case metier.KindOf(err) == metier.Invalid:
		code, detail = "skills-root-not-folder", "the path is not a folder"
	case metier.CodeOf(err) == "permission_denied":
		code, detail = "unreadable-directory", "the folder cannot be read; check its mode and those of its parents"
	case metier.KindOf(err) == metier.Unavailable:
		code, detail = "unresolvable-skill-scan-path", "the path cannot be followed to a folder"
	default:
		return nil
	}
	h := entry.Bad(".", s.given, code, detail)
	return &h
}

// List implements metier.Source. If the root itself is a skill, it is the only entry, with the path
// ".". A skill's folder is not searched for more skills unless Options.Nested is set.
func (s *Source) List(ctx context.Context) iter.Seq2[*metier.Head, error] {
	return func(yield func(*metier.Head, error) bool) {
		heads, err := s.heads(ctx)
		for i, h := range heads {
			heads[i] = nil // so that a caller can drop what it does not need
			if !yield(h, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func (s *Source) heads(ctx context.Context) ([]*metier.Head, error) {
	at, err := s.anchor()
	if err != nil {
		switch {
		case s.opt.Optional && metier.KindOf(err) == metier.NotFound:
			return nil, nil
		case s.opt.Optional && s.unusable(err) != nil:
			return []*metier.Head{s.unusable(err)}, nil
		}
		return nil, err
	}
	defer at.close()
	sc := &scan{Source: s, anchors: at, ctx: ctx, past: s.past(at.first)}
	if err := sc.run(); err != nil {
		return nil, err
	}
	slices.SortFunc(sc.heads, func(a, b *metier.Head) int { return strings.Compare(a.Path, b.Path) })
	sc.past.save(s.opt.Now())
	if s.opt.Scanned != nil {
		sc.past.Took = s.opt.Now().Sub(sc.past.start)
		s.opt.Scanned(sc.past.Scanned)
	}
	return sc.heads, nil
}

// Open implements metier.Source. The path may be any folder below the root with a SKILL.md,
// including one that a limit excluded from the listing.
func (s *Source) Open(ctx context.Context, path string) (metier.Bundle, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at, err := s.anchor()
	if err != nil {
		return nil, err
	}
	b, err := s.open(at, path)
	if err != nil {
		at.close()
		return nil, err
	}
	return b, nil
}

func (s *Source) open(at *anchors, path string) (*bundle, error) {
	n, dir, err := s.pin(at, path)
	if err != nil {
		return nil, err
	}
	sc := scan{Source: s, anchors: at}
	for _, name := range s.names {
		// This is one path element in a folder that is held open: Glance is enough to see that it
		// exists.
		_, err := dir.Glance(name)
		if confine.CodeOf(err) == confine.NotFound || runtime.GOOS != "linux" && !sc.spelled(n, name) {
			continue
		}
		return &bundle{s: s, at: at, dir: dir, node: n, name: name, head: sync.OnceValue(func() metier.Head {
			if h, found := sc.head(n, new(worker)); found {
				return *h
			}
			return entry.Bad(path, n.location(at), "unreadable-skill", name+" is gone since it was opened")
		})}, nil
	}
	dir.Close()
	return nil, &metier.Error{Op: "open", Skill: path, Kind: metier.NotFound, Code: "skill_not_found", Err: fmt.Errorf("the folder has no %s", s.names[0])}
}

// pin opens the folder of an entry.
func (s *Source) pin(at *anchors, path string) (node, *confine.Dir, error) {
	fail := func(k metier.Kind, code string, err error) (node, *confine.Dir, error) {
		return node{}, nil, &metier.Error{Op: "open", Skill: path, Kind: k, Code: code, Err: err}
	}
	n := node{path: path, at: 0, rel: path}
	if path != "." {
		clean, err := confine.Clean(path)
		if err != nil || clean != path {
			return fail(metier.NotFound, "skill_not_found", fmt.Errorf("%q is not a path of this source", path))
		}
	}
	dir, err := at.first.dir.Sub(n.rel)
	if confine.CodeOf(err) == confine.Outside && s.links {
		t, terr := at.target(n.location(at))
		if terr != nil {
			return fail(kindOf(terr), codeOf(terr), terr)
		}
		n.at, n.rel = t.at, t.rel
		dir, err = at.get(n.at).dir.Sub(n.rel)
	}
	switch code := confine.CodeOf(err); {
	case err == nil:
		return n, dir, nil
	case code == confine.NotFound, code == confine.NotRegular:
		return fail(metier.NotFound, "skill_not_found", errors.New("no folder of that name"))
	default:
		return fail(kindOf(err), codeOf(err), err)
	}
}

// Manifest lists and hashes the files of a listed entry. It returns the same as Open followed by
// Bundle.Manifest, without reading the head again.
func (s *Source) Manifest(ctx context.Context, h *metier.Head) (metier.Manifest, error) {
	at, err := s.anchor()
	if err != nil {
		return metier.Manifest{}, err
	}
	n, dir, err := s.pin(at, h.Path)
	if err != nil {
		at.close()
		return metier.Manifest{}, err
	}
	b := &bundle{s: s, at: at, dir: dir, node: n, name: h.FileName, head: func() metier.Head { return *h }}
	defer b.Close()
	m, err := b.Manifest(ctx)
	if err == nil && slices.ContainsFunc(m.Files, func(f metier.File) bool { return f.Path == h.FileName }) {
		return m, nil
	}
	fresh, err := s.Open(ctx, h.Path) // what was listed is not there as it was; this knows why
	if err != nil {
		return metier.Manifest{}, err
	}
	defer fresh.Close()
	return fresh.Manifest(ctx)
}

// inside returns path relative to dir, with slashes, if it is inside dir. Both must be resolved.
func inside(dir, path string) (rel string, ok bool) {
	rel, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}
