package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"

	"metier/internal/confine"
)

// An index file is a header, the offsets of the records, and the records in byte order of their
// folders. All numbers are little-endian. The checksum covers every byte after it.
//
//	 0  magic
//	 8  CRC-32C
//	12  format
//	20  user ID
//	24  size of the file
//	32  device of the root
//	40  number of records
//	44  length of the identity, and the identity
//	    offset of each record, four bytes each
//	    records
//
// The record of a skill has the beginning of its file, which is parsed like the file itself.
const (
	indexMagic    = "metierIX"
	indexFormat   = 2
	indexHeader   = 48
	maxIndexBytes = 128 << 20 // of an index file; a larger one is neither read nor written
)

// castagnoli creates the table on demand: creating it at startup would take a tenth of the
// program's start time.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// indexFile is one opened index file. Its header says that this program wrote it for this user, but
// every offset and length in it is still bounds-checked.
type indexFile struct {
	data  []byte
	count int
	table int // where the offsets start
}

// indexID identifies what an index file must belong to in order to be used.
type indexID struct {
	name  string // root and options
	owner uint32
	dev   uint64
}

// readIndex reads a whole index file of size bytes from r.
func readIndex(r io.Reader, size int64, id indexID) (*indexFile, error) {
	if size < indexHeader || size > maxIndexBytes {
		return nil, fmt.Errorf("it has %d bytes", size)
	}
	f := &indexFile{data: make([]byte, size)}
	if _, err := io.ReadFull(r, f.data); err != nil {
		return nil, err
	}
	if n, _ := r.Read(make([]byte, 1)); n > 0 {
		return nil, errors.New("it grew")
	}
	return f, f.check(id)
}

var le = binary.LittleEndian

func (f *indexFile) check(id indexID) error {
	d := f.data
	switch {
	case string(d[:8]) != indexMagic:
		return errors.New("it is not an index file")
	case le.Uint64(d[12:]) != indexFormat:
		return errors.New("another version wrote it")
	case le.Uint64(d[24:]) != uint64(len(d)):
		return errors.New("it is cut")
	case le.Uint32(d[8:]) != crc32.Checksum(d[12:], castagnoli()):
		return errors.New("its checksum is wrong")
	case le.Uint32(d[20:]) != id.owner:
		return errors.New("another user wrote it")
	case le.Uint64(d[32:]) != id.dev:
		return errors.New("the root was in another file system")
	}
	name, count := uint64(le.Uint32(d[44:])), uint64(le.Uint32(d[40:]))
	if indexHeader+name+4*count > uint64(len(d)) {
		return errors.New("it is cut")
	}
	f.table, f.count = indexHeader+int(name), int(count)
	if string(d[indexHeader:f.table]) != id.name {
		return errors.New("it is about another root, or other settings")
	}
	return nil
}

// record returns the bytes of the i-th record, or nil if it does not exist.
func (f *indexFile) record(i int) []byte {
	start, end := uint64(le.Uint32(f.data[f.table+4*i:])), uint64(len(f.data))
	if i+1 < f.count {
		end = uint64(le.Uint32(f.data[f.table+4*i+4:]))
	}
	if start > end || end > uint64(len(f.data)) || start < uint64(f.table+4*f.count) {
		return nil
	}
	return f.data[start:end]
}

// find looks up the record of a folder, starting at near: folders are looked up nearly in file
// order.
func (f *indexFile) find(rel string, near int) (record []byte, at int) {
	for i := near; i < min(near+4, f.count); i++ {
		if r := f.record(i); string(relOf(r)) == rel {
			return r, i
		}
	}
	i := sort.Search(f.count, func(i int) bool { return string(relOf(f.record(i))) >= rel })
	if i < f.count {
		if r := f.record(i); string(relOf(r)) == rel {
			return r, i
		}
	}
	return nil, -1
}

func relOf(record []byte) []byte {
	r := reader{rest: record}
	return r.text()
}

// appendSkill appends the record of a skill: the file name, and the beginning of the file, or all
// of it if whole is set.
func appendSkill(b []byte, rel, name string, key confine.Key, data []byte, whole bool) []byte {
	b = appendText(b, rel)
	b = appendText(b, name)
	b = appendKey(b, key)
	if whole {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return appendText(b, data)
}

// appendGroup appends the record of a folder without a skill.
func appendGroup(b []byte, rel string, key confine.Key, dirs, links []string) []byte {
	b = appendText(b, rel)
	b = appendText(b, "")
	b = appendKey(b, key)
	for _, list := range [][]string{dirs, links} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, s := range list {
			b = appendText(b, s)
		}
	}
	return b
}

func appendText[S string | []byte](b []byte, s S) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendKey(b []byte, k confine.Key) []byte {
	for _, n := range []uint64{k.Ino, uint64(k.Size), uint64(k.Mtime), uint64(k.Ctime)} {
		b = le.AppendUint64(b, n)
	}
	return b
}

// assemble builds a file from sorted records. It returns nil if there are too many.
func assemble(records [][]byte, id indexID) []byte {
	size := indexHeader + len(id.name) + 4*len(records)
	for _, r := range records {
		if size += len(r); size > maxIndexBytes {
			return nil
		}
	}
	b := make([]byte, 0, size)
	b = append(b, indexMagic...)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, indexFormat)
	b = le.AppendUint32(b, id.owner)
	b = le.AppendUint64(b, uint64(size))
	b = le.AppendUint64(b, id.dev)
	b = le.AppendUint32(b, uint32(len(records)))
	b = le.AppendUint32(b, uint32(len(id.name)))
	b = append(b, id.name...)
	at := len(b) + 4*len(records)
	for _, r := range records {
		b = le.AppendUint32(b, uint32(at))
		at += len(r)
	}
	for _, r := range records {
		b = append(b, r...)
	}
	le.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli()))
	return b
}

// reader decodes a record. After the first out-of-bounds read it sets bad and returns zero values.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) fail() { r.rest, r.bad = nil, true }

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// length reads how many elements follow, each at least one byte long.
func (r *reader) length() int {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) text() []byte {
	n := r.length()
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail()
		return 0
	}
	c := r.rest[0]
	r.rest = r.rest[1:]
	return c
}

func (r *reader) key() (k confine.Key) {
	if len(r.rest) < 32 {
		r.fail()
		return k
	}
	k = confine.Key{Ino: le.Uint64(r.rest), Size: int64(le.Uint64(r.rest[8:])), Mtime: int64(le.Uint64(r.rest[16:])), Ctime: int64(le.Uint64(r.rest[24:]))}
	r.rest = r.rest[32:]
	return k
}

// names reads the dirs or links of a group.
func (r *reader) names() []string {
	n := r.length()
	if n == 0 {
		return nil
	}
	list := make([]string, 0, min(n, 1<<14))
	for range n {
		list = append(list, string(r.text()))
	}
	return list
}

// skill reads what appendSkill wrote after the key.
func (r *reader) skill() (data []byte, whole, ok bool) {
	whole = r.byte() == 1
	data = r.text()
	return data, whole, !r.bad && len(r.rest) == 0
}

// sortRecords sorts records in byte order of their folders.
func sortRecords(records [][]byte) {
	slices.SortFunc(records, func(a, b []byte) int { return bytes.Compare(relOf(a), relOf(b)) })
}
