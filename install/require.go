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
	"metier/internal/confusable"
	"metier/internal/plural"
	"metier/internal/termtext"
)

// maxNeeded limits the skills that are installed because others need them.
const maxNeeded = 1000

// needs is what chosen skills of a source need.
type needs struct {
	store   *Store
	found   *Found
	chosen  []metier.Skill
	skip    bool
	skills  []metier.Skill      // that are installed too, from the same source
	by      map[string][]string // the skills that need one of skills, by its name
	names   map[string][]string // the skills that a skill needs, in the order of its requirements
	unmet   map[string][]string // requirements of a skill that are not met
	unfound []string            // names that are neither in what was fetched nor installed
	refused []refused
}

// needsOf finds the skills that the chosen ones need, and those that these need, in the same source and
// among the installed ones. With skip, it adds no skills, and accepts what is missing.
func (s *Store) needsOf(f *Found, chosen []metier.Skill, skip bool) *needs {
	n := &needs{store: s, found: f, chosen: chosen, skip: skip, by: map[string][]string{}, names: map[string][]string{}, unmet: map[string][]string{}}
	for i := 0; i < len(n.chosen)+len(n.skills); i++ {
		if len(n.skills) > maxNeeded {
			n.refuse(chosen[0].Slug, metier.LimitReached, "requirement_limit", "install some of them first", "more than %s would be installed because others need them", plural.Of(maxNeeded, "skill"))
			return n
		}
		sk := n.at(i)
		n.names[sk.Slug] = nil
		list, err := requirementsOf(sk)
		if e, ok := errors.AsType[*metier.Error](err); ok {
			n.missing(sk.Slug, "metadata.requires", e)
			continue
		}
		for _, r := range list {
			n.resolve(sk, r)
		}
	}
	n.checkCycles()
	return n
}

// at returns the chosen skills, and then those that they need.
func (n *needs) at(i int) metier.Skill {
	if i < len(n.chosen) {
		return n.chosen[i]
	}
	return n.skills[i-len(n.chosen)]
}

// planned returns the skill with a name that the plan installs.
func (n *needs) planned(name string) (metier.Skill, bool) {
	if _, pulled := n.by[name]; pulled || slices.ContainsFunc(n.chosen, func(sk metier.Skill) bool { return sk.Slug == name }) {
		for i := range len(n.chosen) + len(n.skills) {
			if sk := n.at(i); sk.Slug == name {
				return sk, true
			}
		}
	}
	return metier.Skill{}, false
}

// refuse notes a requirement that keeps the skill from being installed.
func (n *needs) refuse(by string, kind metier.Kind, code, hint, format string, args ...any) {
	n.refused = append(n.refused, refused{by, &metier.Error{Skill: by, Field: "Request.SkipRequirements", Kind: kind, Code: code, Hint: hint, Err: fmt.Errorf(format, args...)}})
}

// missing notes a requirement that is not met. It is accepted if requirements are skipped, or if the lock
// notes it already.
func (n *needs) missing(by, text string, err *metier.Error) {
	if text = cutText(text); n.skip || slices.Contains(n.store.lock.Skills[by].Unmet, text) {
		n.unmet[by] = append(n.unmet[by], text)
		return
	}
	c := *err
	c.Skill = by
	n.refused = append(n.refused, refused{by, &c})
}

