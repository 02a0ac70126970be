package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"metier/internal/atomicfile"
	"metier/internal/digest"
)

// Limits of the cache on disk.
const (
	maxCached = 64 << 20            // bytes of all files together
	maxAge    = 30 * 24 * time.Hour // without a read
)

// cache stores files of servers' skills that were read and match their entries. They are in
// DIR/SERVER-ID/SKILL/, named by digest, so that none can be discovered as a skill. The path
// includes the server and the address (SEP-2640, skill URIs). Files are hashed at every read,
// because others may have written there. A nil cache stores nothing.
type cache struct {
	dir string
	now func() time.Time

	mu    sync.Mutex
	total int64 // bytes, once it was looked at
	known bool
}

// place returns the folder of one skill of one server. The label alone would be the same for two
// servers of two configurations.
func (k *cache) place(s Server, folder string) string {
	who := strings.Join(append([]string{s.URL, s.Command, s.Cwd}, s.Args...), "\x00")
	return filepath.Join(k.dir, s.Label+"-"+short(who, 16), short(folder, 32))
}

func short(text string, n int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:n]
}

// read returns the bytes of a cached file if they match the entry. altered reports that they
// existed but did not match, and were removed.
func (k *cache) read(s Server, folder string, f listedFile) (data []byte, ok, altered bool) {
	name := filepath.Join(k.place(s, folder), strings.TrimPrefix(f.digest, "sha256:"))
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, false
	}
	if err == nil && info.Mode().IsRegular() && info.Size() == f.size {
		if data, err = os.ReadFile(name); err == nil && int64(len(data)) == f.size && digest.Bytes(data) == f.digest {
			now := k.now()
			_ = os.Chtimes(name, now, now) // which are read is only of use to what is thrown out
			return data, true, false
		}
	}
	_ = os.RemoveAll(name) // if it stays, the next read finds it altered again
	return nil, false, true
}

// keep writes a verified file, and evicts the least recently read ones if the cache is too large.
func (k *cache) keep(s Server, folder string, f listedFile, data []byte) error {
	if k == nil || int64(len(data)) > maxCached/4 {
		return nil
	}
	place := k.place(s, folder)
	for _, d := range []string{k.dir, filepath.Dir(place), place} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
		if info, err := os.Lstat(d); err != nil || !info.IsDir() {
			return errors.Join(err, errors.New(d+" is not a folder"))
		}
	}
	if err := atomicfile.ReplaceSuffix(filepath.Join(place, strings.TrimPrefix(f.digest, "sha256:")), "new", data, 0o600); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.total += int64(len(data)); !k.known || k.total > maxCached {
		k.total, k.known = prune(k.dir, maxCached*3/4, k.now().Add(-maxAge)), true
	}
	return nil
}

// prune removes files older than before, and then the oldest until at most most bytes are left. It
// returns the remaining size.
func prune(dir string, most int64, before time.Time) (total int64) {
	type file struct {
		path string
		size int64
		at   time.Time
	}
	var all []file
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			all = append(all, file{p, info.Size(), info.ModTime()})
			total += info.Size()
		}
		return nil
	})
	slices.SortFunc(all, func(a, b file) int { return a.at.Compare(b.at) })
	for _, f := range all {
		if total <= most && !f.at.Before(before) {
			break
		}
		if os.Remove(f.path) == nil {
			total -= f.size
			_ = os.Remove(filepath.Dir(f.path)) // where it was the last one
		}
	}
	return total
}

// Cached returns the number and size of the files of servers' skills cached in a folder.
func Cached(dir string) (files int, bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, bad := d.Info(); bad == nil {
				files, bytes = files+1, bytes+info.Size()
			}
		}
		return nil
	})
	return files, bytes
}
