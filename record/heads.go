package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"metier/internal/digest"
	"metier/internal/jsonl"
)

// HeadLine is a recorded head of a log. ID, Type, and At describe its entry, so
// that a report can name a lost entry.
type HeadLine struct {
	Seq  uint64    `json:"seq"`
	Hash string    `json:"hash"`
	ID   string    `json:"id,omitempty"`
	Type string    `json:"type,omitempty"`
	At   time.Time `json:"at,omitzero"`
	Log  string    `json:"log"` // the caller's name of the log
	// Pending marks a head that was recorded before its append. The entries may be
	// missing after a crash. ID, Type, and At are empty.
	Pending bool `json:"pending,omitempty"`
}

const (
	maxHeadLine = 16 << 10
	maxHeads    = MaxEntries // heads of one log that Check holds
)

// Heads is a file of recorded heads, one per line, for any number of logs. Store
// it outside the workspace, where writers of the log have no access. Several
// processes may append to it. Unreadable lines are skipped and counted, because
// the file only confirms the record.
type Heads struct {
	path string
	opt  Options

	mu     sync.Mutex
	file   *os.File
	newest map[string]HeadLine // the newest head that is not pending, by name of the log
	bad    int
	dirty  bool       // lines were added since the last Sync
	short  []HeadLine // all lines, if there are few
	size   int64      // of the file when short was read
}

// mostShort is the number of lines of a file of heads that is not read twice.
const mostShort = 64

// OpenHeads opens the file at path, and creates it unless o.ReadOnly is set.
func OpenHeads(path string, o *Options) (*Heads, error) {
	h := &Heads{path: path, opt: o.orDefault(), newest: map[string]HeadLine{}}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, storage(path, 0, &fs.PathError{Op: "open", Path: path, Err: jsonl.ErrNotRegular})
	}
	flag := os.O_RDWR | os.O_APPEND | os.O_CREATE
	if h.opt.ReadOnly {
		flag = os.O_RDONLY
	}
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, storage(path, 0, err)
	}
	h.file = f
	err = h.each(func(l HeadLine) error {
		if !l.Pending && l.Seq >= h.newest[l.Log].Seq {
			h.newest[l.Log] = l
		}
		return nil
	})
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return h, nil
}

// each reads the file from the start.
func (h *Heads) each(use func(HeadLine) error) error {
	info, err := h.file.Stat()
	if err != nil {
		return storage(h.path, 0, err)
	}
	f, err := os.Open(h.path)
	if err != nil {
		return storage(h.path, 0, err)
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(info, now) {
		return &Error{Code: CodeAltered, Path: h.path, Detail: "the file of heads was replaced while it was open", Err: err}
	}
	if len(h.short) > 0 && info.Size() == h.size {
		for _, l := range h.short {
			if err := use(l); err != nil {
				return err
			}
		}
		return nil
	}
	h.bad, h.short, h.size = 0, nil, 0
	var all []HeadLine
	for ln, err := range jsonl.Scan(f, 0, maxHeadLine) {
		if err != nil {
			return storage(h.path, uint64(ln.N), err)
		}
		if ln.Size == 0 {
			continue
		}
		var l HeadLine
		if ln.Long || json.Unmarshal(ln.Bytes, &l) != nil || l.Seq == 0 || !digest.Valid(l.Hash) {
			h.bad++
			continue
		}
		if len(all) <= mostShort {
			all = append(all, l)
		}
		if err := use(l); err != nil {
			return err
		}
	}
	if len(all) <= mostShort {
		h.short, h.size = all, info.Size()
	}
	return nil
}

// Bad returns the number of unreadable lines.
func (h *Heads) Bad() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bad
}

// Newest returns the newest recorded head of a log, or false if there is none.
func (h *Heads) Newest(name string) (HeadLine, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, ok := h.newest[name]
	return l, ok
}

