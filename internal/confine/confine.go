// Package confine opens files beneath a folder whose content is not trusted:
// it opens only regular files, follows no symlink, leaves the folder in no way,
// does not cross into another mount, and never blocks on what it finds.
//
// On Linux every open is one openat2 call (RESOLVE_BENEATH, NO_SYMLINKS,
// NO_MAGICLINKS, NO_XDEV), so there is no moment between check and use.
// Elsewhere, and where openat2 is missing or forbidden, os.Root is used with
// checks before and after the open; a racing rename can then make it follow a
// link that stays inside the folder, never one that leaves it.
package confine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Code says why a path was refused. The set is open: handle unknown codes.
type Code string

// Codes of Error.
const (
	PathInvalid Code = "path_invalid" // not a clean relative path, see Clean
	NotFound    Code = "not_found"    // nothing there, or a parent is no folder
	NotRegular  Code = "not_regular"  // a FIFO, device or socket; or no folder where one is needed
	IsDir       Code = "is_dir"       // a folder where a file is needed
	Outside     Code = "outside"      // a symlink, magic link, other mount or other device in the path
	TooBig      Code = "too_big"      // over the caller's cap
	Permission  Code = "permission"   // the system refuses
	Changed     Code = "changed"      // written to while it was read
	Busy        Code = "busy"         // renames kept the system from resolving the path
	IO          Code = "io"           // anything else; Err has the cause
)

// Error is the only error type of this package.
type Error struct {
	Op   string // "open", "read", "list", "stat", "clean"
	Path string // as the caller gave it
	Code Code
	Err  error // cause, may be nil
}

// Error names the operation, the path and the reason.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s %q: %s", e.Op, e.Path, e.Code)
	}
	return fmt.Sprintf("%s %q: %s: %v", e.Op, e.Path, e.Code, e.Err)
}

// Unwrap returns the cause, so errors.Is finds system errors.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, fs.ErrNotExist) and fs.ErrPermission work by code.
func (e *Error) Is(target error) bool {
	return e.Code == NotFound && target == fs.ErrNotExist || e.Code == Permission && target == fs.ErrPermission
}

// CodeOf returns the code of an error of this package, IO for any other error,
// and "" for nil.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	return IO
}

// Info is what the system says about an open file or folder. Fields the system
// does not have are zero; Nlink is then 1.
type Info struct {
	Size  int64
	Mode  fs.FileMode
	Mtime time.Time
	Ctime time.Time // last change of the inode; user code cannot set it
	Dev   uint64
	Ino   uint64
	Nlink uint64
	Owner uint32 // user ID; zero where the system has none
}

// Exec reports whether any execute bit is set. Windows has none: always false.
func (i Info) Exec() bool { return i.Mode.IsRegular() && i.Mode.Perm()&0o111 != 0 }

// Key tells whether a file or folder is the one that was seen before, and
// unchanged: two keys of one mount are equal only then. See Info.Key.
type Key struct {
	Ino          uint64
	Size         int64
	Mtime, Ctime int64 // Unix nanoseconds
}

// Key returns what identifies this state of the file. It reports false where
// the system gives no inode number or no time of change that user code cannot
// set. A clock that has ticks cannot tell two changes in one tick apart: a key
// proves nothing before its Ctime has safely passed.
func (i Info) Key() (Key, bool) {
	return Key{i.Ino, i.Size, i.Mtime.UnixNano(), i.Ctime.UnixNano()}, i.Ino != 0 && !i.Ctime.IsZero()
}

// same reports whether nothing was written between two looks at one open file.
func (i Info) same(j Info) bool {
	return i.Size == j.Size && i.Mtime.Equal(j.Mtime) && i.Ctime.Equal(j.Ctime)
}

// Entry is one name in a folder, with the type the folder gives it: zero for a
// regular file, or fs.ModeDir, fs.ModeSymlink, fs.ModeNamedPipe and so on.
type Entry struct {
	Name string
	Type fs.FileMode
}

// maxNames bounds how many names of one folder are looked at. Beyond it the
// rest is not seen (more is reported), and which names those are is up to the
// file system.
const maxNames = 1 << 21

// maxTries bounds the retries of a read that a writer disturbed.
const maxTries = 3

// backend is one way to open; paths are clean, or "." for the folder itself.
type backend interface {
	open(rel string) (handle, Info, error)
	sub(rel string) (backend, error)
	stat(rel string) (Info, error)
	names(rel string) (namer, error)
	close() error
}

// glancer is a backend with a stat that costs less and promises less.
type glancer interface {
	glance(rel string) (Info, error)
}

