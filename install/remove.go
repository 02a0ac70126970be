package install

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"metier"
)

// Remove returns a plan that removes skills. With force, it also removes those that were modified, and
// those that other installed skills require.
func (s *Store) Remove(ctx context.Context, names []string, force bool) (*Plan, error) {
	p := &Plan{store: s, id: s.o.ID()}
	seen := map[string]bool{}
	for _, name := range names {
		was, ok := s.lock.Skills[name]
		if !ok {
			return nil, metier.Fieldf(metier.NotFound, "Request.Skills", "skill_not_installed", "use the name of a skill in the lock", "%s has no skill %q", s.o.Lock, name)
		}
		m, err := s.manifest(ctx, name)
		gone := err != nil && metier.KindOf(err) == metier.NotFound
		switch modified := !gone && (err != nil || string(m.Tree) != was.Tree); {
		case modified && !force:
			return nil, s.modified(name)
		case !seen[name]:
			seen[name] = true
			p.Changes = append(p.Changes, Change{Name: name, Action: Remove, Was: &was, Modified: modified, Files: differences(was.Files, nil)})
		}
	}
	if err := p.leave(force); err != nil {
		return nil, err
	}
	return p, p.order()
}

// leave finds the skills that require what a plan removes. They refuse the plan, or with force, lose the
// requirement.
func (p *Plan) leave(force bool) error {
	gone := map[string]bool{}
	for _, c := range p.Changes {
		gone[c.Name] = true
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(p.store.lock.Skills)) {
		was := p.store.lock.Skills[name]
		isGone := func(d string) bool { return gone[d] }
		if gone[name] || !slices.ContainsFunc(was.Dependencies, isGone) {
			continue
		}
		now, lost := was, slices.DeleteFunc(slices.Clone(was.Dependencies), func(d string) bool { return !gone[d] })
		now.Dependencies = slices.DeleteFunc(slices.Clone(was.Dependencies), isGone)
		now.Unmet = union(was.Unmet, lost)
		lines = append(lines, fmt.Sprintf("%s requires %s", name, strings.Join(lost, ", ")))
		p.Changes = append(p.Changes, Change{Name: name, Action: Keep, Entry: now, Was: &was})
	}
	switch {
	case len(lines) == 0:
	case force:
		p.Notes = append(p.Notes, lines...)
	default:
		return metier.Fieldf(metier.Conflict, "Request.Force", "skill_required", "remove both, or set Request.Force", "%s", some(lines))
	}
	return nil
}

// next returns the lock after the plan.
func (p *Plan) next() Lock {
	out := Lock{Version: lockVersion, Skills: maps.Clone(p.store.lock.Skills)}
	for _, c := range p.Changes {
		if c.Action == Remove {
			delete(out.Skills, c.Name)
		} else {
			out.Skills[c.Name] = c.Entry
		}
	}
	return out
}

// leftOver returns the skills that were installed only because others required them, and that no skill
// requires now, directly or through others.
func (l Lock) leftOver() []string {
	used := map[string]bool{}
	var queue []string
	for name, e := range l.Skills {
		if !e.Required {
			queue = append(queue, name)
		}
	}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if !used[name] {
			used[name] = true
			queue = append(queue, l.Skills[name].Dependencies...)
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(l.Skills)), func(name string) bool { return used[name] })
}

// noteLeftOver notes the skills that the plan leaves over.
func (p *Plan) noteLeftOver() {
	before := p.store.lock.leftOver()
	left := slices.DeleteFunc(p.next().leftOver(), func(name string) bool { return slices.Contains(before, name) })
	if len(left) > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("no skill requires %s any more; 'metier remove %s' removes what is left over", some(left), strings.Join(left[:min(len(left), maxNote)], " ")))
	}
}
