package archive

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Records of a zip file begin with these marks.
const (
	localMark      = "PK\x03\x04"
	centralMark    = "PK\x01\x02"
	endMark        = "PK\x05\x06"
	locator64Mark  = "PK\x06\x07"
	descriptorMark = "PK\x07\x08"
)

// Lengths of records without their variable parts.
const (
	localLen     = 30
	centralLen   = 46
	endLen       = 22
	locator64Len = 20
)

// Bits of the flags of an entry.
const (
	flagDescriptor = 1 << 3
	flagUTF8       = 1 << 11
	flagsLevel     = 1<<1 | 1<<2 // how hard the writer tried
	flagsEncrypted = 1<<0 | 1<<6 | 1<<13
)

// Compression methods.
const (
	methodStore   = 0
	methodDeflate = 8
)

// Tags of extra fields that can change an entry.
const (
	extraZip64       = 0x0001
	extraASiUnix     = 0x756e // has a mode and the target of a link
	extraUnicodePath = 0x7075
)

var le = binary.LittleEndian

// zipEntry is an entry of a zip file as its records declare it.
type zipEntry struct {
	name         string // with the trailing slash of a folder
	flags        uint16
	method       uint16
	crc          uint32
	packed, size int64
	offset       int64 // of the local header
	data         int64 // offset of the content
	attributes   zipAttributes
}

// zipLayout reads the structure of a zip file without decoding contents. It accepts only a file in
// which entries, directory, and end record follow each other without gaps, and in which local and
// central headers agree. Such a file has the same entries for readers that begin at the start and
// for those that begin at the end.
type zipLayout struct {
	src    *source
	limits Limits
}

func (z zipLayout) entries() ([]zipEntry, error) {
	offset, length, count, err := z.end()
	if err != nil {
		return nil, err
	}
	entries, err := z.directory(offset, length, count)
	if err != nil {
		return nil, err
	}
	order := make([]*zipEntry, len(entries))
	for i := range entries {
		order[i] = &entries[i]
	}
	slices.SortStableFunc(order, func(a, b *zipEntry) int { return cmp.Compare(a.offset, b.offset) })
	at := int64(0)
	for i, e := range order {
		next := offset
		if i+1 < len(order) {
			next = order[i+1].offset
		}
		if e.offset != at {
			return nil, failf(CodeAmbiguous, e.name, "its header is at byte %d, but the previous part of the archive ends at byte %d; pack the files again", e.offset, at)
		}
		if err := z.local(e, next); err != nil {
			return nil, about(e.name, CodeDamaged, err)
		}
		at = next
	}
	if at != offset {
		return nil, failf(CodeAmbiguous, "", "there are %d bytes before the directory that belong to no entry; pack the files again", offset-at)
	}
	return entries, nil
}

// end reads the end record, which must be the last thing in the file.
func (z zipLayout) end() (offset, length int64, count int, err error) {
	fail := func(code Code, why string) (int64, int64, int, error) {
		return 0, 0, 0, failf(code, "", "%s", why)
	}
	tail := make([]byte, min(z.src.size, locator64Len+endLen+0xffff))
	start := z.src.size - int64(len(tail))
	if err := z.src.full(tail, start); err != nil {
		return 0, 0, 0, about("", CodeDamaged, err)
	}
	i := bytes.LastIndex(tail, []byte(endMark))
	if i < 0 || len(tail)-i < endLen {
		return fail(CodeDamaged, "the end record is missing; the archive is truncated or has data after its end")
	}
	b, at := tail[i:], start+int64(i)
	comment := b[endLen:]
	count, length, offset = int(le.Uint16(b[10:])), int64(le.Uint32(b[12:])), int64(le.Uint32(b[16:]))
	zip64 := i >= locator64Len && bytes.HasPrefix(tail[i-locator64Len:], []byte(locator64Mark)) && offset+length != at
	switch want := int(le.Uint16(b[20:])); {
	case want > len(comment):
		return fail(CodeDamaged, "the archive is truncated in its comment")
	case want < len(comment):
		return fail(CodeAmbiguous, "the archive has data after its end record; remove it")
	case !utf8.Valid(comment) || bytes.ContainsFunc(comment, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }):
		return fail(CodeAmbiguous, "the archive's comment is not text; remove it")
	case zip64, count == 0xffff, length == 0xffffffff, offset == 0xffffffff:
		return fail(CodeUnsupported, "the archive is zip64, which is only needed for more than 4 GiB; pack the files without it")
	case le.Uint16(b[4:]) != 0, le.Uint16(b[6:]) != 0, int(le.Uint16(b[8:])) != count:
		return fail(CodeUnsupported, "the archive is one part of several; pack the files as one archive")
	case offset+length != at:
		return fail(CodeAmbiguous, "the directory does not end at the end record; pack the files again without data before, in, or after the archive")
	case count > z.limits.Files:
		return 0, 0, 0, failf(CodeTooLarge, "", "the archive has %d entries, more than %d", count, z.limits.Files)
	}
	return offset, length, count, nil
}

