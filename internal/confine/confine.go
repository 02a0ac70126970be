// Package confine opens files in a folder with untrusted content. It opens only regular files,
// follows no symlinks, never leaves the folder, does not cross into another mount, and never blocks
// on special files.
//
// On Linux, every open is a single openat2 call (RESOLVE_BENEATH, NO_SYMLINKS, NO_MAGICLINKS,
// NO_XDEV), so there is no gap between check and use. Elsewhere, or if openat2 is unavailable, it
// uses os.Root with checks before and after the open. A racing rename can then make it follow a
// link that stays inside the folder, but never one that leaves it.
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

// Code is the reason why a path was rejected. More codes may be added, so handle unknown ones.
type Code string

// Codes of Error.
const (
	PathInvalid Code = "path_invalid" // not a clean relative path, see Clean
	NotFound    Code = "not_found"    // does not exist, or a parent is not a folder
	NotRegular  Code = "not_regular"  // a FIFO, device, or socket; or not a folder where one is needed
	IsDir       Code = "is_dir"       // a folder where a file is needed
	Outside     Code = "outside"      // a symlink, magic link, other mount, or other device in the path
	TooBig      Code = "too_big"      // exceeds the caller's limit
	Permission  Code = "permission"   // denied by the system
	Changed     Code = "changed"      // modified while it was read
	Busy        Code = "busy"         // concurrent renames kept the system from resolving the path
	IO          Code = "io"           // anything else; Err has the cause
)

// Error is the only error type of this package.
type Error struct {
	Op   string // "open", "read", "list", "stat", "clean"
	Path string // as passed by the caller
	Code Code
	Err  error // cause, may be nil
}

// Error returns the operation, the path, and the reason.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s %q: %s", e.Op, e.Path, e.Code)
	}
	return fmt.Sprintf("%s %q: %s: %v", e.Op, e.Path, e.Code, e.Err)
}

// Unwrap returns the cause, so that errors.Is finds system errors.
func (e *Error) Unwrap() error { return e.Err }

// Is supports errors.Is with fs.ErrNotExist and fs.ErrPermission.
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

// Info describes an open file or folder. Fields that the system does not provide are zero, except
// for Nlink, which is then 1.
type Info struct {
	Size  int64
	Mode  fs.FileMode
	Mtime time.Time
	Ctime time.Time // last change of the inode; user code cannot set it
	Dev   uint64
	Ino   uint64
	Nlink uint64
	Owner uint32 // user ID; zero if the system has none
}

// Exec reports whether any execute bit is set. It is always false on Windows.
func (i Info) Exec() bool { return i.Mode.IsRegular() && i.Mode.Perm()&0o111 != 0 }

// Key identifies an unchanged file or folder: two keys of one mount are equal only if it is the
// same one, unchanged. See Info.Key.
type Key struct {
	Ino          uint64
	Size         int64
	Mtime, Ctime int64 // Unix nanoseconds
}

// Key returns the identity of this state of the file. It returns false if the system provides no
// inode number or no change time that user code cannot set. Changes within one clock tick cannot be
// distinguished, so a key is reliable only once its Ctime is safely in the past.
func (i Info) Key() (Key, bool) {
	return Key{i.Ino, i.Size, i.Mtime.UnixNano(), i.Ctime.UnixNano()}, i.Ino != 0 && !i.Ctime.IsZero()
}

// same reports whether an open file is unchanged between two calls of stat.
func (i Info) same(j Info) bool {
	return i.Size == j.Size && i.Mtime.Equal(j.Mtime) && i.Ctime.Equal(j.Ctime)
}

// Entry is a name in a folder with its type: zero for a regular file, or fs.ModeDir,
// fs.ModeSymlink, fs.ModeNamedPipe, and so on.
type Entry struct {
	Name string
	Type fs.FileMode
}

// maxNames is the maximum number of names read from a folder. Beyond it, the rest is ignored (more
// is reported), and the file system determines which names those are.
const maxNames = 1 << 21

// maxTries is the maximum number of attempts to read a file that is being modified.
const maxTries = 3

// backend is one way to open files. Paths are clean, or "." for the folder itself.
type backend interface {
	open(rel string) (handle, Info, error)
	sub(rel string) (backend, error)
	stat(rel string) (Info, error)
	names(rel string) (namer, error)
	close() error
}

