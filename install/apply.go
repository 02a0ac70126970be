package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"time"

	"metier"
	"metier/internal/atomicfile"
	"metier/internal/confine"
	"metier/internal/namedfile"
)

// step is what tests can stop before each change of a file or folder.
const step = "install-step"

// journal is the file in the staging folder that makes a change final. It lists what remains to be done.
const journal = "journal.json"

// maxJournal limits the size of a journal that is read.
const maxJournal = 2 * maxLock

// decided is the content of a journal.
type decided struct {
	ID   string            `json:"id"`
	Put  map[string]string `json:"put"`  // names, and the trees that they get
	Gone []string          `json:"gone"` // names that are removed
	File string            `json:"file"` // of the lock
	Lock string            `json:"lock"` // its new text
	// Other is the new text of the lock of the package skills, or nil.
	Other []byte `json:"other,omitempty"`
	// Links of other agents' folders that are created and removed.
	Links   []link    `json:"links,omitempty"`
	Unlinks []link    `json:"unlinks,omitempty"`
	At      time.Time `json:"at"`
}

// Apply makes the change. If the process is killed, the store has either the old skills or the new
// ones when it is opened again.
func (p *Plan) Apply(ctx context.Context) error {
	s := p.store
	if err := p.Check(); err != nil {
		return errors.Join(err, p.Discard())
	}
	next := Lock{Version: lockVersion, Skills: maps.Clone(s.lock.Skills)}
	d := decided{ID: p.id, Put: map[string]string{}, Gone: []string{}, File: s.o.Lock, At: s.o.Now().UTC()}
	for _, c := range p.Changes {
		create, remove, err := s.relink(c)
		if err != nil {
			return errors.Join(err, p.Discard())
		}
		d.Links, d.Unlinks = append(d.Links, create...), append(d.Unlinks, remove...)
		switch c.Action {
		case Add, Replace:
			d.Put[c.Name] = c.Entry.Tree
		case Remove:
			d.Gone = append(d.Gone, c.Name)
			delete(next.Skills, c.Name)
			continue
		}
		next.Skills[c.Name] = c.Entry
	}
	d.Lock = string(next.Bytes())
	var err error
	if d.Other, err = s.skillsLockText(ctx, p); err != nil {
		return errors.Join(err, p.Discard())
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return errors.Join(err, p.Discard())
	}
	if err := confine.Sync(s.root); err != nil {
		return errors.Join(err, p.Discard())
	}
	if err := ctx.Err(); err != nil {
		return errors.Join(context.Cause(ctx), p.Discard())
	}
	if err := atomicfile.PutIn(s.work, journal, raw, 0o600); err != nil {
		if gone := s.work.Remove(journal); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			return errors.Join(err, gone) // it may be complete, so what it needs must stay
		}
		return errors.Join(err, p.Discard())
	}
	if err := s.finish(context.WithoutCancel(ctx), d); err != nil {
		return err
	}
	s.lock = next
	return nil
}

// recover completes the change in the journal, if there is one, and removes everything staged.
func (s *Store) recover(ctx context.Context) error {
	raw, err := namedfile.ReadIn(s.work, journal, maxJournal)
	if err == nil {
		var d decided
		if err := json.Unmarshal(raw, &d); err != nil {
			return &metier.Error{Op: "recover", Path: s.path(work, journal), Kind: metier.Invalid, Code: "install_journal_damaged", Hint: "remove the file, and run verify", Err: err}
		}
		if err := s.finish(ctx, d); err != nil {
			return err
		}
		s.Recovered = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
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
	if d.ID == "" || d.ID != path.Base(d.ID) || d.File != s.o.Lock {
		return metier.Errorf(metier.Invalid, "install_journal_damaged", "remove the file, and run verify", "%s is of another store", s.path(work, journal))
	}
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
	if err := s.root.MkdirAll(old, 0o755); err != nil {
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
