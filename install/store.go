package install

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"metier"
	"metier/internal/confine"
	"metier/internal/lockfile"
	"metier/internal/rootfile"
	"metier/signature"
	"metier/source/local"
)

// work is the folder in a skills folder in which skills are staged. Like every folder with that
// name, it is not searched for skills, and programs of a run cannot see it.
const work = ".metier/install"

// Options configure a [Store].
type Options struct {
	Dir  string // the skills folder; created if it does not exist
	Lock string // file of the lock, such as metier.lock
	Base string // the project or home of the skills folder; links of agents stay in it
	// SkillsLock is the lock that the npm package skills keeps, or "". With KeepSkillsLock, it is
	// changed too if it exists.
	SkillsLock     string
	KeepSkillsLock bool
	// AgentDir returns the skills folder of another agent. nil means that there are none.
	AgentDir func(agent string) (string, error)
	// Key is a file outside of the skills folder with a random key, which is created when it is needed. The
	// journal of a change is signed with it, so that no repository can contain a journal that is completed.
	// If it cannot be used or is "", an interrupted change is not completed, but reported.
	Key string
	// Harnesses stores harnesses instead of skills: folders with a HARNESS.md.
	Harnesses bool
	// Trust is whom the operator accepts skills from. With RequireSigner, a skill must have a signer that
	// it trusts, or be approved.
	Trust         signature.Trust
	RequireSigner bool
	Now           func() time.Time // nil: time.Now
	ID            func() string    // names a change; nil: random
	Env           []string         // environment of git, and of the search for credentials of registries; nil: an empty one
	// Progress receives what git reports while it fetches, as lines that are safe to print; nil: it is dropped.
	Progress  func(line string)
	Offline   bool   // do not use the network
	Downloads string // folder that keeps downloads, see [FetchOptions]; "": none

	web webOptions
}

// Store is a skills folder and its lock. Only one process has a store open.
type Store struct {
	o    Options
	root *os.Root // of the skills folder
	work *os.Root // the folder work in it
	held *lockfile.Lock
	lock Lock
	real string            // the real path of the skills folder
	dirs map[string]string // by agent: the real path of its skills folder, or "" if it is the store itself
	key  []byte            // that signs journals
	// Recovered reports that an interrupted change was completed when the store was opened.
	Recovered bool
}

// Open opens a store, and waits while another process has it open. It completes a change that was
// interrupted after it was decided, and removes what was staged for one that was not.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ID == nil {
		o.ID = func() string { return rand.Text()[:16] }
	}
	s := &Store{o: o, real: confine.RealPathOfExisting(o.Dir), dirs: map[string]string{}}
	if inRepository(o.Base, s.real) {
		return nil, metier.Errorf(metier.Denied, "install_root_outside", "remove the link", "%s leads to %s, in the data of a version control system", o.Dir, s.real)
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, s.fault(err, "")
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, s.fault(err, "")
	}
	s.root = root
	if s.work, err = s.own(work); err != nil {
		return nil, errors.Join(s.fault(err, ""), root.Close())
	}
	if err := ignore(root); err != nil {
		return nil, errors.Join(s.fault(err, ""), s.Close())
	}
	if s.held, err = lockfile.Wait(ctx, s.path(work, "lock")); err == nil {
		err = s.recover(ctx)
	}
	if err == nil {
		s.lock, err = ReadLock(o.Lock)
	}
	if err != nil {
		return nil, errors.Join(s.fault(err, ""), s.Close())
	}
	return s, nil
}

// ignore makes git ignore the folder .metier in a skills folder.
func ignore(root *os.Root) error {
	f, err := root.OpenFile(filepath.FromSlash(".metier/.gitignore"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString("*\n")
	return errors.Join(err, f.Close())
}

// own opens a folder of the store that is no skill, and creates it if it does not exist. A repository may
// contain a link in its place, which is not followed.
func (s *Store) own(name string) (*os.Root, error) {
	dir, err := rootfile.EnterPath(s.root, name, rootfile.Mkdir)
	if errors.Is(err, rootfile.ErrLink) {
		return nil, metier.Errorf(metier.Denied, "install_folder_linked", "remove "+s.path(".metier"), "%s: %v", s.path(name), err)
	}
	return dir, err
}

// inRepository reports whether a real path below a folder is in the data of a version control system.
func inRepository(base, real string) bool {
	rel, err := filepath.Rel(confine.RealPathOfExisting(base), real)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(rel), "/"), func(part string) bool {
		return slices.Contains([]string{".bzr", ".git", ".hg", ".jj", ".svn"}, strings.ToLower(part))
	})
}