// resolve finds the skill that meets a requirement.
func (n *needs) resolve(sk metier.Skill, r requirement) {
	e := &metier.Error{Field: "Request.SkipRequirements", Kind: metier.NotFound, Hint: "set Request.SkipRequirements to install it without them"}
	bad := func(kind metier.Kind, code, hint, format string, args ...any) {
		e.Kind, e.Code, e.Err = kind, code, fmt.Errorf(format, args...)
		e.Hint = cmp.Or(hint, e.Hint)
		n.missing(sk.Slug, r.text, e)
	}
	here, err := n.inSource(r)
	if err != nil {
		bad(metier.Invalid, "skill_ambiguous", "", "it needs %s: %v", termtext.Quote(r.text), err)
		return
	}
	name := r.name
	if here != nil {
		name = here.Slug
	} else if r.from != nil {
		if name = n.store.installedFrom(*r.from); name == "" {
			bad(metier.NotFound, "requirement_elsewhere", "review that source, and install it first: 'metier add "+r.from.String()+"'", "it needs %s, which is another source; nothing is fetched from there", termtext.Quote(r.text))
			return
		}
	}
	was, installed := n.store.lock.Skills[name]
	planned, isPlanned := n.planned(name)
	same := here != nil && installed && n.store.sameOrigin(was, n.found.Source, here.ID.Path)
	switch {
	case isPlanned && r.versions.has(versionOf(planned)):
	case isPlanned:
		bad(metier.Conflict, "requirement_version", "", "it needs %s, but the source contains %s", termtext.Quote(r.text), versionText(versionOf(planned)))
		return
	case installed && same && r.versions.has(was.Version):
	case installed && here != nil && (!same || was.Pinned()):
		n.refuse(sk.Slug, metier.Conflict, "skill_of_other_source", "remove that skill first, or choose it too with Request.Skills, and set Request.Force to replace it",
			"it needs %s from its own source, but %s was installed from %s", termtext.Quote(r.text), n.store.path(name), was.Source)
		return
	case here == nil && installed && r.versions.has(was.Version):
	case here == nil && installed:
		bad(metier.Conflict, "requirement_version", "", "it needs %s, but %s is installed, from %s", termtext.Quote(r.text), versionText(was.Version), was.Source)
		return
	case here == nil:
		n.unfound = append(n.unfound, name)
		bad(metier.NotFound, "requirement_missing", cmp.Or(n.nearest(name), n.wider()), "it needs %s, which is neither in %s nor installed", termtext.Quote(r.text), n.found.Source)
		return
	case n.skip:
		n.unmet[sk.Slug] = append(n.unmet[sk.Slug], cutText(r.text))
		return
	case !r.versions.has(versionOf(*here)):
		bad(metier.Conflict, "requirement_version", "", "it needs %s, but the source contains %s", termtext.Quote(r.text), versionText(versionOf(*here)))
		return
	default:
		if other := n.alike(name); other != "" {
			n.refuse(sk.Slug, metier.Denied, "requirement_invalid", "check which skill is meant, and choose it with Request.Skills", "it needs %s: %s", termtext.Quote(r.text), confusable.Alike(name, other, "skill "+termtext.Quote(other)))
			return
		}
		n.skills, n.by[name] = append(n.skills, *here), nil
	}
	if by, pulled := n.by[name]; pulled && !slices.Contains(by, sk.Slug) {
		n.by[name] = append(by, sk.Slug)
	}
	if !slices.Contains(n.names[sk.Slug], name) {
		n.names[sk.Slug] = append(n.names[sk.Slug], name)
	}
}

// inSource returns the skill of what was fetched that a requirement names, or nil.
func (n *needs) inSource(r requirement) (*metier.Skill, error) {
	f := n.found
	if r.from != nil && (r.from.Kind != f.Source.Kind || r.from.Location != f.Source.Location || r.from.Ref != "" && r.from.Ref != f.Source.Ref) {
		return nil, nil
	}
	var out []metier.Skill
	for _, sk := range f.Skills {
		at := path.Join(f.Source.Path, sk.ID.Path)
		if r.from == nil && sk.Name == r.name || r.from != nil && (at == r.from.Path || path.Base(at) == r.from.Path) {
			out = append(out, sk)
		}
	}
	switch len(out) {
	case 0:
		return nil, nil
	case 1:
		return &out[0], nil
	}
	return nil, fmt.Errorf("the source contains %d skills with this name: %s and %s", len(out), out[0].ID.Path, out[1].ID.Path)
}

// installedFrom returns the name of the first skill of the lock that was installed from a source.
func (s *Store) installedFrom(src Source) string {
	for _, name := range slices.Sorted(maps.Keys(s.lock.Skills)) {
		e := s.lock.Skills[name]
		if e.Kind == src.Kind && e.Location == src.Location && (src.Path == "" || e.Path == src.Path || path.Base(e.Path) == src.Path) {
			return name
		}
	}
	return ""
}

// sameOrigin reports whether an installed skill came from a folder of a source.
func (s *Store) sameOrigin(e Entry, src Source, folder string) bool {
	p := s.portable(src)
	return e.Kind == p.Kind && e.Location == p.Location && path.Join("/", e.Path) == path.Join("/", p.Path, folder)
}

// alike returns another skill that the name of a new one can be taken for, or "".
func (n *needs) alike(name string) string {
	for _, other := range append(n.found.Names(), slices.Sorted(maps.Keys(n.store.lock.Skills))...) {
		if other != name && confusable.Skeleton(other) == confusable.Skeleton(name) {
			return other
		}
	}
	return ""
}

