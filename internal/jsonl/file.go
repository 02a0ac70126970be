package jsonl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"metier/internal/atomicfile"
)

// Errors of a File.
var (
	// ErrChanged means that another program wrote to the file: its size is not what this File left.
	ErrChanged = errors.New("the file was changed from outside")
	// ErrNotRegular means that the path is a link, a device, or a folder.
	ErrNotRegular = errors.New("not a regular file")
)

// Options configure Open. Nil selects the defaults.
type Options struct {
	ReadOnly bool
	// Root is the folder of the file, already open. Nil opens it.
	Root *os.Root
	// Write replaces the write to the file, to inject faults in tests.
	Write func(f *os.File, b []byte, off int64) (int, error)
}

// File is a file that one process appends to. It is not safe for concurrent
// use, except ReadAt and Section.
type File struct {
	f     *os.File
	path  string
	size  int64 // verified size
	write func(f *os.File, b []byte, off int64) (int, error)
	dirty bool // a failed write may have left bytes after size
	fresh bool // created here: its folder is not synced yet
}

// Open opens path, creating it with mode 0600 unless ReadOnly. It fails if path itself is a
// symbolic link. No link leads out of its folder.
func Open(path string, o *Options) (*File, error) {
	if o == nil {
		o = &Options{}
	}
	root := o.Root
	if root == nil {
		var err error
		if root, err = os.OpenRoot(filepath.Dir(path)); err != nil {
			return nil, err
		}
		defer root.Close()
	}
	name := filepath.Base(path)
	info, err := root.Lstat(name)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	flag := os.O_RDWR | os.O_CREATE
	if o.ReadOnly {
		flag = os.O_RDONLY
	}
	f, err := root.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	w := o.Write
	if w == nil {
		w = (*os.File).WriteAt
	}
	return &File{f: f, path: path, size: info.Size(), write: w, fresh: fresh}, nil
}

// Size returns the number of bytes that were written completely.
func (f *File) Size() int64 { return f.size }

// Lines yields the lines from offset off, the start of a line, to Size.
func (f *File) Lines(off int64, limit int) iter.Seq2[Line, error] {
	return Scan(f.Section(off, f.size), off, limit)
}

// Section returns a reader for the bytes from off to end.
func (f *File) Section(off, end int64) *io.SectionReader {
	return io.NewSectionReader(f.f, off, end-off)
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(b []byte, off int64) (int, error) { return f.f.ReadAt(b, off) }

// Append appends b, which must consist of whole lines, in one write. It returns the offset of b. If
// the write fails, the file is truncated to its previous size, at the latest by the next Append.
func (f *File) Append(b []byte) (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	if info.Size() != f.size {
		if !f.dirty {
			return 0, &fs.PathError{Op: "append", Path: f.path, Err: fmt.Errorf("%w: %d bytes, expected %d", ErrChanged, info.Size(), f.size)}
		}
		if err := f.f.Truncate(f.size); err != nil {
			return 0, err
		}
	}
	f.dirty = false
	if err := atomicfile.At(atomicfile.BeforeAppend, f.path); err != nil {
		return 0, err
	}
	n, err := f.write(f.f, b, f.size)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		f.dirty = f.f.Truncate(f.size) != nil
		return 0, err
	}
	off := f.size
	f.size += int64(len(b))
	return off, atomicfile.At(atomicfile.AfterAppend, f.path)
}

// Cut truncates the file to size.
func (f *File) Cut(size int64) error {
	if err := f.f.Truncate(size); err != nil {
		return err
	}
	f.size, f.dirty = size, false
	return nil
}

// Sync makes appended data durable and, on first use, the file's name.
func (f *File) Sync() error {
	if err := f.f.Sync(); err != nil {
		return err
	}
	if f.fresh {
		if err := atomicfile.SyncDir(filepath.Dir(f.path)); err != nil {
			return err
		}
		f.fresh = false
	}
	return nil
}

// Close closes the file without syncing it.
func (f *File) Close() error { return f.f.Close() }
