package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"metier"
	"metier/internal/confine"
	"metier/internal/digest"
	"metier/skillmd"
)

// Source provides a harness as a source. Its skills, groups, and documents are
// entries under their paths. The folder of HARNESS.md is the entry ".".
//
// Another source over the same folder opens the files of skills. The harness
// determines which folders are skills, and provides all other content.
type Source struct {
	dir   string
	files metier.Source
	opt   Options
	last  atomic.Pointer[Harness]
}

// New returns the source of the harness in dir. files opens any folder below dir
// with a SKILL.md, by its path from dir. New does not read the folder; [Source.List]
// does.
func New(dir string, files metier.Source, o *Options) *Source {
	return &Source{dir: dir, files: files, opt: o.orDefaults()}
}

// Harness returns the tree of the last listing, or reads it if there was none.
func (s *Source) Harness(ctx context.Context) (*Harness, error) {
	if h := s.last.Load(); h != nil {
		return h, nil
	}
	return s.load(ctx)
}

func (s *Source) load(ctx context.Context) (*Harness, error) {
	h, err := Load(ctx, s.dir, &s.opt)
	if err == nil {
		s.last.Store(h)
	}
	return h, err
}

// List implements metier.Source. A harness that cannot be loaded is listed as one
// broken entry ".", with the reason.
func (s *Source) List(ctx context.Context) iter.Seq2[*metier.Head, error] {
	return func(yield func(*metier.Head, error) bool) {
		h, err := s.load(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		nodes := []*Node{h.Root}
		if h.Err() == nil {
			nodes = append(nodes, h.All()...)
			slices.SortFunc(nodes, byPath)
		}
		for _, n := range nodes {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			head := s.head(ctx, h, n)
			if !yield(&head, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil { // it may have broken the last entry
			yield(nil, err)
		}
	}
}

func (s *Source) head(ctx context.Context, h *Harness, n *Node) metier.Head {
	if n.Skill() && n.File != "" {
		b, err := s.files.Open(ctx, n.Path)
		if err == nil {
			defer b.Close()
			head := b.Head()
			head.Kind = metier.KindSkill
			return head
		}
		return metier.Head{Path: n.Path, Kind: metier.KindSkill, FileName: skillFile, Broken: true, Location: h.location(n),
			Diagnostics: []metier.Diagnostic{{Severity: skillmd.Error, Code: "unreadable-skill", Detail: skillFile + " cannot be used: " + err.Error(), Path: h.location(n)}}}
	}
	out := metier.Head{Path: n.Path, Kind: metier.KindGroup, FileName: n.File, Location: h.location(n), Front: skillmd.Front{Name: n.Name, HasName: n.named, Description: n.Description, HasDescription: n.Description != ""}}
	switch {
	case n == h.Root:
		out.Front, out.Broken = h.front, h.broken != ""
		out.Diagnostics = h.located(func(d metier.Diagnostic) bool { return !h.ofSkill(d.Path) })
	case n.Kind == Document || n.Kind == Leaf:
		out.Kind = metier.KindDocument
	}
	return out
}

// ofSkill reports whether a finding is about a skill's file. The skill's own head
// has such findings.
func (h *Harness) ofSkill(at string) bool {
	dir, name := filepath.Split(filepath.FromSlash(at))
	n := h.At(filepath.ToSlash(filepath.Clean(dir)))
	return name == skillFile && n != nil && n.Skill()
}

// located returns findings with host paths.
func (h *Harness) located(keep func(metier.Diagnostic) bool) (out []metier.Diagnostic) {
	for _, d := range h.Diagnostics {
		if keep(d) {
			d.Path = filepath.Join(h.Dir, filepath.FromSlash(d.Path))
			out = append(out, d)
		}
	}
	return out
}

// location returns the host path of a node's file, or of its folder.
func (h *Harness) location(n *Node) string {
	if n.file != "" {
		return filepath.Join(h.Dir, filepath.FromSlash(n.file))
	}
	return filepath.Join(h.Dir, filepath.FromSlash(n.real))
}

// Open implements metier.Source. It also opens unlisted folders with a SKILL.md.
func (s *Source) Open(ctx context.Context, path string) (metier.Bundle, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h, err := s.Harness(ctx)
	if err != nil {
		return nil, err
	}
	n := h.At(path)
	if n == nil || n.Skill() {
		return s.files.Open(ctx, path)
	}
	d, err := confine.OpenDir(h.Dir)
	if err != nil {
		return nil, rootError(h.Dir, err)
	}
	return &bundle{s: s, h: h, n: n, dir: d}, nil
}

var errHardLink = errors.New("the file has another hard link, which may be outside")

// bundle is a group, a document, or an opaque leaf. It opens the summary of a
// group, the document itself, or any file of an opaque leaf.
type bundle struct {
	s    *Source
	h    *Harness
	n    *Node
	dir  *confine.Dir
	once sync.Once
}

func (b *bundle) Head() metier.Head { return b.s.head(context.Background(), b.h, b.n) }

// Close implements metier.Bundle.
func (b *bundle) Close() error {
	b.once.Do(func() { b.dir.Close() })
	return nil
}

// Open implements metier.Bundle.
func (b *bundle) Open(ctx context.Context, file string) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fail := func(k metier.Kind, code string, err error) (io.ReadCloser, error) {
		return nil, &metier.Error{Op: "open", Skill: b.n.Path, Path: file, Kind: k, Code: code, Err: err}
	}
	clean, err := confine.Clean(file)
	if err != nil {
		return fail(metier.Invalid, "resource_path_invalid", err)
	}
	at := ""
	switch {
	case clean == b.n.File && b.n.file != "":
		at = b.n.file
	case b.n.Kind == Leaf && !confine.Private(clean):
		at = join(b.n.real, clean)
	default:
		return fail(metier.NotFound, "resource_not_found", errors.New("the file does not exist"))
	}
	f, err := b.dir.Open(at)
	if err == nil && b.s.opt.RefuseHardLinks && f.Info().Nlink > 1 {
		f.Close()
		return fail(metier.Denied, "resource_outside_root", errHardLink)
	}
	if err == nil {
		return f, nil
	}
	switch confine.CodeOf(err) {
	case confine.NotFound:
		return fail(metier.NotFound, "resource_not_found", err)
	case confine.Outside:
		return fail(metier.Denied, "resource_outside_root", err)
	case confine.Permission:
		return fail(metier.Denied, "permission_denied", err)
	case confine.IsDir, confine.NotRegular:
		return fail(metier.Invalid, "resource_not_file", err)
	}
	return fail(metier.Unavailable, "unknown", err)
}

// Limits of the manifest of an opaque leaf.
const (
	maxLeafFiles = 2_000
	maxFileBytes = 256 << 20
)

func (b *bundle) Manifest(ctx context.Context) (m metier.Manifest, err error) {
	var names []string
	switch {
	case b.n.Kind == Leaf:
		names = b.below(&m)
	case b.n.File != "":
		names = []string{b.n.File}
	}
	for _, name := range names {
		f, err := b.hash(ctx, name)
		switch {
		case ctx.Err() != nil:
			return metier.Manifest{}, ctx.Err()
		case err != nil:
			m.Diagnostics = append(m.Diagnostics, metier.Diagnostic{Severity: skillmd.Warning, Code: "unreadable-skill-resource", Path: name, Detail: "ignored: " + err.Error()})
			continue
		}
		m.Files = append(m.Files, f)
	}
	entries := make([]digest.Entry, len(m.Files))
	for i, f := range m.Files {
		entries[i] = digest.Entry{Path: f.Path, Mode: digest.ModeFile, Digest: string(f.Digest)}
	}
	m.Tree = metier.Digest(digest.Tree(entries))
	return m, ctx.Err()
}

// below lists the files of an opaque leaf, in byte order.
func (b *bundle) below(m *metier.Manifest) []string {
	names, cut := filesBelow(b.dir, b.n.real, maxLeafFiles)
	if cut {
		m.Diagnostics = append(m.Diagnostics, metier.Diagnostic{Severity: skillmd.Warning, Code: "resource-file-limit-exceeded", Path: ".", Detail: fmt.Sprintf("only the first %d files are included", maxLeafFiles)})
	}
	return names
}

func (b *bundle) hash(ctx context.Context, name string) (metier.File, error) {
	f := metier.File{Path: name}
	r, err := b.Open(ctx, name)
	if err != nil {
		return f, err
	}
	defer r.Close()
	sum := digest.New()
	first := make([]byte, 8192)
	n, err := io.ReadFull(r, first)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return f, err
	}
	first = first[:n]
	sum.Write(first)
	rest, err := io.Copy(sum, io.LimitReader(r, maxFileBytes+1-int64(n)))
	if err != nil {
		return f, err
	}
	if f.Size = int64(n) + rest; f.Size > maxFileBytes {
		return f, fmt.Errorf("the file has more than %d bytes", maxFileBytes)
	}
	f.Digest, f.Text = metier.Digest(sum.Sum()), !binary(first)
	return f, nil
}