// glancer is a backend with a cheaper stat that guarantees less.
type glancer interface {
	glance(rel string) (Info, error)
}

// handle is an open regular file, used by one goroutine.
type handle interface {
	io.ReadCloser
	stat() (Info, error)
	file(name string) *os.File // transfers the descriptor; the handle must not be used afterwards
}

// namer reads the names of a folder in chunks. It returns io.EOF at the end.
type namer interface {
	next(into []Entry) ([]Entry, error)
	close()
}

// Dir is an open folder. It refers to the same folder even after that is renamed or replaced. Its
// methods are safe for concurrent use, except that Close must come last.
type Dir struct{ b backend }

// Resolve returns the absolute path of an existing file or folder with all symlinks resolved, for
// use with OpenDir.
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

// OpenDir opens the folder at path, which must be resolved (see Resolve). A symlink anywhere in
// path fails with Outside, so a folder that was replaced by a link since then is detected.
func OpenDir(path string) (*Dir, error) {
	b, err := openBackend(path)
	if err != nil {
		return nil, wrap("open", path, err)
	}
	return &Dir{b}, nil
}

// OpenRoot is like [os.OpenRoot] for a folder that OpenDir opens: a symlink anywhere in path fails.
func OpenRoot(path string) (*os.Root, error) {
	d, err := OpenDir(path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	want, err := d.Stat(".")
	if err != nil {
		return nil, err
	}
	r, err := os.OpenRoot(path)
	if err != nil {
		return nil, wrap("open", path, err)
	}
	got, err := r.Stat(".")
	if err != nil || InfoOf(got).Dev != want.Dev || InfoOf(got).Ino != want.Ino {
		r.Close()
		return nil, &Error{Op: "open", Path: path, Code: Outside, Err: err}
	}
	return r, nil
}

// Close releases the folder. Files opened from it stay open.
func (d *Dir) Close() error { return d.b.close() }

// Sub opens the folder rel in d ("." opens d again). Errors for paths are as for Open.
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

// Stat describes rel without opening it. If rel is a symlink, Stat describes the link itself. "."
// is the folder itself.
func (d *Dir) Stat(rel string) (Info, error) {
	clean, err := cleanOrSelf(rel)
	if err != nil {
		return Info{}, err
	}
	info, err := d.b.stat(clean)
	return info, wrap("stat", rel, err)
}

// Glance is a cheaper Stat for comparison with a Key only: it follows a symlink in place of a
// parent of rel. It opens nothing, reads no content, does not follow a symlink at the end, and
// fails with Outside for anything beyond d's mount. An equal key therefore means that this file was
// confined when it was read through d and is unchanged since. To know that rel still leads there
// without links, compare the parents' keys.
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

// ReadDir returns the first limit names, in byte order, of the folder rel ("." is d itself), and
// whether there are more.
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

// ReadFile returns the content of the regular file rel and its description at that time. It fails
// with TooBig if the file exceeds max bytes, either by its reported size or by what it actually
// contains. If the file is modified while it is read, ReadFile retries up to twice and then fails
// with Changed.
func (d *Dir) ReadFile(rel string, max int64) ([]byte, Info, error) {
	return d.Append(nil, rel, max)
}

// Append is like ReadFile and appends to dst. On an error it returns dst unchanged, and Info as far
// as known.
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
	out := slices.Grow(dst, int(info.Size)+1) // one more, to detect growth
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

// ReadHead returns up to the first n bytes of the regular file rel and its description. Info.Size
// shows whether there is more. It does not detect concurrent writes.
func (d *Dir) ReadHead(rel string, n int) ([]byte, Info, error) {
	return d.AppendHead(nil, rel, n)
}

// AppendHead is like ReadHead and appends to dst.
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

// Info returns the description of the file at the time it was opened.
func (f *File) Info() Info { return f.info }

// Read reads from the file. The caller limits the total.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.f.Read(p)
	if err != nil && err != io.EOF {
		err = wrap("read", f.rel, err)
	}
	return n, err
}

// Check checks the file again. It fails with Changed if the file was modified since it was opened.
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

// wrap sets the operation and path of an error. It returns nil for nil.
func wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	e, ok := err.(*Error) // an *Error is never wrapped inside this package
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
	case err != nil && strings.HasSuffix(err.Error(), "path escapes from parent"): // os.Root exports no error for it
		return Outside
	}
	return IO
}
