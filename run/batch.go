package run

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"metier"
	"metier/internal/atomicfile"
)

// batch replaces several artifacts. It writes all of them under temporary names before it renames the
// first, and syncs the folder once.
type batch struct {
	f    *Folder
	list []*pending
	busy sync.WaitGroup
}

// pending is an artifact that is being written.
type pending struct {
	path string
	file *atomicfile.Prepared // nil if it failed
	err  error
}

// writers limits how many artifacts of this process are synced in the background, because each holds a
// thread and the artifact's bytes. The others are written at once.
var writers = make(chan struct{}, 4)

// add writes an artifact under a temporary name, unless the file already has that content. Output
// files are replaced at once.
func (b *batch) add(name string, data pieces) error {
	output := strings.HasPrefix(name, outputsDir+"/")
	name = filepath.FromSlash(name)
	p := &pending{path: filepath.Join(b.f.dir, name)}
	prepare := func() { p.file, p.err = atomicfile.Prepare(b.f.root, name, "run", 0o600, true, data...) }
	switch {
	case holds(b.f.root, name, data):
		return nil
	case output: // there may be thousands, and the log has them all
		return fault("project", p.path, atomicfile.In(b.f.root, name, "run", data.whole(), 0o600, false))
	}
	b.list = append(b.list, p)
	select {
	case writers <- struct{}{}:
		b.busy.Go(func() {
			defer func() { <-writers }()
			prepare()
		})
	default:
		prepare()
	}
	return nil
}

// commit renames the artifacts in the order in which they were added. After an error of any of them, it
// renames none.
func (b *batch) commit() error {
	b.busy.Wait()
	for _, p := range b.list {
		if p.err != nil {
			return fault("project", p.path, p.err)
		}
	}
	if len(b.list) == 0 {
		return nil
	}
	for len(b.list) > 0 {
		p := b.list[0]
		b.list = b.list[1:]
		if err := p.file.Commit(); err != nil {
			return fault("project", p.path, err)
		}
	}
	return fault("project", b.f.dir, atomicfile.SyncIn(b.f.root, "."))
}

// discard removes the temporary files that were not renamed.
func (b *batch) discard() {
	b.busy.Wait()
	for _, p := range b.list {
		if p.file != nil {
			p.file.Discard()
		}
	}
	b.list = nil
}

// holds reports whether a regular file holds exactly these bytes. It does not read the whole file
// into memory.
func holds(root *os.Root, name string, data pieces) bool {
	size := 0
	for _, part := range data {
		size += len(part)
	}
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(size) {
		return false
	}
	f, err := root.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	buf := make([]byte, min(64<<10, size+1))
	for _, part := range data {
		for len(part) > 0 {
			n, err := io.ReadFull(f, buf[:min(len(buf), len(part))])
			if err != nil || !bytes.Equal(buf[:n], part[:n]) {
				return false
			}
			part = part[n:]
		}
	}
	_, err = f.Read(buf[:1])
	return err == io.EOF
}

// makeOutputs creates the folder of tool outputs. A symlink in its place is an error.
func (f *Folder) makeOutputs() error {
	path := filepath.Join(f.dir, outputsDir)
	if err := f.root.Mkdir(outputsDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fault("project", path, err)
	}
	info, err := f.root.Lstat(outputsDir)
	if err != nil {
		return fault("project", path, err)
	}
	if !info.IsDir() {
		return wrong(metier.Denied, CodeFolderBad, path, "remove it; a run folder holds no links", "%s is not a folder", path)
	}
	return nil
}
