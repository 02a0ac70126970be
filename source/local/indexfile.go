package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"sort"
	"strings"

	"metier"
	"metier/internal/confine"
	"metier/skillmd"
)

// An index file is a header, the offsets of the records, and the records in
// byte order of their folders. All numbers are little-endian; the checksum
// covers every byte behind it.
//
//	 0  magic
//	 8  CRC-32C
//	12  format, then skillmd.ParserVersion
//	20  user ID
//	24  size of the file
//	32  device of the root
//	40  number of records
//	44  length of the identity, and the identity
//	    offset of each record, four bytes each
//	    records
//
// The whole file becomes one string, of which every text in a Head is a slice.
const (
	indexMagic    = "metierIX"
	indexFormat   = 1
	indexHeader   = 48
	maxIndexBytes = 128 << 20 // of an index file; a larger one is neither read nor written
)

// castagnoli is made when it is needed: it would be a tenth of the start of the
// program.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// indexFile is one opened index file. Its content was written by this program
// for this user, says the header; still nothing in it is trusted to be in
// bounds.
type indexFile struct {
	text  string
	count int
	table int // where the offsets start
}

// indexID is what an index file must be about to be of use.
type indexID struct {
	name  string // root and options
	owner uint32
	dev   uint64
}

// readIndex takes a whole index file from r, which has size bytes.
func readIndex(r io.Reader, size int64, id indexID) (*indexFile, error) {
	if size < indexHeader || size > maxIndexBytes {
		return nil, fmt.Errorf("it has %d bytes", size)
	}
	var text strings.Builder
	text.Grow(int(size))
	buf, sum, skip := make([]byte, 64<<10), uint32(0), 12 // the checksum starts behind itself
	for {
		n, err := r.Read(buf)
		if int64(text.Len()+n) > size {
			return nil, errors.New("it grew")
		}
		text.Write(buf[:n])
		cut := min(skip, n)
		sum, skip = crc32.Update(sum, castagnoli(), buf[cut:n]), skip-cut
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	f := &indexFile{text: text.String()}
	return f, f.check(sum, id)
}

func (f *indexFile) check(sum uint32, id indexID) error {
	t := f.text
	switch {
	case len(t) < indexHeader || t[:8] != indexMagic:
		return errors.New("it is no index file")
	case u32(t[12:]) != indexFormat || u32(t[16:]) != skillmd.ParserVersion:
		return errors.New("another version wrote it")
	case u64(t[24:]) != uint64(len(t)):
		return errors.New("it is cut")
	case u32(t[8:]) != sum:
		return errors.New("its checksum is wrong")
	case u32(t[20:]) != id.owner:
		return errors.New("another user wrote it")
	case u64(t[32:]) != id.dev:
		return errors.New("the root was in another file system")
	}
	name, count := uint64(u32(t[44:])), uint64(u32(t[40:]))
	if indexHeader+name+4*count > uint64(len(t)) {
		return errors.New("it is cut")
	}
	f.table, f.count = indexHeader+int(name), int(count)
	if t[indexHeader:f.table] != id.name {
		return errors.New("it is about another root, or other settings")
	}
	return nil
}

// record returns the bytes of the i-th record, "" if there are none.
func (f *indexFile) record(i int) string {
	start, end := uint64(u32(f.text[f.table+4*i:])), uint64(len(f.text))
	if i+1 < f.count {
		end = uint64(u32(f.text[f.table+4*i+4:]))
	}
	if start > end || end > uint64(len(f.text)) || start < uint64(f.table+4*f.count) {
		return ""
	}
	return f.text[start:end]
}

// find looks for the record of a folder, first at near: folders are asked for
// in nearly the order of the file.
func (f *indexFile) find(rel string, near int) (record string, at int) {
	for i := near; i < min(near+4, f.count); i++ {
		if r := f.record(i); relOf(r) == rel {
			return r, i
		}
	}
	i := sort.Search(f.count, func(i int) bool { return relOf(f.record(i)) >= rel })
	if i < f.count {
		if r := f.record(i); relOf(r) == rel {
			return r, i
		}
	}
	return "", -1
}

func relOf(record string) string {
	r := reader{rest: record}
	return r.text()
}

// The flags of a skill's record.
const (
	flagPresent = 1 << iota
	flagEmpty
	flagPlain
	flagBroken
)

// appendSkill writes a record of a skill. Path and Location are not in it: the
// scan knows them. Nor are the typed fields of the frontmatter, which follow
// from its Fields. It reports false for a Head that has more than a record can
// say.
func appendSkill(b []byte, rel string, key confine.Key, h *metier.Head) ([]byte, bool) {
	if h.Escaped || h.Kind != metier.KindSkill || h.Size != key.Size || h.ModTime != key.Mtime {
		return b, false
	}
	b = appendText(b, rel)
	b = appendText(b, h.FileName)
	b = appendKey(b, key)
	flags := byte(0)
	for i, on := range []bool{h.Front.Present, h.Empty, h.Plain, h.Broken} {
		if on {
			flags |= 1 << i
		}
	}
	b = append(b, flags)
	b = appendText(b, h.FirstParagraph)
	b = appendText(b, string(h.Digest))
	b = binary.AppendUvarint(b, uint64(len(h.Diagnostics)))
	for _, d := range h.Diagnostics {
		b = appendText(b, string(d.Severity))
		b = appendText(b, d.Code)
		b = appendText(b, d.Detail)
		path := d.Path
		if path == h.Location {
			path = "" // as it nearly always is; entry.Fill leaves no path empty
		}
		b = appendText(b, path)
		b = binary.AppendUvarint(b, uint64(d.Line))
		b = binary.AppendUvarint(b, uint64(d.Column))
	}
	return appendFields(b, h.Front.Fields), true
}

// appendGroup writes a record of a folder without skill.
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

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendKey(b []byte, k confine.Key) []byte {
	for _, n := range []uint64{k.Ino, uint64(k.Size), uint64(k.Mtime), uint64(k.Ctime)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

func appendFields(b []byte, fields []skillmd.Field) []byte {
	b = binary.AppendUvarint(b, uint64(len(fields)))
	for _, f := range fields {
		b = appendText(b, f.Key)
		b = binary.AppendUvarint(b, uint64(f.Line))
		b = binary.AppendUvarint(b, uint64(f.Column))
		b = appendValue(b, f.Value)
	}
	return b
}

func appendValue(b []byte, v skillmd.Value) []byte {
	b = append(b, byte(v.Kind))
	switch v.Kind {
	case skillmd.List:
		b = binary.AppendUvarint(b, uint64(len(v.List)))
		for _, item := range v.List {
			b = appendValue(b, item)
		}
		return b
	case skillmd.Map:
		return appendFields(b, v.Map)
	}
	return appendText(b, v.Text)
}

// assemble puts records, which are in order, into a file. It is nil where they
// are too many.
func assemble(records []string, id indexID) []byte {
	size := indexHeader + len(id.name) + 4*len(records)
	for _, r := range records {
		if size += len(r); size > maxIndexBytes {
			return nil
		}
	}
	b := make([]byte, 0, size)
	b = append(b, indexMagic...)
	le := binary.LittleEndian
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, indexFormat)
	b = le.AppendUint32(b, skillmd.ParserVersion)
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

// reader takes a record apart. After the first thing that is out of bounds it
// gives zero values, and bad is set.
type reader struct {
	rest   string
	bad    bool
	fields []skillmd.Field // room for what is read, taken piece by piece
	given  int             // size of the last room
}

func (r *reader) fail() { r.rest, r.bad = "", true }

func (r *reader) number() uint64 {
	if r.rest != "" && r.rest[0] < 0x80 {
		n := r.rest[0]
		r.rest = r.rest[1:]
		return uint64(n)
	}
	return r.longNumber()
}

func (r *reader) longNumber() uint64 {
	var n uint64
	for i := 0; i < len(r.rest) && i < binary.MaxVarintLen64; i++ {
		c := r.rest[i]
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			r.rest = r.rest[i+1:]
			return n
		}
	}
	r.fail()
	return 0
}

// length reads how many things follow, each of at least one byte.
func (r *reader) length() int {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.fail()
		return 0
	}
	return int(n)
}

// position reads a line or column.
func (r *reader) position() int {
	n := r.number()
	if n > math.MaxInt32 {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) text() string {
	n := r.length()
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (r *reader) byte() byte {
	if r.rest == "" {
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
	k = confine.Key{Ino: u64(r.rest), Size: int64(u64(r.rest[8:])), Mtime: int64(u64(r.rest[16:])), Ctime: int64(u64(r.rest[24:]))}
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
		list = append(list, r.text())
	}
	return list
}

// skill reads what appendSkill wrote behind the key into h, whose Path,
// Location and FileName are set.
func (r *reader) skill(h *metier.Head, k confine.Key) bool {
	flags := r.byte()
	h.Size, h.ModTime = k.Size, k.Mtime
	h.Empty, h.Plain, h.Broken = flags&flagEmpty != 0, flags&flagPlain != 0, flags&flagBroken != 0
	h.FirstParagraph = r.text()
	h.Digest = metier.Digest(r.text())
	if n := r.length(); n > 0 {
		h.Diagnostics = make([]metier.Diagnostic, 0, min(n, 16))
		for range n {
			d := metier.Diagnostic{Severity: skillmd.Severity(r.text()), Code: r.text(), Detail: r.text(), Path: r.text(), Line: r.position(), Column: r.position()}
			if d.Path == "" {
				d.Path = h.Location
			}
			h.Diagnostics = append(h.Diagnostics, d)
		}
	}
	fields := r.fieldList(0)
	if r.bad || r.rest != "" {
		return false
	}
	if flags&flagPresent != 0 {
		h.Front = skillmd.FrontOf(fields)
	}
	return true
}

// maxNesting bounds lists in lists; the parser stops long before.
const maxNesting = 100

func (r *reader) fieldList(depth int) []skillmd.Field {
	n := r.length()
	if n == 0 || depth > maxNesting {
		if n > 0 {
			r.fail()
		}
		return nil
	}
	list := r.room(n)
	for range n {
		f := skillmd.Field{Key: r.text(), Line: r.position(), Column: r.position()}
		f.Value = r.value(depth)
		if r.bad {
			return nil
		}
		list = append(list, f)
	}
	return list
}

// room gives an empty list for n fields. One allocation serves many lists.
func (r *reader) room(n int) []skillmd.Field {
	if n > 64 {
		return nil // grown as the fields come: the number may be a lie
	}
	if len(r.fields) < n {
		r.given = min(2*r.given+8, 512)
		r.fields = make([]skillmd.Field, max(n, r.given))
	}
	list := r.fields[:0:n]
	r.fields = r.fields[n:]
	return list
}

func (r *reader) value(depth int) skillmd.Value {
	v := skillmd.Value{Kind: skillmd.Kind(r.byte())}
	switch v.Kind {
	case skillmd.Text, skillmd.Null, skillmd.Bool:
		v.Text = r.text()
		if v.Kind == skillmd.Bool && v.Text == "" {
			r.fail() // Value.True looks at its first byte
		}
	case skillmd.Map:
		v.Map = r.fieldList(depth + 1)
	case skillmd.List:
		n := r.length()
		if depth > maxNesting {
			r.fail()
			return v
		}
		for range n {
			v.List = append(v.List, r.value(depth+1))
			if r.bad {
				return v
			}
		}
	default:
		r.fail()
	}
	return v
}

func u32(s string) uint32 {
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func u64(s string) uint64 { return uint64(u32(s)) | uint64(u32(s[4:]))<<32 }

// sortRecords puts records into byte order of their folders.
func sortRecords(records []string) {
	slices.SortFunc(records, func(a, b string) int { return strings.Compare(relOf(a), relOf(b)) })
}
