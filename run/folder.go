package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"metier"
	"metier/event"
	"metier/internal/lockfile"
	"metier/record"
)

// Options are the options of a folder. Nil means defaults.
type Options struct {
	Now    func() time.Time // nil: time.Now
	NewID  func() string    // nil: random; ids of entries this package adds
	By     string           // principal of the entries this package adds
	Logger *slog.Logger     // nil: discard
	// StateDir is a folder outside the workspace. The heads of logs are kept in its heads
	// subfolder, see [StateDir]. If it is empty, no heads are kept, and a log that was truncated or
	// completely rewritten is not detected.
	StateDir string
	// RequireHead makes Open, and with a StateDir also Look, reject a record that has no recorded
	// head in this user's StateDir (run_unwitnessed). Such a record came with the workspace or from elsewhere, and the
	// permissions in it were not granted here. A torn log that lost confirmed entries is also
	// rejected (heads_mismatch). Without RequireHead it is truncated, and an entry records what was
	// lost.
	RequireHead bool
	// Top is a folder above the run's. No link in the run's folder, or between the two, leads out
	// of it. "" is the root given to Create, Open, or Look; child runs need that of their parent,
	// see [Folder.Top].
	Top string
	// Secrets are removed from content before it is hashed and stored.
	Secrets []record.Secret
}

func (o *Options) orDefault() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = rand.Text
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// StateDir returns the default folder for heads: metier below $XDG_STATE_HOME, or
// ~/.local/state/metier. It is "" if there is no home directory.
func StateDir(env func(string) string, home string) string {
	if d := env("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "metier")
	}
	if home == "" {
		return ""
	}
	return filepath.Join(home, ".local", "state", "metier")
}

// Folder is the folder of one run. Its methods are safe for concurrent use.
type Folder struct {
	id, dir  string
	opt      Options
	readOnly bool

	root   *os.Root       // of dir; everything in it is opened and written through it
	lock   *lockfile.Lock // nil when read only
	file   *record.FileLog
	log    *anchoredLog
	store  *record.FileBlobs
	blobs  *record.Redactor
	heads  *record.Heads // nil: none are kept
	name   string        // of the log among the heads
	noHead bool          // heads are kept, and none for this log
	loose  *loose        // nil: heads cover the whole log

	headsPath string

	projecting sync.Mutex // one Project at a time
}

// FileLog is the name of the log file in the folder of a run.
const FileLog = "events.jsonl"

const (
	dirBlobs  = "blobs"
	dirChilds = "children"
)

// Create creates the folder of a new run and opens it for writing. If the run exists, the error has
// the code run_exists.
func Create(root, id string, o *Options) (*Folder, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	dir, opt := filepath.Join(root, id), o.orDefault()
	if opt.Top == "" {
		if err := os.MkdirAll(root, 0o700); err != nil {
			return nil, fault("create", root, err)
		}
	}
	top, rel, err := above(root, dir, opt)
	if err != nil {
		return nil, fault("create", root, err)
	}
	defer top.Close()
	if err := top.MkdirAll(filepath.Dir(rel), 0o700); err != nil {
		return nil, fault("create", root, err)
	}
	if err := top.Mkdir(rel, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, wrong(metier.Conflict, CodeExists, dir, "choose another id, or resume this one", "the run %q already exists", id)
		}
		return nil, fault("create", dir, err)
	}
	f, err := open(root, id, opt, true)
	if err == nil {
		return f, nil
	}
	if info, serr := top.Stat(filepath.Join(rel, FileLog)); serr != nil || info.Size() == 0 {
		_ = top.RemoveAll(rel) // nothing was written yet: leave nothing half made
	}
	return nil, err
}

// above opens the folder that no link leads out of, and returns the path of a run's folder in it.
func above(root, dir string, o Options) (*os.Root, string, error) {
	top := cmp.Or(o.Top, root)
	rel, err := filepath.Rel(top, dir)
	if err != nil {
		return nil, "", err
	}
	r, err := os.OpenRoot(top)
	return r, rel, err
}

// openRoot opens the run's folder.
func (f *Folder) openRoot() error {
	info, err := os.Lstat(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return wrong(metier.NotFound, CodeNotFound, f.dir, "'metier runs list' shows all runs", "there is no run %q", f.id)
	}
	if err != nil {
		return fault("open", f.dir, err)
	}
	if !info.IsDir() {
		return wrong(metier.Denied, CodeFolderBad, f.dir, "remove it", "%s is not a run folder", f.dir)
	}
	top, rel, err := above(filepath.Dir(f.dir), f.dir, f.opt)
	if err != nil {
		return fault("open", f.dir, err)
	}
	defer top.Close()
	if f.root, err = top.OpenRoot(rel); err != nil {
		return fault("open", f.dir, err)
	}
	there, err := top.Lstat(rel)
	opened, openedErr := f.root.Stat(".")
	if err = errors.Join(err, openedErr); err == nil && !os.SameFile(there, opened) { // a link, made since
		return wrong(metier.Denied, CodeFolderBad, f.dir, "remove it", "%s is not a run folder", f.dir)
	}
	return fault("open", f.dir, err)
}

