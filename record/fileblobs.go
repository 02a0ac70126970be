package record

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"metier/internal/atomicfile"
	"metier/internal/digest"
	"metier/internal/jsonl"
	"metier/internal/plural"
)

// Limits of blobs.
const (
	MaxBlob   = 256 << 20 // bytes of one blob; past it Put refuses with [CodeTooLarge]
	MaxInline = 4 << 10   // a blob up to this size is a line of the side file
)

const (
	sideName    = "small.jsonl"
	tempName    = "tmp"
	maxSideLine = 8 * MaxInline // the worst text escapes to six bytes a byte
	maxUnsynced = 64            // large blobs that wait for a Sync; past it Put syncs
)

// small is a line of the side file. It has no media type, because that is in the Ref, which the
// chain protects.
type small struct {
	Digest string  `json:"digest"`
	Text   *string `json:"text,omitempty"` // valid UTF-8
	Data   []byte  `json:"data,omitempty"` // anything else
}

const sidePrefix = `{"digest":"`

// FileBlobs is a [Blobs] in a folder. Small blobs are lines of one file, small.jsonl, which is not
// chained so that blobs can be erased. Each larger blob is a separate file, <first two hex
// digits>/<hex>. Only one process may have the folder open for writing.
type FileBlobs struct {
	dir  string
	root *os.Root // of dir, so that no link leads out of it; nil when read only and not there
	opt  Options

	mu       sync.Mutex
	side     *jsonl.File         // nil when read only and not there
	index    map[sum]span        // lines of the side file
	damaged  int                 // lines of the side file that are none of ours
	cut      int                 // bytes of an unfinished last line
	synced   int64               // size of the side file at the last Sync, -1 before
	unsynced map[string]struct{} // names of large blobs since the last Sync

	recent [recentMax]kept // small blobs put last: most are read again at once
	next   int
}

// recentMax is how many small blobs are kept in memory.
const recentMax = 8

type kept struct {
	digest string
	data   []byte
}

type span struct {
	off  int64
	size int32
}

