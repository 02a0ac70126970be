package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// mostHeaders is the number of bytes that an archive may have for each entry, besides its content.
const mostHeaders = 8 << 10

// Extract writes the files of the archive of size bytes in r into an empty folder. Folders get the
// permissions 0755, and files 0644 or, if they are executable, 0755.
//
// After an error, the folder has an unspecified part of the files, and the caller must delete it.
// Nothing is ever written outside the folder. Errors are [*Error], or errors of the context, which
// is checked before each read.
func Extract(ctx context.Context, r io.ReaderAt, size int64, into *os.Root, l Limits) (Contents, error) {
	src := &source{ctx, r, size}
	head := make([]byte, max(0, min(size, SniffLen)))
	if err := src.full(head, 0); err != nil {
		return Contents{}, about("", CodeDamaged, err)
	}
	format, ok := Sniff(head)
	if !ok {
		return Contents{}, failf(CodeUnknownFormat, "", "the file is not an archive; use .zip, .skill, .tar.gz, or .tar")
	}
	l = l.withDefaults()
	if most := l.Bytes + int64(l.Files)*mostHeaders; size > most {
		return Contents{}, failf(CodeTooLarge, "", "the archive is larger than %d bytes", most)
	}
	x := &extraction{ctx: ctx, into: into, limits: l, tree: tree{}, made: map[string]bool{}, buf: make([]byte, 32<<10)}
	if err := x.checkEmpty(); err != nil {
		return Contents{}, err
	}
	var err error
	if format == Zip {
		err = x.zip(src)
	} else {
		err = x.tar(src, format)
	}
	if err == nil && len(x.entries) == 0 {
		err = failf(CodeEmpty, "", "the archive contains no files")
	}
	if err != nil {
		return Contents{}, err
	}
	slices.SortFunc(x.entries, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	slices.Sort(x.ignored)
	return Contents{format, x.entries, x.ignored}, nil
}

// source reads an archive until the context ends.
type source struct {
	ctx  context.Context
	r    io.ReaderAt
	size int64
}

// ReadAt implements io.ReaderAt. Every failure except the end of the archive is an [Error] or an
// error of the context.
func (s *source) ReadAt(p []byte, off int64) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.r.ReadAt(p, off)
	switch {
	case err == nil:
	case !errors.Is(err, io.EOF):
		err = about("", CodeIO, err)
	case off+int64(n) < s.size:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// full reads len(p) bytes.
func (s *source) full(p []byte, off int64) error {
	if off < 0 || off > s.size-int64(len(p)) {
		return io.ErrUnexpectedEOF
	}
	n, err := s.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	return err
}

// extraction is the state of one call of Extract.
type extraction struct {
	ctx    context.Context
	into   *os.Root
	limits Limits
	tree   tree
	made   map[string]bool // folders
	buf    []byte          // of copy

	count   int   // entries
	bytes   int64 // written or ignored
	entries []Entry
	ignored []string
}

func (x *extraction) checkEmpty() error {
	dir, err := x.into.Open(".")
	if err != nil {
		return about("", CodeIO, err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(1)
	switch {
	case len(names) > 0:
		return failf(CodeIO, "", "the folder to extract into is not empty")
	case !errors.Is(err, io.EOF):
		return about("", CodeIO, err)
	}
	return nil
}

// admit checks an entry before anything is written for it.
func (x *extraction) admit(path string, folder bool) error {
	if x.count++; x.count > x.limits.Files {
		return failf(CodeTooLarge, path, "the archive has more than %d files and folders", x.limits.Files)
	}
	if err := x.limits.checkPath(path); err != nil {
		return err
	}
	return x.tree.add(path, folder)
}

// folder creates a folder that was admitted, or lists it as ignored.
func (x *extraction) folder(path string) error {
	if ofMacOS(path) {
		x.ignored = append(x.ignored, path+"/")
		return nil
	}
	return about(path, CodeIO, x.mkdir(path))
}

// mkdir creates a folder and its parents.
func (x *extraction) mkdir(dir string) error {
	if dir == "." || x.made[dir] {
		return nil
	}
	if err := x.mkdir(path.Dir(dir)); err != nil {
		return err
	}
	if err := x.into.Mkdir(dir, 0o755); err != nil {
		return err
	}
	x.made[dir] = true
	return x.into.Chmod(dir, 0o755) // whatever the umask is
}

// file writes a file that was admitted, or reads and lists it as ignored. The content must have size
// bytes. packed is its compressed size, or -1.
func (x *extraction) file(name string, executable bool, size, packed int64, content io.Reader) error {
	if ofMacOS(name) {
		x.ignored = append(x.ignored, name)
		return x.copy(io.Discard, name, size, packed, content)
	}
	if err := x.mkdir(path.Dir(name)); err != nil {
		return about(name, CodeIO, err)
	}
	perm := fs.FileMode(0o644)
	if executable {
		perm = 0o755
	}
	f, err := x.into.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return about(name, CodeIO, err)
	}
	if err = f.Chmod(perm); err != nil { // whatever the umask is
		err = about(name, CodeIO, err)
	} else {
		err = x.copy(f, name, size, packed, content)
	}
	if closing := f.Close(); err == nil {
		err = about(name, CodeIO, closing)
	}
	x.entries = append(x.entries, Entry{name, size, executable})
	return err
}

// copy copies exactly size bytes. It counts the bytes that were read, whatever headers declare.
func (x *extraction) copy(w io.Writer, name string, size, packed int64, content io.Reader) error {
	for n := int64(0); ; {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		k, err := content.Read(x.buf)
		n += int64(k)
		x.bytes += int64(k)
		switch {
		case n > size:
			return failf(CodeDamaged, name, "it has more bytes than the %d that its header declares", size)
		case x.checkBytes(n) != nil:
			return about(name, CodeTooLarge, x.checkBytes(n))
		case packed >= 0 && x.limits.inflated(n, packed) != nil:
			return about(name, CodeTooLarge, x.limits.inflated(n, packed))
		}
		if _, err := w.Write(x.buf[:k]); err != nil {
			return about(name, CodeIO, err)
		}
		switch {
		case errors.Is(err, io.EOF) && n < size:
			return failf(CodeDamaged, name, "it has %d bytes, but its header declares %d", n, size)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return about(name, CodeDamaged, fmt.Errorf("its data cannot be unpacked: %w", err))
		}
	}
}

// checkBytes checks the size of one file, and of all files so far.
func (x *extraction) checkBytes(file int64) error {
	switch {
	case file > x.limits.FileBytes:
		return failf(CodeTooLarge, "", "it is larger than %d bytes", x.limits.FileBytes)
	case x.bytes > x.limits.Bytes:
		return failf(CodeTooLarge, "", "the files have more than %d bytes together", x.limits.Bytes)
	}
	return nil
}

// cut returns a name without the trailing slash of a folder.
func cut(name string) (path string, folder bool) { return strings.CutSuffix(name, "/") }
