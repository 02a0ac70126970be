package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"metier"
	"metier/engine"
	"metier/event"
	"metier/record"
	"metier/run"
)

// Limits of one anonymous record. When either is reached, the next record is started.
const (
	mostGuests     = 1000     // requests
	mostGuestBytes = 64 << 20 // of content
)

// anonymousSessions handles HTTP requests without a principal. Each has a separate session. A
// record per session would be a folder each: with a thousand skills 2 MB and some ten milliseconds.
// So they share one record at a time. A session sees how the server was opened, which skills there
// are, and what it did itself. All of it is in the record before it takes effect.
//
// The newest records are kept. Those that were removed, and their final hashes, are noted in the
// record being written.
type anonymousSessions struct {
	e               *engine.Engine
	id              string // of the server's own session, and of theirs
	workspace, root string // the latter of records
	keep            int    // records; 0: all
	content         *record.Memory
	clean           *record.Redactor // before content

	mu   sync.Mutex
	base []record.Entry   // how the server's own session was opened, and the skills it serves now
	book *anonymousRecord // being written to; nil before the first guest
	came int              // guests so far

	closing sync.WaitGroup
}

// anonymousRecord is one record of anonymous requests.
type anonymousRecord struct {
	folder   *run.Folder
	log      record.Log
	unfollow func()

	writing sync.Mutex     // one append at a time
	pruning sync.WaitGroup // old records are removed, and it names them

	mu          sync.Mutex
	came, bytes int
	inside      int
	full        bool
}

const guestSuffix = "-anonymous"

// isGuest reports whether id is that of an anonymous record.
func isGuest(id string) bool {
	base, is := strings.CutSuffix(id, guestSuffix)
	return is && run.GeneratedID(base)
}

func newAnonymousSessions(e *engine.Engine, workspace, root string, keep int) *anonymousSessions {
	g := &anonymousSessions{e: e, id: e.RunID(), workspace: workspace, root: root, keep: keep, content: record.NewMemory()}
	g.clean = record.Redact(g.content, e.Secrets()...)
	return g
}

// ownLog is the log of the server's own session. It is kept in memory, and each anonymous record
// begins with its relevant entries.
type ownLog struct {
	*record.Memory
	g *anonymousSessions
}

func (h ownLog) Append(ctx context.Context, after record.Head, e ...record.Entry) (record.Head, error) {
	head, err := h.Memory.Append(ctx, after, e...)
	if err != nil {
		return head, err
	}
	return head, h.g.opened(ctx, e)
}

// opened stores how the server's session was opened, and which skills there are from now on.
func (g *anonymousSessions) opened(ctx context.Context, e []record.Entry) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	base := g.base
	for _, en := range e {
		switch i := slices.IndexFunc(base, func(b record.Entry) bool { return b.Type == en.Type }); {
		case en.Type != event.SessionOpened{}.Type() && en.Type != event.SkillsDiscovered{}.Type():
			return fmt.Errorf("the server's own session recorded %s", en.Type) // it makes no calls
		case i < 0:
			en.Seq = uint64(len(base)) + 1
			base = append(slices.Clone(base), en)
		default:
			for _, r := range base[i].Refs {
				if !slices.Contains(en.Refs, r) {
					_ = g.content.Erase(ctx, r) // in memory nothing fails
				}
			}
			en.Seq = base[i].Seq
			base = slices.Clone(base)
			base[i] = en
			if g.book != nil {
				if err := g.copy(ctx, g.book, "server:", en); err != nil {
					return err
				}
			}
		}
	}
	g.base = base
	return nil
}

// copy writes entries of the server's session, and their content, into a record.
func (g *anonymousSessions) copy(ctx context.Context, b *anonymousRecord, prefix string, e ...record.Entry) error {
	for _, en := range e {
		for _, r := range en.Refs {
			data, err := g.content.Open(ctx, r)
			if err != nil {
				return err
			}
			if _, err := b.folder.Blobs().Put(ctx, r.Media, data); err != nil {
				return err
			}
		}
	}
	return b.append(ctx, prefix, e)
}

