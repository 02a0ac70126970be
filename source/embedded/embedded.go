// Package embedded is a source of skills in an fs.FS, such as an embed.FS with the skills that ship
// inside the program.
//
// The file system is trusted not to change and to contain no links. Sizes and counts are still
// bounded.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"metier"
	"metier/internal/confine"
	"metier/internal/digest"
	"metier/skillmd"
	"metier/source/internal/entry"
)

// Limits of one source. Beyond them, diagnostics report what is missing.
const (
	MaxDirs      = 10_000   // folders looked into in one listing
	MaxFiles     = 2_000    // files of one skill
	MaxFileBytes = 64 << 20 // of one file
)

// Source lists the skills of a file system.
type Source struct {
	fsys  fs.FS
	names []string
}

// New returns a source for all folders below the root of fsys that contain a SKILL.md, or for the
// root if it is a skill itself.
func New(fsys fs.FS) *Source { return &Source{fsys, entry.FileNames(false)} }

// List implements metier.Source.
func (s *Source) List(ctx context.Context) iter.Seq2[*metier.Head, error] {
	return func(yield func(*metier.Head, error) bool) {
		heads, err := s.scan(ctx)
		for i := range heads {
			if !yield(&heads[i], nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func (s *Source) scan(ctx context.Context) ([]metier.Head, error) {
	var heads []metier.Head
	dirs := 0
	err := fs.WalkDir(s.fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		if err != nil {
			if p == "." {
				return err
			}
			heads = append(heads, entry.Bad(p, "", "unreadable-directory", "the folder cannot be read"))
			return fs.SkipDir
		}
		if !d.IsDir() {
			return nil
		}
		if dirs++; dirs > MaxDirs {
			heads = append(heads, entry.Bad(p, "", "scan-limit-exceeded", fmt.Sprintf("this and later folders were not read: the limit is %d", MaxDirs)))
			return fs.SkipAll
		}
		h, ok := s.head(p)
		if !ok {
			return nil
		}
		heads = append(heads, h)
		return fs.SkipDir
	})
	if err != nil {
		if cerr := ctx.Err(); cerr != nil {
			return nil, cerr
		}
		return nil, &metier.Error{Op: "scan", Kind: metier.Unavailable, Code: "unresolvable_skill_scan_path", Err: err}
	}
	slices.SortFunc(heads, func(a, b metier.Head) int { return strings.Compare(a.Path, b.Path) })
	return heads, nil
}

// head reads the SKILL.md of a folder, if there is one.
func (s *Source) head(dir string) (metier.Head, bool) {
	h := metier.Head{Path: dir, FileName: s.names[0], Kind: metier.KindSkill}
	name := path.Join(dir, s.names[0])
	f, err := s.fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return h, false
	}
	if err != nil {
		return s.bad(h, "it cannot be opened"), true
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return s.bad(h, "it is not a regular file"), true
	}
	h.Size = info.Size()
	if t := info.ModTime(); !t.IsZero() {
		h.ModTime = t.UnixNano()
	}
	var data []byte
	for _, n := range entry.Steps {
		more, err := io.ReadAll(io.LimitReader(f, int64(n-len(data))))
		if err != nil {
			return s.bad(h, "it cannot be read"), true
		}
		if data = append(data, more...); entry.Fill(&h, data, len(data) < n || int64(len(data)) >= info.Size()) {
			break
		}
	}
	return h, true
}

func (s *Source) bad(h metier.Head, detail string) metier.Head {
	b := entry.Bad(h.Path, "", "unreadable-skill", h.FileName+" cannot be used: "+detail)
	b.FileName = h.FileName
	return b
}

// Open implements metier.Source.
func (s *Source) Open(ctx context.Context, p string) (metier.Bundle, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	missing := &metier.Error{Op: "open", Skill: p, Kind: metier.NotFound, Code: "skill_not_found", Err: errors.New("no skill has this name")}
	if !fs.ValidPath(p) {
		return nil, missing
	}
	h, ok := s.head(p)
	if !ok {
		return nil, missing
	}
	return &bundle{s, h}, nil
}

type bundle struct {
	s    *Source
	head metier.Head
}

func (b *bundle) Head() metier.Head { return b.head }

func (b *bundle) Close() error { return nil }

// Open implements metier.Bundle.
func (b *bundle) Open(ctx context.Context, file string) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fail := func(k metier.Kind, code string, err error) (io.ReadCloser, error) {
		return nil, &metier.Error{Op: "open", Skill: b.head.Path, Path: file, Kind: k, Code: code, Err: err}
	}
	clean, err := confine.Clean(file)
	if err != nil {
		return fail(metier.Invalid, "resource_path_invalid", err)
	}
	f, err := b.s.fsys.Open(path.Join(b.head.Path, clean))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail(metier.NotFound, "resource_not_found", err)
	case errors.Is(err, fs.ErrPermission):
		return fail(metier.Denied, "permission_denied", err)
	case err != nil:
		return fail(metier.Unavailable, "unknown", err)
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		f.Close()
		return fail(metier.Invalid, "resource_not_file", errors.New("it is not a regular file"))
	}
	return f, nil
}

