package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"metier"
	"metier/internal/atomicfile"
	"metier/internal/confine"
)

// step is what tests can stop before each change of a file or folder.
const step = "install-step"

// Apply makes the change. If the process is killed, the store has either the old skills or the new
// ones when it is opened again.
func (p *Plan) Apply(ctx context.Context) (err error) {
	s, left := p.store, ""
	defer func() { err = s.fault(err, left) }()
	if err := p.Check(); err != nil {
		return errors.Join(err, p.Discard())
	}
	next := p.next()
	d := decided{ID: p.id, Put: map[string]string{}, Gone: []string{}, Dir: s.real, File: s.o.Lock, At: s.o.Now().UTC()}
	for _, c := range p.Changes {
		create, remove, err := s.relink(c)
		if err != nil {
			return errors.Join(err, p.Discard())
		}
		if c.unusable {
			create = nil
		}
		d.Links, d.Unlinks = append(d.Links, create...), append(d.Unlinks, remove...)
		switch c.Action {
		case Add, Replace:
			d.Put[c.Name] = c.Entry.Tree
		case Remove:
			d.Gone = append(d.Gone, c.Name)
		}
	}
	if d.Lock = string(next.Bytes()); len(d.Lock) > maxLock {
		return errors.Join(tooLarge("write", s.o.Lock), p.Discard())
	}
	if d.Other, err = s.skillsLockText(ctx, p); err != nil {
		return errors.Join(err, p.Discard())
	}
	if err := errors.Join(s.writable(), s.unchanged()); err != nil {
		return errors.Join(err, p.Discard())
	}
	if err := confine.Sync(s.root); err != nil {
		return errors.Join(err, p.Discard())
	}
	if err := ctx.Err(); err != nil {
		return errors.Join(context.Cause(ctx), p.Discard())
	}
	if clean, err := s.decide(d); err != nil {
		if !clean {
			left = pending
			return err
		}
		return errors.Join(err, p.Discard())
	}
	left = pending
	if err := s.finish(context.WithoutCancel(ctx), d); err != nil {
		return err
	}
	s.lock = next
	return nil
}

// unchanged reports a lock that another program changed since the store was opened.
func (s *Store) unchanged() error {
	now, err := ReadLock(s.o.Lock)
	if err == nil && !bytes.Equal(now.Bytes(), s.lock.Bytes()) {
		err = &metier.Error{Op: "write", Path: s.o.Lock, Kind: metier.Conflict, Code: "lock_changed", Hint: "run the command again", Err: errors.New("another program changed the file meanwhile")}
	}
	return err
}

// recover completes the change in the journal, if there is one, and removes everything staged.
func (s *Store) recover(ctx context.Context) error {
	d, ok, err := s.decision()
	if err != nil {
		return err
	}
	if ok {
		if err := s.finish(ctx, d); err != nil {
			return s.fault(err, pending)
		}
		s.Recovered = true
	}
	return s.clean()
}

// clean removes everything that was staged.
func (s *Store) clean() error {
	dir, err := s.work.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, n := range names {
		if n != "lock" {
			err = errors.Join(err, s.work.RemoveAll(n))
		}
	}
	return err
}

// finish does what a journal says. It can be repeated after any interruption.
func (s *Store) finish(ctx context.Context, d decided) error {
	for name, tree := range d.Put {
		if err := checkName(name); err != nil {
			return err
		}
		if err := s.put(ctx, d.ID, name, tree); err != nil {
			return fmt.Errorf("put %s in place: %w", name, err)
		}
	}
	for _, name := range d.Gone {
		if err := checkName(name); err != nil {
			return err
		}
		if err := s.retire(d.ID, name); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	if err := s.finishLinks(d); err != nil {
		return err
	}
	if err := s.note(d); err != nil {
		return err
	}
	if d.Other != nil {
		if err := atomicfile.Write(s.o.SkillsLock, d.Other, 0o644); err != nil {
			return err
		}
	}
	if err := atomicfile.Write(d.File, []byte(d.Lock), 0o644); err != nil {
		return err
	}
	if err := atomicfile.At(step, journal); err != nil {
		return err
	}
	if err := s.work.Remove(journal); err != nil {
		return err
	}
	if atomicfile.At(step, d.ID) == nil {
		s.work.RemoveAll(d.ID) // what is left is removed when the store is opened again
	}
	return nil
}

// finishLinks creates and removes links.
func (s *Store) finishLinks(d decided) error {
	clear(s.dirs) // the folders can be others since the change was planned
	for _, l := range slices.Concat(d.Links, d.Unlinks) {
		if err := checkName(l.Name); err != nil {
			return err
		}
		if dir, err := s.agentDir(l.Agent); err != nil {
			return err
		} else if dir != l.Dir {
			return metier.Fieldf(metier.Conflict, "Request.Agents", "agent_folder_outside", "restore the folder", "the skills folder of %s is %s now, not %s", l.Agent, dir, l.Dir)
		}
	}
	for _, l := range d.Links {
		if err := s.connect(l); err != nil {
			return err
		}
	}
	for _, l := range d.Unlinks {
		if err := s.disconnect(l); err != nil {
			return err
		}
	}
	return nil
}

// put moves a staged skill into place. The old one takes its place in the staging folder.
func (s *Store) put(ctx context.Context, id, name, tree string) error {
	staged := filepath.FromSlash(path.Join(work, id, "new", name))
	if m, err := s.manifest(ctx, name); err == nil && string(m.Tree) == tree {
		return nil // done before an interruption
	}
	if err := atomicfile.At(step, name); err != nil {
		return err
	}
	if _, err := s.root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return s.root.Rename(staged, name)
	} else if err != nil {
		return err
	}
	err := confine.Exchange(s.root, staged, name)
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if err := s.retire(id, name); err != nil {
		return err
	}
	return s.root.Rename(staged, name)
}

// retire moves an installed skill into the staging folder, which is then removed.
func (s *Store) retire(id, name string) error {
	old := filepath.FromSlash(path.Join(work, id, "old"))
	if err := s.work.MkdirAll(filepath.Join(id, "old"), 0o755); err != nil {
		return err
	}
	if err := atomicfile.At(step, name); err != nil {
		return err
	}
	err := s.root.Rename(name, filepath.Join(old, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
