package confine

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// rootDir is the os.Root backend. os.Root never leaves the folder, but it follows links inside,
// reads devices, and crosses mounts. The checks around each open reject those.
type rootDir struct {
	r   *os.Root
	dev uint64 // device of the folder; 0 if the system has none
}

func openRoot(path string) (backend, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	if abs, err := filepath.Abs(path); err != nil || real != filepath.Clean(path) && real != abs {
		return nil, &Error{Code: Outside, Err: errors.New("a symlink is in the path")}
	}
	r, err := os.OpenRoot(path)
	if err != nil {
		if fi, serr := os.Lstat(path); serr == nil && !fi.IsDir() {
			return nil, &Error{Code: NotRegular, Err: err}
		}
		return nil, err
	}
	return newRootDir(r)
}

func newRootDir(r *os.Root) (backend, error) {
	fi, err := r.Stat(".")
	if err != nil {
		r.Close()
		return nil, err
	}
	return &rootDir{r, InfoOf(fi).Dev}, nil
}

// look describes rel. It rejects links and other devices on the path to it.
func (d *rootDir) look(rel string) (Info, error) {
	for i := range len(rel) {
		if rel[i] != '/' {
			continue
		}
		info, err := d.lstat(rel[:i])
		switch {
		case err != nil:
			return info, err
		case !info.Mode.IsDir():
			return info, &Error{Code: NotFound}
		}
	}
	return d.lstat(rel)
}

func (d *rootDir) lstat(rel string) (Info, error) {
	fi, err := d.r.Lstat(rel)
	if err != nil {
		return Info{}, err
	}
	return d.inside(InfoOf(fi))
}

func (d *rootDir) inside(info Info) (Info, error) {
	if info.Mode&(fs.ModeSymlink|fs.ModeIrregular) != 0 {
		return info, &Error{Code: Outside, Err: errors.New("a symlink is in the path")}
	}
	if info.Dev != d.dev {
		return info, &Error{Code: Outside, Err: errors.New("the path is on another device")}
	}
	return info, nil
}

func (d *rootDir) open(rel string) (handle, Info, error) {
	info, err := d.look(rel)
	if err == nil {
		err = regular(info)
	}
	if err != nil {
		return nil, info, err
	}
	f, err := d.r.OpenFile(rel, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, info, err
	}
	fi, err := f.Stat()
	if err == nil {
		info, err = d.inside(InfoOf(fi))
	}
	if err == nil {
		err = regular(info)
	}
	if err == nil {
		// The name must still refer to this very file, not to a link to it.
		var now fs.FileInfo
		if now, err = d.r.Lstat(rel); err == nil && !os.SameFile(now, fi) {
			err = &Error{Code: Changed, Err: errors.New("the name now means another file")}
		}
	}
	if err != nil {
		f.Close()
		return nil, info, err
	}
	return osHandle{f}, info, nil
}

func (d *rootDir) sub(rel string) (backend, error) {
	info, err := d.look(rel)
	if err != nil {
		return nil, err
	}
	if !info.Mode.IsDir() {
		return nil, &Error{Code: NotRegular, Err: errors.New("not a folder")}
	}
	r, err := d.r.OpenRoot(rel)
	if err != nil {
		return nil, err
	}
	b, err := newRootDir(r)
	if err == nil && b.(*rootDir).dev != d.dev {
		b.close()
		return nil, &Error{Code: Outside, Err: errors.New("the path is on another device")}
	}
	return b, err
}

func (d *rootDir) stat(rel string) (Info, error) {
	if i := strings.LastIndexByte(rel, '/'); i >= 0 {
		if info, err := d.look(rel[:i]); err != nil {
			return info, err
		}
	}
	fi, err := d.r.Lstat(rel)
	if err != nil {
		return Info{}, err
	}
	return InfoOf(fi), nil
}

func (d *rootDir) names(rel string) (namer, error) {
	info, err := d.look(rel)
	if err != nil {
		return nil, err
	}
	if !info.Mode.IsDir() {
		return nil, &Error{Code: NotRegular, Err: errors.New("not a folder")}
	}
	f, err := d.r.OpenFile(rel, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.IsDir() {
		err = &Error{Code: Changed}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return osNames{f}, nil
}

func (d *rootDir) close() error { return d.r.Close() }

type osHandle struct{ *os.File }

func (h osHandle) stat() (Info, error)  { return statFile(h.File) }
func (h osHandle) file(string) *os.File { return h.File }

type osNames struct{ f *os.File }

func (n osNames) next(into []Entry) ([]Entry, error) {
	list, err := n.f.ReadDir(1024)
	for _, e := range list {
		into = append(into, Entry{e.Name(), e.Type()})
	}
	if err == nil && len(list) == 0 {
		err = io.EOF
	}
	return into, err
}

func (n osNames) close() { n.f.Close() }

func statFile(f *os.File) (Info, error) {
	fi, err := f.Stat()
	if err != nil {
		return Info{}, err
	}
	return InfoOf(fi), nil
}

// InfoOf converts a description of the os package.
func InfoOf(fi fs.FileInfo) Info {
	info := Info{Size: fi.Size(), Mode: fi.Mode(), Mtime: fi.ModTime(), Nlink: 1}
	fillSys(&info, fi.Sys())
	return info
}

// regular returns an error unless info describes a regular file.
func regular(info Info) error {
	switch {
	case info.Mode.IsRegular():
		return nil
	case info.Mode.IsDir():
		return &Error{Code: IsDir}
	}
	return &Error{Code: NotRegular, Err: errors.New(kind(info.Mode))}
}

func kind(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "no regular file"
}
