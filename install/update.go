package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"metier"
	"metier/settings"
)

// origins are the sources of entries of a lock, and the names of the skills from each.
type origins struct {
	keys  []originKey
	names map[originKey][]string
}

// originKey is what entries have in common that one fetch can serve.
type originKey struct {
	Source
	commit, digest string // that must be fetched
}

// add adds a skill.
func (o *origins) add(k originKey, name string) {
	if o.names == nil {
		o.names = map[originKey][]string{}
	}
	if _, ok := o.names[k]; !ok {
		o.keys = append(o.keys, k)
	}
	o.names[k] = append(o.names[k], name)
}

// base returns the source that one fetch reads for all skills from it. The path of an index is an entry
// of it.
func base(s Source) Source {
	if s.Kind != Index {
		s.Path = ""
	}
	return s
}

// chosen returns names of the lock: those given, or all.
func (s *Store) chosen(given []string) ([]string, error) {
	for _, n := range given {
		if _, ok := s.lock.Skills[n]; !ok {
			return nil, metier.Fieldf(metier.NotFound, "Request.Skills", "skill_not_installed", "use the name of a skill in the lock", "%s has no skill %q", s.o.Lock, n)
		}
	}
	if len(given) > 0 {
		return slices.Compact(slices.Sorted(slices.Values(given))), nil
	}
	return slices.Sorted(maps.Keys(s.lock.Skills)), nil
}

// Update returns a plan that replaces skills by what their sources contain now. Without names, it is
// about all skills of the lock. A skill of a full commit stays as it is. With force, skills that were
// modified are replaced too. Apply or Discard ends the plan.
func (s *Store) Update(ctx context.Context, names []string, force bool, set settings.Settings) (_ *Plan, err error) {
	given := len(names) > 0
	if names, err = s.chosen(names); err != nil {
		return nil, err
	}
	p := &Plan{store: s, id: s.o.ID()}
	var from origins
	for _, name := range names {
		e := s.lock.Skills[name]
		switch {
		case e.Pinned():
			p.keep(name, e)
		case !given && e.whole() != nil:
			p.keep(name, e)
			p.Notes = append(p.Notes, fmt.Sprintf("skill %q is not updated: %v", name, e.whole()))
		default:
			from.add(originKey{Source: base(e.Source)}, name)
		}
	}
	for _, k := range from.keys {
		if err := p.update(ctx, k.Source, from.names[k], force, set); err != nil {
			return nil, errors.Join(err, p.Discard())
		}
	}
	if err := p.order(); err != nil {
		return nil, errors.Join(err, p.Discard())
	}
	return p, nil
}

// keep adds a skill that stays as the lock has it.
func (p *Plan) keep(name string, e Entry) {
	p.Changes = append(p.Changes, Change{Name: name, Action: Keep, Entry: e, Was: &e})
}

// update stages the skills of one source.
func (p *Plan) update(ctx context.Context, src Source, names []string, force bool, set settings.Settings) error {
	now, err := p.store.newest(ctx, src)
	if err != nil {
		return err
	}
	var stale []string
	for _, n := range names {
		if e := p.store.lock.Skills[n]; now != "" && e.Commit == now {
			p.keep(n, e)
		} else {
			stale = append(stale, n)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	return p.from(ctx, src, FetchOptions{Commit: now}, stale, set, func(f *Found, sk metier.Skill, name string) error {
		was := p.store.lock.Skills[name]
		c, err := p.stage(ctx, f, sk, Request{Force: true, Agents: was.Agents, validation: set.Install.Validation})
		switch {
		case err != nil:
			return err
		case c.Entry.Tree == was.Tree:
			c.Action, c.Files = Keep, nil
		case c.Modified && !force && c.Action != Keep:
			return p.store.modified(name)
		}
		p.Changes = append(p.Changes, c)
		return nil
	})
}

// newest returns the commit that a source names now, or "" if it is not a repository.
func (s *Store) newest(ctx context.Context, src Source) (commit string, err error) {
	if src.Kind != Git {
		return "", nil
	}
	name := "fetch-" + s.o.ID()
	if err := s.work.Mkdir(name, 0o700); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.work.RemoveAll(name)) }()
	return newest(ctx, src, FetchOptions{Dir: s.path(work, name), Env: s.o.Env, Progress: s.o.Progress})
}

// from fetches a source, and calls each for every named skill of the lock, with the skill that the source
// has at its path.
func (p *Plan) from(ctx context.Context, src Source, o FetchOptions, names []string, set settings.Settings, each func(*Found, metier.Skill, string) error) (err error) {
	for _, n := range names {
		o.Paths = append(o.Paths, p.store.lock.Skills[n].Path)
	}
	o.Wrapped = wrapped(set)
	f, err := p.store.fetch(ctx, src, o)
	if err != nil {
		return fmt.Errorf("%s: %w", brieflyNamed(names), err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	p.Notes = append(p.Notes, f.Notes...)
	found, err := Find(ctx, f, set)
	if err != nil && metier.CodeOf(err) == "source_without_skills" {
		found = &Found{Fetched: f}
	} else if err != nil {
		return err
	}
	at := map[string]metier.Skill{}
	for _, sk := range found.Skills {
		at[path.Join(f.Source.Path, sk.ID.Path)] = sk
	}
	for _, n := range names {
		e := p.store.lock.Skills[n]
		sk, ok := at[cmp.Or(e.Path, ".")]
		switch {
		case !ok:
			return &metier.Error{Skill: n, Kind: metier.NotFound, Code: "skill_gone", Hint: "remove the skill, or install it from another source", Err: fmt.Errorf("%s does not contain it any more%s", e.Source, f.also())}
		case sk.Slug != n && sk.State != metier.Refused:
			return &metier.Error{Skill: n, Kind: metier.Conflict, Code: "skill_renamed", Hint: "remove the skill, and add it again under its new name", Err: fmt.Errorf("its name in %s is now %q", e.Source, sk.Name)}
		}
		if err := each(found, sk, n); err != nil {
			return about(sk, err)
		}
	}
	return nil
}
