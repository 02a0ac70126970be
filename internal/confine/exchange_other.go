//go:build !linux

package confine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Exchange atomically exchanges two files or folders below a folder. It returns
// [errors.ErrUnsupported] if the system or the file system cannot do that.
func Exchange(*os.Root, string, string) error { return errors.ErrUnsupported }

// Sync writes the files below a folder to their device.
func Sync(root *os.Root) error {
	return fs.WalkDir(root.FS(), ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := root.OpenFile(filepath.FromSlash(p), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
