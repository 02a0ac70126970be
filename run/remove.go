package run

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"metier/record"
)

// removing begins the name of a folder that is being removed. Its end may have
// been kept from it by a crash.
const removing = ".removing-"

// Remove takes a record away, with the heads that vouch for it. One that a
// process writes to is refused (run_locked). noted is told the last head first,
// zero for a record that cannot be read; its error keeps the record. It is gone
// from lists at once; what a crash leaves of it is taken away by [Sweep].
func Remove(ctx context.Context, root, id string, o *Options, noted func(record.Head) error) error {
	if err := CheckID(id); err != nil {
		return err
	}
	f := &Folder{id: id, dir: filepath.Join(root, id), opt: o.orDefault()}
	if err := f.check(); err != nil {
		return err
	}
	l, err := takeLock(f.dir, f.opt.Now)
	if err != nil {
		return err
	}
	err = noted(lastHead(ctx, root, id))
	if err := errors.Join(err, l.Release()); err != nil { // some systems move no folder that has an open file
		return fault("remove", f.dir, err)
	}
	heads := ""
	if f.opt.StateDir != "" {
		if heads, err = f.headsFile(); err != nil {
			return err
		}
	}
	gone := filepath.Join(root, removing+id)
	if err := os.Rename(f.dir, gone); err != nil {
		return fault("remove", f.dir, err)
	}
	if heads != "" {
		if err := os.Remove(heads); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault("remove", heads, err)
		}
	}
	return fault("remove", gone, os.RemoveAll(gone))
}

func lastHead(ctx context.Context, root, id string) record.Head {
	f, err := Look(root, id, nil)
	if err != nil {
		return record.Head{}
	}
	defer f.Close()
	head, err := f.Log().Head(ctx)
	if err != nil {
		return record.Head{}
	}
	return head
}

// Sweep takes away what a crash left of records that were being removed.
func Sweep(root string) error {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault("remove", root, err)
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), removing) {
			errs = append(errs, os.RemoveAll(filepath.Join(root, e.Name())))
		}
	}
	return fault("remove", root, errors.Join(errs...))
}