// Close ends the use of the store.
func (s *Store) Close() error {
	err := s.root.Close()
	if s.work != nil {
		err = errors.Join(err, s.work.Close())
	}
	if s.held != nil {
		err = errors.Join(err, s.held.Release())
	}
	return err
}

// Lock returns the lock. The caller must not change it.
func (s *Store) Lock() Lock { return s.lock }

// path returns the host path of a slash-separated path in the store.
func (s *Store) path(parts ...string) string {
	p := s.o.Dir
	for _, part := range parts {
		p = filepath.Join(p, filepath.FromSlash(part))
	}
	return p
}

// portable returns a source as the lock has it: a path in the folder of the lock is relative to it, so
// that the lock means the same in every clone of a project.
func (s *Store) portable(src Source) Source {
	src.Query = ""
	if rel, err := filepath.Rel(filepath.Dir(s.o.Lock), src.Location); src.Local() && filepath.IsAbs(src.Location) && err == nil && filepath.IsLocal(rel) {
		src.Location = "./" + filepath.ToSlash(rel)
	}
	return src
}

// located is the reverse of portable.
func (s *Store) located(src Source) (Source, error) {
	if !src.Local() || filepath.IsAbs(src.Location) {
		return src, nil
	}
	rel, ok := strings.CutPrefix(src.Location, "./")
	if !ok || !filepath.IsLocal(filepath.FromSlash(rel)) {
		return src, &metier.Error{Path: s.o.Lock, Kind: metier.Invalid, Code: "lock_invalid", Hint: "restore the file from version control", Err: fmt.Errorf("%q is not a path in the folder of the lock", src.Location)}
	}
	src.Location = filepath.Join(filepath.Dir(s.o.Lock), filepath.FromSlash(rel))
	return src, nil
}

// manifest returns the files of the skill in a folder of the store, or an error of kind NotFound.
func (s *Store) manifest(ctx context.Context, folder string) (metier.Manifest, error) {
	info, err := s.root.Lstat(filepath.FromSlash(folder))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return metier.Manifest{}, metier.Errorf(metier.NotFound, "skill_not_found", "use the name of a folder in "+s.o.Dir, "there is no folder %s", s.path(folder))
	case err != nil:
		return metier.Manifest{}, err
	case !info.IsDir():
		return metier.Manifest{}, metier.Errorf(metier.Conflict, "skill_exists", "remove it", "%s is not a folder", s.path(folder))
	}
	src, err := local.New(s.path(folder), &local.Options{Installed: true, Entry: entryFile(s.o.Harnesses)})
	if err != nil {
		return metier.Manifest{}, err
	}
	m, err := manifestOf(ctx, src, ".")
	if metier.KindOf(err) == metier.NotFound {
		err = metier.Errorf(metier.Conflict, "skill_exists", "remove it", "%s is a folder without a SKILL.md", s.path(folder))
	}
	return m, err
}

// manifestOf returns all files of a skill. A file that is not in the manifest is an error.
func manifestOf(ctx context.Context, src metier.Source, path string) (metier.Manifest, error) {
	b, err := src.Open(ctx, path)
	if err != nil {
		return metier.Manifest{}, err
	}
	defer b.Close()
	m, err := b.Manifest(ctx)
	if err == nil {
		err = complete(m)
	}
	return m, err
}

// complete reports the first file that a manifest leaves out.
func complete(m metier.Manifest) error {
	for _, d := range m.Diagnostics {
		return &metier.Error{Path: d.Path, Kind: metier.Invalid, Code: "skill_file_refused", Hint: "remove the file from the skill, or replace a link by its target", Err: errors.New(d.Detail)}
	}
	return portable(m)
}
