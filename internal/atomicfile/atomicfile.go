// Package atomicfile writes state files atomically. A reader, or a process that starts after a
// crash, sees either the old or the new content.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
)

// Stages of a write, in order, as passed to a fault hook.
const (
	BeforeWrite  = "before-write"  // nothing is written yet
	AfterWrite   = "after-write"   // the temporary file is complete and synced
	BeforeRename = "before-rename" // the same, right before the rename
	AfterRename  = "after-rename"  // the target is new, but its folder is not yet synced

	BeforeAppend = "before-append" // none of the lines is in the file yet
	AfterAppend  = "after-append"  // the lines are in the file, but not yet synced
)

var hook atomic.Pointer[func(stage, path string) error]

// SetHook makes every write in the process call h at each stage with the target's path, until undo
// is called. It is for fault tests only. h may exit the process or return an error, which the write
// then returns. In that case the target stays as it was at that stage, and no temporary file
// remains.
func SetHook(h func(stage, path string) error) (undo func()) {
	old := hook.Swap(&h)
	return func() { hook.Store(old) }
}

// At calls the hook, if any. It is for code that implements its own atomic writes and needs the
// same fault tests.
func At(stage, path string) error { return at(stage, path) }

func at(stage, path string) error {
	if h := hook.Load(); h != nil {
		return (*h)(stage, path)
	}
	return nil
}

// Write replaces the file at path with data. It writes and syncs a temporary file in the same
// folder, renames it to path, and syncs the folder if the system supports it. A symlink at path is
// replaced, not followed. perm is subject to the umask. After an error, no temporary file is left,
// and path has its old content unless only the last sync failed. Errors include the path and wrap
// their cause (syscall.ENOSPC, syscall.EROFS, ...).
func Write(path string, data []byte, perm fs.FileMode) error {
	return write(path, rand.Text()[:12], data, perm, true)
}

// ReplaceSuffix is Write without syncs, which take milliseconds each, and with ".<base>.<suffix>.tmp"
// as the name of the temporary file. The file is complete after a kill, but may be empty after a
// power failure. Use it for files that can be regenerated.
func ReplaceSuffix(path, suffix string, data []byte, perm fs.FileMode) error {
	return write(path, suffix, data, perm, false)
}

func write(path, suffix string, data []byte, perm fs.FileMode, sync bool) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer root.Close()
	return In(root, filepath.Base(path), suffix, data, perm, sync)
}

// In is like Write or ReplaceSuffix for a file below a folder. No link leads out of the folder. It
// removes an existing temporary file of that name first. So a caller that locks the folder and
// always passes the same suffix does not accumulate leftover files after crashes.
func In(root *os.Root, name, suffix string, data []byte, perm fs.FileMode, sync bool) error {
	path := filepath.Join(root.Name(), name)
	err := replace(root, name, suffix, data, perm, sync)
	if err == nil && sync {
		err = SyncIn(root, filepath.Dir(name))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// temporary returns the name of the temporary file for a file.
func temporary(name, suffix string) string {
	return filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+suffix+".tmp")
}

// replace writes a file without syncing its folder.
func replace(root *os.Root, name, suffix string, data []byte, perm fs.FileMode, sync bool) error {
	p, err := Prepare(root, name, suffix, perm, sync, data)
	if err != nil {
		return err
	}
	return p.Commit()
}

// Prepared is a file whose new content is complete in a temporary file.
type Prepared struct {
	root            *os.Root
	name, path, tmp string
}

// Prepare is the first part of In: it writes the temporary file, and syncs it if sync is set. The
// content is that of all data together. Call Commit or Discard. Use it to replace several files of a folder that is synced once, with SyncIn, after
// the last Commit. Before that sync, a power failure can bring back an old file, but it leaves no
// incomplete one. Files can be prepared concurrently.
func Prepare(root *os.Root, name, suffix string, perm fs.FileMode, sync bool, data ...[]byte) (*Prepared, error) {
	p := &Prepared{root, name, filepath.Join(root.Name(), name), temporary(name, suffix)}
	if err := at(BeforeWrite, p.path); err != nil {
		return nil, err
	}
	f, err := create(root, p.tmp, perm)
	if err != nil {
		return nil, err
	}
	if err = fill(f, sync, data...); err == nil {
		err = at(AfterWrite, p.path)
	}
	if err != nil {
		p.Discard()
		return nil, err
	}
	return p, nil
}

// Commit renames the temporary file. It does not sync the folder. After an error, no temporary file is
// left.
func (p *Prepared) Commit() error {
	err := at(BeforeRename, p.path)
	if err == nil {
		err = p.root.Rename(p.tmp, p.name)
	}
	if err != nil {
		p.Discard()
		return err
	}
	return at(AfterRename, p.path)
}

// Discard removes the temporary file.
func (p *Prepared) Discard() { _ = p.root.Remove(p.tmp) }

func create(root *os.Root, tmp string, perm fs.FileMode) (*os.File, error) {
	const flag = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := root.OpenFile(tmp, flag, perm)
	if errors.Is(err, fs.ErrExist) {
		if err := root.Remove(tmp); err != nil {
			return nil, err
		}
		f, err = root.OpenFile(tmp, flag, perm)
	}
	return f, err
}

// fill writes, syncs, and closes f. It returns the first error.
func fill(f *os.File, sync bool, data ...[]byte) (err error) {
	for _, part := range data {
		if err == nil {
			_, err = f.Write(part)
		}
	}
	if err == nil && sync {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// SyncDir makes the names in dir durable. On systems that cannot sync a folder (Windows, some
// network file systems) it does nothing: the rename is still atomic, but may not be durable.
func SyncDir(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return SyncIn(root, ".")
}

// SyncIn is SyncDir for a folder below another one.
func SyncIn(root *os.Root, dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}

// IsFull reports whether a write failed because the disk or the user's quota is full.
func IsFull(err error) bool {
	const windowsDiskFull = syscall.Errno(112) // ERROR_DISK_FULL
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || runtime.GOOS == "windows" && errors.Is(err, windowsDiskFull)
}
