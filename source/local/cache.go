package local

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"metier"
	"metier/internal/atomicfile"
	"metier/internal/confine"
	"metier/internal/plural"
	"metier/source/internal/entry"
)

// Scanned describes one listing, for display.
type Scanned struct {
	Root    string
	Folders int           // looked at
	Known   int           // of these, unchanged since they were read: nothing of them was opened
	Took    time.Duration // of the listing, index included
	Index   string        // path of the index file, or "" without one
	Bytes   int64         // size of the index file that was read
	Unused  string        // why there was an index file and it was not used
	Unsaved error         // why the index could not be written
}

// String describes a listing in a short phrase.
func (s Scanned) String() string {
	text := fmt.Sprintf("%s scanned in %.1f ms", plural.Of(s.Folders, "folder"), float64(s.Took.Microseconds())/1000)
	switch {
	case s.Unused != "":
		text += ", all read: the index was not used (" + s.Unused + ")"
	case s.Index != "":
		text += fmt.Sprintf(", %s unchanged since the index, %s read", plural.Thousands(int64(s.Known)), plural.Thousands(int64(s.Folders-s.Known)))
	}
	if s.Unsaved != nil {
		text += "; the index cannot be written: " + s.Unsaved.Error()
	}
	return text
}

const (
	// coarse exceeds the lag of any file clock with sub-second resolution. wholeSecond exceeds that
	// of file clocks without it.
	coarse      = 100 * time.Millisecond
	wholeSecond = 3 * time.Second

	maxRecord = 4 << 20 // of one folder; a larger one is not remembered

	indexSuffix = ".idx"
	indexNamed  = 32                  // characters before it
	oldIndex    = 90 * 24 * time.Hour // an index file not written for so long is removed; it may be made again
	oldTemp     = time.Hour           // the same of what a killed process left behind
	maxSwept    = 10_000              // names of the index folder looked at
)

// past is what the index file of a root knows, and what the next one will contain. It is used in a
// single place, where a scan examines one folder, so a scan follows the same rules with and without
// it.
//
// A record is used if the folder (for a skill, its SKILL.md) has exactly the key it had when it was
// read. The key includes ctime, which no program can set, so a change that preserves size and mtime
// is detected too. Names that are added or removed change the key of their folder, which is checked
// first. As in git, files that changed so recently that another change might get the same ctime are
// left out: such a folder is read again next time.
//
// The index holds the beginnings of files, but no tier and no state. Open, Read and Manifest do not
// use it.
type past struct {
	Scanned
	id     indexID
	old    *indexFile // nil: nothing is known
	start  time.Time
	next   [][]byte // records
	misses bool     // next has a record that old has not
}

// past opens the index of the root, or returns nil if there is none to use.
func (s *Source) past(root anchor) *past {
	p := &past{Scanned: Scanned{Root: root.path}, start: s.opt.Now()}
	if s.opt.Index == "" {
		return p
	}
	if s.nested { // a record ends at a skill, and says nothing of what is below
		p.Unused = "it does not support nested skills"
		return p
	}
	info, err := root.dir.Glance(".")
	if _, ok := info.Key(); err != nil || !ok {
		p.Unused = "this system does not report reliably when a file changed"
		return p
	}
	p.id = indexID{owner: uint32(os.Getuid()), dev: info.Dev,
		name: fmt.Sprintf("%s\x00%q %t %t %q", root.path, s.names, s.children, s.opt.RefuseHardLinks, s.opt.Skip)}
	sum := sha256.Sum256([]byte(p.id.name))
	p.Index = filepath.Join(s.opt.Index, hex.EncodeToString(sum[:indexNamed/2])+indexSuffix)
	if p.old, err = p.load(); err != nil {
		p.old, p.Unused = nil, err.Error()
	}
	if p.old != nil {
		p.next = make([][]byte, 0, p.old.count)
	}
	return p
}

// load reads the index file. It must be a regular file of this user that no other user can write,
// and its last path element must not be a link. A missing file is not an error.
func (p *past) load() (*indexFile, error) {
	folder, err := confine.Resolve(filepath.Dir(p.Index))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := confine.OpenDir(folder)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	f, err := d.Open(filepath.Base(p.Index))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info := f.Info()
	p.Bytes = info.Size
	if info.Owner != p.id.owner || info.Mode.Perm()&0o022 != 0 {
		return nil, errors.New("another user owns it or can write to it")
	}
	return readIndex(f, info.Size, p.id)
}

// on reports whether the index covers the folders of this anchor.
func (p *past) on(n node) bool { return p.Index != "" && n.at == 0 }

// settled reports whether any later change is sure to produce another ctime.
func (p *past) settled(k confine.Key) bool {
	slack := coarse
	if k.Ctime%int64(time.Second) == 0 {
		slack = wholeSecond
	}
	return k.Ctime < p.start.Add(-slack).UnixNano()
}

