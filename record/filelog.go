package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"metier/internal/atomicfile"
	"metier/internal/digest"
	"metier/internal/jsonl"
)

// Options are the options of [OpenFile], [OpenBlobs] and [OpenHeads]. Nil means defaults.
type Options struct {
	// ReadOnly opens the existing files and changes nothing, not even a torn tail.
	ReadOnly bool
	// Now returns the time for entries without one. The default is time.Now.
	Now func() time.Time
	// Blobs are the blobs of the log. Sync of the log syncs them first.
	Blobs Blobs
	// Noted is the newest recorded head of the log, or zero. If cutting off a torn
	// tail would remove entries up to this head, [OpenFile] returns [CodeCut] and
	// does not change the file.
	Noted HeadLine
	// Announce is called with the head that an append will produce, before anything is written. If
	// it returns an error, the append writes nothing and returns that error. See [Heads.Announce].
	Announce func(Head) error
	// Upto opens only the entries up to this head, and treats the rest as an incomplete tail. Zero
	// opens all entries.
	Upto Head
	// Aside is the file to which the bytes of a tail are copied before it is truncated. If it is
	// "", they are discarded.
	Aside string
	// Root is the folder of the log, or of the folder of the blobs, already open, so that no link
	// leads out of it. Aside is then in it too. Nil opens it.
	Root *os.Root

	write      func(f *os.File, b []byte, off int64) (int, error) // faults, in tests
	maxEntries uint64                                             // small, in tests
}

func (o *Options) orDefault() Options {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.maxEntries == 0 {
		c.maxEntries = MaxEntries
	}
	return c
}

// Recovery describes what [OpenFile] removed: incomplete lines, or lines of an incomplete batch.
// The caller appends an entry to report it.
type Recovery struct {
	Bytes  int    `json:"bytes"`
	Seq    uint64 `json:"seq"`    // of the first entry that was cut off
	Digest string `json:"digest"` // of the bytes cut off
}

// FileLog is a [Log] in one file, with one line of JSON per entry. Only one process may open it for
// writing at a time, and the caller must hold a lock. In memory, it keeps only digests of the IDs
// and marks for some lines.
type FileLog struct {
	path string
	opt  Options

	mu        sync.Mutex // guards what follows
	file      *jsonl.File
	chain     chain
	marks     []mark  // of entries 1, 1+markEvery, …; elements are never changed
	last      sum     // of the last entry's line
	end       int64   // of the last entry
	tail      []Entry // the newest entries appended here, or read at a read-only opening; at most twice tailMax
	failed    error   // a failed sync: what is on disk is not known any more
	recovered *Recovery

	syncMu sync.Mutex // one sync at a time, taken before mu
	synced int64      // end at the last sync, -1 before
}

// tailMax is the minimum number of recent entries kept in memory. A session and a driver fold each
// entry right after it is written, and a list of runs reads short logs twice.
const tailMax = 32

// markEvery is the number of lines per mark. A session may write for days, and a mark for each line
// would take most of the log's memory. Between marks, the chain protects the lines.
const markEvery = 16

// mark is the offset of an entry's line, and the hash of the line before it.
type mark struct {
	off  int64
	prev sum
}

// place records that the line of entry seq starts at off. The caller must hold mu.
func (l *FileLog) place(seq uint64, off int64, s sum) {
	if (seq-1)%markEvery == 0 {
		l.marks = append(l.marks, mark{off, l.last})
	}
	l.last = s
}

// OpenFile opens the log at path, and creates an empty one unless o.ReadOnly is set. It reads and
// checks the whole chain. A changed, missing, or unknown line is an *[Error] that names it
// ([CodeAltered], [CodeGap], [CodeNewer]). OpenFile truncates an incomplete tail, and
// [FileLog.Recovered] reports it.
func OpenFile(path string, o *Options) (*FileLog, error) {
	opt := o.orDefault()
	f, err := jsonl.Open(path, &jsonl.Options{ReadOnly: opt.ReadOnly, Root: opt.Root, Write: opt.write})
	if err != nil {
		return nil, storage(path, 0, err)
	}
	l := &FileLog{path: path, opt: opt, file: f, chain: newChain(path), synced: -1}
	l.chain.maxEntries = opt.maxEntries
	if err := l.load(); err != nil {
		_ = f.Close()
		return nil, err
	}
	return l, nil
}

