package local

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"metier"
	"metier/internal/confine"
	"metier/skillmd"
)

// Why returns the reason the folder at a path of this source is not listed: one diagnostic, with
// the code that List would use if List has a rule for it. A zero Diagnostic means that nothing
// prevents the listing. Why checks each step of the path once and opens no file except SKILL.md.
func (s *Source) Why(p string) metier.Diagnostic {
	say := func(code, format string, args ...any) metier.Diagnostic {
		return metier.Diagnostic{Severity: skillmd.Advice, Code: code, Detail: fmt.Sprintf(format, args...), Path: p}
	}
	at, err := s.anchor()
	if err != nil {
		return say("path-missing", "the root %s cannot be opened", s.given)
	}
	defer at.close()
	root := at.first.dir
	steps := strings.Split(p, "/")
	if p == "." {
		steps = nil
	}
	for i, name := range steps {
		rel := strings.Join(steps[:i+1], "/")
		info, err := root.Stat(rel)
		switch code := confine.CodeOf(err); {
		case code == confine.Permission:
			return say("unreadable-directory", "%s cannot be searched", path.Dir(rel))
		case code == confine.Outside:
			return say("skill-scan-outside-root", "%s is on another file system", rel)
		case err != nil:
			return say("path-missing", "%s does not exist", rel)
		case slices.Contains(s.opt.Skip, name):
			return say("folder-skipped", "%s is a skipped folder", rel)
		case info.Mode&fs.ModeSymlink != 0:
			return s.whyLink(at, rel, say)
		case !info.Mode.IsDir() && i < len(steps)-1:
			return say("not-a-folder", "%s is not a folder", rel)
		case !info.Mode.IsDir():
			return say("not-skill-file", "%s is a file", rel)
		case s.children && i > 0:
			return say("children-only", "%s is not directly in the root", rel)
		case i >= s.opt.MaxDepth:
			return say("max-depth-exceeded", "%s is deeper than %d levels", rel, s.opt.MaxDepth)
		}
	}
	sc := scan{Source: s, anchors: at}
	if _, found := sc.head(node{p, 0, p}, new(worker)); found {
		return say("scan-limit-exceeded", "it was not reached")
	}
	if _, _, err := root.ReadDir(p, 1); confine.CodeOf(err) == confine.Permission {
		return say("unreadable-directory", "the folder cannot be read")
	}
	return say("no-skill-file", "the folder has no %s", strings.Join(s.names, " or "))
}

// whyLink is Why for a symlink.
func (s *Source) whyLink(at *anchors, rel string, say func(code, format string, args ...any) metier.Diagnostic) metier.Diagnostic {
	t, err := at.target(node{path: rel, rel: rel}.location(at))
	switch {
	case confine.CodeOf(err) == confine.Outside && t.dir:
		return say("skill-scan-outside-root", "%s is a symlink that leaves the root", rel)
	case confine.CodeOf(err) == confine.Outside:
		return say("not-skill-file", "%s is a symlink that leaves the root", rel)
	case err != nil:
		return say("unresolvable-skill-scan-path", "%s is a symlink", rel)
	case !t.dir:
		return say("not-skill-file", "%s is a symlink to a file", rel)
	case !s.links:
		return say("skill-symlink-ignored", "%s is a symlink", rel)
	}
	return say("skill-link-duplicate", "%s leads to %s", rel, t.real)
}