// append writes entries at the current end of a record.
func (b *anonymousRecord) append(ctx context.Context, prefix string, e []record.Entry) error {
	e = slices.Clone(e)
	for i := range e {
		e[i].Seq, e[i].Prev, e[i].ID = 0, "", prefix+e[i].ID
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	head, err := b.log.Head(ctx)
	if err == nil {
		_, err = b.log.Append(ctx, head, e...)
	}
	return err
}

// enter returns the log for an anonymous request. The caller must call leave at the end of the
// request.
func (g *anonymousSessions) enter(ctx context.Context) (_ *anonymousSession, leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.book == nil || g.book.isFull() {
		if err := g.next(ctx); err != nil {
			return nil, nil, err
		}
	}
	b := g.book
	b.mu.Lock()
	b.came, b.inside = b.came+1, b.inside+1
	b.mu.Unlock()
	g.came++
	return &anonymousSession{book: b, prefix: fmt.Sprintf("g%d:", g.came), entries: slices.Clip(g.base)}, func() { g.left(b) }, nil
}

func (b *anonymousRecord) isFull() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.came >= mostGuests || b.bytes >= mostGuestBytes
}

// next starts a record and releases the previous one. The caller must hold mu.
func (g *anonymousSessions) next(ctx context.Context) error {
	folder, err := g.e.CreateRecord(ctx, g.workspace, g.root, g.e.RunID()+guestSuffix)
	if err != nil {
		return err
	}
	b := &anonymousRecord{folder: folder}
	if b.log, b.unfollow, err = g.e.Trace(ctx, folder); err != nil {
		return cmp.Or(err, folder.Close())
	}
	if err := g.copy(ctx, b, "", g.base...); err != nil {
		g.shut(b)
		return err
	}
	g.retire()
	g.book = b
	b.pruning.Go(func() { g.prune(context.WithoutCancel(ctx), b) })
	return nil
}

// retire releases the current record, which is closed when the last request leaves it. The caller
// must hold mu.
func (g *anonymousSessions) retire() {
	if b := g.book; b != nil {
		b.mu.Lock()
		b.full = true
		if b.inside == 0 {
			g.closing.Go(func() { g.shut(b) })
		}
		b.mu.Unlock()
	}
	g.book = nil
}

func (g *anonymousSessions) left(b *anonymousRecord) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inside--; b.full && b.inside == 0 {
		g.closing.Go(func() { g.shut(b) })
	}
}

// shut makes a record durable. It writes only the checkpoint, for lists. The other artifacts would
// double its size, and the log has the same information.
func (g *anonymousSessions) shut(b *anonymousRecord) {
	b.pruning.Wait()
	b.writing.Lock()
	err := g.e.EndRecord(context.Background(), b.log, g.id, true)
	b.writing.Unlock()
	b.unfollow()
	if err := errors.Join(err, b.folder.Checkpoint(context.Background()), b.folder.Close()); err != nil {
		g.e.Logger().Error("a record could not be closed; its log has what happened", "record", b.folder.ID(), "error", err.Error())
	}
}

// prune removes the oldest anonymous records beyond the limit, including those of earlier servers.
// Each removal is first noted in the newest log.
func (g *anonymousSessions) prune(ctx context.Context, b *anonymousRecord) {
	if g.keep == 0 {
		return
	}
	fail := func(what string, err error) {
		g.e.Logger().Error("an old record could not be removed", "code", "record_not_removed", "record", what, "error", err.Error())
	}
	if err := run.Sweep(g.root); err != nil {
		fail(g.root, err)
	}
	entries, err := os.ReadDir(g.root)
	if err != nil {
		fail(g.root, err)
		return
	}
	type old struct {
		id string
		at time.Time
	}
	var others []old
	for _, e := range entries {
		if id := e.Name(); e.IsDir() && isGuest(id) && id != b.folder.ID() {
			o := old{id: id}
			if info, err := os.Lstat(filepath.Join(g.root, id, "events.jsonl")); err == nil {
				o.at = info.ModTime()
			}
			others = append(others, o)
		}
	}
	slices.SortFunc(others, func(x, y old) int { // of one second the name does not say which was first
		return cmp.Or(run.IDTime(x.id).Compare(run.IDTime(y.id)), x.at.Compare(y.at))
	})
	for _, o := range others[:max(len(others)+1-g.keep, 0)] {
		id := o.id
		if err := g.remove(ctx, b, id); err != nil {
			fail(id, err)
		}
	}
}

