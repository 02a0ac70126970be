package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"metier"
	"metier/internal/confine"
	"metier/skillmd"
	"metier/source/internal/entry"
)

// item is a file to hash.
type item struct {
	path string       // in the skill
	dir  *confine.Dir // where rel is opened
	rel  string
	loc  string // host path after links
}

// index is one walk over a skill's folder.
type index struct {
	*bundle
	ctx   context.Context
	files []item
	links []string
	seen  []string // host paths of walked folders; nearly always a few
	dirs  int
	over  int // files past the limit
	diags []metier.Diagnostic
}

// Manifest implements metier.Bundle. The limits are those of Options. They always cut off the same
// files, and never SKILL.md.
func (b *bundle) Manifest(ctx context.Context) (metier.Manifest, error) {
	x := &index{bundle: b, ctx: ctx}
	if err := x.skillFile(); err != nil {
		return metier.Manifest{}, err
	}
	if err := x.walk([]place{{"", b.dir, ".", b.node.location(b.at)}}); err != nil {
		return metier.Manifest{}, err
	}
	for len(x.links) > 0 {
		round := x.links
		x.links = nil
		slices.Sort(round)
		if err := x.walk(x.follow(round)); err != nil {
			return metier.Manifest{}, err
		}
	}
	if x.over > 0 {
		x.note(skillmd.Warning, "resource-file-limit-exceeded", "", fmt.Sprintf("at least %d files are left out: the limit is %d", x.over, b.s.opt.MaxResourceFiles))
	}
	files, err := x.hash()
	if err != nil {
		return metier.Manifest{}, err
	}
	slices.SortFunc(x.diags, func(a, b metier.Diagnostic) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Code, b.Code))
	})
	return metier.Manifest{Files: files, Tree: entry.Tree(files), Diagnostics: x.diags}, nil
}

// skillFile adds SKILL.md, which may be a link like any other file.
func (x *index) skillFile() error {
	name, loc := x.name, x.node.location(x.at)
	if h := x.Head(); h.Location == filepath.Join(loc, name) {
		x.file(item{name, x.dir, name, h.Location})
		return nil
	}
	t, err := x.resolve(name)
	if err != nil {
		return &metier.Error{Op: "open", Skill: x.node.path, Path: name, Kind: kindOf(err), Code: codeOf(err), Err: err}
	}
	x.file(item{name, x.at.get(t.at).dir, t.rel, t.real})
	return nil
}

// place is a folder: its path in the skill, and where to open it.
type place struct {
	path string // "" for the skill itself
	dir  *confine.Dir
	rel  string // below dir
	loc  string // host path after links
}

func (p place) child(name string) place {
	c := place{path: name, dir: p.dir, loc: under(p.loc, name)}
	if p.path != "" {
		c.path = p.path + "/" + name
	}
	if p.rel == p.path || p.rel == "." && p.path == "" {
		c.rel = c.path
	} else {
		c.rel = join(p.rel, name)
	}
	return c
}

// under returns the host path of a name in a folder. Neither needs cleaning.
func under(dir, name string) string {
	if os.IsPathSeparator(dir[len(dir)-1]) {
		return dir + name
	}
	return dir + string(filepath.Separator) + name
}

func (x *index) walk(level []place) error {
	for len(level) > 0 {
		var next []place
		for _, p := range level {
			if err := x.ctx.Err(); err != nil {
				return err
			}
			if x.dirs++; x.dirs > x.s.opt.MaxResourceDirs {
				x.note(skillmd.Warning, "scan-limit-exceeded", p.loc, fmt.Sprintf("this and later folders are left out: the limit is %d folders", x.s.opt.MaxResourceDirs))
				return nil
			}
			if slices.Contains(x.seen, p.loc) {
				continue
			}
			x.seen = append(x.seen, p.loc)
			next = append(next, x.list(p)...)
		}
		slices.SortFunc(next, func(a, b place) int { return strings.Compare(a.path, b.path) })
		level = next
	}
	return nil
}

