package install

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"metier"
	"metier/internal/digest"
	"metier/internal/namedfile"
)

const (
	maxKept   = 1 << 30   // bytes of all downloads that are kept
	staleTemp = time.Hour // age of a temporary file that a killed process left
	tempMark  = "temp-"   // start of the names of temporary files
)

// online returns an error if a source needs the network, and the request must not use it.
func (o FetchOptions) online(s Source) error {
	if !o.Offline {
		return nil
	}
	return metier.Fieldf(metier.Unavailable, "Request.Offline", "offline", "install it once without Request.Offline: archives and artifacts that metier.lock has a digest of are kept, but not repositories and indexes", "%s is on the network, and no download of it is kept", s)
}

// downloads is a folder with downloaded files, which have the names of their digests. Files are checked
// when they are read, so nothing that another program writes there is used.
type downloads struct {
	dir  string // "": nothing is kept
	most int64  // 0: maxKept
}

func (d downloads) open() (*os.Root, error) {
	if d.dir == "" {
		return nil, fs.ErrNotExist
	}
	return os.OpenRoot(d.dir)
}

// get writes the file with a digest to an empty file, and returns its size, or false if it is not kept.
func (d downloads) get(want string, to *os.File) (int64, bool, error) {
	root, err := d.open()
	if err != nil || !digest.Valid(want) {
		return 0, false, nil
	}
	defer root.Close()
	name := strings.TrimPrefix(want, "sha256:")
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return 0, false, nil
	}
	in, err := root.Open(name)
	if err != nil {
		return 0, false, nil
	}
	defer in.Close()
	h := digest.New()
	n, err := io.Copy(io.MultiWriter(to, h), io.LimitReader(in, maxDownload+1))
	if err == nil && h.Sum() == want {
		now := time.Now()
		return n, true, root.Chtimes(name, now, now) // the ones that were not used for longest are removed first
	}
	_, seek := to.Seek(0, io.SeekStart)
	return 0, false, errors.Join(to.Truncate(0), seek, root.Remove(name))
}

// bytes returns the content of a small file with a digest, or nil if it is not kept.
func (d downloads) bytes(want string, most int64) []byte {
	root, err := d.open()
	if err != nil || !digest.Valid(want) {
		return nil
	}
	defer root.Close()
	raw, err := namedfile.ReadIn(root, strings.TrimPrefix(want, "sha256:"), most)
	if err != nil || digest.Bytes(raw) != want {
		return nil
	}
	return raw
}

// put keeps a file. Its bytes must have the digest.
func (d downloads) put(want string, from io.Reader) (err error) {
	if d.dir == "" {
		return nil
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if err := root.Chmod(".", 0o700); err != nil {
		return err
	}
	tmp := tempMark + rand.Text()[:16]
	out, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	h := digest.New()
	_, err = io.Copy(io.MultiWriter(out, h), from)
	if err = errors.Join(err, out.Close()); err == nil && h.Sum() != want {
		err = fmt.Errorf("the file has the digest %s, not %s", h.Sum(), want)
	}
	if err == nil {
		err = root.Rename(tmp, strings.TrimPrefix(want, "sha256:"))
	}
	if err != nil {
		return errors.Join(err, root.Remove(tmp))
	}
	return d.prune(root)
}

// prune removes the files that were not used for longest until the others fit.
func (d downloads) prune(root *os.Root) error {
	list, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	total := int64(0)
	for _, e := range list {
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
			continue // another process removed it
		case strings.HasPrefix(e.Name(), tempMark) && time.Since(info.ModTime()) < staleTemp:
			continue
		case strings.HasPrefix(e.Name(), tempMark):
			info = stale{info}
		}
		files, total = append(files, info), total+info.Size()
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range files {
		if _, old := f.(stale); !old && total <= cmp.Or(d.most, maxKept) {
			break
		}
		if err := root.Remove(f.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= f.Size()
	}
	return nil
}

// stale is a temporary file that a killed process left. It sorts first.
type stale struct{ fs.FileInfo }

// ModTime returns the earliest time.
func (stale) ModTime() time.Time { return time.Time{} }

// keep keeps a downloaded file, and notes why it could not.
func (f *Fetched) keep(o FetchOptions, want string, from io.Reader) {
	if err := (downloads{dir: o.Downloads}).put(want, from); err != nil {
		f.Notes = append(f.Notes, "the download is not kept: "+err.Error())
	}
}
