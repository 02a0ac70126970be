package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"metier/internal/jsonl"
)

const (
	maxProblems = 1000 // past it problems are only counted
	maxDepth    = 16   // of children
	maxChildren = 10_000
)

// VerifyOptions are the options of [Verify]. Nil means defaults.
type VerifyOptions struct {
	// Heads recorded for the log under Name. Without them, Verify cannot detect
	// a log that was rewritten, or whose end was cut off or forged.
	Heads *Heads
	Name  string
	// Children returns the child log that e refers to, or nil. An error is
	// reported as a problem of entry e.
	Children func(ctx context.Context, e Entry) (*Child, error)
}

// Child is the log of a subagent, which must contain Head.
type Child struct {
	Name  string
	Head  Head
	Log   Lines
	Blobs Blobs  // may be nil
	Heads *Heads // of the child's log under Name; nil: none
	Close func() // called when the child was read; may be nil
	// Children is used for the child's own children. If nil, the parent's function is used.
	Children func(ctx context.Context, e Entry) (*Child, error)
}

// Report is the result of Verify.
type Report struct {
	Name     string     `json:"name,omitempty"`
	Entries  uint64     `json:"entries"`
	Head     Head       `json:"head"`
	Heads    int        `json:"heads"`                 // noted heads that were compared; 0: nothing vouches for the tail
	Beyond   int        `json:"headsBeyond,omitempty"` // noted heads of entries after the end of the log
	Blobs    BlobReport `json:"blobs"`
	Problems []Problem  `json:"problems"`
	More     int        `json:"moreProblems,omitempty"` // past the first 1,000
	Children []Report   `json:"children,omitempty"`
}

// BlobReport counts the blobs that the entries refer to, each once.
type BlobReport struct {
	Checked int `json:"checked"`
	Erased  int `json:"erased"` // known by digest, content erased; not a problem
	Altered int `json:"altered"`
}

// Problem is one difference from what was written.
type Problem struct {
	Seq    uint64 `json:"seq"` // entry, 0 when it is about none
	Code   Code   `json:"code"`
	Detail string `json:"detail"`
}

// OK reports whether there are no problems, including in children.
func (r Report) OK() bool {
	for i := range r.Children {
		if !r.Children[i].OK() {
			return false
		}
	}
	return len(r.Problems) == 0
}

func (r *Report) add(seq uint64, code Code, detail string) {
	if len(r.Problems) == maxProblems {
		r.More++
		return
	}
	r.Problems = append(r.Problems, Problem{seq, code, detail})
}

// fault adds an error as a problem.
func (r *Report) fault(seq uint64, err error) {
	var e *Error
	if errors.As(err, &e) {
		detail := e.Detail
		if e.Err != nil {
			detail += ": " + e.Err.Error()
		}
		if e.Seq != 0 {
			seq = e.Seq
		}
		r.add(seq, e.Code, detail)
		return
	}
	r.add(seq, CodeIO, err.Error())
}

// File returns the stored log at path, for [Verify] and [Child].
func File(path string) Lines {
	return logFile{path, func() (fs.FileInfo, error) { return os.Lstat(path) }, func() (*os.File, error) { return os.Open(path) }}
}

// FileIn is like [File] for a log in an open folder. No link leads out of the folder.
func FileIn(root *os.Root, name string) Lines {
	return logFile{filepath.Join(root.Name(), name), func() (fs.FileInfo, error) { return root.Lstat(name) }, func() (*os.File, error) { return root.Open(name) }}
}

type logFile struct {
	path  string
	lstat func() (fs.FileInfo, error)
	open  func() (*os.File, error)
}

// errTorn ends the lines of a file whose last line has no newline.
var errTorn = &Error{Code: CodeTorn, Detail: "the last line was not written completely; opening the log for writing cuts it off"}