// Note records the current head of l under the given name, and returns it. Call it
// after syncing the log: if a power failure removes an entry whose head was
// recorded, the log is reported as cut. Note adds nothing if the head is already
// recorded. It returns an [Error] with [CodeCut] if the log is shorter than its
// newest head.
func (h *Heads) Note(ctx context.Context, name string, l Log) (Head, error) {
	for {
		head, err := l.Head(ctx)
		if err != nil || head.Seq == 0 {
			return head, err
		}
		// Read before locking: an append holds the log when it calls Announce.
		last, err := entryAt(ctx, l, head.Seq)
		if err != nil {
			return head, err
		}
		err = h.note(HeadLine{Seq: head.Seq, Hash: head.Hash, ID: last.ID, Type: last.Type, At: last.At, Log: name})
		if CodeOf(err) != CodeCut {
			return head, err
		}
		if now, nerr := l.Head(ctx); nerr != nil || now.Seq <= head.Seq {
			return head, err
		}
		// Another goroutine has appended and recorded a newer head in the meantime.
	}
}

func (h *Heads) note(l HeadLine) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	old, ok := h.newest[l.Log]
	switch {
	case ok && l.Seq < old.Seq:
		return lost(old, l.Seq)
	case ok && l.Seq == old.Seq && l.Hash == old.Hash:
		return nil
	case ok && l.Seq == old.Seq:
		return rewritten(old)
	}
	return h.add(l)
}

func entryAt(ctx context.Context, l Log, seq uint64) (Entry, error) {
	for e, err := range l.Read(ctx, seq) {
		return e, err
	}
	return Entry{}, &Error{Code: CodeCut, Seq: seq, Detail: "the log does not hold its own head"}
}

// Announce records the head that a log will have after an append that is about to
// be written. See [Options.Announce]. With it, every entry that was written
// through this process is covered, whenever the process is killed.
func (h *Heads) Announce(name string, head Head) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.add(HeadLine{Seq: head.Seq, Hash: head.Hash, Log: name, Pending: true})
}

func (h *Heads) add(l HeadLine) error {
	if h.opt.ReadOnly {
		return &Error{Code: CodeReadOnly, Path: h.path, Detail: "the heads were opened for reading"}
	}
	b, err := json.Marshal(l)
	if err == nil && len(b) > maxHeadLine {
		err = errors.New("the line is too long")
	}
	if err != nil {
		return &Error{Code: CodeBadEntry, Path: h.path, Seq: l.Seq, Err: err}
	}
	// The leading newline ends a line that a crash, of any process, left incomplete.
	if _, err := h.file.Write([]byte("\n" + string(b) + "\n")); err != nil {
		return storage(h.path, l.Seq, err)
	}
	h.dirty = true
	if !l.Pending {
		h.newest[l.Log] = l
	}
	return nil
}

// Sync makes all recorded heads durable. Call it before the log is synced, so
// that a power failure leaves no durable entry without its head.
func (h *Heads) Sync() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dirty {
		return nil
	}
	if err := h.file.Sync(); err != nil {
		return storage(h.path, 0, err)
	}
	h.dirty = false
	return nil
}

// Close makes all recorded heads durable, and closes the file.
func (h *Heads) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dirty {
		return h.file.Close()
	}
	return errors.Join(h.file.Sync(), h.file.Close())
}

// noted are the recorded heads of one log.
type noted struct {
	sure    map[uint64]HeadLine // by sequence number
	pending map[uint64]string   // hash by sequence number
	newest  HeadLine            // of sure
}

// covers reports whether the recorded heads include this entry with this hash.
func (n noted) covers(seq uint64, hash string) bool {
	return n.pending[seq] == hash || n.sure[seq].Hash == hash
}

func (n noted) none() bool { return len(n.sure)+len(n.pending) == 0 }