// handle is an open regular file, used by one goroutine.
type handle interface {
	io.ReadCloser
	stat() (Info, error)
	file(name string) *os.File // hands the descriptor over; the handle is dead after
}

// namer yields the names of a folder in chunks, io.EOF at the end.
type namer interface {
	next(into []Entry) ([]Entry, error)
	close()
}

// Dir is an open folder; it keeps meaning the same folder when that is renamed
// or replaced. Its methods may be called at once by many goroutines, Close only
// after them.
type Dir struct{ b backend }

// Resolve returns the absolute path of an existing file or folder with all
// symlinks resolved, as OpenDir wants it.
func Resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", &Error{Op: "open", Path: path, Code: IO, Err: err}
	}
	real, err := RealPath(abs)
	if err != nil {
		return "", &Error{Op: "open", Path: path, Code: codeOfFS(err), Err: err}
	}
	return real, nil
}

// OpenDir opens the folder at path, which the caller has resolved (see
// Resolve): a symlink anywhere in path is refused as Outside, so a folder that
// is swapped for a link after the resolution is noticed.
func OpenDir(path string) (*Dir, error) {
	b, err := openBackend(path)
	if err != nil {
		return nil, wrap("open", path, err)
	}
	return &Dir{b}, nil
}

// Close releases the folder. Files opened from it stay open.
func (d *Dir) Close() error { return d.b.close() }

// Sub opens the folder rel beneath d ("." is d once more). Path errors are as
// for Open.
func (d *Dir) Sub(rel string) (*Dir, error) {
	clean, err := cleanOrSelf(rel)
	if err != nil {
		return nil, err
	}
	b, err := d.b.sub(clean)
	if err != nil {
		return nil, wrap("open", rel, err)
	}
	return &Dir{b}, nil
}

// Stat describes what rel is without opening it and without following it: a
// symlink at the end is described as one. "." is the folder itself.
func (d *Dir) Stat(rel string) (Info, error) {
	clean, err := cleanOrSelf(rel)
	if err != nil {
		return Info{}, err
	}
	info, err := d.b.stat(clean)
	return info, wrap("stat", rel, err)
}

// Glance is Stat at a third of the price, for comparing with a Key and nothing
// else: a parent of rel that became a symlink is followed. It opens nothing and
// reads no content, what it describes lies in d's mount or the error is
// Outside, and it follows no symlink at the end. So nothing that was never read
// through d can have the key of something that was: an equal key says that this
// file was confined when it was read and has not changed since. That rel still
// leads there without links, the caller knows from the parents' keys.
func (d *Dir) Glance(rel string) (Info, error) {
	g, ok := d.b.(glancer)
	if !ok {
		return d.Stat(rel)
	}
	clean, err := cleanOrSelf(rel)
	if err != nil {
		return Info{}, err
	}
	info, err := g.glance(clean)
	return info, wrap("stat", rel, err)
}

// ReadDir returns the first limit names, by bytes, of the folder rel ("." is d
// itself), and whether there are more.
func (d *Dir) ReadDir(rel string, limit int) (list []Entry, more bool, err error) {
	clean, err := cleanOrSelf(rel)
	if err != nil {
		return nil, false, err
	}
	names, err := d.b.names(clean)
	if err != nil {
		return nil, false, wrap("list", rel, err)
	}
	defer names.close()
	limit = max(limit, 0)
	list = make([]Entry, 0, 8)
	for seen := 0; seen < maxNames; {
		before := len(list)
		list, err = names.next(list)
		seen += len(list) - before
		if len(list) > 2*limit+4096 {
			sortEntries(list)
			list, more = list[:limit], true
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, false, wrap("list", rel, err)
		}
		more = more || seen >= maxNames
	}
	sortEntries(list)
	if len(list) > limit {
		list, more = list[:limit], true
	}
	return list, more, nil
}

func sortEntries(list []Entry) {
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
}

// ReadFile returns all bytes of the regular file rel and its description at the
// moment of the read. A file over max bytes gives TooBig (a claimed size is
// enough, so sparse files cost nothing; a file that says 0 and goes on for ever
// is cut at max). A file that is written to while it is read is read again,
// at most twice, then gives Changed.
func (d *Dir) ReadFile(rel string, max int64) ([]byte, Info, error) {
	return d.Append(nil, rel, max)
}

