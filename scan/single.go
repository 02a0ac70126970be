package scan

import (
	"errors"
	"io/fs"
	"strings"
	"time"
)

// single is a folder with one file.
type single struct{ name, text string }

var errNoFile = errors.New("no such file")

// Open implements fs.FS.
func (o single) Open(name string) (fs.File, error) {
	switch name {
	case ".":
		return &openSingle{single: o, dir: true}, nil
	case o.name:
		return &openSingle{single: o, Reader: strings.NewReader(o.text)}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: errNoFile}
}

type openSingle struct {
	single
	*strings.Reader
	dir bool
}

func (o *openSingle) Close() error               { return nil }
func (o *openSingle) Stat() (fs.FileInfo, error) { return singleInfo{o.single, o.dir}, nil }

func (o *openSingle) Read(b []byte) (int, error) {
	if o.dir {
		return 0, errNoFile
	}
	return o.Reader.Read(b)
}

// ReadDir implements fs.ReadDirFile.
func (o *openSingle) ReadDir(int) ([]fs.DirEntry, error) {
	return []fs.DirEntry{fs.FileInfoToDirEntry(singleInfo{o.single, false})}, nil
}

type singleInfo struct {
	single
	dir bool
}

func (i singleInfo) Name() string {
	if i.dir {
		return "."
	}
	return i.single.name
}
func (i singleInfo) Size() int64 { return int64(len(i.text)) }
func (i singleInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir
	}
	return 0
}
func (i singleInfo) ModTime() time.Time { return time.Time{} }
func (i singleInfo) IsDir() bool        { return i.dir }
func (i singleInfo) Sys() any           { return nil }
