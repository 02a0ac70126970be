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

// openHeads opens the file of heads. If a new run replaces an older one, the old heads are set
// aside, because they belong to a log that no longer exists.
func (f *Folder) openHeads(fresh bool) error {
	f.name = f.id
	if f.opt.StateDir == "" {
		if !fresh && !f.readOnly && f.opt.RequireHead {
			return wrong(metier.Denied, CodeStranger, f.dir, "set HOME or XDG_STATE_HOME to the folder where heads were kept; ResumeOptions.TrustRecord accepts the record and everything that it allows",
				"there is no folder for recorded heads, so nothing shows who wrote the record of run %q", f.id)
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
		return StateUnwritable(dir, err)
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && !fresh && f.opt.RequireHead {
		return f.stranger()
	}
	f.headsPath = path
	if fresh {
		return f.putHeadsAside("old")
	}
	if f.heads, err = record.OpenHeads(path, &record.Options{Now: f.opt.Now}); err != nil {
		return StateUnwritable(path, err)
	}
	return nil
}

// ownHeads fails if another user can write the recorded heads, because they would then prove
// nothing. Missing folders are created later with mode 0700, and unreadable ones fail when opened.
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

// Known reports whether a run with this id ever existed: heads of its log are kept even if its
// folder is gone. Without a StateDir it always reports false.
func Known(root, id string, o *Options) bool {
	path := headsOf(root, id, o)
	if path == "" {
		return false
	}
	info, err := os.Lstat(path)
	return err == nil && info.Size() > 0
}

// newestHead returns the newest recorded head of a run, also if its log cannot be opened. It returns
// none if another user can write them.
func newestHead(root, id string, o *Options) (record.HeadLine, bool) {
	path := headsOf(root, id, o)
	if path == "" || ownHeads(o.StateDir, filepath.Dir(path), path) != nil {
		return record.HeadLine{}, false
	}
	heads, err := record.OpenHeads(path, &record.Options{ReadOnly: true})
	if err != nil {
		return record.HeadLine{}, false
	}
	defer heads.Close()
	return heads.Newest(id)
}

// headsOf returns the path of the file of heads of a run, or "" if none are kept.
func headsOf(root, id string, o *Options) string {
	f := &Folder{id: id, dir: filepath.Join(root, id), opt: o.orDefault()}
	path, err := f.headsFile()
	if err != nil || f.opt.StateDir == "" || CheckID(id) != nil {
		return ""
	}
	return path
}

// headsFile returns the path of the file of heads. It is that of the folder's name below Top, so a
// link there does not lead to the heads of another run.
func (f *Folder) headsFile() (string, error) {
	top, topErr := filepath.Abs(f.Top())
	dir, err := filepath.Abs(f.dir)
	if err = errors.Join(topErr, err); err != nil {
		return "", fault("open", f.dir, err)
	}
	rel, err := filepath.Rel(top, dir)
	if err != nil {
		return "", fault("open", f.dir, err)
	}
	return filepath.Join(f.opt.StateDir, "heads", fmt.Sprintf("%x.jsonl", sha256.Sum256([]byte(filepath.Join(resolved(top), rel))))), nil
}

// resolved resolves the symlinks in the part of path that exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if up := filepath.Dir(path); up != path {
		return filepath.Join(resolved(up), filepath.Base(path))
	}
	return path
}

// VerifyHead compares the log with its newest recorded head, both as of when the folder was opened.
// It returns nil or heads_mismatch. A chain that matches at a head also matches before it.
func (f *Folder) VerifyHead(ctx context.Context) error {
	if f.heads == nil {
		return nil
	}
	err := f.heads.VerifyHead(ctx, f.name, f.file)
	if e, ok := errors.AsType[*record.Error](err); ok {
		return &metier.Error{Op: "run", Path: f.dir, Kind: metier.Drift, Code: CodeHeads, Err: e,
			Hint: "the record has changed since it was written; 'metier audit verify " + f.id + "' lists every problem"}
	}
	return err
}

// putHeadsAside renames the heads file of a log that no longer exists and starts a new one. A head
// that was lost in a crash would otherwise contradict every later entry.
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

// anchoredLog is a log that stores its head outside the workspace on each sync. It also removes
// secrets from facts, as is done for content: a model chooses tool names and a provider its model
// name, and both may echo what they were sent.
type anchoredLog struct {
	*record.FileLog
	heads  *record.Heads
	name   string
	redact *record.Redactor
}

// Append implements record.Log.
func (w *anchoredLog) Append(ctx context.Context, after record.Head, e ...record.Entry) (record.Head, error) {
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
func (w *anchoredLog) Sync(ctx context.Context) error {
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