// recall returns what the index knows about an unchanged folder.
func (sc *scan) recall(n node, w *worker) (r found, ok bool) {
	if sc.past.old == nil || !sc.past.on(n) {
		return r, false
	}
	record, at := sc.past.old.find(n.rel, w.near)
	if at < 0 || len(record) > maxRecord {
		return r, false
	}
	w.near = at + 1
	w.in.rest, w.in.bad = record, false
	w.in.text() // the folder
	name, key := string(w.in.text()), w.in.key()
	if name == "" {
		if !sc.unchanged(n.rel, key, fs.ModeDir) {
			return r, false
		}
		r = found{record: record, known: true, dirs: w.in.names(), links: w.in.names()}
		return r, !w.in.bad && len(w.in.rest) == 0
	}
	first := slices.Index(sc.names, name)
	if first < 0 {
		return r, false
	}
	for _, better := range sc.names[:first] {
		if _, err := sc.get(n.at).dir.Glance(join(n.rel, better)); confine.CodeOf(err) != confine.NotFound {
			return r, false
		}
	}
	rel, location := n.file(sc.anchors, name)
	if !sc.unchanged(rel, key, 0) {
		return r, false
	}
	data, whole, ok := w.in.skill()
	if !ok {
		return r, false
	}
	h := w.head()
	*h = metier.Head{Path: n.path, Location: location, FileName: name, Kind: metier.KindSkill, Size: key.Size, ModTime: key.Mtime}
	return found{head: h, skill: true, record: record, known: true}, entry.Fill(h, data, whole)
}

// unchanged reports whether a file or folder still has its key. Only what was read through the same
// confined folder has a key, see confine.Dir.Glance. Mode and link count need no check, because
// both change the ctime.
func (sc *scan) unchanged(rel string, k confine.Key, kind fs.FileMode) bool {
	info, err := sc.first.dir.Glance(rel)
	now, ok := info.Key()
	return err == nil && ok && now == k && info.Mode.Type() == kind
}

// remembering creates a record of what was just read, if it may be cached.
func (sc *scan) remembering(n node, r *found, key confine.Key, w *worker) {
	if !sc.past.settled(key) {
		return
	}
	if r.head != nil {
		data, whole := needed(r.head, w.buf, w.whole)
		w.out = appendSkill(w.out[:0], n.rel, r.head.FileName, key, data, whole)
	} else {
		w.out = appendGroup(w.out[:0], n.rel, key, r.dirs, r.links)
	}
	if len(w.out) <= maxRecord {
		r.record = bytes.Clone(w.out)
	}
}

// needed returns the part of a file that is enough to produce the same head. If the frontmatter is
// enough, it omits the body.
func needed(h *metier.Head, data []byte, whole bool) ([]byte, bool) {
	if end := bytes.Index(data, []byte("\n---\n")); end > 0 {
		front := data[:end+len("\n---\n")]
		again := metier.Head{Path: h.Path, Location: h.Location, FileName: h.FileName, Kind: h.Kind, Size: h.Size, ModTime: h.ModTime}
		if entry.Fill(&again, front, false) && reflect.DeepEqual(*h, again) {
			return front, false
		}
	}
	return data, whole
}

// keep copies a record into the next index.
func (p *past) keep(r *found) {
	p.Folders++
	if r.known {
		p.Known++
	}
	if r.record != nil {
		p.next = append(p.next, r.record)
		p.misses = p.misses || !r.known
	}
}

// save writes the index if the listing found anything new. It is not synced to disk, because the
// checksum detects a partial write after a power failure. If several processes write at once, the
// last one wins. Each record is valid on its own.
func (p *past) save(now time.Time) {
	if p.Index == "" || !p.misses && (p.old == nil && len(p.next) == 0 || p.old != nil && p.old.count == len(p.next)) {
		return
	}
	sortRecords(p.next)
	p.next = slices.CompactFunc(p.next, func(a, b []byte) bool { return bytes.Equal(relOf(a), relOf(b)) })
	data := assemble(p.next, p.id)
	if data == nil {
		p.Unsaved = fmt.Errorf("an index file may have %d bytes", maxIndexBytes)
		return
	}
	if p.Unsaved = os.MkdirAll(filepath.Dir(p.Index), 0o700); p.Unsaved == nil {
		sweep(filepath.Dir(p.Index), now)
		p.Unsaved = atomicfile.ReplaceSuffix(p.Index, rand.Text()[:12], data, 0o600)
	}
}

// ours reports whether save uses this name for an index file (is) or for a half-written one (temp).
// METIER_INDEX can name any folder, and other programs' files may have the same extension.
func ours(name string) (is, temp bool) {
	if rest, ok := strings.CutPrefix(name, "."); ok && strings.HasSuffix(name, ".tmp") {
		name, temp = rest[:strings.Index(rest+indexSuffix, indexSuffix)]+indexSuffix, strings.Contains(rest, indexSuffix+".")
		if !temp {
			return false, false
		}
	}
	sum, ok := strings.CutSuffix(name, indexSuffix)
	return ok && len(sum) == indexNamed && strings.Trim(sum, "0123456789abcdef") == "", temp
}

// sweep removes unneeded files from the index folder. Files that cannot be removed stay.
func sweep(dir string, now time.Time) {
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxSwept)
	for _, name := range names {
		is, temp := ours(name)
		if !is {
			continue
		}
		age := oldIndex
		if temp {
			age = oldTemp
		}
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && now.Sub(info.ModTime()) > age {
			os.Remove(path)
		}
	}
}

// Clear removes the index files in a folder, including half-written ones, and returns how many. It
// does not touch other files.
func Clear(dir string) (int, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	count := 0
	for _, e := range list {
		if is, _ := ours(e.Name()); is && e.Type().IsRegular() {
			if rerr := os.Remove(filepath.Join(dir, e.Name())); rerr != nil {
				err = rerr
				continue
			}
			count++
		}
	}
	return count, err
}
