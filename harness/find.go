package harness

import (
	"context"
	"errors"
	"strings"

	"metier"
	"metier/internal/confine"
	"metier/internal/nearest"
	"metier/internal/termtext"
)

// location is the target of a path: a node of a harness, or a file of a leaf.
type location struct {
	label string
	h     *Harness
	node  *Node
	file  string // of the leaf; "" for the leaf itself
}

// id is the ID of the node's entry.
func (p location) id() string { return metier.ID{Source: p.label, Path: p.node.Path}.String() }

// mounted is a harness of a session.
type mounted struct {
	label string
	h     *Harness
}

// Of returns the harnesses of a snapshot, in the order of its mounts.
func Of(ctx context.Context, snap *metier.Snapshot) (labels []string, list []*Harness, err error) {
	for _, m := range snap.Mounts() {
		if src, is := m.Source.(*Source); is {
			h, err := src.Harness(ctx)
			if err != nil {
				return nil, nil, err
			}
			labels, list = append(labels, m.Label), append(list, h)
		}
	}
	return labels, list, nil
}

func of(ctx context.Context, s *metier.Session) ([]mounted, error) {
	labels, list, err := Of(ctx, s.Snapshot())
	var out []mounted
	for i, h := range list {
		if h.Err() == nil {
			out = append(out, mounted{labels[i], h})
		}
	}
	return out, err
}

// find resolves a path. It is relative to the tool's folder (below, "" for the
// top level), or else to the harness: in v1, query-database and
// skills/query-database are the same skill. "." is the harness itself, and "" is
// the tool's folder. The prefix LABEL: selects one of several harnesses. A path
// that leaves the harness fails with harness_path_invalid.
func find(ctx context.Context, s *metier.Session, path string, below ...string) (location, error) {
	fail := func(k metier.Kind, code, text, hint string) (location, error) {
		return location{}, &metier.Error{Op: "find", Path: termtext.Line(path), Kind: k, Code: code, Hint: hint, Err: errors.New(text)}
	}
	all, err := of(ctx, s)
	if err != nil {
		return location{}, err
	}
	rel := path
	for _, m := range all {
		if rest, ok := strings.CutPrefix(path, m.label+":"); ok {
			all, rel = []mounted{m}, rest
			break
		}
	}
	if rel != "" && rel != "." {
		clean, err := confine.Clean(strings.TrimSuffix(rel, "/"))
		if err != nil {
			return fail(metier.Invalid, "harness_path_invalid", "the path must be relative and stay in the harness", "list_content returns valid paths")
		}
		rel = clean
	}
	for _, m := range all { // earlier harnesses take precedence
		for _, dir := range append(below, "") {
			if p, ok := m.at(dir, rel); ok {
				return p, nil
			}
		}
	}
	return fail(metier.NotFound, "harness_path_not_found", "nothing exists at this path"+near(ctx, s, all, rel), "list_content lists the valid paths")
}

// near suggests similar paths, among those that the model may see.
func near(ctx context.Context, s *metier.Session, all []mounted, rel string) string {
	var known []string
	ids := map[string]string{}
	for _, m := range all {
		for _, n := range m.h.All() {
			if _, twice := ids[n.Path]; !twice && len(known) < 2000 {
				known = append(known, n.Path)
				ids[n.Path] = location{m.label, m.h, n, ""}.id()
			}
		}
	}
	var told []string
	for _, path := range nearest.Names(rel, known) {
		if _, ok, err := s.Entry(ctx, ids[path], ""); err == nil && ok {
			told = append(told, termtext.Line(path))
		}
	}
	if len(told) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(told, " or ") + "?"
}

// at is find in one harness.
func (m mounted) at(dir, rel string) (location, bool) {
	full := rel
	switch {
	case rel == "" && dir == "", rel == ".":
		full = "."
	case rel == "":
		full = dir
	case dir != "":
		full = dir + "/" + rel
	}
	if rel == "." && dir != "" {
		return location{}, false
	}
	if n := m.h.At(full); n != nil {
		return location{m.label, m.h, n, ""}, true
	}
	for up := full; ; {
		i := strings.LastIndexByte(up, '/')
		if i < 0 {
			return location{}, false
		}
		up = up[:i]
		switch n := m.h.At(up); {
		case n == nil:
		case n.Kind == Leaf:
			return location{m.label, m.h, n, full[i+1:]}, true
		case n.Kind == Group && full == join(up, n.File) && n.File != "": // a summary, by its file name
			return location{m.label, m.h, n, ""}, true
		default:
			return location{}, false
		}
	}
}
