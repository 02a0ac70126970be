package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

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
		if e := p.store.lock.Skills[n]; now != "" && e.Revision() == now {
			p.keep(n, e)
		} else {
			stale = append(stale, n)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	o := FetchOptions{Commit: now}
	if src.Kind == OCI {
		o = FetchOptions{Digest: now}
	}
	return p.from(ctx, src, o, stale, set, false, func(f *Found, skills []metier.Skill) error {
		n := p.store.needsOf(f, skills, false)
		if err := n.err(); err != nil {
			return updating(err)
		}
		for i, sk := range skills {
			was := p.store.lock.Skills[stale[i]]
			c, err := p.stage(ctx, f, sk, Request{Force: true, Agents: was.Agents, validation: set.Install.Validation, harness: set.Harness})
			switch {
			case err != nil:
				return about(sk, err)
			case c.Entry.Tree == was.Tree:
				c.Action, c.Files = Keep, nil
			case c.Modified && !force && c.Action != Keep:
				return about(sk, p.store.modified(stale[i]))
			}
			n.apply(&c)
			c.NeededBy, c.Entry.Required = nil, was.Required
			p.Changes = append(p.Changes, c)
		}
		return p.stageNeeded(ctx, n, Request{validation: set.Install.Validation, harness: set.Harness})
	})
}

// updating gives an error about requirements a hint that fits an update.
func updating(err error) error {
	e, ok := errors.AsType[*metier.Error](err)
	if !ok || !strings.Contains(e.Hint, "Request.SkipRequirements") {
		return err
	}
	c := *e
	c.Hint = "install what it requires first, or name the other skills to update only them"
	return &c
}

// newest returns the commit or the digest that a source names now, or "" if it has neither.
func (s *Store) newest(ctx context.Context, src Source) (version string, err error) {
	switch src.Kind {
	case OCI:
		return newestArtifact(ctx, src, s.options(FetchOptions{}))
	case Git:
	default:
		return "", nil
	}
	name := "fetch-" + s.o.ID()
	if err := s.work.Mkdir(name, 0o700); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.work.RemoveAll(name)) }()
	return newest(ctx, src, s.options(FetchOptions{Dir: s.path(work, name)}))
}

// maxRounds limits how often a source is fetched to get skills that others require.
const maxRounds = 8

// reach fetches a source, finds its skills, and chooses some. It fetches the source again with the skills
// that the chosen ones require, as long as it lists such skills. The caller closes what it returns.
func (s *Store) reach(ctx context.Context, src Source, o FetchOptions, set settings.Settings, r Request, choose func(*Found) ([]metier.Skill, error)) (*Found, []metier.Skill, error) {
	for round := 0; ; round++ {
		found, err := s.find(ctx, src, o, set)
		if err != nil {
			return nil, nil, err
		}
		skills, err := choose(found)
		if err != nil {
			return nil, nil, errors.Join(err, found.Close())
		}
		if r.SkipRequirements || round == maxRounds || !found.further(&src, &o, s.needsOf(found, skills, false).unfound) {
			return found, skills, nil
		}
		if err := found.Close(); err != nil {
			return nil, nil, err
		}
	}
}

// find fetches a source, and finds its skills.
func (s *Store) find(ctx context.Context, src Source, o FetchOptions, set settings.Settings) (*Found, error) {
	o.Wrapped = wrapped(set)
	f, err := s.fetch(ctx, src, o)
	if err != nil {
		return nil, err
	}
	found, err := Find(ctx, f, set)
	if metier.CodeOf(err) == "source_without_skills" && o.Paths != nil {
		found, err = &Found{Fetched: f}, nil
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return found, nil
}

// further changes what is fetched from a source, if it contains skills with these names that were not
// fetched.
func (f *Found) further(src *Source, o *FetchOptions, names []string) bool {
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return src.Kind != Git && !f.listed[n] })
	switch {
	case len(names) == 0 || src.Kind == Git && o.Paths == nil:
		return false
	case src.Kind == Git:
		o.Paths, o.Commit = nil, f.Commit
	case src.Path != "":
		o.Skills, src.Path = union([]string{src.Path}, names), ""
	default:
		o.Skills = union(o.Skills, names)
	}
	return true
}

// from fetches a source, and calls do with the skills that it has for the named ones of the lock. Unless
// locked is set, it also fetches skills that these require.
func (p *Plan) from(ctx context.Context, src Source, o FetchOptions, names []string, set settings.Settings, locked bool, do func(*Found, []metier.Skill) error) (err error) {
	o.Paths = []string{}
	for _, n := range names {
		o.Paths = append(o.Paths, p.store.lock.Skills[n].Path)
	}
	found, skills, err := p.store.reach(ctx, src, o, set, Request{SkipRequirements: locked}, func(f *Found) ([]metier.Skill, error) { return p.match(f, names) })
	if e, ok := errors.AsType[*metier.Error](err); err != nil && (!ok || e.Skill == "") {
		return fmt.Errorf("%s: %w", brieflyNamed(names), err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	p.Notes = append(p.Notes, found.Notes...)
	return do(found, skills)
}

// match returns the skills that a source has at the paths of skills of the lock.
func (p *Plan) match(f *Found, names []string) ([]metier.Skill, error) {
	at := map[string]metier.Skill{}
	for _, sk := range f.Skills {
		at[path.Join(f.Source.Path, sk.ID.Path)] = sk
	}
	var out []metier.Skill
	for _, n := range names {
		e := p.store.lock.Skills[n]
		sk, found := at[cmp.Or(e.Path, ".")]
		switch {
		case !found:
			return nil, &metier.Error{Skill: n, Kind: metier.NotFound, Code: "skill_gone", Hint: "remove the skill, or install it from another source", Err: fmt.Errorf("%s does not contain it any more%s", e.Source, f.also())}
		case sk.Slug != n && sk.State != metier.Refused:
			return nil, &metier.Error{Skill: n, Kind: metier.Conflict, Code: "skill_renamed", Hint: "remove the skill, and add it again under its new name", Err: fmt.Errorf("its name in %s is now %q", e.Source, sk.Name)}
		}
		out = append(out, sk)
	}
	return out, nil
}
