package install

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"metier"
	"metier/internal/atomicfile"
)

// fault explains an error of the file system. pending is what is still to be done after it, or "".
func (s *Store) fault(err error, pending string) error {
	if _, ok := errors.AsType[*metier.Error](err); ok || err == nil {
		return err
	}
	e := &metier.Error{Op: "install", Path: s.o.Dir, Kind: metier.Unavailable, Err: err}
	switch {
	case atomicfile.IsFull(err):
		e.Code, e.Hint = "disk_full", "free some space, and try again"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		e.Code, e.Hint = "install_unwritable", "check the owner and the permissions of the folder that the message names"
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTDIR):
		e.Code, e.Hint = "install_unwritable", "remove the file or the broken link that is in place of a folder"
	case pending != "":
		e.Code, e.Hint = "install_unfinished", "remove what is in the way"
	default:
		return err
	}
	if pending != "" {
		e.Hint += "; " + pending
	}
	return e
}

// pending is what a change needs that failed after it was decided.
const pending = "the next command completes the change"

// writable reports a folder in which a change could not be completed after it was decided.
func (s *Store) writable() error {
	notes, err := s.own(provenances)
	if err != nil {
		return err
	}
	defer notes.Close()
	if err := probe(notes, "note"); err != nil {
		return err
	}
	if err := probe(s.root, "skill"); err != nil {
		return err
	}
	files := []string{s.o.Lock}
	if s.o.KeepSkillsLock {
		files = append(files, s.o.SkillsLock)
	}
	for _, file := range files {
		dir, err := os.OpenRoot(filepath.Dir(file))
		if err != nil {
			return err
		}
		if err := errors.Join(probe(dir, filepath.Base(file)), dir.Close()); err != nil {
			return err
		}
	}
	return nil
}

// probe creates and removes a temporary file. One that is left after a crash is replaced by the next.
func probe(dir *os.Root, name string) error {
	p, err := atomicfile.Prepare(dir, name, "probe", 0o600, false)
	if err != nil {
		return &fs.PathError{Op: "write in", Path: filepath.Clean(dir.Name()), Err: cause(err)}
	}
	p.Discard()
	return nil
}

// cause returns the error of the system without a path.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
