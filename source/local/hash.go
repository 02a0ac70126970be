package local

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"metier"
	"metier/internal/confine"
	"metier/internal/digest"
	"metier/skillmd"
	"metier/source/internal/entry"
)

// wholeBytes is the size up to which a file is read at once, so that the hash covers one moment. A
// larger file is streamed and then checked for changes.
const wholeBytes = 1 << 20

// maxTries limits how often a file is streamed again because it was changing.
const maxTries = 3

var fileBufs = sync.Pool{New: func() any { return new([]byte) }}

// hash reads all files, on all cores, and returns those that could be read. Files past
// MaxSkillBytes, counted in walk order, are left out.
func (x *index) hash() ([]metier.File, error) {
	files := make([]metier.File, len(x.files))
	faults := make([]error, len(x.files))
	sizes := make([]atomic.Int64, len(x.files))
	var next, total atomic.Int64
	work := func() {
		pooled := fileBufs.Get().(*[]byte)
		buf := *pooled
		defer func() {
			if cap(buf) <= wholeBytes/4 { // a few large files shall not stay in memory
				*pooled = buf
			}
			fileBufs.Put(pooled)
		}()
		for {
			i := int(next.Add(1)) - 1
			if i >= len(files) || x.ctx.Err() != nil {
				return
			}
			if total.Load() > x.s.opt.MaxSkillBytes && sum(sizes[:i]) > x.s.opt.MaxSkillBytes {
				return // all from here on is left out anyway
			}
			files[i], buf, faults[i] = x.read(x.files[i], buf)
			if faults[i] == nil {
				sizes[i].Store(files[i].Size)
				total.Add(files[i].Size)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), workers, (len(files)+7)/8) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	if err := x.ctx.Err(); err != nil {
		return nil, err
	}
	good, room := make([]metier.File, 0, len(files)), x.s.opt.MaxSkillBytes
	for i, f := range files {
		if faults[i] != nil {
			x.fault(x.files[i], faults[i])
			continue
		}
		if room -= sizes[i].Load(); room < 0 {
			x.note(skillmd.Warning, "resource-too-large", x.files[i].loc,
				fmt.Sprintf("this and %d more files are left out: one skill may have %d bytes", len(files)-i-1, x.s.opt.MaxSkillBytes))
			break
		}
		good = append(good, f)
	}
	slices.SortFunc(good, func(a, b metier.File) int { return strings.Compare(a.Path, b.Path) })
	return good, nil
}

func sum(sizes []atomic.Int64) (n int64) {
	for i := range sizes {
		n += sizes[i].Load()
	}
	return n
}

// read hashes one file. The next call reuses buf.
func (x *index) read(it item, buf []byte) (metier.File, []byte, error) {
	f := metier.File{Path: it.path, Location: it.loc}
	data, info, err := it.dir.Append(buf[:0], it.rel, min(wholeBytes, x.s.opt.MaxFileBytes))
	if confine.CodeOf(err) == confine.TooBig && x.s.opt.MaxFileBytes > wholeBytes {
		for range maxTries {
			if err = x.stream(&f, it); confine.CodeOf(err) != confine.Changed {
				break
			}
		}
		return f, data, err
	}
	if err != nil {
		return f, data, err
	}
	if err := x.allowed(info); err != nil {
		return f, data, err
	}
	f.Size, f.Exec, f.Digest = int64(len(data)), info.Exec(), metier.Digest(digest.Bytes(data))
	entry.Facts(&f, data, false)
	return f, data, nil
}

// stream hashes a file that is too large to hold in memory.
func (x *index) stream(f *metier.File, it item) error {
	r, err := it.dir.Open(it.rel)
	if err != nil {
		return err
	}
	defer r.Close()
	info := r.Info()
	if err := x.allowed(info); err != nil {
		return err
	}
	most := x.s.opt.MaxFileBytes
	tooBig := &confine.Error{Op: "read", Path: it.path, Code: confine.TooBig, Err: fmt.Errorf("a file may have %d bytes", most)}
	if info.Size > most {
		return tooBig
	}
	first := make([]byte, entry.SniffBytes)
	n, err := io.ReadFull(r, first)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF {
		return err
	}
	h := digest.New()
	h.Write(first[:n])
	rest, err := io.Copy(h, io.LimitReader(withContext{x, r}, most+1-int64(n)))
	if err != nil {
		return err
	}
	if f.Size = int64(n) + rest; f.Size > most {
		return tooBig
	}
	if err := r.Check(); err != nil {
		return err
	}
	f.Exec, f.Digest = info.Exec(), metier.Digest(h.Sum())
	entry.Facts(f, first[:n], rest > 0)
	return nil
}

// withContext stops a long read when the context is canceled.
type withContext struct {
	x *index
	r io.Reader
}

func (c withContext) Read(p []byte) (int, error) {
	if err := c.x.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

func (x *index) allowed(info confine.Info) error {
	if x.s.opt.RefuseHardLinks && info.Nlink > 1 {
		return &confine.Error{Op: "read", Code: confine.Outside, Err: errHardLink}
	}
	return nil
}

// fault records why a file is missing from the manifest.
func (x *index) fault(it item, err error) {
	switch confine.CodeOf(err) {
	case confine.TooBig:
		x.note(skillmd.Warning, "resource-too-large", it.loc, fmt.Sprintf("left out: a file may have %d bytes", x.s.opt.MaxFileBytes))
	case confine.Outside:
		x.note(skillmd.Error, "skill-resource-outside-root", it.loc, "left out: "+reason(err))
	case confine.NotFound:
		x.note(skillmd.Warning, "unresolvable-skill-resource", it.loc, "left out: it went away while the skill was indexed")
	default:
		x.note(skillmd.Warning, "unreadable-skill-resource", it.loc, "left out: "+reason(err))
	}
}

func (x *index) note(sev skillmd.Severity, code, loc, detail string) {
	if loc == "" {
		loc = x.node.location(x.at)
	}
	x.diags = append(x.diags, metier.Diagnostic{Severity: sev, Code: code, Detail: detail, Path: loc})
}