// list sorts the contents of a folder into files, links and folders.
func (x *index) list(p place) (dirs []place) {
	names, more, err := p.dir.ReadDir(p.rel, maxNames)
	if err != nil {
		x.note(skillmd.Warning, "unreadable-skill-resource-directory", p.loc, "the folder cannot be read: "+reason(err))
		return nil
	}
	if more {
		x.note(skillmd.Warning, "resource-file-limit-exceeded", p.loc, fmt.Sprintf("the folder has more than %d names; the rest is left out", maxNames))
	}
	for _, e := range names {
		c := p.child(e.Name)
		if _, err := confine.Clean(c.path); err != nil {
			x.note(skillmd.Warning, "unresolvable-skill-resource", c.loc, "the file cannot be named in a call: "+reason(err))
			continue
		}
		switch {
		case e.Type.IsRegular():
			if c.path != x.name {
				x.file(item(c))
			}
		case e.Type&fs.ModeSymlink != 0:
			if c.path != x.name {
				x.links = append(x.links, c.path)
			}
		case e.Type&fs.ModeDir == 0:
			x.note(skillmd.Warning, "unreadable-skill-resource", c.loc, "ignored: not a regular file")
		case x.s.skips(e.Name):
			x.note(skillmd.Advice, "resource-folder-skipped", c.loc, "ignored: folders with this name are not part of a skill")
		case strings.Count(c.path, "/")+1 > x.s.opt.MaxResourceDepth:
			x.note(skillmd.Warning, "max-depth-exceeded", c.loc, fmt.Sprintf("the folder is left out: it is deeper than %d", x.s.opt.MaxResourceDepth))
		default:
			dirs = append(dirs, c)
		}
	}
	return dirs
}

// file adds a file, up to the limit.
func (x *index) file(it item) {
	if len(x.files) >= x.s.opt.MaxResourceFiles {
		x.over++
		return
	}
	x.files = append(x.files, it)
}

// follow resolves links to files and folders. It adds the files, and returns the folders, which the
// walk has not covered.
func (x *index) follow(round []string) (dirs []place) {
	for _, path := range round {
		loc := filepath.Join(x.node.location(x.at), filepath.FromSlash(path))
		if !x.s.links {
			x.note(skillmd.Warning, "skill-symlink-ignored", loc, "left out: links are not followed here")
			continue
		}
		t, err := x.resolve(path)
		if err == nil && t.dir && x.s.skips(filepath.Base(loc)) {
			x.note(skillmd.Advice, "resource-folder-skipped", loc, "ignored: folders with this name are not part of a skill")
			continue
		}
		switch confine.CodeOf(err) {
		case "":
		case confine.Outside:
			why := "the symlink leaves the skill's folder"
			if errors.Is(err, errHidden) {
				why = "the symlink leads to a folder that is not part of a skill"
			}
			x.note(skillmd.Error, "skill-resource-outside-root", loc, "left out: "+why)
			continue
		default:
			x.note(skillmd.Warning, "unresolvable-skill-resource", loc, "left out: the symlink is broken or circular")
			continue
		}
		switch {
		case !t.dir:
			x.file(item{path, x.at.get(t.at).dir, t.rel, t.real})
		case slices.Contains(x.seen, t.real), holds(t.real, x.node.location(x.at)):
			x.note(skillmd.Warning, "symlink-cycle", loc, "left out: the symlink leads to a folder that is in already")
		case strings.Count(path, "/")+1 > x.s.opt.MaxResourceDepth:
			x.note(skillmd.Warning, "max-depth-exceeded", loc, fmt.Sprintf("the folder is left out: it is deeper than %d", x.s.opt.MaxResourceDepth))
		default:
			dirs = append(dirs, place{path, x.at.get(t.at).dir, t.rel, t.real})
		}
	}
	return dirs
}

// holds reports whether dir is path or one of its parents.
func holds(dir, path string) bool {
	_, ok := inside(dir, path)
	return ok
}
