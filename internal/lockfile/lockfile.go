// Package lockfile keeps two processes from writing the same files at once. The
// system lets go of a lock when its process ends, however it ends. The file
// itself stays: removing it would let two processes hold two locks of one name.
package lockfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/gofrs/flock"

	"metier/internal/confine"
)

// Lock is a lock that is held.
type Lock struct{ fl *flock.Flock }

// Try takes the lock of a path, or reports false where another has it. The file
// is made, for its owner alone, if it is not there; its folder must be.
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

// pause is how long Wait waits before it looks again.
const pause = 5 * time.Millisecond

// Wait is Try until the lock is free or ctx ends; then the error is its cause.
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

// Sign writes into the file who has the lock. It leaves alone what was put in
// the file's place since.
func (l *Lock) Sign(text []byte) error {
	f, err := os.OpenFile(l.fl.Path(), os.O_WRONLY|confine.Direct, 0)
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

// usable refuses what is no file of ours: opening a pipe would wait for whoever
// is at its other end, and a link would have a lock made elsewhere.
func usable(path string) error {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return &fs.PathError{Op: "lock", Path: path, Err: errors.New("it is no regular file; remove it")}
	}
	return nil
}

// Release lets go of the lock. A nil Lock holds nothing.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.fl.Unlock(), l.fl.Close())
}

// Held reports whether some process has the lock. It takes a shared one for a
// moment; where it cannot look, it says no.
func Held(path string) bool {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	fl := flock.New(path, flock.SetFlag(os.O_RDONLY))
	ok, err := fl.TryRLock()
	defer fl.Close()
	return err == nil && !ok
}
