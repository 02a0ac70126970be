// Package rootfile opens folders below a folder, and reads and replaces files there, without following
// links out of it.
package rootfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"metier/internal/atomicfile"
	"metier/internal/namedfile"
)

// ErrChanged is returned for a file that another program has changed.
var ErrChanged = errors.New("another program changed the file")

// Read reads a regular file of a folder. A link must not lead out of the folder.
func Read(root *os.Root, name string, most int64) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("%s is a link whose target does not exist or is outside its folder", name)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() { // replaced after the first check
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s: %w", name, namedfile.TooLong(most))
	}
	return b, err
}

// Replace writes a new file in place of one that still contains old; nil means that the file must
// not exist. Otherwise it returns [ErrChanged].
func Replace(root *os.Root, name string, old, text []byte, perm fs.FileMode) (err error) {
	beside := "." + name + "." + rand.Text()[:12] + ".tmp"
	tmp, err := root.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Remove(beside))
		}
	}()
	_, err = tmp.Write(text)
	if err == nil {
		err = tmp.Chmod(perm)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if info, err := root.Lstat(name); old == nil && !errors.Is(err, fs.ErrNotExist) || old != nil && (err != nil || info.Mode()&fs.ModeSymlink != 0) {
		return ErrChanged
	}
	if old != nil {
		if now, err := Read(root, name, int64(len(old))); err != nil || !bytes.Equal(now, old) {
			return ErrChanged
		}
	}
	if err := root.Rename(beside, name); err != nil {
		return err
	}
	return atomicfile.SyncDir(root.Name())
}