// OpenBlobs opens the blobs in dir. Unless o.ReadOnly is set, it creates the folder and truncates
// an incomplete last line of the side file.
func OpenBlobs(dir string, o *Options) (*FileBlobs, error) {
	b := &FileBlobs{dir: dir, opt: o.orDefault(), index: map[sum]span{}, unsynced: map[string]struct{}{}}
	root, err := b.openRoot()
	if errors.Is(err, fs.ErrNotExist) && b.opt.ReadOnly {
		return b, nil
	}
	if err != nil {
		return nil, storage(dir, 0, err)
	}
	b.root = root
	if !b.opt.ReadOnly { // leftovers of a crash were never blobs
		err = root.RemoveAll(tempName)
	}
	if err != nil {
		return nil, errors.Join(storage(dir, 0, err), root.Close())
	}
	if err := b.openSide(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return b, nil
}

// openRoot opens the folder, and creates it if it may write.
func (b *FileBlobs) openRoot() (*os.Root, error) {
	above, name := b.opt.Root, filepath.Base(b.dir)
	if above == nil {
		if !b.opt.ReadOnly {
			if err := os.MkdirAll(b.dir, 0o700); err != nil {
				return nil, err
			}
		}
		return os.OpenRoot(b.dir)
	}
	if !b.opt.ReadOnly {
		if err := above.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return above.OpenRoot(name)
}

func (b *FileBlobs) openSide() error {
	path := filepath.Join(b.dir, sideName)
	f, err := jsonl.Open(path, &jsonl.Options{ReadOnly: b.opt.ReadOnly, Root: b.root, Write: b.opt.write})
	if errors.Is(err, fs.ErrNotExist) && b.opt.ReadOnly {
		return nil
	}
	if err != nil {
		return storage(path, 0, err)
	}
	b.side, b.damaged, b.synced = f, 0, -1
	clear(b.index)
	for ln, err := range f.Lines(0, maxSideLine) {
		if err == nil && ln.Torn {
			b.cut = int(ln.Size)
			if !b.opt.ReadOnly {
				err = f.Cut(ln.Off)
			}
			if err == nil {
				break
			}
		}
		if err != nil {
			_ = f.Close()
			return storage(path, uint64(ln.N), err)
		}
		if key, ok := sideKey(ln.Bytes); ok {
			b.index[key] = span{ln.Off, int32(ln.Size)}
		} else {
			b.damaged++
		}
	}
	return nil
}

// sideKey reads the digest at the start of a line without decoding the rest.
func sideKey(ln []byte) (sum, bool) {
	if len(ln) < len(sidePrefix)+digest.Size+2 || string(ln[:len(sidePrefix)]) != sidePrefix {
		return sum{}, false
	}
	return parseDigest(string(ln[len(sidePrefix) : len(sidePrefix)+digest.Size]))
}

func parseDigest(s string) (k sum, ok bool) {
	if !digest.Valid(s) {
		return k, false
	}
	_, err := hex.Decode(k[:], []byte(strings.TrimPrefix(s, "sha256:")))
	return k, err == nil
}

// Put implements [Blobs]. An existing blob that does not match its digest, which a power failure
// can cause, is written again.
func (b *FileBlobs) Put(ctx context.Context, media string, data []byte) (Ref, error) {
	if err := ctx.Err(); err != nil {
		return Ref{}, err
	}
	if b.opt.ReadOnly {
		return Ref{}, &Error{Code: CodeReadOnly, Path: b.dir, Detail: "the blobs were opened for reading"}
	}
	if err := checkSize(b.dir, data); err != nil {
		return Ref{}, err
	}
	r := Ref{Digest: digest.Bytes(data), Size: int64(len(data)), Media: media}
	key, _ := parseDigest(r.Digest)
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, inSide := b.index[key]; inSide || len(data) > MaxInline {
		if old, err := b.get(r, key); err == nil && bytes.Equal(old, data) {
			return r, nil
		}
	}
	if len(data) <= MaxInline {
		return r, b.putSmall(r, key, data)
	}
	return r, b.putLarge(r, data)
}

func (b *FileBlobs) putSmall(r Ref, key sum, data []byte) error {
	s := small{Digest: r.Digest}
	if utf8.Valid(data) {
		t := string(data)
		s.Text = &t
	} else {
		s.Data = data
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return &Error{Code: CodeIO, Path: b.dir, Err: err}
	}
	off, err := b.side.Append(buf.Bytes())
	if err != nil {
		return storage(filepath.Join(b.dir, sideName), 0, err)
	}
	b.index[key] = span{off, int32(buf.Len() - 1)}
	b.recent[b.next%recentMax] = kept{r.Digest, bytes.Clone(data)}
	b.next++
	return nil
}

func (b *FileBlobs) putLarge(r Ref, data []byte) error {
	name := fileName(r)
	full, temp := filepath.Join(b.dir, name), filepath.Join(tempName, filepath.Base(name))
	err := b.writeLarge(temp, filepath.Dir(name), data)
	if err == nil {
		err = atomicfile.At(atomicfile.BeforeRename, full)
	}
	if err == nil {
		err = b.root.Rename(temp, name)
	}
	if err == nil {
		err = atomicfile.At(atomicfile.AfterRename, full)
	}
	if err != nil {
		_ = b.root.Remove(temp)
		return storage(full, 0, err)
	}
	b.unsynced[name] = struct{}{}
	if len(b.unsynced) > maxUnsynced {
		return b.syncLarge()
	}
	return nil
}

// writeLarge writes a temporary file, and makes the folder that it will be moved to.
func (b *FileBlobs) writeLarge(temp, dir string, data []byte) error {
	for _, dir := range []string{tempName, dir} {
		if err := b.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	f, err := b.root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	write := b.opt.write
	if write == nil {
		write = (*os.File).WriteAt
	}
	_, err = write(f, data, 0)
	return errors.Join(err, f.Close())
}

// fileName returns the name of a blob's own file.
func fileName(r Ref) string {
	h := strings.TrimPrefix(r.Digest, "sha256:")
	return filepath.Join(h[:2], h)
}

// Open implements [Blobs].
func (b *FileBlobs) Open(ctx context.Context, r Ref) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	key, ok := parseDigest(r.Digest)
	if !ok {
		return nil, &Error{Code: CodeBlobAltered, Path: b.dir, Detail: fmt.Sprintf("%q is not a digest", r.Digest), Err: ErrAltered}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.recent {
		if k.digest == r.Digest && int64(len(k.data)) == r.Size {
			return bytes.Clone(k.data), nil
		}
	}
	return b.get(r, key)
}

func (b *FileBlobs) get(r Ref, key sum) ([]byte, error) {
	if at, ok := b.index[key]; ok {
		path := filepath.Join(b.dir, sideName)
		data, err := b.readSmall(r, at)
		if _, fails := errors.AsType[*fs.PathError](err); fails { // the read failed, which says nothing about the content
			return nil, storage(path, 0, err)
		}
		if err != nil {
			return nil, &Error{Code: CodeBlobAltered, Path: path, Detail: r.Digest + ": " + err.Error(), Err: ErrAltered}
		}
		if err := checkBlob(path, r, data); err != nil {
			return nil, err
		}
		return data, nil
	}
	name := fileName(r)
	path := filepath.Join(b.dir, name)
	data, err := b.readLarge(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && b.damaged > 0:
		return nil, &Error{Code: CodeBlobAltered, Path: filepath.Join(b.dir, sideName), Err: ErrAltered,
			Detail: fmt.Sprintf("%s is not there, and %d lines are damaged", r.Digest, b.damaged)}
	case errors.Is(err, fs.ErrNotExist):
		return nil, erased(b.dir, r)
	case err != nil:
		return nil, storage(path, 0, err)
	}
	if err := checkBlob(path, r, data); err != nil {
		return nil, err
	}
	return data, nil
}

func (b *FileBlobs) readSmall(r Ref, at span) ([]byte, error) {
	buf := make([]byte, at.size)
	if _, err := b.side.ReadAt(buf, at.off); err != nil {
		return nil, err
	}
	var s small
	if err := json.Unmarshal(buf, &s); err != nil {
		return nil, err
	}
	switch {
	case s.Digest != r.Digest || s.Text != nil && s.Data != nil:
		return nil, errors.New("the line is not that of the blob")
	case s.Text != nil:
		return []byte(*s.Text), nil
	}
	return s.Data, nil
}

// readLarge reads a blob's own file. It does not follow a link or open a device, and reads no
// more than the maximum size of a blob.
func (b *FileBlobs) readLarge(name string) ([]byte, error) {
	if b.root == nil {
		return nil, fs.ErrNotExist
	}
	info, err := b.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: jsonl.ErrNotRegular}
	}
	f, err := b.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var buf bytes.Buffer
	buf.Grow(int(min(info.Size(), MaxBlob)) + bytes.MinRead)
	_, err = buf.ReadFrom(io.LimitReader(f, MaxBlob+1))
	return buf.Bytes(), err
}

// Erase implements [Eraser]. It removes the bytes from the folder before it returns, and rewrites
// the side file without the line.
func (b *FileBlobs) Erase(ctx context.Context, r Ref) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	key, ok := parseDigest(r.Digest)
	if !ok {
		return nil
	}
	if b.opt.ReadOnly {
		return &Error{Code: CodeReadOnly, Path: b.dir, Detail: "the blobs were opened for reading"}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recent = [recentMax]kept{}
	name := fileName(r)
	delete(b.unsynced, name)
	if err := b.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storage(filepath.Join(b.dir, name), 0, err)
	}
	if _, ok := b.index[key]; !ok {
		return nil
	}
	return b.rewriteWithout(key)
}

