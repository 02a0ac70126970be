package run

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"metier"
	"metier/internal/confine"
	"metier/record"
)

// openHeads opens the file of heads. For a new run that stands where an older
// one stood, the old heads are put aside: they vouch for a log that is gone.
func (f *Folder) openHeads(fresh bool) error {
	f.name = f.id
	if f.opt.StateDir == "" {
		if !fresh && !f.readOnly && f.opt.RequireHead {
			return wrong(metier.Denied, CodeStranger, f.dir, "set HOME or XDG_STATE_HOME to the folder where heads were kept; ResumeOptions.TrustRecord accepts the record and everything that it allows",
				"there is no folder for recorded heads: nothing shows who wrote the record of run %q", f.id)
		}
		return nil
	}
	path, err := f.headsFile()
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := ownHeads(f.opt.StateDir, dir, path); err != nil {
		return err
	}
	if f.readOnly {
		f.heads, err = record.OpenHeads(path, &record.Options{ReadOnly: true})
		if errors.Is(err, fs.ErrNotExist) {
			f.noHead = true
			return nil
		}
		return fault("open", path, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return unwitnessable(dir, err)
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && !fresh && f.opt.RequireHead {
		return f.stranger()
	}
	f.headsPath = path
	if fresh {
		return f.putHeadsAside("old")
	}
	if f.heads, err = record.OpenHeads(path, &record.Options{Now: f.opt.Now}); err != nil {
		return unwitnessable(path, err)
	}
	return nil
}

// ownHeads fails where another user can write the recorded heads: they then prove
// nothing. What does not exist yet is created with mode 0700, and what cannot be
// read fails when it is opened.
func ownHeads(paths ...string) error {
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err == nil && confine.OthersWrite(info) {
			return wrong(metier.Denied, CodeHeadsOpen, path, "check who changed it, then make it your own and run `chmod go-w` on it",
				"another user can write the recorded heads, so they prove nothing: %s has mode %s", path, info.Mode())
		}
	}
	return nil
}

// Known reports whether a run of that name was there once: heads of its log are
// kept, whatever became of its folder. Without a StateDir nobody knows.
func Known(root, id string, o *Options) bool {
	f := &Folder{id: id, dir: filepath.Join(root, id), opt: o.orDefault()}
	path, err := f.headsFile()
	if err != nil || f.opt.StateDir == "" || CheckID(id) != nil {
		return false
	}
	info, err := os.Lstat(path)
	return err == nil && info.Size() > 0
}

// headsFile is the path of the file of heads.
func (f *Folder) headsFile() (string, error) {
	abs, err := filepath.Abs(f.dir)
	if err != nil {
		return "", fault("open", f.dir, err)
	}
	abs = resolved(abs)
	return filepath.Join(f.opt.StateDir, "heads", fmt.Sprintf("%x.jsonl", sha256.Sum256([]byte(abs)))), nil
}

// resolved is a path without links, as far as it is there.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if up := filepath.Dir(path); up != path {
		return filepath.Join(resolved(up), filepath.Base(path))
	}
	return path
}

// VerifyHead compares a log with the newest head noted of it, as both were when the
// folder was opened: nil, or heads_mismatch. What a chain holds up to a head it
// holds before it, too.
func (f *Folder) VerifyHead(ctx context.Context) error {
	if f.heads == nil {
		return nil
	}
	err := f.heads.VerifyHead(ctx, f.name, f.file)
	if e, ok := errors.AsType[*record.Error](err); ok {
		return &metier.Error{Op: "run", Path: f.dir, Kind: metier.Drift, Code: CodeHeads, Err: e,
			Hint: "the record is not what was written: `metier audit verify " + f.id + "` lists every problem"}
	}
	return err
}

// putHeadsAside keeps the heads of a log that is not there any more under
// another name, and begins anew: a head that a crash took would otherwise speak
// against every entry that comes after.
func (f *Folder) putHeadsAside(why string) error {
	if f.heads != nil {
		if err := f.heads.Close(); err != nil {
			return fault("open", f.headsPath, err)
		}
		f.heads = nil
	}
	if err := os.Rename(f.headsPath, f.headsPath+"."+f.opt.NewID()+"."+why); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault("open", f.headsPath, err)
	}
	var err error
	f.heads, err = record.OpenHeads(f.headsPath, &record.Options{Now: f.opt.Now})
	if f.log != nil {
		f.log.heads = f.heads
	}
	return fault("open", f.headsPath, err)
}

// witnessed is a log whose syncs leave the head where the workspace cannot
// reach it. Facts are kept free of secrets as content is: a model names tools,
// a provider its model, and both may write back what they were sent.
type witnessed struct {
	*record.FileLog
	heads  *record.Heads
	name   string
	redact *record.Redactor
}

// Append implements record.Log.
func (w *witnessed) Append(ctx context.Context, after record.Head, e ...record.Entry) (record.Head, error) {
	e = slices.Clone(e)
	for i := range e {
		if clean, _ := w.redact.Clean(e[i].Data); json.Valid(clean) { // a number that happens to be the same is none
			e[i].Data = clean
		}
		for _, s := range []*string{&e[i].ID, &e[i].By} {
			clean, _ := w.redact.Clean([]byte(*s))
			*s = string(clean)
		}
	}
	return w.FileLog.Append(ctx, after, e...)
}

// Sync implements record.Syncer.
func (w *witnessed) Sync(ctx context.Context) error {
	if w.heads != nil {
		if err := w.heads.Sync(); err != nil {
			return err
		}
	}
	if err := w.FileLog.Sync(ctx); err != nil || w.heads == nil {
		return err
	}
	_, err := w.heads.Note(ctx, w.name, w.FileLog)
	return err
}