// load reads the file. A line counts only if its batch is complete.
func (l *FileLog) load() error {
	var w walker
	var open batch // the current batch, as far as read
	type placed struct {
		off int64
		sum sum
	}
	var places []placed
	for ln, err := range l.file.Lines(0, MaxLine) {
		if err != nil {
			return storage(l.path, w.head.Seq+1, err)
		}
		if l.opt.Upto.Seq > 0 && l.chain.head.Seq >= l.opt.Upto.Seq {
			break
		}
		last := ln.Off+ln.Size+1 == l.file.Size()
		if ln.Torn || last && !ln.Long && !json.Valid(ln.Bytes) {
			break // only the end of the file comes here
		}
		if ln.Long {
			return &Error{Code: CodeAltered, Path: l.path, Seq: w.head.Seq + 1, Detail: fmt.Sprintf("line of %d bytes, more than any that is written", ln.Size)}
		}
		x, s, bad := w.step(ln.Bytes)
		if bad != nil {
			bad.Path = l.path
			return bad
		}
		if x.Seq > l.opt.maxEntries {
			return &Error{Code: CodeTooLarge, Path: l.path, Seq: x.Seq, Detail: "more entries than a log may hold"}
		}
		if l.chain.has(x.ID) {
			return &Error{Code: CodeAltered, Path: l.path, Seq: x.Seq, Detail: fmt.Sprintf("ID %q is in the log twice", x.ID)}
		}
		places, open.ids = append(places, placed{ln.Off, s}), append(open.ids, x.ID)
		if l.opt.ReadOnly {
			open.entry = append(open.entry, x.Entry)
		}
		if x.More == 0 {
			open.head = w.head
			l.chain.take(&open)
			l.keep(open.entry)
			for i, p := range places {
				l.place(w.head.Seq-uint64(len(places)-1-i), p.off, p.sum)
			}
			l.end, open, places = ln.Off+ln.Size+1, batch{}, places[:0]
		}
	}
	return l.cutTail()
}

func (c *chain) has(id string) bool { _, ok := c.ids[keyOf(id)]; return ok }

// cutTail removes what follows the last complete entry.
func (l *FileLog) cutTail() error {
	size := l.file.Size()
	if size == l.end {
		return nil
	}
	h := digest.New()
	if _, err := io.Copy(h, l.file.Section(l.end, size)); err != nil {
		return storage(l.path, l.chain.head.Seq+1, err)
	}
	l.recovered = &Recovery{Bytes: int(size - l.end), Seq: l.chain.head.Seq + 1, Digest: h.Sum()}
	if l.opt.ReadOnly {
		return nil
	}
	if l.opt.Noted.Seq > l.chain.head.Seq {
		return lost(l.opt.Noted, l.chain.head.Seq)
	}
	if err := l.keepTail(); err != nil {
		return storage(l.opt.Aside, l.chain.head.Seq+1, err)
	}
	if err := l.file.Cut(l.end); err != nil {
		return storage(l.path, l.chain.head.Seq+1, err)
	}
	return nil
}

// keepTail copies the tail to Options.Aside.
func (l *FileLog) keepTail() error {
	if l.opt.Aside == "" {
		return nil
	}
	b, err := io.ReadAll(l.file.Section(l.end, l.file.Size()))
	if err != nil {
		return err
	}
	if l.opt.Root != nil {
		return atomicfile.In(l.opt.Root, filepath.Base(l.opt.Aside), "aside", b, 0o600, true)
	}
	return atomicfile.Write(l.opt.Aside, b, 0o600)
}

// Recovered returns what was removed when the log was opened, or nil.
func (l *FileLog) Recovered() *Recovery { return l.recovered }

// Append implements [Log]. It writes all lines at once. If that fails ([CodeDiskFull] and others),
// the file is truncated again and the log stays usable.
func (l *FileLog) Append(ctx context.Context, after Head, e ...Entry) (Head, error) {
	if err := ctx.Err(); err != nil {
		return Head{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return Head{}, l.failed
	}
	if l.opt.ReadOnly {
		return Head{}, &Error{Code: CodeReadOnly, Path: l.path, Detail: "the log was opened for reading"}
	}
	b, err := l.chain.plan(after, l.opt.Now, e)
	if err != nil {
		return Head{}, err
	}
	if b == nil {
		return l.chain.head, nil
	}
	if l.opt.Announce != nil {
		if err := l.opt.Announce(b.head); err != nil {
			return Head{}, err
		}
	}
	off, err := l.file.Append(b.bytes)
	if errors.Is(err, jsonl.ErrChanged) {
		return Head{}, &Error{Code: CodeAltered, Path: l.path, Seq: l.chain.head.Seq, Err: err,
			Detail: "another process wrote to the log while it was open; verify it before you continue"}
	}
	if err != nil {
		return Head{}, storage(l.path, l.chain.head.Seq+1, err)
	}
	l.chain.take(b)
	start := 0
	for i, end := range b.ends {
		l.place(b.entry[i].Seq, off+int64(start), b.sums[i])
		start = end
	}
	l.end = off + int64(len(b.bytes))
	l.keep(b.entry)
	return l.chain.head, nil
}

func (l *FileLog) keep(e []Entry) {
	l.tail = append(l.tail, e...)
	if n := len(l.tail) - tailMax; n > tailMax { // not at each append: readers may hold what it is cut from
		l.tail = append(make([]Entry, 0, 2*tailMax), l.tail[n:]...)
	}
}

// newest returns the entries from seq on if all of them are in memory. The caller must hold mu.
func (l *FileLog) newest(seq uint64) ([]Entry, bool) {
	if len(l.tail) == 0 || seq < l.tail[0].Seq {
		return nil, false
	}
	return l.tail[seq-l.tail[0].Seq:], true
}

// Read implements [Log]. Recent entries come from memory. Lines from the file are compared with
// their state when they were opened or appended, up to markEvery at a time, before any of them is
// returned ([CodeAltered]).
func (l *FileLog) Read(ctx context.Context, from uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		from = max(from, 1)
		l.mu.Lock()
		v := view{path: l.path, file: l.file, marks: l.marks, head: l.chain.head, end: l.end}
		var recent []Entry
		inMemory := from > v.head.Seq
		if !inMemory {
			recent, inMemory = l.newest(from)
		}
		l.mu.Unlock()
		if inMemory {
			replay(ctx, recent, yield)
			return
		}
		v.read(ctx, from, yield)
	}
}