func (b *FileBlobs) rewriteWithout(key sum) error {
	path := filepath.Join(b.dir, sideName)
	var keep bytes.Buffer
	for ln, err := range b.side.Lines(0, maxSideLine) {
		if err != nil {
			return storage(path, uint64(ln.N), err)
		}
		if k, ok := sideKey(ln.Bytes); ok && k == key || ln.Long {
			continue
		}
		keep.Write(ln.Bytes)
		keep.WriteByte('\n')
	}
	// Close first: Windows does not replace an open file.
	if err := b.side.Close(); err != nil {
		return storage(path, 0, err)
	}
	werr := atomicfile.In(b.root, sideName, "new", keep.Bytes(), 0o600, true)
	if err := b.openSide(); err != nil {
		return err
	}
	if werr != nil {
		return storage(path, 0, werr)
	}
	return nil
}

// Sync implements [Syncer].
func (b *FileBlobs) Sync(ctx context.Context) error {
	if err := ctx.Err(); err != nil || b.opt.ReadOnly {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.syncLarge(); err != nil {
		return err
	}
	if b.side.Size() == b.synced {
		return nil
	}
	if err := b.side.Sync(); err != nil {
		return storage(filepath.Join(b.dir, sideName), 0, err)
	}
	b.synced = b.side.Size()
	return nil
}

func (b *FileBlobs) syncLarge() error {
	dirs := map[string]struct{}{}
	for name := range b.unsynced {
		f, err := b.root.OpenFile(name, os.O_RDWR, 0)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			return storage(filepath.Join(b.dir, name), 0, err)
		}
		dirs[filepath.Dir(name)] = struct{}{}
	}
	if len(dirs) > 0 {
		dirs["."] = struct{}{}
	}
	for dir := range dirs {
		if err := atomicfile.SyncIn(b.root, dir); err != nil {
			return storage(filepath.Join(b.dir, dir), 0, err)
		}
	}
	clear(b.unsynced)
	return nil
}

// Close closes the side file. It does not sync.
func (b *FileBlobs) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.side != nil {
		err = b.side.Close()
	}
	if b.root != nil {
		err = errors.Join(err, b.root.Close())
	}
	return err
}

func erased(path string, r Ref) error {
	return &Error{Code: CodeErased, Path: path, Detail: r.Digest, Err: ErrErased}
}

func checkSize(path string, data []byte) error {
	if len(data) > MaxBlob {
		return &Error{Code: CodeTooLarge, Path: path, Detail: fmt.Sprintf("a blob of %d bytes, the limit is %d; cut it and record the cut", len(data), MaxBlob)}
	}
	return nil
}

func checkBlob(path string, r Ref, data []byte) error {
	if int64(len(data)) != r.Size || digest.Bytes(data) != r.Digest {
		return &Error{Code: CodeBlobAltered, Path: path, Detail: fmt.Sprintf("%s: its %s bytes do not match this digest", r.Digest, plural.Thousands(int64(len(data)))), Err: ErrAltered}
	}
	return nil
}
