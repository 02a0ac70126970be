package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"metier"
	"metier/internal/confine"
)

// bundle holds a skill's folder open, so that files come from that folder even if its path now
// refers to another one.
type bundle struct {
	s    *Source
	at   *anchors
	dir  *confine.Dir
	node node
	name string             // of the skill file
	head func() metier.Head // reads it once
	once sync.Once
}

func (b *bundle) Head() metier.Head { return b.head() }

// Close implements metier.Bundle. Files opened before stay open.
func (b *bundle) Close() error {
	b.once.Do(func() {
		b.dir.Close()
		b.at.close()
	})
	return nil
}

// Open implements metier.Bundle. If links are followed, a link that stays in the skill's folder is
// resolved and its target is opened.
func (b *bundle) Open(ctx context.Context, file string) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := b.openFile(file)
	if err == nil && b.s.opt.RefuseHardLinks && f.Info().Nlink > 1 {
		f.Close()
		err = &confine.Error{Op: "open", Path: file, Code: confine.Outside, Err: errHardLink}
	}
	if err != nil {
		return nil, &metier.Error{Op: "open", Skill: b.node.path, Path: file, Kind: kindOf(err), Code: codeOf(err), Err: err}
	}
	return f, nil
}

var errSkipped = errors.New("version control and package folders are not part of a skill")

// skips reports whether a folder with this name is not part of a skill. Case is ignored, because
// some file systems are case-insensitive.
func (s *Source) skips(name string) bool {
	return slices.ContainsFunc(s.opt.Skip, func(k string) bool { return strings.EqualFold(k, name) })
}

// hides reports whether a path below a skill is in a folder that is not part of the skill. dir
// reports whether the path is a folder itself.
func (s *Source) hides(rel string, dir bool) bool {
	if !dir {
		rel, _ = path.Split(rel)
	}
	return slices.ContainsFunc(strings.Split(rel, "/"), s.skips)
}

var errHardLink = errors.New("the file has another hard link, which may be outside")

func (b *bundle) openFile(file string) (*confine.File, error) {
	if folder, _ := path.Split(file); slices.ContainsFunc(strings.Split(folder, "/"), b.s.skips) {
		return nil, &confine.Error{Op: "open", Path: file, Code: confine.NotFound, Err: errSkipped}
	}
	f, err := b.dir.Open(file)
	if confine.CodeOf(err) != confine.Outside || !b.s.links {
		return f, err
	}
	clean, err := confine.Clean(file)
	if err != nil {
		return nil, err
	}
	t, err := b.resolve(clean)
	if err != nil {
		return nil, err
	}
	return b.at.open(t)
}

// resolve follows the links of a path in the skill. Links are read by path, so the folder at that
// path must still be the one that is held open.
func (b *bundle) resolve(rel string) (target, error) {
	location := b.node.location(b.at)
	d, err := b.at.get(b.node.at).dir.Stat(b.node.rel)
	if err != nil {
		return target{}, err
	}
	self, err := b.dir.Stat(".")
	if err != nil {
		return target{}, err
	}
	if d.Dev != self.Dev || d.Ino != self.Ino {
		return target{}, &confine.Error{Op: "resolve", Path: rel, Code: confine.Changed, Err: fmt.Errorf("%s is now a different folder", location)}
	}
	t, err := b.at.target(filepath.Join(location, filepath.FromSlash(rel)))
	below, within := inside(filepath.FromSlash(b.node.rel), filepath.FromSlash(t.rel))
	switch {
	case err != nil:
		return t, err
	case within && t.at == b.node.at && b.s.hides(below, t.dir):
		return target{dir: t.dir}, errHidden
	case rel != b.name && (t.at != b.node.at || !within):
		return target{dir: t.dir}, errOutside // a skill's files are the ones in its folder
	}
	return t, nil
}