// directory reads the central headers.
func (z zipLayout) directory(offset, length int64, count int) ([]zipEntry, error) {
	entries := make([]zipEntry, 0, count)
	end := offset + length
	for range count {
		fixed := make([]byte, centralLen)
		if offset+centralLen > end {
			return nil, failf(CodeDamaged, "", "the directory has fewer entries than the end record declares")
		}
		if err := z.src.full(fixed, offset); err != nil {
			return nil, about("", CodeDamaged, err)
		}
		if !bytes.HasPrefix(fixed, []byte(centralMark)) {
			return nil, failf(CodeDamaged, "", "the directory is malformed at byte %d", offset)
		}
		name, extra, comment := int64(le.Uint16(fixed[28:])), int64(le.Uint16(fixed[30:])), int64(le.Uint16(fixed[32:]))
		offset += centralLen
		if offset+name+extra+comment > end {
			return nil, failf(CodeDamaged, "", "the last entry of the directory is longer than the directory")
		}
		varying := make([]byte, name+extra)
		if err := z.src.full(varying, offset); err != nil {
			return nil, about("", CodeDamaged, err)
		}
		offset += name + extra + comment
		e := zipEntry{
			name: string(varying[:name]), flags: le.Uint16(fixed[8:]), method: le.Uint16(fixed[10:]), crc: le.Uint32(fixed[16:]),
			packed: int64(le.Uint32(fixed[20:])), size: int64(le.Uint32(fixed[24:])), offset: int64(le.Uint32(fixed[42:])),
			attributes: zipAttributes{system: fixed[5], bits: le.Uint32(fixed[38:])},
		}
		if le.Uint16(fixed[34:]) != 0 {
			return nil, failf(CodeUnsupported, e.name, "it is in another part of the archive; pack the files as one archive")
		}
		if err := checkExtra(e.name, varying[name:]); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	if offset != end {
		return nil, failf(CodeAmbiguous, "", "the directory has data after its last entry; pack the files again")
	}
	return entries, nil
}

// local compares the local header of an entry with its central header. The entry ends where the
// next part of the archive begins.
func (z zipLayout) local(e *zipEntry, next int64) error {
	fixed := make([]byte, localLen)
	if err := z.src.full(fixed, e.offset); err != nil {
		return err
	}
	if !bytes.HasPrefix(fixed, []byte(localMark)) {
		return failf(CodeDamaged, e.name, "it has no local header")
	}
	varying := make([]byte, int64(le.Uint16(fixed[26:]))+int64(le.Uint16(fixed[28:])))
	if err := z.src.full(varying, e.offset+localLen); err != nil {
		return err
	}
	name, extra := varying[:le.Uint16(fixed[26:])], varying[le.Uint16(fixed[26:]):]
	flags, method := le.Uint16(fixed[6:]), le.Uint16(fixed[8:])
	crc, packed, size := int64(le.Uint32(fixed[14:])), int64(le.Uint32(fixed[18:])), int64(le.Uint32(fixed[22:]))
	agree := func(local, central int64) bool { return local == central || local == 0 && flags&flagDescriptor != 0 }
	switch {
	case string(name) != e.name:
		return failf(CodeAmbiguous, e.name, "its local header has another name; pack the files again")
	case method != e.method, (flags^e.flags)&^flagsLevel != 0,
		!agree(crc, int64(e.crc)), !agree(packed, e.packed), !agree(size, e.size):
		return failf(CodeAmbiguous, e.name, "its local header has another size, checksum, method, or flag; pack the files again")
	}
	if err := checkExtra(e.name, extra); err != nil {
		return err
	}
	e.data = e.offset + localLen + int64(len(varying))
	gap := next - e.data - e.packed
	switch {
	case gap < 0:
		return failf(CodeAmbiguous, e.name, "it overlaps the next part of the archive; pack the files again")
	case flags&flagDescriptor == 0 && gap == 0:
		return nil
	case flags&flagDescriptor != 0 && (gap == 12 || gap == 16):
		return z.descriptor(e, next-gap, gap)
	case flags&flagDescriptor != 0 && (gap == 20 || gap == 24):
		return failf(CodeUnsupported, e.name, "it is a zip64 entry, which is only needed for more than 4 GiB; pack the files without it")
	}
	return failf(CodeAmbiguous, e.name, "there are %d bytes after it that belong to no entry; pack the files again", gap)
}

// descriptor compares the data descriptor after an entry with its central header.
func (z zipLayout) descriptor(e *zipEntry, at, length int64) error {
	b := make([]byte, length)
	if err := z.src.full(b, at); err != nil {
		return err
	}
	marked := true
	if length == 16 {
		marked = bytes.HasPrefix(b, []byte(descriptorMark))
		b = b[4:]
	}
	if !marked || le.Uint32(b) != e.crc || int64(le.Uint32(b[4:])) != e.packed || int64(le.Uint32(b[8:])) != e.size {
		return failf(CodeAmbiguous, e.name, "its data descriptor has another size or checksum; pack the files again")
	}
	return nil
}

// checkExtra rejects extra fields that change the name, the kind, or the size of an entry.
func checkExtra(name string, extra []byte) error {
	for len(extra) >= 4 {
		tag, n := le.Uint16(extra), int(le.Uint16(extra[2:]))
		if n > len(extra)-4 {
			break
		}
		field := extra[4 : 4+n]
		switch {
		case tag == extraZip64:
			return failf(CodeUnsupported, name, "it is a zip64 entry, which is only needed for more than 4 GiB; pack the files without it")
		case tag == extraASiUnix:
			return failf(CodeUnsupported, name, "it has the obsolete extra field 0x756e; pack the files again")
		case tag == extraUnicodePath && (n < 5 || string(field[5:]) != name):
			return failf(CodeAmbiguous, name, "an extra field has another name for it; pack it on a system with UTF-8 names")
		}
		extra = extra[4+n:]
	}
	if len(bytes.Trim(extra, "\x00")) > 0 { // zeros align the data
		return failf(CodeDamaged, name, "its extra fields are malformed")
	}
	return nil
}
