// Package stored is a source of skills whose SKILL.md is stored as text, such as in the rows of a database.
// They have no files. Reading one fails, and is never answered from a disk.
package stored

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"metier"
	"metier/internal/confine"
	"metier/internal/digest"
	"metier/skillmd"
	"metier/source/internal/entry"
)

// MaxText limits the bytes of a SKILL.md.
const MaxText = 4 << 20

// fileName is the name of the only file of a skill.
const fileName = "SKILL.md"

// Skill is a stored skill.
type Skill struct {
	Path string // identifies it in the source, as a slash-separated path without "." and ".."
	Text string // of SKILL.md
}

// Source lists stored skills.
type Source struct {
	skills func(context.Context) ([]Skill, error)
}

// New returns the source of the skills that a function returns. The function is called for each listing, and
// whenever a skill is opened, so it determines which skills there are at that moment.
func New(skills func(context.Context) ([]Skill, error)) *Source { return &Source{skills} }

// List implements metier.Source. A skill with an invalid path, with the path of another one, or with a text
// that is too long is listed as unusable.
func (s *Source) List(ctx context.Context) iter.Seq2[*metier.Head, error] {
	return func(yield func(*metier.Head, error) bool) {
		list, err := s.skills(ctx)
		if err != nil {
			yield(nil, &metier.Error{Op: "list", Kind: metier.Unavailable, Code: "skills_unavailable", Hint: "try again", Err: err})
			return
		}
		list = slices.Clone(list)
		slices.SortStableFunc(list, func(a, b Skill) int { return strings.Compare(a.Path, b.Path) })
		for i, sk := range list {
			h := head(sk)
			if i > 0 && list[i-1].Path == sk.Path {
				h = entry.Bad(sk.Path, "", "unreadable-skill", "another stored skill has the same path")
			}
			if !yield(&h, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// head reads the SKILL.md of a skill.
func head(sk Skill) metier.Head {
	clean, err := confine.Clean(sk.Path)
	h := metier.Head{Path: sk.Path, FileName: fileName, Kind: metier.KindSkill, TextOnly: true, Size: int64(len(sk.Text))}
	switch {
	case err != nil || clean != sk.Path || clean == ".":
		return entry.Bad(sk.Path, "", "unreadable-skill", "its path is not valid")
	case len(sk.Text) > MaxText:
		return entry.Bad(sk.Path, "", "unreadable-skill", fmt.Sprintf("its text has more than %d bytes", MaxText))
	}
	data := []byte(sk.Text)
	entry.Fill(&h, data[:min(len(data), skillmd.MaxHead)], len(data) <= skillmd.MaxHead)
	h.Digest = metier.Digest(digest.Bytes(data))
	return h
}

// Open implements metier.Source.
func (s *Source) Open(ctx context.Context, path string) (metier.Bundle, error) {
	list, err := s.skills(ctx)
	if err != nil {
		return nil, &metier.Error{Op: "open", Skill: path, Kind: metier.Unavailable, Code: "skills_unavailable", Hint: "try again", Err: err}
	}
	i := slices.IndexFunc(list, func(sk Skill) bool { return sk.Path == path })
	if i < 0 {
		return nil, &metier.Error{Op: "open", Skill: path, Kind: metier.NotFound, Code: "skill_not_found", Err: errors.New("no stored skill has this path")}
	}
	h := head(list[i])
	if h.FileName == "" {
		return nil, &metier.Error{Op: "open", Skill: path, Kind: metier.Invalid, Code: "skill_unusable", Err: errors.New(h.Diagnostics[0].Detail)}
	}
	return &bundle{h, []byte(list[i].Text)}, nil
}

// bundle is an open skill.
type bundle struct {
	head metier.Head
	text []byte
}

func (b *bundle) Head() metier.Head { return b.head }

func (b *bundle) Close() error { return nil }

// Open implements metier.Bundle.
func (b *bundle) Open(ctx context.Context, file string) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	clean, err := confine.Clean(file)
	switch {
	case err != nil:
		return nil, &metier.Error{Op: "open", Skill: b.head.Path, Path: file, Kind: metier.Invalid, Code: "resource_path_invalid", Err: err}
	case clean != fileName:
		return nil, metier.WithoutFiles(b.head.Path, file)
	}
	return io.NopCloser(bytes.NewReader(b.text)), nil
}

// Manifest implements metier.Bundle.
func (b *bundle) Manifest(ctx context.Context) (metier.Manifest, error) {
	f := metier.File{Path: fileName, Size: b.head.Size, Digest: b.head.Digest}
	entry.Facts(&f, b.text, false)
	m := metier.Manifest{Files: []metier.File{f}}
	m.Tree = entry.Tree(m.Files)
	return m, ctx.Err()
}
