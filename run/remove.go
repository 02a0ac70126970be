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

// removing is the name prefix of a folder that is being removed. A crash may have interrupted the
// removal.
const removing = ".removing-"

// Remove deletes a record and its recorded heads. It fails with run_locked if a process is writing
// to the record. It first calls noted with the last head, which is zero if the record cannot be
// read. If noted returns an error, the record is kept. The record disappears from lists at once.
// [Sweep] removes what a crash leaves behind.
func Remove(ctx context.Context, root, id string, o *Options, noted func(record.Head) error) error {
	if err := CheckID(id); err != nil {
		return err
	}
	f := &Folder{id: id, dir: filepath.Join(root, id), opt: o.orDefault()}
	err := f.openRoot()
	if err == nil {
		err = f.check()
	}
	if err == nil {
		f.lock, err = takeLock(f.root, f.dir, f.opt.Now)
	}
	if err != nil {
		return errors.Join(err, f.shut())
	}
	err = noted(f.lastHead(ctx))
	if err := errors.Join(err, f.shut()); err != nil { // some systems move no folder that has an open file
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

// lastHead returns the head of a log that is what was written, or zero.
func (f *Folder) lastHead(ctx context.Context) record.Head {
	look, err := Look(filepath.Dir(f.dir), f.id, &f.opt)
	if err != nil {
		return record.Head{}
	}
	defer look.Close()
	head, err := look.Log().Head(ctx)
	if err = errors.Join(err, look.VerifyHead(ctx)); err != nil {
		return record.Head{}
	}
	return head
}

// Sweep finishes removals that a crash interrupted.
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