// Open opens the folder of a run for writing. It takes the lock, truncates an incomplete tail that
// a crash left and records that ([event.RecordRecovered]), and compares the log with the heads kept
// elsewhere. Errors: run_not_found, run_locked, heads_mismatch, and those of the record package.
func Open(root, id string, o *Options) (*Folder, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	return open(root, id, o.orDefault(), false)
}

// Look opens the folder of a run for reading. It takes no lock and changes nothing. It works on a
// read-only file system, and while another process writes.
func Look(root, id string, o *Options) (*Folder, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	f := &Folder{id: id, dir: filepath.Join(root, id), opt: o.orDefault(), readOnly: true}
	err := f.openRoot()
	if err == nil {
		err = f.check()
	}
	if err == nil {
		err = f.openHeads(false)
	}
	if err == nil {
		err = f.openRecord()
	}
	if err == nil {
		err = f.unanchored(context.Background())
	}
	if err == nil && f.noHead && f.opt.RequireHead {
		err = f.stranger()
	}
	if err != nil {
		f.shut()
		return nil, err
	}
	return f, nil
}

func open(root, id string, opt Options, fresh bool) (*Folder, error) {
	f := &Folder{id: id, dir: filepath.Join(root, id), opt: opt}
	err := f.openRoot()
	if err == nil && !fresh {
		err = f.check()
	}
	if err == nil {
		f.lock, err = takeLock(f.root, f.dir, opt.Now)
	}
	if err != nil {
		f.shut()
		return nil, err
	}
	if err = f.openHeads(fresh); err == nil {
		if err = f.openRecord(); err == nil {
			err = f.begin(context.Background())
		}
	}
	if err != nil {
		f.shut()
		return nil, err
	}
	return f, nil
}

// check inspects the files before anything is opened: a workspace may contain symlinks in their
// place.
func (f *Folder) check() error {
	for _, name := range []string{FileLog, dirBlobs, dirChilds, lockName} {
		path, isDir := filepath.Join(f.dir, name), name == dirBlobs || name == dirChilds
		info, err := f.root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if name == FileLog {
				return wrong(metier.NotFound, CodeNotFound, path, "the folder is not a run, or lost its log; remove it or restore the file", "the run %q has no log", f.id)
			}
		case err != nil:
			return fault("open", path, err)
		case isDir && !info.IsDir(), !isDir && !info.Mode().IsRegular():
			return wrong(metier.Denied, CodeFolderBad, path, "remove it; a run folder holds no links", "%s is a link or has the wrong type", name)
		}
	}
	blobs, err := fs.ReadDir(f.root.FS(), dirBlobs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault("open", f.dir, err)
	}
	for _, b := range blobs {
		if b.Type()&fs.ModeSymlink != 0 {
			return wrong(metier.Denied, CodeFolderBad, filepath.Join(f.dir, dirBlobs, b.Name()), "remove it; a run folder holds no links", "%s/%s is a link", dirBlobs, b.Name())
		}
	}
	return nil
}

func (f *Folder) openRecord() (err error) {
	if f.store, err = record.OpenBlobs(filepath.Join(f.dir, dirBlobs), &record.Options{ReadOnly: f.readOnly, Now: f.opt.Now, Root: f.root}); err != nil {
		return fault("open", f.dir, err)
	}
	f.blobs = record.Redact(f.store, f.opt.Secrets...)
	for _, name := range f.blobs.Skipped() {
		f.opt.Logger.Warn("a secret is too short to be kept out of the record", "name", name, "shortest", record.MinSecret)
	}
	o := f.recordOptions()
	if f.heads != nil && f.opt.RequireHead {
		o.Noted, _ = f.heads.Newest(f.name)
	}
	if f.file, err = record.OpenFile(filepath.Join(f.dir, FileLog), o); record.CodeOf(err) == record.CodeCut {
		return &metier.Error{Op: "open", Path: f.dir, Kind: metier.Drift, Code: CodeHeads, Err: err,
			Hint: "the log was cut, or the disk lost confirmed data; 'metier audit verify " + f.id + "' names the missing entries; ResumeOptions.TrustRecord continues without it and records that"}
	}
	if err != nil {
		return fault("open", f.dir, err)
	}
	f.log = &anchoredLog{FileLog: f.file, heads: f.heads, name: f.name, redact: f.blobs}
	return nil
}