// nearest returns a hint about a skill whose name looks like a missing one, or "".
func (n *needs) nearest(name string) string {
	if other := n.alike(name); other != "" {
		return "do not trust the name: it looks like " + termtext.Quote(other) + ", but has other characters"
	}
	return ""
}

// wider returns a hint if only a folder of the source was searched, or "".
func (n *needs) wider() string {
	if n.found.Source.Path == "" || n.found.Source.Kind == Index {
		return ""
	}
	return "if it is elsewhere in " + n.found.Source.Location + ", install from there without the folder, and name the skills in Request.Skills; or set Request.SkipRequirements"
}

// checkCycles refuses skills that need each other. A cycle that the lock has already is accepted.
func (n *needs) checkCycles() {
	if n.skip {
		return
	}
	const open, done = 1, 2
	state := map[string]int{}
	var trail []string
	var visit func(name string)
	visit = func(name string) {
		state[name] = open
		trail = append(trail, name)
		next, ours := n.names[name]
		was := n.store.lock.Skills[name].Dependencies
		if !ours {
			next = was
		}
		for _, to := range next {
			switch _, planned := n.names[to]; {
			case state[to] == 0:
				visit(to)
			case state[to] == open && (ours || planned) && !slices.Contains(was, to):
				n.refuse(name, metier.Invalid, "requirement_cycle", "ask the author to remove one of these requirements, or set Request.SkipRequirements", "skills need each other: %s", trailOf(append(trail[slices.Index(trail, to):], to)))
			}
		}
		state[name] = done
		trail = trail[:len(trail)-1]
	}
	for i := range len(n.chosen) + len(n.skills) {
		if name := n.at(i).Slug; state[name] == 0 {
			visit(name)
		}
	}
}

// trailOf shows a cycle, without the middle of a long one.
func trailOf(names []string) string {
	const ends = 5
	if len(names) > 2*ends {
		names = slices.Concat(names[:ends], []string{fmt.Sprintf("(%d more)", len(names)-2*ends)}, names[len(names)-ends:])
	}
	return strings.Join(names, " → ")
}

// err returns one error about all requirements that keep skills from being installed.
func (n *needs) err() error {
	if len(n.refused) == 0 {
		return nil
	}
	e := *n.refused[0].err
	text := e.Err.Error()
	for i, r := range n.refused[1:] {
		if i == maxNote {
			text += fmt.Sprintf("; and %d more", len(n.refused)-1-maxNote)
			break
		}
		text += "; " + r.err.Error()
	}
	e.Err = errors.New(text)
	return &e
}

// apply sets what a change of a skill of the plan needs.
func (n *needs) apply(c *Change) {
	c.NeededBy = n.by[c.Name]
	c.Entry.Dependencies = union(n.names[c.Name], nil)
	c.Entry.Unmet = union(n.unmet[c.Name], nil)
}

// stageNeeded stages the skills that others need. They replace no skill of another source, and none that
// was modified.
func (p *Plan) stageNeeded(ctx context.Context, n *needs, r Request) error {
	r.Force = false
	for _, sk := range n.skills {
		if slices.ContainsFunc(p.Changes, func(c Change) bool { return strings.EqualFold(c.Name, sk.Slug) }) {
			return about(sk, metier.Errorf(metier.Conflict, "skill_of_other_source", "change the skills of one source at a time", "it is needed by %s, but another source also has a skill with this name", strings.Join(n.by[sk.Slug], ", ")))
		}
		c, err := p.stage(ctx, n.found, sk, r)
		if e, ok := errors.AsType[*metier.Error](err); ok && e.Kind == metier.Conflict {
			again := *e
			again.Hint = "move it away first, or choose it too with Request.Skills, and set Request.Force to replace it"
			again.Err = fmt.Errorf("it is needed by %s: %w", strings.Join(n.by[sk.Slug], ", "), e.Err)
			err = &again
		}
		if err != nil {
			return about(sk, err)
		}
		n.apply(&c)
		c.Entry.Required = c.Was == nil || c.Was.Required
		p.Changes = append(p.Changes, c)
	}
	for _, name := range slices.Sorted(maps.Keys(n.unmet)) {
		p.Notes = append(p.Notes, fmt.Sprintf("%s requires %s, which is not installed", termtext.Line(name), termtext.Line(some(n.unmet[name]))))
	}
	return nil
}

// some joins the first items of a list.
func some(list []string) string {
	if len(list) > maxNote {
		return strings.Join(list[:maxNote], ", ") + fmt.Sprintf(" and %d more", len(list)-maxNote)
	}
	return strings.Join(list, ", ")
}
