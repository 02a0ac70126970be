package install

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"metier"
	"metier/source/local"
)

// Adopt returns a plan that adds skills of the folder to the lock, as they are. It takes their sources
// from the notes of other installers: skills-lock.json and .skill-lock.json, or .openskills.json. The last
// one is a file of the skill, so its author can have written it: it is used only if it names a
// repository. A skill without a note has its own folder as its source. Without names, it adopts all skills that are
// not in the lock.
func (s *Store) Adopt(ctx context.Context, names []string) (*Plan, error) {
	p := &Plan{store: s, id: s.o.ID()}
	if len(names) == 0 {
		unlocked, err := s.unlocked(ctx)
		if err != nil {
			return nil, err
		}
		for _, v := range unlocked {
			if checkName(v.Name) == nil && s.hasSkill(v.Name) {
				names = append(names, v.Name)
			} else {
				p.Notes = append(p.Notes, fmt.Sprintf("skill %q is not adopted: only folders directly in %s can be in the lock", v.Name, s.o.Dir))
			}
		}
	}
	notes, err := readSkillsLock(s.o.SkillsLock)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, ok := s.lock.Skills[name]; ok {
			return nil, metier.Fieldf(metier.Invalid, "Request.Skills", "skill_installed", "omit it", "skill %q is already in %s", name, s.o.Lock)
		}
		if err := checkName(name); err != nil {
			return nil, metier.Fieldf(metier.Invalid, "Request.Skills", "skill_name_invalid", "use the name of a folder", "%v", err)
		}
		m, err := s.manifest(ctx, name)
		if err != nil {
			return nil, err
		}
		c := Change{Name: name, Action: Adopt, Entry: Entry{Source: s.portable(Source{Kind: Folder, Location: s.path(name)}), Tree: string(m.Tree), Files: lockedFiles(m)}}
		if noted, ok := notes.source(name); ok {
			c.Entry.Source = noted
		} else if noted, ok := s.openSkillsSource(name); ok {
			c.Entry.Source = noted
		}
		front, err := p.front(name)
		if err != nil {
			return nil, err
		}
		c.Skill = metier.Skill{Name: front.Name, Description: front.Description, Slug: name, Head: &metier.Head{Front: front}}
		if err := p.scan(ctx, &c, name); err != nil {
			return nil, err
		}
		if c.Signature, err = s.installed(ctx, name, c.Entry); err != nil {
			return nil, about(metier.Skill{Name: name}, err)
		}
		c.Entry.Signers = c.Signature.IDs()
		p.Changes = append(p.Changes, c)
	}
	return p, p.order()
}

// skillsLockText returns the new text of skills-lock.json after a plan, or nil if there is no such
// file. staged returns the folder in which a changed skill is now.
func (s *Store) skillsLockText(ctx context.Context, p *Plan) ([]byte, error) {
	if !s.o.KeepSkillsLock || !slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Action == Add || c.Action == Replace || c.Action == Remove }) {
		return nil, nil
	}
	l, err := readSkillsLock(s.o.SkillsLock)
	if l == nil || err != nil {
		return nil, err
	}
	for _, c := range p.Changes {
		var err error
		switch c.Action {
		case Remove:
			delete(l.entries, c.Name)
		case Add, Replace:
			var src *local.Source
			if src, err = local.New(s.path(work, p.id, "new", c.Name), &local.Options{Installed: true, Entry: entryFile(p.store.o.Harnesses)}); err != nil {
				return nil, err
			}
			var hash string
			e := c.Entry
			if e.Source, err = s.located(e.Source); err != nil {
				return nil, err
			}
			if hash, err = folderHash(ctx, src); err == nil {
				err = l.set(c.Name, e, hash)
			}
		}
		if err != nil {
			return nil, errors.Join(errors.New("write "+s.o.SkillsLock), err)
		}
	}
	return l.text()
}