func (g *anonymousSessions) remove(ctx context.Context, b *anonymousRecord, id string) error {
	var head record.Head
	err := run.Remove(ctx, g.root, id, g.e.RunOptions(), func(last record.Head) error {
		head = last
		note, err := event.New(event.Note{Code: "record_removed", On: id + "@" + cmp.Or(head.Hash, "unreadable"), N: int(head.Seq)}, "removed:"+id, g.e.Principal(), g.e.Now())
		if err != nil {
			return err
		}
		return b.append(ctx, "", []record.Entry{note})
	})
	if metier.CodeOf(err) == run.CodeLocked {
		return nil // it is written to: of another endpoint, or server
	}
	if err != nil {
		return err
	}
	g.e.Logger().Warn("an old record of anonymous requests was removed", "code", "record_removed", "record", id, "entries", head.Seq, "head", head.Hash, "kept", g.keep)
	g.e.Notify(engine.Notice{Code: "record_removed", Severity: engine.Note, Text: fmt.Sprintf("the record %s of anonymous requests was removed, because %d are kept", id, g.keep)})
	return nil
}

// close releases the records. No requests may follow.
func (g *anonymousSessions) close() {
	g.mu.Lock()
	g.retire()
	g.mu.Unlock()
	g.closing.Wait()
}

// anonymousSession is the log of one request: how the server was opened, and what the request did.
// Entries are first appended to the record.
type anonymousSession struct {
	book   *anonymousRecord
	prefix string

	mu      sync.Mutex
	entries []record.Entry
}

func (l *anonymousSession) head() record.Head { return record.Head{Seq: uint64(len(l.entries))} }

// Head implements record.Log.
func (l *anonymousSession) Head(ctx context.Context) (record.Head, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head(), ctx.Err()
}

// Append implements record.Log.
func (l *anonymousSession) Append(ctx context.Context, after record.Head, e ...record.Entry) (record.Head, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after.Seq != uint64(len(l.entries)) {
		return record.Head{}, record.ErrMoved
	}
	e = slices.DeleteFunc(slices.Clone(e), func(en record.Entry) bool {
		return slices.ContainsFunc(l.entries, func(was record.Entry) bool { return was.ID == en.ID })
	})
	if len(e) == 0 {
		return l.head(), nil
	}
	if err := l.book.append(ctx, l.prefix, e); err != nil {
		return record.Head{}, err
	}
	for _, en := range e {
		en.Seq = uint64(len(l.entries)) + 1
		l.entries = append(l.entries, en)
	}
	return l.head(), nil
}

// Read implements record.Log.
func (l *anonymousSession) Read(ctx context.Context, from uint64) iter.Seq2[record.Entry, error] {
	return func(yield func(record.Entry, error) bool) {
		l.mu.Lock()
		all := l.entries
		l.mu.Unlock()
		for _, en := range all[min(max(from, 1)-1, uint64(len(all))):] {
			if err := ctx.Err(); !yield(en, err) || err != nil {
				return
			}
		}
	}
}

// Sync implements record.Syncer: before a script runs, its claim is on disk.
func (l *anonymousSession) Sync(ctx context.Context) error {
	if s, is := l.book.log.(record.Syncer); is {
		return s.Sync(ctx)
	}
	return nil
}

// Put implements record.Blobs.
func (b *anonymousRecord) Put(ctx context.Context, media string, data []byte) (record.Ref, error) {
	b.mu.Lock()
	b.bytes += len(data)
	b.mu.Unlock()
	return b.folder.Blobs().Put(ctx, media, data)
}

// Open implements record.Blobs.
func (b *anonymousRecord) Open(ctx context.Context, r record.Ref) ([]byte, error) {
	return b.folder.Blobs().Open(ctx, r)
}
