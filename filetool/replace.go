package filetool

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"metier"
	"metier/internal/atomicfile"
	"metier/internal/confine"
	"metier/internal/digest"
	"metier/internal/rootfile"
)

// place is where one file will be written: a handle of its folder that was
// reached without following a link, and the names in it.
type place struct {
	t    Target
	dir  *os.Root
	own  bool // dir is ours to close
	name string
	temp string // derived from the call, so that a second try finds a leftover
}

// openPlace opens the target's folder, makes the folders that are missing if
// asked to, and removes what an earlier try of the same call left behind. Calls
// of other sessions have the same IDs.
func openPlace(t Target, session, call string, create bool) (*place, error) {
	dir, name := path.Split(t.Rel)
	sum := sha256.Sum256([]byte(session + "\x00" + call + "\x00" + t.Rel))
	p := &place{t: t, dir: t.base.root, name: name, temp: ".metier-" + hex.EncodeToString(sum[:8]) + ".tmp"}
	if dir = strings.Trim(dir, "/"); dir != "" {
		var before func(*os.Root, string) error
		if create {
			before = rootfile.Mkdir
		}
		next, err := rootfile.EnterPath(p.dir, dir, before)
		if err != nil {
			return nil, writeError(t.Path, err)
		}
		p.dir, p.own = next, true
	}
	if err := p.dir.Remove(p.temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.close()
		return nil, writeError(t.Path, err)
	}
	return p, nil
}

func (p *place) close() {
	if p.own {
		p.dir.Close()
		p.own = false
	}
}

// read returns the file as it is now and its digest, or "absent".
func (p *place) read() ([]byte, string, error) {
	b, _, err := p.t.base.dir.ReadFile(p.t.Rel, writeMax)
	switch confine.CodeOf(err) {
	case "":
		return b, digest.Bytes(b), nil
	case confine.NotFound:
		return nil, absent, nil
	}
	return nil, "", readError("write", p.t.Path, err)
}

// replace puts data in the file's place: a temporary file in the same folder,
// synced, renamed over the old one, the folder synced. It looks once more that
// the file is still the one with digest was; otherwise the error has the code
// conflict. The mode of an existing file stays. Unless renamed, the file is as
// it was.
func (p *place) replace(data []byte, was string) (renamed bool, err error) {
	defer func() {
		if err != nil && !renamed {
			_ = p.dir.Remove(p.temp) // it may not be there yet
		}
	}()
	if err := p.stage(data, was); err != nil {
		return false, err
	}
	if err := p.dir.Rename(p.temp, p.name); err != nil {
		return false, writeError(p.t.Path, err)
	}
	if err := atomicfile.At(atomicfile.AfterRename, p.t.Host); err != nil {
		return true, writeError(p.t.Path, err)
	}
	return true, p.sync()
}

// stage makes everything ready for the rename.
func (p *place) stage(data []byte, was string) error {
	if err := atomicfile.At(atomicfile.BeforeWrite, p.t.Host); err != nil {
		return writeError(p.t.Path, err)
	}
	if err := p.fill(data); err != nil {
		return writeError(p.t.Path, err)
	}
	if err := atomicfile.At(atomicfile.AfterWrite, p.t.Host); err != nil {
		return writeError(p.t.Path, err)
	}
	_, now, err := p.read()
	if err != nil {
		return err
	}
	if now != was {
		return conflict("write", p.t.Path)
	}
	if err := atomicfile.At(atomicfile.BeforeRename, p.t.Host); err != nil {
		return writeError(p.t.Path, err)
	}
	return nil
}

// fill writes the temporary file and syncs it.
func (p *place) fill(data []byte) error {
	f, err := p.dir.OpenFile(p.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if old, serr := p.dir.Lstat(p.name); err == nil && serr == nil {
		if !old.Mode().IsRegular() {
			err = rootfile.ErrLink
		} else if runtime.GOOS != "windows" {
			err = f.Chmod(old.Mode().Perm())
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// sync makes the new name durable, where the system can.
func (p *place) sync() error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := p.dir.Open(".")
	if err != nil {
		return writeError(p.t.Path, err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
		return writeError(p.t.Path, err)
	}
	return nil
}

// writeError words a failed write.
func writeError(shown string, err error) error {
	e := &metier.Error{Op: "write", Path: shown, Kind: metier.Unavailable, Code: "write_failed", Err: err}
	switch {
	case errors.Is(err, rootfile.ErrLink):
		e.Kind, e.Code = metier.Denied, "path_is_link"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		e.Kind, e.Code, e.Hint = metier.Denied, "permission_denied", "the folder or file cannot be written"
	case errors.Is(err, syscall.ENOSPC):
		e.Code, e.Hint = "disk_full", "free some space"
	case errors.Is(err, fs.ErrNotExist):
		e.Kind, e.Code = metier.NotFound, "not_found"
	}
	e.Err = fmt.Errorf("%s: %w", filepath.Base(shown), err)
	return e
}
