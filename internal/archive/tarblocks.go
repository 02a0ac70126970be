package archive

import (
	"bytes"
	"io"
	"strconv"
	"strings"
)

// blockSize is the size of a tar header. Contents are padded to a multiple of it.
const blockSize = 512

// Limits of what is in a tar beside its files.
const (
	maxExtended = 64 << 10 // bytes of a pax header or a GNU long name
	maxPadding  = 1 << 20  // bytes after the end mark
)

// Types of tar headers.
const (
	typeOld      = 0 // a file in a V7 archive, or a folder if its name ends with a slash
	typeFile     = '0'
	typeFolder   = '5'
	typePax      = 'x' // for the next entry
	typeGlobal   = 'g' // for all following entries
	typeLongName = 'L' // of the next entry, GNU
)

// tarKinds names the entries that are neither files nor folders.
var tarKinds = map[byte]string{
	'1': "hard link",
	'2': "symlink",
	'3': "character device",
	'4': "block device",
	'6': "FIFO",
	'K': "link with a long target",
	'S': "sparse file",
}

// tarEntry is an entry of a tar as its headers declare it.
type tarEntry struct {
	name   string // as in the headers; a folder may have a trailing slash
	folder bool
	mode   int64
	size   int64
}

// tarBlocks checks the raw structure of a tar while another reader reads it. Sizes come only from
// the fixed header fields, so both always agree on where an entry ends.
type tarBlocks struct {
	r      io.Reader
	limits Limits
	err    error // sticky

	block   []byte // a header that is not complete
	left    int64  // bytes of content to come
	pad     int64  // zeros to come after it
	headers int
	zeros   int   // blocks of the end mark
	after   int64 // bytes after the end mark

	kind     byte   // of the extended header that is being read; 0: none
	extended []byte // its content
	longName string // for the next entry; "": none
	pending  bool   // an extended header for the next entry was read

	entry tarEntry // the last one
}

// Read implements io.Reader.
func (b *tarBlocks) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.r.Read(p)
	if b.err = b.see(p[:n]); b.err != nil {
		return 0, b.err
	}
	return n, err
}

// finish reads the rest, which must be padding.
func (b *tarBlocks) finish() error {
	if _, err := io.Copy(io.Discard, b); err != nil {
		return err
	}
	if b.zeros < 2 || b.pending {
		return failf(CodeDamaged, "", "the archive is truncated: its end mark is missing")
	}
	return nil
}

