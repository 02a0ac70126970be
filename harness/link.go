package harness

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"metier/internal/confine"
	"metier/internal/termtext"
	"metier/skillmd"
)

// link is a link to a folder of the harness.
type link struct {
	parent *Node
	name   string
	real   string
}

// resolve returns the location of a file of a folder. It follows a link only if
// links are allowed and the target is in the harness.
func (r *reader) resolve(dir, name string) (string, error) {
	at := join(dir, name)
	info, err := r.dir.Stat(at)
	if err != nil || info.Mode&fs.ModeSymlink == 0 {
		return at, err
	}
	return r.target(at)
}

// target follows a link.
func (r *reader) target(at string) (string, error) {
	outside := func(why string) (string, error) {
		return "", &confine.Error{Op: "resolve", Path: at, Code: confine.Outside, Err: fmt.Errorf("%s", why)}
	}
	if !r.opt.Links {
		return outside("it is a link, and the setting symlinks disallows links")
	}
	real, err := confine.RealPath(filepath.Join(r.path, filepath.FromSlash(at)))
	if err != nil {
		if os.IsPermission(err) {
			return outside("the target of the link is not readable")
		}
		return "", &confine.Error{Op: "resolve", Path: at, Code: confine.NotFound, Err: fmt.Errorf("the target of the link does not exist, or the link loops")}
	}
	rel, err := filepath.Rel(r.path, real)
	if err != nil || !filepath.IsLocal(rel) {
		return outside("the link leads out of the harness")
	}
	rel = filepath.ToSlash(rel)
	if confine.Private(rel) {
		return outside("the link leads to .git or .metier")
	}
	return rel, nil
}

func (l link) path() string { return join(l.parent.Path, l.name) }

// linked processes a link to a file, and queues a link to a folder.
func (r *reader) linked(parent *Node, name string, docs bool) {
	shown := join(parent.Path, name)
	at, err := r.target(join(parent.real, name))
	if err != nil {
		r.note(skillmd.Warning, "harness-link", shown, "ignored: %s", err.(*confine.Error).Err)
		return
	}
	info, err := r.dir.Stat(at)
	switch {
	case err != nil:
		r.note(skillmd.Warning, "harness-link", shown, "ignored: %s", reason(err))
	case info.Mode.IsDir():
		r.links = append(r.links, link{parent, name, at})
	case docs:
		r.document(parent, name, at)
	}
}

// follow adds the target folder of a link, unless it is already in the tree,
// contains the link, or is in a leaf.
func (r *reader) follow(l link) {
	if r.walked[l.real] {
		r.note(skillmd.Advice, "harness-link-duplicate", l.path(), "ignored: the target of the link is already in the harness")
		return
	}
	for _, n := range r.h.byPath {
		if n.Kind == Leaf && strings.HasPrefix(l.real, n.real+"/") {
			r.note(skillmd.Advice, "harness-link-duplicate", l.path(), "ignored: the target of the link is in the leaf %s", termtext.Quote(n.Path))
			return
		}
	}
	if l.real == "." || strings.HasPrefix(l.parent.real+"/", l.real+"/") {
		r.note(skillmd.Warning, "harness-link", l.path(), "ignored: the target of the link is a folder above it")
		return
	}
	r.folder(l.parent, l.name, l.real)
}