// Append is ReadFile into the free space of dst. On an error it returns dst as
// it was, and Info as far as known.
func (d *Dir) Append(dst []byte, rel string, max int64) ([]byte, Info, error) {
	clean, err := Clean(rel)
	if err != nil {
		return dst, Info{}, err
	}
	var info Info
	for range maxTries {
		var out []byte
		out, info, err = d.readOnce(dst, clean, max)
		if err == nil {
			return out, info, nil
		}
		if CodeOf(err) != Changed {
			break
		}
	}
	return dst, info, wrap("read", rel, err)
}

func (d *Dir) readOnce(dst []byte, rel string, max int64) ([]byte, Info, error) {
	h, info, err := d.b.open(rel)
	if err != nil {
		return dst, info, err
	}
	defer h.Close()
	if info.Size > max {
		return dst, info, &Error{Code: TooBig, Err: fmt.Errorf("%d bytes, at most %d", info.Size, max)}
	}
	start := len(dst)
	out := slices.Grow(dst, int(info.Size)+1) // one more, to see growth
	for {
		room := out[len(out):cap(out)]
		if int64(len(room)) > max+1-int64(len(out)-start) {
			room = room[:max+1-int64(len(out)-start)]
		}
		n, err := h.Read(room)
		out = out[:len(out)+n]
		got := int64(len(out) - start)
		switch {
		case got > max:
			return dst, info, &Error{Code: TooBig, Err: fmt.Errorf("more than %d bytes", max)}
		case err == io.EOF, err == nil && n < len(room) && got == info.Size:
			after, err := h.stat()
			if err != nil {
				return dst, info, err
			}
			if got != info.Size || !info.same(after) {
				return dst, info, &Error{Code: Changed}
			}
			return out, info, nil
		case err != nil:
			return dst, info, err
		}
		if len(out) == cap(out) {
			out = slices.Grow(out, 4096)
		}
	}
}

// ReadHead returns at most the first n bytes of the regular file rel, and its
// description; Info.Size tells whether there is more. It does not look for
// concurrent writes.
func (d *Dir) ReadHead(rel string, n int) ([]byte, Info, error) {
	return d.AppendHead(nil, rel, n)
}

// AppendHead is ReadHead into the free space of dst.
func (d *Dir) AppendHead(dst []byte, rel string, n int) ([]byte, Info, error) {
	clean, err := Clean(rel)
	if err != nil {
		return dst, Info{}, err
	}
	h, info, err := d.b.open(clean)
	if err != nil {
		return dst, info, wrap("read", rel, err)
	}
	defer h.Close()
	start := len(dst)
	out := slices.Grow(dst, int(min(int64(n), info.Size)))
	for want := int(min(int64(n), info.Size)); len(out)-start < want; {
		got, err := h.Read(out[len(out) : start+want])
		out = out[:len(out)+got]
		if err == io.EOF {
			break
		}
		if err != nil {
			return dst, info, wrap("read", rel, err)
		}
	}
	return out, info, nil
}

// Open opens the regular file rel for reading.
func (d *Dir) Open(rel string) (*File, error) {
	clean, err := Clean(rel)
	if err != nil {
		return nil, err
	}
	h, info, err := d.b.open(clean)
	if err != nil {
		return nil, wrap("open", rel, err)
	}
	return &File{f: h.file(rel), info: info, rel: rel}, nil
}

// File is an open regular file.
type File struct {
	f    *os.File
	info Info
	rel  string
}

// Info returns the description made when the file was opened.
func (f *File) Info() Info { return f.info }

// Read reads on. The caller caps how much.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.f.Read(p)
	if err != nil && err != io.EOF {
		err = wrap("read", f.rel, err)
	}
	return n, err
}

// Check looks at the file again: Changed if it was written to since the open.
func (f *File) Check() error {
	after, err := statFile(f.f)
	if err != nil {
		return wrap("read", f.rel, err)
	}
	if !f.info.same(after) {
		return &Error{Op: "read", Path: f.rel, Code: Changed}
	}
	return nil
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

// wrap fills in operation and path; nil stays nil.
func wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	e, ok := err.(*Error) // ours is never wrapped inside this package
	if !ok {
		return &Error{Op: op, Path: path, Code: codeOfFS(err), Err: err}
	}
	return &Error{Op: op, Path: path, Code: e.Code, Err: e.Err}
}

func codeOfFS(err error) Code {
	if c := codeOfErrno(err); c != "" {
		return c
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return NotFound
	case errors.Is(err, fs.ErrPermission):
		return Permission
	case err != nil && strings.HasSuffix(err.Error(), "path escapes from parent"): // os.Root exports no name for it
		return Outside
	}
	return IO
}