// see checks the next bytes.
func (b *tarBlocks) see(p []byte) error {
	for len(p) > 0 {
		var n int64
		var err error
		switch {
		case b.left > 0:
			n = min(b.left, int64(len(p)))
			b.left -= n
			if b.kind != 0 {
				b.extended = append(b.extended, p[:n]...)
			}
			if b.kind != 0 && b.left == 0 {
				err = b.endExtended()
			}
		case b.pad > 0:
			n = min(b.pad, int64(len(p)))
			b.pad -= n
			if !zero(p[:n]) {
				err = failf(CodeAmbiguous, b.entry.name, "there is data in the padding after it; pack the files again")
			}
		case b.zeros >= 2:
			n = int64(len(p))
			if b.after += n; !zero(p) || b.after > maxPadding {
				err = failf(CodeAmbiguous, "", "the archive has data after its end mark, or more than 1 MiB of padding; remove it")
			}
		default:
			n = min(int64(blockSize-len(b.block)), int64(len(p)))
			if b.block = append(b.block, p[:n]...); len(b.block) == blockSize {
				err = b.header(b.block)
				b.block = b.block[:0]
			}
		}
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func zero(p []byte) bool { return len(bytes.Trim(p, "\x00")) == 0 }

// header checks a header block.
func (b *tarBlocks) header(h []byte) error {
	if zero(h) {
		b.zeros++
		return nil
	}
	if b.zeros > 0 {
		return failf(CodeAmbiguous, "", "the archive has data after a block of zeros; pack the files again")
	}
	b.headers++
	if !checksummed(h) {
		return failf(CodeDamaged, "", "header %d of the archive has a wrong checksum", b.headers)
	}
	name, err := fixedName(h)
	if err != nil {
		return err
	}
	kind := h[156]
	size, ok := octal(h[124:136])
	if !ok {
		return failf(CodeDamaged, name, "its size is negative, larger than 8 GiB, or malformed")
	}
	switch kind {
	case typePax, typeGlobal, typeLongName:
		return b.beginExtended(kind, name, size)
	case typeOld, typeFile, typeFolder:
	default:
		what, known := tarKinds[kind]
		if !known {
			what = "entry of the unknown type " + strconv.QuoteToASCII(string(rune(kind)))
		}
		return failf(CodeKind, b.named(name), "it is a %s; archives may have only files and folders", what)
	}
	name = b.named(name)
	mode, ok := octal(h[100:108])
	if !ok {
		return failf(CodeDamaged, name, "its mode is malformed")
	}
	folder := kind == typeFolder || kind == typeOld && strings.HasSuffix(name, "/")
	switch {
	case !folder && strings.HasSuffix(name, "/"):
		return failf(CodeAmbiguous, name, "it is a file, but its name ends with a slash; pack the files again")
	case folder && size != 0:
		return failf(CodeAmbiguous, name, "it is a folder with data; pack the files again")
	case !zero(h[157:257]):
		return failf(CodeAmbiguous, name, "it is not a link, but has the target of one; pack the files again")
	case size > b.limits.FileBytes:
		return failf(CodeTooLarge, name, "it is larger than %d bytes", b.limits.FileBytes)
	}
	b.entry = tarEntry{name, folder, mode, size}
	b.left, b.pad = size, -size&(blockSize-1)
	b.longName, b.pending = "", false
	return checkMode(name, mode, folder)
}

// named returns the name of an entry, from the extended header before it if it has one.
func (b *tarBlocks) named(name string) string {
	if b.longName != "" {
		return b.longName
	}
	return name
}

func (b *tarBlocks) beginExtended(kind byte, name string, size int64) error {
	switch {
	case kind == typeGlobal && b.headers > 1:
		return failf(CodeAmbiguous, name, "a global pax header is not the first one; pack the files again")
	case b.pending:
		return failf(CodeAmbiguous, name, "an entry has several extended headers; pack the files again")
	case size == 0 || size > maxExtended:
		return failf(CodeTooLarge, name, "an extended header is empty or larger than %d bytes", maxExtended)
	}
	b.kind, b.left, b.pad = kind, size, -size&(blockSize-1)
	b.pending = kind != typeGlobal
	b.entry = tarEntry{name: name}
	return nil
}

func (b *tarBlocks) endExtended() (err error) {
	text := string(b.extended)
	switch b.kind {
	case typeLongName:
		name, ended := strings.CutSuffix(text, "\x00")
		if !ended || name == "" || strings.Contains(name, "\x00") {
			return failf(CodeAmbiguous, b.entry.name, "a GNU long name has no end, or has data after it; pack the files again")
		}
		b.longName = name
	default:
		b.longName, err = paxPath(text, b.kind == typeGlobal)
	}
	b.kind, b.extended = 0, b.extended[:0]
	return about(b.entry.name, CodeDamaged, err)
}

// checksummed reports whether the checksum of a header block is correct.
func checksummed(h []byte) bool {
	want, ok := octal(h[148:156])
	sum := int64(8 * ' ') // in place of the checksum itself
	for i, c := range h {
		if i < 148 || i >= 156 {
			sum += int64(c)
		}
	}
	return ok && sum == want
}

// octal parses a number, which may have spaces before it, and spaces and NULs after it. It returns
// false for the binary form, which is for numbers that are negative or too large.
func octal(field []byte) (int64, bool) {
	s := strings.TrimLeft(strings.TrimRight(string(field), " \x00"), " ")
	if s == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(s, 8, 62)
	return int64(n), err == nil
}

// fixedName returns the name in a header block.
func fixedName(h []byte) (string, error) {
	name, ok := text(h[:100])
	magic := string(h[257:265])
	switch {
	case magic == "ustar\x0000":
		prefix, fine := text(h[345:500])
		if ok = ok && fine; prefix != "" {
			name = prefix + "/" + name
		}
	case magic != "ustar  \x00" && !zero(h[257:265]):
		return "", failf(CodeUnsupported, name, "its header is neither V7, ustar, pax, nor GNU; pack the files as pax")
	}
	if !ok {
		return "", failf(CodeAmbiguous, name, "its name has data after its end; pack the files again")
	}
	return name, nil
}

// text returns the text in a field, which must have only NULs after it.
func text(field []byte) (string, bool) {
	s, rest, _ := bytes.Cut(field, []byte{0})
	return string(s), zero(rest)
}
