package filetool

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"metier/internal/confine"
	"metier/policy"
)

// Limits of one walk.
const (
	walkDepth   = 64
	walkFolders = 5000
	walkEntries = 100_000
)

// leftOut are folders no walk enters.
var leftOut = []string{".git", ".metier", "node_modules"}

// walker goes through a folder in byte order of paths, bounded, following no
// link, and counts what it leaves out.
type walker struct {
	w     *Workspace
	rules ruleset
	dir   *confine.Dir
	host  string // host path of dir's "."
	start string // path below dir
	// skill, if set, reports whether a host path is in a skill. Folders of skills
	// are left out then: their content is read through the session.
	skill func(host string) bool
	visit func(rel string, e confine.Entry) bool // rel is below start; false stops

	folders, entries                 int
	names, links, closed, unreadable int
	skills                           []string
	cut                              string // the limit that ended it
}

// walk visits depth levels; 1 is the folder's own entries.
func (k *walker) walk(ctx context.Context, depth int) error {
	_, err := k.folder(ctx, k.start, "", min(depth, walkDepth))
	return err
}

func (k *walker) folder(ctx context.Context, at, rel string, depth int) (goOn bool, err error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if k.folders++; k.folders > walkFolders {
		k.cut = fmt.Sprintf("stopped after %d folders", walkFolders)
		return false, nil
	}
	list, more, err := k.dir.ReadDir(at, walkEntries-k.entries)
	if err != nil {
		if rel == "" {
			return false, err
		}
		k.unreadable++
		return true, nil
	}
	k.entries += len(list)
	if more {
		k.cut = fmt.Sprintf("stopped after %d entries", walkEntries)
	}
	// A folder sorts as its name with a slash, so that paths come in byte order.
	slices.SortFunc(list, func(a, b confine.Entry) int { return strings.Compare(sortName(a), sortName(b)) })
	for _, e := range list {
		sub := path.Join(rel, e.Name)
		if e.Type.IsDir() && !k.enter(path.Join(at, e.Name), sub, e.Name) {
			continue
		}
		if e.Type&fs.ModeSymlink != 0 {
			k.links++
		}
		if !k.visit(sub, e) {
			return false, nil
		}
		if e.Type.IsDir() && depth > 1 {
			if goOn, err := k.folder(ctx, path.Join(at, e.Name), sub, depth-1); err != nil || !goOn {
				return false, err
			}
		}
	}
	return k.cut == "", nil
}

func sortName(e confine.Entry) string {
	if e.Type.IsDir() {
		return e.Name + "/"
	}
	return e.Name
}

// enter reports whether a folder may be shown and entered.
func (k *walker) enter(at, rel, name string) bool {
	if slices.ContainsFunc(leftOut, func(s string) bool { return twin(name, s) }) {
		k.names++
		return false
	}
	host := filepath.Join(k.host, filepath.FromSlash(at))
	v := k.w.judge(host, k.rules)
	switch {
	case v.read == policy.ZoneDenied:
		k.closed++
		return false
	case k.skill != nil && (v.skills || k.skill(host)):
		k.skills = append(k.skills, rel)
		return false
	}
	return true
}

// notes says what was left out, one line each.
func (k *walker) notes() []string {
	var out []string
	add := func(n int, format string) {
		if n > 0 {
			out = append(out, fmt.Sprintf(format, n))
		}
	}
	add(k.names, "%d folder(s) named .git, .metier or node_modules left out")
	add(k.closed, "%d folder(s) that may not be read left out")
	add(k.unreadable, "%d folder(s) could not be read")
	if n := len(k.skills); n > 0 {
		shown := k.skills[:min(n, 5)]
		s := fmt.Sprintf("%d folder(s) of skills left out: %s", n, strings.Join(shown, ", "))
		if n > len(shown) {
			s += " and more"
		}
		out = append(out, s)
	}
	if k.cut != "" {
		out = append(out, k.cut)
	}
	return out
}
