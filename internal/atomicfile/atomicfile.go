// Package atomicfile writes state files whole: a reader, or a process that
// starts after a crash, sees the old content or the new one and nothing between.
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

// Stages of one write, in order, as a fault hook sees them.
const (
	BeforeWrite  = "before-write"  // nothing is on disk yet
	AfterWrite   = "after-write"   // the temporary file is whole and synced
	BeforeRename = "before-rename" // the same, right before the rename
	AfterRename  = "after-rename"  // the target is new, its folder not yet synced

	BeforeAppend = "before-append" // nothing of the lines is in the file yet
	AfterAppend  = "after-append"  // the lines are in the file, not yet synced
)

var hook atomic.Pointer[func(stage, path string) error]

// SetHook makes every write in the process call h at each stage with the
// target's path, until undo is called. It exists for fault tests only: h may
// end the process, or return an error that the write then reports as its own
// (the target stays as the stage left it, and no temporary file remains).
func SetHook(h func(stage, path string) error) (undo func()) {
	old := hook.Swap(&h)
	return func() { hook.Store(old) }
}

// At calls the hook, if there is one. It is for code that writes whole files in
// its own way and wants the same fault tests.
func At(stage, path string) error { return at(stage, path) }

func at(stage, path string) error {
	if h := hook.Load(); h != nil {
		return (*h)(stage, path)
	}
	return nil
}

// Write replaces the file at path by data: a temporary file in the same folder
// is written and synced, then renamed over path, then the folder is synced
// (where the system can). A symlink at path is replaced, not followed. perm is
// subject to the umask. On an error no temporary file is left, and path holds
// its old content unless only the last sync failed. Errors name the path and
// keep their cause visible to errors.Is (syscall.ENOSPC, syscall.EROFS, ...).
func Write(path string, data []byte, perm fs.FileMode) error {
	return WriteSuffix(path, rand.Text()[:12], data, perm)
}

// WriteSuffix is Write with the temporary file named ".<base>.<suffix>.tmp"
// instead of by chance. A leftover of that name is removed first, so a caller
// that holds a lock on the folder and always passes the same suffix cannot
// collect leftovers over crashes.
func WriteSuffix(path, suffix string, data []byte, perm fs.FileMode) error {
	return write(path, suffix, data, perm, true)
}

// ReplaceSuffix is WriteSuffix without the syncs, which cost milliseconds each:
// whole after a kill, perhaps empty after a power cut. It is for files that can
// be made again.
func ReplaceSuffix(path, suffix string, data []byte, perm fs.FileMode) error {
	return write(path, suffix, data, perm, false)
}

func write(path, suffix string, data []byte, perm fs.FileMode, sync bool) error {
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+suffix+".tmp")
	if err := replace(path, tmp, data, perm, sync); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func replace(path, tmp string, data []byte, perm fs.FileMode, sync bool) (err error) {
	if err := at(BeforeWrite, path); err != nil {
		return err
	}
	f, err := create(tmp, perm)
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		if !renamed {
			os.Remove(tmp)
		}
	}()
	if err := fill(f, data, sync); err != nil {
		return err
	}
	if err := at(AfterWrite, path); err != nil {
		return err
	}
	if err := at(BeforeRename, path); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	renamed = true
	if err := at(AfterRename, path); err != nil || !sync {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func create(tmp string, perm fs.FileMode) (*os.File, error) {
	const flag = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := os.OpenFile(tmp, flag, perm)
	if errors.Is(err, fs.ErrExist) {
		if err := os.Remove(tmp); err != nil {
			return nil, err
		}
		f, err = os.OpenFile(tmp, flag, perm)
	}
	return f, err
}

// fill writes, syncs and closes f, and returns the first error.
func fill(f *os.File, data []byte, sync bool) error {
	_, err := f.Write(data)
	if err == nil && sync {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// SyncDir makes the names in dir durable. Systems that cannot sync a folder
// (Windows, some network file systems) are no error: there the rename is still
// atomic, only its durability is the system's choice.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
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
