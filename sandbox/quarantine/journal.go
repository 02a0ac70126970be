package quarantine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"metier/internal/confine"
	"metier/internal/lockfile"
	"metier/sandbox"
)

// A Journal is a folder of the user in which processes record the paths that they guard. With it, a
// process can claim such a path to create it itself. If metier is killed, the next process moves
// aside what a program created meanwhile.
type Journal struct{ dir string }

// NewJournal returns the journal in a folder, which is created when needed.
func NewJournal(dir string) *Journal { return &Journal{dir} }

// An entry is the file of one guard. Its lock is held while the guard is active.
type entry struct {
	journal *Journal
	path    string
	lock    *lockfile.Lock
}

// noted is the first line of an entry. Each following line is the host path of a claimed item.
type noted struct {
	Workspace string `json:"workspace"`
	ID        string `json:"id,omitempty"` // of the folder, see folderID
	Items     []item `json:"items"`
	Modes     modes  `json:"modes,omitempty"`
	// Repositories and Hooks are those of the workspace. See sandbox.Workspace.
	Repositories []string `json:"repositories"`
	Hooks        []string `json:"hooks,omitempty"`

	claimed []string // host paths of items, from the lines that follow
}

// escaped is what a path begins with that JSON cannot contain, because it is not UTF-8. The path
// follows in hexadecimal. No path contains a NUL.
const escaped = "\x00"

func escape(p string) string {
	if utf8.ValidString(p) {
		return p
	}
	return escaped + hex.EncodeToString([]byte(p))
}

func unescape(p string) string {
	if rest, is := strings.CutPrefix(p, escaped); is {
		if b, err := hex.DecodeString(rest); err == nil {
			return string(b)
		}
	}
	return p
}

// each returns a copy with do applied to each path.
func (n noted) each(do func(string) string) noted {
	all := func(list []string) []string {
		list = slices.Clone(list) // nil stays nil
		for i := range list {
			list[i] = do(list[i])
		}
		return list
	}
	n.Workspace, n.Repositories, n.Hooks, n.Items = do(n.Workspace), all(n.Repositories), all(n.Hooks), slices.Clone(n.Items)
	for i := range n.Items {
		n.Items[i].Path, n.Items[i].Link = do(n.Items[i].Path), do(n.Items[i].Link)
	}
	m := n.Modes
	n.Modes = nil
	for dir, mode := range m {
		if n.Modes == nil {
			n.Modes = modes{}
		}
		n.Modes[do(dir)] = mode
	}
	return n
}

// full returns the host path of an item.
func (n noted) full(it item) string {
	return filepath.Join(n.Workspace, filepath.FromSlash(it.Path))
}

const (
	// heartbeat is how often a guard updates the modification time of its entry, which shows how
	// long it was active.
	heartbeat = time.Second
	// slack is how long after the last heartbeat a program may have been running.
	slack = 5 * time.Second
	// keep is how long an entry is kept for a workspace that is missing.
	keep = 30 * 24 * time.Hour
	// patience is how long to wait for the lock of the journal.
	patience = 30 * time.Second
)

func (j *Journal) locked(ctx context.Context, do func() error) error {
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(j.dir, "lock")
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("another process has held %s for %s; end it if it is stopped", path, patience))
	defer cancel()
	l, err := lockfile.Wait(ctx, path)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return errors.Join(do(), l.Release())
}

// register records what a guard guards before the program starts.
func (j *Journal) register(ctx context.Context, n noted) (e *entry, err error) {
	if j == nil {
		return nil, nil
	}
	err = j.locked(ctx, func() error {
		f, err := os.CreateTemp(j.dir, "job-*.json")
		if err != nil {
			return err
		}
		e = &entry{journal: j, path: f.Name()}
		if err := f.Close(); err != nil {
			return err
		}
		var ok bool
		if e.lock, ok, err = lockfile.Try(e.path); err != nil || !ok {
			return fmt.Errorf("%s cannot be locked: %w", e.path, errors.Join(err, os.Remove(e.path)))
		}
		if err := e.add(n.each(escape)); err != nil {
			return errors.Join(err, os.Remove(e.path), e.lock.Release())
		}
		return nil
	})
	return e, err
}

