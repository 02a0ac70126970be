package install

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"metier"
)

// compare finds out what a change does to the store, and whether it may.
func (s *Store) compare(ctx context.Context, c *Change, agents []string, force bool) error {
	was, locked := s.lock.Skills[c.Name]
	if locked {
		c.Was = &was
	}
	c.Entry.Agents = union(was.Agents, agents)
	m, err := s.manifest(ctx, c.Name)
	if metier.KindOf(err) == metier.NotFound && !errors.Is(err, fs.ErrNotExist) {
		c.Action, c.Files = Add, differences(nil, c.Entry.Files)
		return nil
	}
	if err != nil && !force {
		if locked && metier.CodeOf(err) == "skill_exists" {
			return s.modified(c.Name)
		}
		return err
	}
	now := lockedFiles(m)
	c.Modified = locked && string(m.Tree) != was.Tree
	c.Action, c.Files = Replace, differences(now, c.Entry.Files)
	switch {
	case err == nil && string(m.Tree) == c.Entry.Tree:
		c.Action = Keep
		if was.Tree == c.Entry.Tree {
			c.Entry.Scanner = was.Scanner
			if len(c.Signature.Unknown) > 0 {
				c.Entry.Signers = was.Signers // the same files have the same signers, whichever keys are known here
			}
		}
	case force:
	case !locked:
		return metier.Fieldf(metier.Conflict, "Request.Force", "skill_exists", "remove the folder, or set Request.Force to replace it", "%s exists and was not installed by metier", s.path(c.Name))
	case c.Modified:
		return s.modified(c.Name)
	case was.Kind != c.Entry.Kind || was.Location != c.Entry.Location || was.Path != c.Entry.Path:
		return metier.Fieldf(metier.Conflict, "Request.Force", "skill_of_other_source", "remove the skill first, or set Request.Force to replace it", "%s was installed from %s", s.path(c.Name), was.Source)
	}
	return nil
}

func (s *Store) modified(name string) error {
	return metier.Fieldf(metier.Conflict, "Request.Force", "skill_modified", "keep the changes under another name, or set Request.Force to discard them", "%s was changed after it was installed", s.path(name))
}

// differences returns the files that differ, by path.
func differences(was, now map[string]LockedFile) []FileChange {
	var out []FileChange
	for _, p := range slices.Sorted(maps.Keys(now)) {
		if old, ok := was[p]; !ok {
			out = append(out, FileChange{p, Add})
		} else if old != now[p] {
			out = append(out, FileChange{p, Replace})
		}
	}
	for _, p := range slices.Sorted(maps.Keys(was)) {
		if _, ok := now[p]; !ok {
			out = append(out, FileChange{p, Remove})
		}
	}
	slices.SortFunc(out, func(a, b FileChange) int { return cmp.Compare(a.Path, b.Path) })
	return out
}
