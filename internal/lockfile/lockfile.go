// Package lockfile prevents two processes from writing the same files at the same time. The system
// releases a lock when its process ends for any reason. The file itself remains: if it were
// removed, two processes could lock the same name.
package lockfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"metier/internal/confine"
)

// Lock is a held lock.
type Lock struct{ fl *flock.Flock }

// Try acquires the lock of a path. It returns false if another process holds it. It creates the
// file, with access only for its owner, but not its folder.
func Try(path string) (*Lock, bool, error) {
	if err := usable(path); err != nil {
		return nil, false, err
	}
	fl := fileOf(path)
	ok, err := fl.TryLock()
	if err != nil || !ok {
		return nil, false, errors.Join(err, fl.Close())
	}
	return &Lock{fl}, true, nil
}

// pause is the polling interval of Wait.
const pause = 5 * time.Millisecond

// Wait acquires the lock as soon as it is free. If ctx ends first, it returns the cause.
func Wait(ctx context.Context, path string) (*Lock, error) {
	if err := usable(path); err != nil {
		return nil, err
	}
	fl := fileOf(path)
	if ok, err := fl.TryLockContext(ctx, pause); err != nil || !ok {
		return nil, errors.Join(err, fl.Close())
	}
	return &Lock{fl}, nil
}

func fileOf(path string) *flock.Flock {
	return flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDONLY|confine.Direct))
}

// Sign writes the owner of the lock to the file. It leaves the file alone if it was replaced.
func (l *Lock) Sign(root *os.Root, text []byte) error {
	f, err := root.OpenFile(filepath.Base(l.fl.Path()), os.O_WRONLY|confine.Direct, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	ours, err := l.fl.Stat()
	if err != nil {
		return err
	}
	if there, err := f.Stat(); err != nil || !os.SameFile(ours, there) {
		return errors.Join(err, &fs.PathError{Op: "sign", Path: l.fl.Path(), Err: errors.New("another file is in its place")})
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.Write(text)
	return err
}

// usable rejects paths that are not regular files: opening a pipe would block, and a link would
// create a lock elsewhere.
func usable(path string) error {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return &fs.PathError{Op: "lock", Path: path, Err: errors.New("it is not a regular file; remove it")}
	}
	return nil
}

// Release releases the lock. A nil Lock is allowed.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.fl.Unlock(), l.fl.Close())
}

// Held reports whether any process holds the lock. It briefly acquires a shared lock. If it cannot
// check, it returns false.
func Held(path string) bool {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	fl := flock.New(path, flock.SetFlag(os.O_RDONLY))
	ok, err := fl.TryRLock()
	defer fl.Close()
	return err == nil && !ok
}
