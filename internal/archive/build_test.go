package archive_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"metier/internal/archive"
)

var le = binary.LittleEndian

// zipPart is an entry of a handmade zip file. Zero fields get the values of a correct one.
type zipPart struct {
	name       string
	localName  string // if it differs
	text       string
	deflate    bool
	descriptor int // length of a data descriptor; 0: none
	flags      uint16
	attributes uint32
	extra      string                      // in both headers
	tamper     func(local, central []byte) // changes the complete headers
}

// zipFile is a handmade zip file.
type zipFile struct {
	parts                        []zipPart
	before, gap, inDir, afterDir string // bytes before, between entries, after the last central header, and after the directory
	comment, after               string
	reversed                     bool // the directory has another order than the entries
	tamper                       func(end []byte)
}

func zipOf(parts ...zipPart) []byte { return zipFile{parts: parts}.bytes() }

func deflated(text string) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestCompression)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.Bytes()
}

func (z zipFile) bytes() []byte {
	out, dir := []byte(z.before), []byte(nil)
	for i, p := range z.parts {
		if i > 0 {
			out = append(out, z.gap...)
		}
		local, central, rest := p.bytes(len(out))
		out = append(append(out, local...), rest...)
		if z.reversed {
			central, dir = dir, central
		}
		dir = append(dir, central...)
	}
	dir = append(dir, z.inDir...)
	end := le.AppendUint32([]byte("PK\x05\x06\x00\x00\x00\x00"), uint32(len(z.parts))<<16|uint32(len(z.parts)))
	end = le.AppendUint32(end, uint32(len(dir)))
	end = le.AppendUint32(end, uint32(len(out)))
	end = append(le.AppendUint16(end, uint16(len(z.comment))), z.comment...)
	if z.tamper != nil {
		z.tamper(end)
	}
	return append(append(append(append(out, dir...), z.afterDir...), end...), z.after...)
}

// bytes returns the headers, and what follows the local one.
func (p zipPart) bytes(offset int) (local, central, rest []byte) {
	packed, method := []byte(p.text), uint16(0)
	if p.deflate {
		packed, method = deflated(p.text), 8
	}
	flags, localName := p.flags, p.name
	if p.descriptor > 0 {
		flags |= 8
	}
	if p.localName != "" {
		localName = p.localName
	}
	sums := le.AppendUint32(nil, crc32.ChecksumIEEE([]byte(p.text)))
	sums = le.AppendUint32(sums, uint32(len(packed)))
	sums = le.AppendUint32(sums, uint32(len(p.text)))
	fixed := le.AppendUint16(le.AppendUint16(le.AppendUint16(nil, 20), flags), method)
	fixed = append(fixed, 0, 0, 0x21, 0)
	local = append([]byte("PK\x03\x04"), fixed...)
	if p.descriptor > 0 {
		local = append(local, make([]byte, 12)...)
	} else {
		local = append(local, sums...)
	}
	local = le.AppendUint16(le.AppendUint16(local, uint16(len(localName))), uint16(len(p.extra)))
	local = append(append(local, localName...), p.extra...)

	central = append(append([]byte("PK\x01\x02\x14\x03"), fixed...), sums...)
	central = le.AppendUint16(le.AppendUint16(central, uint16(len(p.name))), uint16(len(p.extra)))
	central = le.AppendUint32(append(central, make([]byte, 6)...), p.attributes)
	central = le.AppendUint32(central, uint32(offset))
	central = append(append(central, p.name...), p.extra...)
	if p.tamper != nil {
		p.tamper(local, central)
	}
	switch p.descriptor {
	case 12:
		return local, central, append(packed, sums...)
	case 16:
		return local, central, append(append(packed, "PK\x07\x08"...), sums...)
	case 24:
		wide := append([]byte("PK\x07\x08"), sums[:4]...)
		wide = le.AppendUint64(le.AppendUint64(wide, uint64(len(packed))), uint64(len(p.text)))
		return local, central, append(packed, wide...)
	}
	return local, central, packed
}

// tarPart is a header of a handmade tar, and its content.
type tarPart struct {
	name   string
	kind   byte // zero: a file
	text   string
	mode   int64  // zero: 0644
	link   string // target
	magic  string // zero: POSIX
	v7     bool   // no magic
	tamper func(block []byte)
}

func (p tarPart) bytes() []byte {
	b := make([]byte, 512)
	copy(b, p.name)
	mode, kind, magic := p.mode, p.kind, p.magic
	if mode == 0 {
		mode = 0o644
	}
	if kind == 0 && !p.v7 {
		kind = '0'
	}
	if magic == "" && !p.v7 {
		magic = "ustar\x0000"
	}
	copy(b[100:], fmt.Sprintf("%07o\x00%07o\x00%07o\x00%011o\x00%011o\x00", mode, 0, 0, len(p.text), 0))
	b[156] = kind
	copy(b[157:], p.link)
	copy(b[257:], magic)
	if p.tamper != nil {
		p.tamper(b)
	}
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	b = append(b, p.text...)
	return append(b, make([]byte, -len(p.text)&511)...)
}

const tarEnd = 1024 // zeros

func tarOf(parts ...tarPart) []byte { return append(tarParts(parts...), make([]byte, tarEnd)...) }

func tarParts(parts ...tarPart) (out []byte) {
	for _, p := range parts {
		out = append(out, p.bytes()...)
	}
	return out
}

// pax returns a pax header with records, which alternate between keys and values.
func pax(records ...string) tarPart {
	text := ""
	for i := 0; i < len(records); i += 2 {
		text += record(records[i], records[i+1])
	}
	return tarPart{name: "PaxHeaders/x", kind: 'x', text: text}
}

func record(key, value string) string {
	for n := 0; ; n++ {
		if s := fmt.Sprintf("%d %s=%s\n", n, key, value); len(s) == n {
			return s
		}
	}
}

func gz(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

// extract extracts an archive into a new folder, and returns the folder too. It fails if something
// was written beside the folder.
func extract(t testing.TB, b []byte, l archive.Limits) (archive.Contents, string, error) {
	t.Helper()
	return extractIn(t, t.TempDir(), b, l)
}

// extractIn is like extract, and creates the folder in a folder that has nothing else.
func extractIn(t testing.TB, top string, b []byte, l archive.Limits) (archive.Contents, string, error) {
	t.Helper()
	dir := filepath.Join(top, "into")
	if err := os.Remove(dir); err != nil { // has files of an earlier call
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	got, err := archive.Extract(t.Context(), bytes.NewReader(b), int64(len(b)), root, l)
	if beside, readErr := os.ReadDir(top); readErr != nil || len(beside) != 1 {
		t.Fatalf("written outside the folder: %v, %v", beside, readErr)
	}
	return got, dir, err
}