// add appends a line. The file itself is locked, so it must not be replaced.
func (e *entry) add(line any) error {
	f, err := os.OpenFile(e.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(line), f.Close())
}

// read reads an entry. An incomplete line, left by a killed process, is ignored. If it is the first, no
// program was started.
func read(path string) (n noted, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return n, err
	}
	first, rest, whole := bytes.Cut(b, []byte("\n"))
	if !whole {
		return n, io.ErrUnexpectedEOF
	}
	if err := json.Unmarshal(first, &n); err != nil {
		return n, err
	}
	n = n.each(unescape)
	for dec := json.NewDecoder(bytes.NewReader(rest)); ; {
		var claimed string
		if dec.Decode(&claimed) != nil {
			break
		}
		n.claimed = append(n.claimed, unescape(claimed))
	}
	n.Items = slices.DeleteFunc(n.Items, func(it item) bool { return slices.Contains(n.claimed, n.full(it)) })
	return n, nil
}

// beat updates the modification time of the entry.
func (e *entry) beat() {
	if e != nil {
		_ = os.Chtimes(e.path, time.Time{}, time.Now()) // on failure, Sweep keeps more
	}
}

// remove ends the guard and deletes its entry. It takes the lock of the journal, because other
// processes read all entries they find.
func (e *entry) remove() error {
	if e == nil {
		return nil
	}
	return e.journal.locked(context.Background(), func() error { return errors.Join(os.Remove(e.path), e.lock.Release()) })
}

// release ends the guard and keeps its entry for Sweep.
func (e *entry) release() error {
	if e == nil {
		return nil
	}
	return e.lock.Release()
}

// apply calls do unless a process of this user claimed the item.
func (e *entry) apply(it item, do func() error) (claimed bool, err error) {
	if e == nil {
		return false, do()
	}
	err = e.journal.locked(context.Background(), func() error {
		n, err := read(e.path)
		if err != nil {
			return err
		}
		if claimed = slices.Contains(n.claimed, n.full(it)); claimed {
			return nil
		}
		return do()
	})
	return claimed, err
}

// Moved describes what Claim or Sweep moved aside.
type Moved struct {
	Workspace string
	sandbox.Quarantined
	Kept     bool // created after metier was killed, so Sweep did not move it
	Restored bool // a folder that has its permissions again
	// Unsearched reports that there may be more git repositories that a program created.
	Unsearched bool
	Err        error // error of Sweep in the workspace
}

// each calls do for each entry under the lock. The entry's lock is nil if its guard is active.
// Without entries, each does nothing.
func (j *Journal) each(ctx context.Context, do func(path string, n noted, dead *lockfile.Lock) error) error {
	if files, _ := filepath.Glob(filepath.Join(j.dir, "job-*.json")); len(files) == 0 {
		return nil
	}
	return j.locked(ctx, func() error {
		files, err := filepath.Glob(filepath.Join(j.dir, "job-*.json"))
		for _, path := range files {
			l, _, lockErr := lockfile.Try(path)
			if lockErr != nil {
				err = errors.Join(err, lockErr)
				continue
			}
			n, readErr := read(path)
			switch {
			case readErr == nil:
				err = errors.Join(err, do(path, n, l))
			case l != nil: // its program had not started
				err = errors.Join(err, os.Remove(path))
			}
			err = errors.Join(err, l.Release())
		}
		return err
	})
}

// Claim declares that this process creates a path, so that no guard moves it aside. If the path is
// guarded and already exists, a program created it, and it is moved aside.
func (j *Journal) Claim(ctx context.Context, path string) (moved []Moved, err error) {
	if j == nil {
		return nil, nil
	}
	path = confine.RealPathOfExisting(path)
	err = j.each(ctx, func(file string, n noted, dead *lockfile.Lock) error {
		for _, it := range n.Items {
			full := n.full(it)
			if it.Link != "" || path != full && it.Node != "" || path != full && !strings.HasPrefix(path, full+string(filepath.Separator)) {
				continue
			}
			found, err := moveItems(n.Workspace, []item{it}, func(string) (bool, error) { return true, nil })
			moved = append(moved, found...)
			if err == nil {
				err = (&entry{path: file}).add(escape(full))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return moved, err
}