func (l logFile) Lines(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		info, err := l.lstat()
		if err == nil && !info.Mode().IsRegular() {
			err = jsonl.ErrNotRegular
		}
		var f *os.File
		if err == nil {
			f, err = l.open()
		}
		if err != nil {
			yield(nil, storage(l.path, 0, err))
			return
		}
		defer f.Close()
		for ln, err := range jsonl.Scan(f, 0, MaxLine) {
			switch {
			case err != nil:
				err = storage(l.path, uint64(ln.N), err)
			case ln.Torn:
				err = errTorn
			default:
				err = ctx.Err()
			}
			if !yield(ln.Bytes, err) || err != nil {
				return
			}
		}
	}
}

// Verify reads a whole log once and reports every difference from what was
// written: lines that were changed, removed, cut off, or added, and blobs that
// do not match their digest. If blobs is nil, no blob is checked. It returns an
// error only if it cannot complete the check: ctx ended or a file cannot be
// read.
func Verify(ctx context.Context, log Lines, blobs Blobs, o *VerifyOptions) (Report, error) {
	if o == nil {
		o = &VerifyOptions{}
	}
	return verify(ctx, log, blobs, o, &verifier{budget: new(maxChildren)})
}

func verify(ctx context.Context, log Lines, blobs Blobs, o *VerifyOptions, v *verifier) (Report, error) {
	v.r, v.o, v.blobs = Report{Name: o.Name, Problems: []Problem{}}, o, blobs
	v.ids, v.seen = map[string]struct{}{}, map[string]struct{}{}
	if o.Heads != nil {
		var err error
		if v.heads, err = o.Heads.of(o.Name); err != nil {
			return v.r, err
		}
	}
	var torn error
	for b, err := range log.Lines(ctx) {
		if CodeOf(err) == CodeTorn {
			torn = err
			break
		}
		if err != nil {
			return v.r, err
		}
		if err := v.line(ctx, b); err != nil {
			return v.r, err
		}
	}
	return v.r, v.finish(torn)
}

type verifier struct {
	r      Report
	o      *VerifyOptions
	blobs  Blobs
	depth  int
	budget *int // children that may still be looked at, over all levels
	w      walker
	ids    map[string]struct{}
	seen   map[string]struct{} // digests of blobs looked at
	heads  noted
	sure   uint64 // newest entry that a recorded head covers
	whole  Head   // end of the last complete append
	want   Head   // what the parent says the log holds, zero for none
	broken bool   // the last line read is not JSON, which the last problem says
}

// line checks the next stored line and what its entry names.
func (v *verifier) line(ctx context.Context, b []byte) error {
	x, s, bad := v.w.step(b)
	v.r.Entries++
	v.r.Head = v.w.head
	v.broken = false
	if bad != nil {
		v.r.fault(bad.Seq, bad)
		v.broken = bad.Code == CodeAltered && !json.Valid(b)
		if v.broken || bad.Code == CodeNewer || x.Seq == 0 {
			return nil
		}
	}
	if _, twice := v.ids[x.ID]; twice {
		v.r.add(x.Seq, CodeAltered, fmt.Sprintf("ID %q is in the log twice", x.ID))
	}
	v.ids[x.ID] = struct{}{}
	if n, ok := v.heads.sure[x.Seq]; ok {
		v.r.Heads++
		if n.Hash != s.String() {
			v.r.fault(x.Seq, rewritten(n))
		}
	}
	if v.heads.covers(x.Seq, s.String()) {
		v.sure = x.Seq
	}
	if x.More == 0 {
		v.whole = v.w.head
	}
	if v.want.Seq == x.Seq && v.want.Hash != s.String() {
		v.r.add(x.Seq, CodeAltered, "the entry does not match the hash in the parent's log")
	}
	for _, ref := range x.Refs {
		if err := v.blob(ctx, x.Seq, ref); err != nil {
			return err
		}
	}
	return v.child(ctx, x.Entry)
}