func (b *bundle) Manifest(ctx context.Context) (metier.Manifest, error) {
	var m metier.Manifest
	note := func(p, code, detail string) {
		m.Diagnostics = append(m.Diagnostics, metier.Diagnostic{Severity: skillmd.Warning, Code: code, Path: p, Detail: detail})
	}
	take := func(rel string) {
		f, err := b.file(ctx, rel)
		switch {
		case metier.KindOf(err) == metier.LimitReached:
			note(rel, "resource-too-large", fmt.Sprintf("left out: a file may have %d bytes", MaxFileBytes))
		case err != nil:
			note(rel, "unreadable-skill-resource", "left out: "+err.Error())
		default:
			m.Files = append(m.Files, f)
		}
	}
	take(b.head.FileName) // first, so that no limit cuts it
	over := 0
	err := fs.WalkDir(b.s.fsys, b.head.Path, func(p string, d fs.DirEntry, err error) error {
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		rel := p
		if b.head.Path != "." {
			rel = strings.TrimPrefix(p, b.head.Path+"/")
		}
		switch {
		case err != nil:
			note(rel, "unreadable-skill-resource-directory", "the folder cannot be read")
			return fs.SkipDir
		case d.IsDir(), rel == b.head.FileName:
		case !d.Type().IsRegular():
			note(rel, "unreadable-skill-resource", "ignored: not a regular file")
		case len(m.Files) >= MaxFiles:
			over++
		default:
			take(rel)
		}
		return nil
	})
	if err != nil {
		return metier.Manifest{}, err
	}
	if over > 0 {
		note(".", "resource-file-limit-exceeded", fmt.Sprintf("%d files are left out: the limit is %d", over, MaxFiles))
	}
	slices.SortFunc(m.Files, func(a, b metier.File) int { return strings.Compare(a.Path, b.Path) })
	m.Tree = entry.Tree(m.Files)
	return m, nil
}

func (b *bundle) file(ctx context.Context, rel string) (metier.File, error) {
	f := metier.File{Path: rel}
	r, err := b.Open(ctx, rel)
	if err != nil {
		return f, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, MaxFileBytes+1))
	if err != nil {
		return f, err
	}
	if len(data) > MaxFileBytes {
		return f, &metier.Error{Op: "open", Path: rel, Kind: metier.LimitReached, Code: "resource_too_large"}
	}
	if info, err := r.(fs.File).Stat(); err == nil {
		f.Exec = info.Mode().Perm()&0o111 != 0
	}
	f.Size, f.Digest = int64(len(data)), metier.Digest(digest.Bytes(data))
	entry.Facts(&f, data, false)
	return f, nil
}
