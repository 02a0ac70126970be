package record

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"
	"time"

	"metier/internal/digest"
	"metier/internal/jsonl"
)

// Options for [OpenFile], [OpenBlobs] and [OpenHeads]; nil means defaults.
type Options struct {
	// ReadOnly opens what is there and changes nothing, not even a torn tail.
	ReadOnly bool
	// Now gives the time of entries that come without; default time.Now.
	Now func() time.Time
	// Blobs are the blobs of the log: its Sync syncs them first.
	Blobs Blobs
	// Noted is the newest head noted of the log, zero for none. A torn tail whose
	// removal would leave less than that is not cut off: [OpenFile] returns
	// [CodeCut] and the file stays as it is.
	Noted HeadLine

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

// Recovery says what [OpenFile] cut off: lines of which not all bytes, or not
// the whole batch, had been written. The caller appends an entry that says so.
type Recovery struct {
	Bytes  int    `json:"bytes"`
	Seq    uint64 `json:"seq"`    // of the first entry that was cut off
	Digest string `json:"digest"` // of the bytes cut off
}

// FileLog is a [Log] in one file, a line of JSON per entry. One process may
// have it open for writing at a time; who opens it holds a lock that says so.
// Only where each line begins, its hash and digests of the IDs are kept in memory.
type FileLog struct {
	path string
	opt  Options

	mu        sync.Mutex // guards what follows
	file      *jsonl.File
	chain     chain
	places    []place // of entry 1, 2, …; elements are never changed
	end       int64   // of the last entry
	tail      []Entry // the newest entries appended here, at most tailMax
	failed    error   // a failed sync: what is on disk is not known any more
	recovered *Recovery

	syncMu sync.Mutex // one sync at a time, taken before mu
	synced int64      // end at the last sync, -1 before
}

// tailMax is how many appended entries are kept in memory: each of them is
// folded by a session and by a driver right after it was written.
const tailMax = 32

// place is where a stored line begins and its hash.
type place struct {
	off int64
	sum sum
}

// OpenFile opens the log at path, creating an empty one unless o says
// ReadOnly. It reads and checks the whole chain: a changed, missing or unknown
// line is an *[Error] that names it ([CodeAltered], [CodeGap], [CodeNewer]); a
// tail that was not written completely is cut off and told by
// [FileLog.Recovered].
func OpenFile(path string, o *Options) (*FileLog, error) {
	opt := o.orDefault()
	f, err := jsonl.Open(path, &jsonl.Options{ReadOnly: opt.ReadOnly, Write: opt.write})
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

// load reads the file. A line counts only when the batch it belongs to is
// complete.
func (l *FileLog) load() error {
	var w walker
	var open batch // the current batch, as far as read
	var places []place
	for ln, err := range l.file.Lines(0, MaxLine) {
		if err != nil {
			return storage(l.path, w.head.Seq+1, err)
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
			return &Error{Code: CodeAltered, Path: l.path, Seq: x.Seq, Detail: fmt.Sprintf("ID %q stands in the log twice", x.ID)}
		}
		places, open.ids = append(places, place{ln.Off, s}), append(open.ids, x.ID)
		if x.More == 0 {
			open.head = w.head
			l.chain.take(&open)
			l.places, l.end = append(l.places, places...), ln.Off+ln.Size+1
			open, places = batch{}, places[:0]
		}
	}
	return l.cutTail()
}

func (c *chain) has(id string) bool { _, ok := c.ids[keyOf(id)]; return ok }

// cutTail drops what follows the last complete entry.
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
	if err := l.file.Cut(l.end); err != nil {
		return storage(l.path, l.chain.head.Seq+1, err)
	}
	return nil
}

// Recovered says what was cut off when the log was opened, nil for nothing.
func (l *FileLog) Recovered() *Recovery { return l.recovered }

// Append implements [Log]. All lines go out in one write. When it fails
// ([CodeDiskFull] and others) the file is cut back and the log stays usable.
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
	off, err := l.file.Append(b.bytes)
	if errors.Is(err, jsonl.ErrChanged) {
		return Head{}, &Error{Code: CodeAltered, Path: l.path, Seq: l.chain.head.Seq, Err: err,
			Detail: "somebody else wrote to the log while it was open; verify it before going on"}
	}
	if err != nil {
		return Head{}, storage(l.path, l.chain.head.Seq+1, err)
	}
	l.chain.take(b)
	start := 0
	for i, end := range b.ends {
		l.places = append(l.places, place{off + int64(start), b.sums[i]})
		start = end
	}
	l.end = off + int64(len(b.bytes))
	l.tail = append(l.tail, b.entry...)
	if n := len(l.tail) - tailMax; n > 0 {
		l.tail = append([]Entry(nil), l.tail[n:]...)
	}
	return l.chain.head, nil
}

// newest returns the entries from seq on where all of them are in memory. The
// caller holds mu.
func (l *FileLog) newest(seq uint64) ([]Entry, bool) {
	if len(l.tail) == 0 || seq < l.tail[0].Seq {
		return nil, false
	}
	return l.tail[seq-l.tail[0].Seq:], true
}

// Read implements [Log]. What was appended last comes from memory; every line
// read from the file is compared with the hash it had when it was opened or
// appended ([CodeAltered]).
func (l *FileLog) Read(ctx context.Context, from uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		from = max(from, 1)
		l.mu.Lock()
		places, end, file := l.places, l.end, l.file
		var recent []Entry
		inMemory := from > uint64(len(places))
		if !inMemory {
			recent, inMemory = l.newest(from)
		}
		l.mu.Unlock()
		if inMemory {
			replay(ctx, recent, yield)
			return
		}
		off, seq := places[from-1].off, from
		for ln, err := range jsonl.Scan(file.Section(off, end), off, MaxLine) {
			if err == nil {
				err = ctx.Err()
			} else {
				err = storage(l.path, seq, err)
			}
			var x line
			if err == nil {
				x, err = l.check(ln, seq, places)
			}
			if !yield(x.Entry, err) || err != nil {
				return
			}
			seq++
		}
		if seq <= uint64(len(places)) {
			yield(Entry{}, &Error{Code: CodeCut, Path: l.path, Seq: seq, Detail: "the file became shorter while the log was open"})
		}
	}
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

func (l *FileLog) check(ln jsonl.Line, seq uint64, places []place) (line, error) {
	if ln.Long || seq > uint64(len(places)) || sum(sha256.Sum256(ln.Bytes)) != places[seq-1].sum {
		return line{}, &Error{Code: CodeAltered, Path: l.path, Seq: seq, Detail: "the line was changed while the log was open"}
	}
	x, bad := parse(ln.Bytes)
	if bad != nil {
		bad.Path, bad.Seq = l.path, seq
		return line{}, bad
	}
	return x, nil
}

// Lines implements [Lines]: what stands in the file now.
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

// Sync implements [Syncer]: first the blobs, then the log, so that no entry
// outlives a blob it names. With nothing new it costs nothing. After a failure
// the log refuses appends, because the system may have dropped what it could
// not write: open it again.
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
