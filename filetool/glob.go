package filetool

import (
	"errors"
	"path"
	"strings"
)

// glob is a pattern of path.Match with ** for any number of folders. Without a
// slash it is matched against the name alone.
type glob struct{ parts []string }

const (
	globMax   = 512    // bytes of a pattern
	globParts = 32     // its parts
	globSteps = 10_000 // comparisons for one path; beyond, it does not match
)

// parseGlob checks a pattern; "" matches everything.
func parseGlob(p string) (glob, error) {
	if p == "" {
		return glob{}, nil
	}
	g := glob{strings.Split(strings.TrimPrefix(p, "./"), "/")}
	if len(p) > globMax || len(g.parts) > globParts {
		return g, errors.New("the pattern is too long")
	}
	for _, part := range g.parts {
		if _, err := path.Match(part, ""); err != nil {
			return g, errors.New("the pattern is malformed")
		}
	}
	return g, nil
}

func (g glob) match(rel string) bool {
	switch {
	case g.parts == nil:
		return true
	case len(g.parts) == 1:
		ok, _ := path.Match(g.parts[0], path.Base(rel)) // checked by parseGlob
		return ok || g.parts[0] == "**"
	}
	steps := 0
	return matchParts(g.parts, strings.Split(rel, "/"), &steps)
}

func matchParts(ps, ns []string, steps *int) bool {
	if *steps++; *steps > globSteps {
		return false
	}
	if len(ps) == 0 {
		return len(ns) == 0
	}
	if ps[0] == "**" {
		for i := range len(ns) + 1 {
			if matchParts(ps[1:], ns[i:], steps) {
				return true
			}
		}
		return false
	}
	if len(ns) == 0 {
		return false
	}
	ok, _ := path.Match(ps[0], ns[0]) // checked by parseGlob
	return ok && matchParts(ps[1:], ns[1:], steps)
}