// of returns the heads of one log. If two are recorded for the same entry, the first counts,
// because a log never replaces an entry. If two are pending, the last counts, because the append of
// the first was not written.
func (h *Heads) of(name string) (noted, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := noted{sure: map[uint64]HeadLine{}, pending: map[uint64]string{}}
	err := h.each(func(l HeadLine) error {
		switch _, known := n.sure[l.Seq]; {
		case l.Log != name:
			return nil
		case len(n.sure) == maxHeads || len(n.pending) == maxHeads:
			return &Error{Code: CodeTooLarge, Path: h.path, Detail: "more heads of one log than can be compared"}
		case l.Pending:
			n.pending[l.Seq] = l.Hash
			return nil
		case !known:
			n.sure[l.Seq] = l
		}
		if l.Seq > n.newest.Seq {
			n.newest = l
		}
		return nil
	})
	return n, err
}

// Covered returns the newest entry of a log that a recorded head covers, together
// with all earlier entries. It is the log's head, or an earlier entry if later
// ones were not written through [Heads.Announce] or [Heads.Note]. It is zero if no
// entry is covered. known is false if no head of this name is recorded. Covered
// reads the heads after the log, so it covers an append by another process in
// between.
func (h *Heads) Covered(ctx context.Context, name string, l Log) (covered Head, known bool, err error) {
	head, err := l.Head(ctx)
	if err != nil {
		return Head{}, false, err
	}
	n, err := h.of(name)
	if err != nil || n.none() {
		return Head{}, false, err
	}
	if n.covers(head.Seq, head.Hash) {
		return head, true, nil
	}
	for e, err := range l.Read(ctx, 2) {
		if err != nil {
			return Head{}, true, err
		}
		if e.Seq > head.Seq {
			break
		}
		if n.covers(e.Seq-1, e.Prev) {
			covered = Head{e.Seq - 1, e.Prev}
		}
	}
	return covered, true, nil
}

// Check compares a log with the heads recorded under its name. It returns an [Error] with [CodeCut]
// if the log ends before the newest one, or [CodeAltered] if an entry's hash differs from the
// recorded one. Pending heads do not count. Check trusts the log's own chain. Use [Verify] for a
// log that is not open.
func (h *Heads) Check(ctx context.Context, name string, l Log) error {
	all, err := h.of(name)
	if err != nil {
		return err
	}
	head, err := l.Head(ctx)
	if err != nil {
		return err
	}
	if all.newest.Seq > head.Seq {
		return lost(all.newest, head.Seq)
	}
	if n, ok := all.sure[head.Seq]; ok && n.Hash != head.Hash {
		return rewritten(n)
	}
	for e, err := range l.Read(ctx, 2) {
		if err != nil {
			return err
		}
		if n, ok := all.sure[e.Seq-1]; ok && n.Hash != e.Prev {
			return rewritten(n)
		}
	}
	return nil
}

// VerifyHead compares a log only with the newest head known when h was opened, so that a log is not
// reported as cut while it is being written. Errors are the same as for Check.
func (h *Heads) VerifyHead(ctx context.Context, name string, l Log) error {
	n, ok := h.Newest(name)
	if !ok {
		return nil
	}
	head, err := l.Head(ctx)
	if err != nil {
		return err
	}
	switch {
	case head.Seq < n.Seq:
		return lost(n, head.Seq)
	case head.Seq == n.Seq && head.Hash != n.Hash:
		return rewritten(n)
	}
	for e, err := range l.Read(ctx, n.Seq+1) {
		if err == nil && e.Prev != n.Hash {
			err = rewritten(n)
		}
		return err
	}
	return nil
}

func lost(l HeadLine, have uint64) *Error {
	return &Error{Code: CodeCut, Seq: have + 1, Detail: fmt.Sprintf(
		"%s ends at entry %d, %s; the last one was %s (id %s)", l.Log, have, missing(have+1, l.Seq), l.Type, l.ID)}
}

func rewritten(l HeadLine) *Error {
	return &Error{Code: CodeAltered, Seq: l.Seq, Detail: fmt.Sprintf(
		"%s was rewritten: its entry %d (%s, id %s) does not have the hash noted when it was written", l.Log, l.Seq, l.Type, l.ID)}
}