// view is a snapshot of a log.
type view struct {
	path  string
	file  *jsonl.File
	marks []mark
	head  Head
	end   int64
}

func (v view) read(ctx context.Context, from uint64, yield func(Entry, error) bool) {
	first := (from - 1) / markEvery
	begin := v.marks[first]
	w := walker{}
	if first > 0 {
		w.head = Head{first * markEvery, begin.prev.String()}
	}
	var group []Entry
	for ln, err := range jsonl.Scan(v.file.Section(begin.off, v.end), begin.off, MaxLine) {
		if err != nil {
			err = storage(v.path, w.head.Seq+1, err)
		} else {
			err = ctx.Err()
		}
		var e Entry
		if err == nil {
			e, err = v.step(&w, ln)
		}
		if err != nil {
			yield(Entry{}, err)
			return
		}
		group = append(group, e)
		if w.head.Seq%markEvery != 0 && w.head.Seq != v.head.Seq {
			continue
		}
		for _, e := range group {
			if e.Seq >= from && !yield(e, nil) {
				return
			}
		}
		group = group[:0]
	}
	if w.head.Seq < v.head.Seq {
		yield(Entry{}, &Error{Code: CodeCut, Path: v.path, Seq: w.head.Seq + 1, Detail: "the file became shorter while the log was open"})
	}
}

// step checks the next line of a walk. At a mark and at the end, the walk must match the log.
func (v view) step(w *walker, ln jsonl.Line) (Entry, error) {
	seq := w.head.Seq + 1
	altered := &Error{Code: CodeAltered, Path: v.path, Seq: seq, Detail: "the line was changed while the log was open"}
	if ln.Long || seq > v.head.Seq {
		return Entry{}, altered
	}
	x, s, bad := w.step(ln.Bytes)
	if bad != nil {
		altered.Seq, altered.Detail = bad.Seq, altered.Detail+": "+bad.Detail
		return Entry{}, altered
	}
	if seq == v.head.Seq && s.String() != v.head.Hash || seq < v.head.Seq && seq%markEvery == 0 && s != v.marks[seq/markEvery].prev {
		return Entry{}, altered
	}
	return x.Entry, nil
}

// replay yields entries from memory.
func replay(ctx context.Context, entries []Entry, yield func(Entry, error) bool) {
	err := ctx.Err()
	for _, e := range entries {
		if err = ctx.Err(); err != nil || !yield(e, nil) {
			break
		}
	}
	if err != nil {
		yield(Entry{}, err)
	}
}

// Lines implements [Lines] with the current content of the file.
func (l *FileLog) Lines(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		l.mu.Lock()
		end, file := l.end, l.file
		l.mu.Unlock()
		scan(ctx, l.path, file.Section(0, end), yield)
	}
}

// Head implements [Log].
func (l *FileLog) Head(ctx context.Context) (Head, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.chain.head, ctx.Err()
}

// Sync implements [Syncer]. It syncs the blobs before the log, so that no entry
// outlives a blob that it references. It does nothing if there are no new entries.
// After a failure, the log refuses appends, because the system may have lost data:
// open it again.
func (l *FileLog) Sync(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	end, failed := l.end, l.failed
	l.mu.Unlock()
	if failed != nil || l.opt.ReadOnly {
		return failed
	}
	if s, ok := l.opt.Blobs.(Syncer); ok {
		if err := s.Sync(ctx); err != nil {
			return err
		}
	}
	if end == l.synced {
		return nil
	}
	if err := l.file.Sync(); err != nil {
		bad := storage(l.path, 0, err)
		bad.Detail = "sync failed, the last entries may be lost; open the log again"
		l.mu.Lock()
		l.failed = bad
		l.mu.Unlock()
		return bad
	}
	l.synced = end
	return nil
}

// Close closes the file. It does not sync.
func (l *FileLog) Close() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