func (v *verifier) blob(ctx context.Context, seq uint64, ref Ref) error {
	if _, ok := v.seen[ref.Digest]; ok || v.blobs == nil {
		return nil
	}
	v.seen[ref.Digest] = struct{}{}
	v.r.Blobs.Checked++
	_, err := v.blobs.Open(ctx, ref)
	switch {
	case err == nil:
	case errors.Is(err, ErrErased):
		v.r.Blobs.Erased++
	case errors.Is(err, ErrAltered):
		v.r.Blobs.Altered++
		v.r.fault(seq, err)
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		v.r.fault(seq, err)
	}
	return nil
}

func (v *verifier) child(ctx context.Context, e Entry) error {
	if v.o.Children == nil {
		return nil
	}
	c, err := v.o.Children(ctx, e)
	if err != nil {
		v.r.fault(e.Seq, err)
		return ctx.Err()
	}
	if c == nil {
		return nil
	}
	if c.Close != nil {
		defer c.Close()
	}
	if v.depth == maxDepth || *v.budget == 0 {
		v.r.add(e.Seq, CodeTooLarge, fmt.Sprintf("child %s was not looked at: deeper than %d levels, or more than %d children", c.Name, maxDepth, maxChildren))
		return nil
	}
	*v.budget--
	o := &VerifyOptions{Heads: c.Heads, Name: c.Name, Children: v.o.Children}
	if c.Children != nil {
		o.Children = c.Children
	}
	r, err := verify(ctx, c.Log, c.Blobs, o, &verifier{want: c.Head, depth: v.depth + 1, budget: v.budget})
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v.r.add(e.Seq, CodeGap, fmt.Sprintf("child %s cannot be read: %v", c.Name, err))
	}
	v.r.Children = append(v.r.Children, r)
	return nil
}

// finish checks what only the end of the log shows.
func (v *verifier) finish(torn error) error {
	seq := v.w.head.Seq
	switch {
	case torn != nil:
		v.r.fault(seq+1, torn)
	case v.broken:
		seq--
		if n := len(v.r.Problems); v.r.More == 0 {
			v.r.Problems[n-1].Code = CodeTorn
			v.r.Problems[n-1].Detail = "the last line is not an entry: another program wrote it, or a crash damaged it"
		}
	case v.w.more > 0:
		v.r.add(seq+1, CodeTorn, fmt.Sprintf("the last append is not complete, %d of its entries are missing", v.w.more))
	}
	if v.heads.newest.Seq > seq {
		v.r.fault(seq+1, lost(v.heads.newest, seq))
	}
	for noted := range v.heads.sure {
		if noted > seq {
			v.r.Beyond++
		}
	}
	switch {
	case v.want.Seq > seq:
		v.r.add(seq+1, CodeCut, fmt.Sprintf("the parent's log names entry %d, this one ends at %d", v.want.Seq, seq))
	case 0 < v.want.Seq && v.want.Seq < seq:
		v.r.add(v.want.Seq+1, CodeUnanchored, fmt.Sprintf("the parent's log ends this one at entry %d; %s", v.want.Seq, loose(v.want.Seq, seq)))
	}
	return v.anchored()
}

// anchored reports what follows the last entry that a recorded head covers.
func (v *verifier) anchored() error {
	if v.heads.none() {
		return nil
	}
	if v.sure > 0 && v.r.Heads == 0 {
		v.r.Heads = 1 // a pending head covers the log
	}
	if v.sure >= v.whole.Seq || v.sure < v.heads.newest.Seq { // the latter is reported as cut or altered
		return nil
	}
	now, err := v.o.Heads.of(v.o.Name) // a run in progress has recorded more meanwhile
	if err != nil || now.covers(v.whole.Seq, v.whole.Hash) {
		return err
	}
	v.r.add(v.sure+1, CodeUnanchored, loose(v.sure, v.whole.Seq))
	return nil
}

// loose describes entries after the last recorded head.
func loose(after, last uint64) string {
	which := fmt.Sprintf("entries %d to %d", after+1, last)
	if after+1 == last {
		which = fmt.Sprintf("entry %d", last)
	}
	return "no recorded head covers " + which + ": another program wrote there, or a power failure took the head"
}