// recordOptions returns the options of the log. Each append records its head first.
func (f *Folder) recordOptions() *record.Options {
	return &record.Options{ReadOnly: f.readOnly, Now: f.opt.Now, Blobs: f.blobs, Root: f.root, Announce: func(h record.Head) error {
		if f.heads == nil {
			return nil
		}
		return f.heads.Announce(f.name, h)
	}}
}

// begin compares the log with its heads and records what was lost in a crash.
func (f *Folder) begin(ctx context.Context) error {
	head, err := f.file.Head(ctx)
	if err != nil {
		return fault("open", f.dir, err)
	}
	rec := f.file.Recovered()
	var lost record.HeadLine
	if f.heads != nil {
		newest, _ := f.heads.Newest(f.name)
		err := f.heads.Check(ctx, f.name, f.file)
		switch {
		case err == nil:
		case rec != nil && record.CodeOf(err) == record.CodeCut:
			lost = newest
			if err := f.putHeadsAside("lost"); err != nil {
				return err
			}
		default:
			return &metier.Error{Op: "open", Path: f.dir, Kind: metier.Drift, Code: CodeHeads, Err: err,
				Hint: "another program changed the log; 'metier audit verify " + f.id + "' shows the changes; do not continue this run"}
		}
		if err := f.unanchored(ctx); err != nil {
			return err
		}
	}
	if rec != nil {
		f.opt.Logger.Warn("the log lost its tail in a crash", "run", f.id, "after", head.Seq, "bytes", rec.Bytes, "lost", lost.ID)
		if err := f.note(ctx, event.RecordRecovered{Seq: head.Seq, Bytes: rec.Bytes, Digest: rec.Digest, LostID: lost.ID, LostType: lost.Type}); err != nil {
			return err
		}
	}
	if f.loose != nil {
		f.opt.Logger.Warn("no recorded head covers the end of the log, it was set aside", "run", f.id, "after", f.loose.after, "entries", f.loose.last-f.loose.after, "file", f.loose.file)
		if err := f.note(ctx, f.loose.recovered()); err != nil {
			return err
		}
	}
	if head.Seq == 0 && rec == nil && f.loose == nil {
		return nil // a log without entries has nothing to lose; its first sync makes its name durable
	}
	return fault("open", f.dir, f.log.Sync(ctx)) // from here on the whole log counts
}

// note appends a recovery event.
func (f *Folder) note(ctx context.Context, e event.RecordRecovered) error {
	head, err := f.file.Head(ctx)
	if err != nil {
		return fault("open", f.dir, err)
	}
	en, err := event.New(e, "recovered:"+f.opt.NewID(), f.opt.By, f.opt.Now())
	if err != nil {
		return fault("open", f.dir, err)
	}
	_, err = f.file.Append(ctx, head, en)
	return fault("open", f.dir, err)
}

// ID returns the run's id.
func (f *Folder) ID() string { return f.id }

// Dir returns the host path of the folder.
func (f *Folder) Dir() string { return f.dir }

// Log returns the log. It implements record.Syncer and record.Lines. Sync makes it durable and then
// records its head outside the workspace.
func (f *Folder) Log() record.Log { return f.log }

// Blobs returns the content store of the run. Secrets are removed before content is stored.
func (f *Folder) Blobs() record.Blobs { return f.blobs }

// KeepOut adds secrets that became known after the folder was opened. They are removed from
// everything stored from now on.
func (f *Folder) KeepOut(secrets ...record.Secret) { f.blobs.Also(secrets...) }

// Children returns the root of the child runs' folders: Create(f.Children(), id), with the parent's
// Top in the options.
func (f *Folder) Children() string { return ChildrenOf(f.dir) }

// Top returns the folder that no link in this record leads out of.
func (f *Folder) Top() string { return cmp.Or(f.opt.Top, filepath.Dir(f.dir)) }

// RemoveChild removes the folder of a child run.
func (f *Folder) RemoveChild(id string) error {
	return fault("remove", filepath.Join(f.Children(), id), f.root.RemoveAll(filepath.Join(dirChilds, id)))
}

// ChildrenOf returns the root of the child runs' folders for the run folder dir.
func ChildrenOf(dir string) string { return filepath.Join(dir, dirChilds) }

// Close makes the log durable, records its head, and releases the lock. Without Close, only the
// last sync is lost.
func (f *Folder) Close() error {
	var err error
	if !f.readOnly {
		err = f.log.Sync(context.Background())
	}
	return errors.Join(fault("close", f.dir, err), f.shut())
}

func (f *Folder) shut() error {
	var errs []error
	if f.file != nil {
		errs = append(errs, f.file.Close())
	}
	if f.store != nil {
		errs = append(errs, f.store.Close())
	}
	if f.heads != nil {
		errs = append(errs, f.heads.Close())
	}
	errs = append(errs, f.lock.Release())
	if f.root != nil {
		errs = append(errs, f.root.Close())
	}
	return fault("close", f.dir, errors.Join(errs...))
}
