package archive_test

import (
	"archive/zip"
	"bytes"
	"strings"
	"testing"

	"metier/internal/archive"
)

// set returns a function that changes bytes of the central header, and of the local one if both.
func set(both bool, localAt, centralAt int, value string) func(local, central []byte) {
	return func(local, central []byte) {
		copy(central[centralAt:], value)
		if both {
			copy(local[localAt:], value)
		}
	}
}

func attributes(mode uint32) uint32 { return mode << 16 }

func TestExtract_RejectsZipKinds(t *testing.T) {
	t.Parallel()
	of := func(name string, attributes uint32) []byte {
		return zipOf(zipPart{name: name, text: map[bool]string{true: "", false: "/etc"}[strings.HasSuffix(name, "/")], attributes: attributes})
	}
	checkHostile(t, []hostile{
		{"45 symlink, then a file through it", zipOf(zipPart{name: "a", text: "/tmp", attributes: attributes(0o120777)}, zipPart{name: "a/x"}), archive.CodeKind, "a"},
		{"45 symlink", of("a", attributes(0o120777)), archive.CodeKind, "a"},
		{"45 symlink with the name of a folder", of("a/", attributes(0o120777)), archive.CodeKind, "a/"},
		{"45 symlink made on another system", zipOf(zipPart{name: "a", text: "/etc", attributes: attributes(0o120777), tamper: set(false, 0, 5, "\x00")}), archive.CodeKind, "a"},
		{"47 character device", of("a", attributes(0o020644)), archive.CodeKind, "a"},
		{"47 block device", of("a", attributes(0o060644)), archive.CodeKind, "a"},
		{"47 FIFO", of("a", attributes(0o010644)), archive.CodeKind, "a"},
		{"47 socket", of("a", attributes(0o140644)), archive.CodeKind, "a"},
		{"47 unknown kind", of("a", attributes(0o150644)), archive.CodeKind, "a"},
		{"47 disk label", of("a", 0x08), archive.CodeKind, "a"},
		{"52 setuid", of("a", attributes(0o104755)), archive.CodeMode, "a"},
		{"52 setgid", of("a", attributes(0o102755)), archive.CodeMode, "a"},
		{"52 sticky folder", of("a/", attributes(0o041777)), archive.CodeMode, "a/"},
		{"52 setuid without a kind", of("a", attributes(0o4755)), archive.CodeMode, "a"},
		{"folder named as a file", of("a", attributes(0o040755)), archive.CodeAmbiguous, "a"},
		{"folder of DOS named as a file", of("a", 0x10), archive.CodeAmbiguous, "a"},
		{"file named as a folder", of("a/", attributes(0o100644)), archive.CodeAmbiguous, "a/"},
		{"folder with data", zipOf(zipPart{name: "a/", text: "x"}), archive.CodeAmbiguous, "a/"},
		{"folder without a name", zipOf(zipPart{name: "/"}), archive.CodeName, "/"},
		{"file without a name", zipOf(zipPart{name: ""}), archive.CodeName, ""},
	}, archive.Limits{})
}

func TestExtract_RejectsZipHeadersThatDisagree(t *testing.T) {
	t.Parallel()
	one := func(tamper func(local, central []byte)) []byte {
		return zipOf(zipPart{name: "a", text: "text", deflate: true, tamper: tamper})
	}
	stored := func(tamper func(local, central []byte)) []byte {
		return zipOf(zipPart{name: "a", text: "text", tamper: tamper})
	}
	described := func(tamper func(local, central []byte)) []byte {
		return zipOf(zipPart{name: "a", text: "text", deflate: true, descriptor: 16, tamper: tamper})
	}
	checkHostile(t, []hostile{
		{"51 name", zipOf(zipPart{name: "a", localName: "b"}), archive.CodeAmbiguous, "a"},
		{"51 longer name", zipOf(zipPart{name: "a", localName: "ab"}), archive.CodeAmbiguous, "a"},
		{"51 method", one(set(false, 8, 10, "\x00\x00")), archive.CodeAmbiguous, "a"},
		{"51 size", stored(set(false, 22, 24, "\x05")), archive.CodeAmbiguous, "a"},
		{"51 packed size", stored(set(false, 18, 20, "\x03")), archive.CodeAmbiguous, "a"},
		{"51 checksum", stored(set(false, 14, 16, "\x00\x00\x00\x00")), archive.CodeAmbiguous, "a"},
		{"51 flags", stored(set(false, 6, 8, "\x08")), archive.CodeAmbiguous, "a"},
		{"51 flag for UTF-8", stored(set(false, 6, 8, "\x00\x08")), archive.CodeAmbiguous, "a"},
		{"51 local header missing", stored(func(local, _ []byte) { local[3] = 9 }), archive.CodeUnknownFormat, ""},
		{"51 second local header missing", zipOf(zipPart{name: "a"}, zipPart{name: "b", tamper: func(local, _ []byte) { local[3] = 9 }}), archive.CodeDamaged, "b"},
		{"51 size before the descriptor", described(func(local, _ []byte) { local[22] = 9 }), archive.CodeAmbiguous, "a"},
		{"51 size in the descriptor", described(set(false, 0, 24, "\x05")), archive.CodeAmbiguous, "a"},
		{"51 checksum in the descriptor", described(set(false, 0, 16, "\x05")), archive.CodeAmbiguous, "a"},
		{"51 mark of the descriptor", zipFile{parts: []zipPart{{name: "a", text: "text", descriptor: 12}, {name: "b"}}, gap: "\x00\x00\x00\x00"}.bytes(), archive.CodeAmbiguous, "a"},
		{"49 real size is larger", one(set(true, 22, 24, "\x03")), archive.CodeDamaged, "a"},
		{"49 real size is smaller", one(set(true, 22, 24, "\x05")), archive.CodeDamaged, "a"},
		{"49 stored sizes differ", stored(set(true, 22, 24, "\x05")), archive.CodeAmbiguous, "a"},
		{"checksum is wrong", one(set(true, 14, 16, "\x01\x02\x03\x04")), archive.CodeDamaged, "a"},
		{"checksum is zero", one(set(true, 14, 16, "\x00\x00\x00\x00")), archive.CodeDamaged, "a"},
		{"data is not deflated", stored(set(true, 8, 10, "\x08\x00")), archive.CodeDamaged, "a"},
		{"data after the compressed data", afterDeflated(), archive.CodeAmbiguous, "a"},
		{"encrypted", stored(set(true, 6, 8, "\x01")), archive.CodeUnsupported, "a"},
		{"strong encryption", stored(set(true, 6, 8, "\x40")), archive.CodeUnsupported, "a"},
		{"hidden headers", stored(set(true, 6, 8, "\x00\x20")), archive.CodeUnsupported, "a"},
		{"patch data", stored(set(true, 6, 8, "\x20")), archive.CodeUnsupported, "a"},
		{"method of AES", stored(set(true, 8, 10, "\x63\x00")), archive.CodeUnsupported, "a"},
		{"LZMA", stored(set(true, 8, 10, "\x0e\x00")), archive.CodeUnsupported, "a"},
		{"another disk", stored(set(false, 0, 34, "\x01\x00")), archive.CodeUnsupported, "a"},
		{"name in an extra field", zipOf(zipPart{name: "a", extra: "\x75\x70\x06\x00\x01\x00\x00\x00\x00b"}), archive.CodeAmbiguous, "a"},
		{"link in an extra field", zipOf(zipPart{name: "a", extra: "\x6e\x75\x00\x00"}), archive.CodeUnsupported, "a"},
		{"extra field too long", zipOf(zipPart{name: "a", extra: "\x55\x54\x09\x00x"}), archive.CodeDamaged, "a"},
	}, archive.Limits{})
}

// afterDeflated returns an archive in which an entry has data after its deflated content.
func afterDeflated() []byte {
	packed := string(deflated("text")) + "hidden"
	return zipOf(zipPart{name: "a", text: packed, tamper: func(local, central []byte) {
		_, right, _ := zipPart{name: "a", text: "text", deflate: true}.bytes(0)
		copy(central[10:12], right[10:12])
		copy(central[16:20], right[16:20])
		copy(central[24:28], right[24:28])
		copy(local[8:10], right[10:12])
		copy(local[14:18], right[16:20])
		copy(local[22:26], right[24:28])
	}})
}

func TestExtract_RejectsZipStructures(t *testing.T) {
	t.Parallel()
	a, b := zipPart{name: "a", text: "text"}, zipPart{name: "b", text: "text"}
	with := func(change func(z *zipFile)) []byte {
		z := zipFile{parts: []zipPart{a, b}}
		change(&z)
		return z.bytes()
	}
	plain := zipOf(a, b)
	locator := "PK\x06\x07" + strings.Repeat("\x00", 16)
	checkHostile(t, []hostile{
		{"54 data before", with(func(z *zipFile) { z.before = "#!/bin/sh\n" }), archive.CodeUnknownFormat, ""},
		{"54 data before, offsets not adjusted", append([]byte("GIF89a"), plain...), archive.CodeUnknownFormat, ""},
		{"54 entry before", append(zipOf(zipPart{name: "x"})[:31], plain...), archive.CodeAmbiguous, ""},
		{"54 entry before, offsets adjusted", with(func(z *zipFile) { z.before = string(zipOf(zipPart{name: "x"})[:31]) }), archive.CodeAmbiguous, "a"},
		{"54 data between entries", with(func(z *zipFile) { z.gap = "hidden" }), archive.CodeAmbiguous, "a"},
		{"54 entry only in the stream", with(func(z *zipFile) { z.gap = string(zipOf(zipPart{name: "x"})[:31]) }), archive.CodeAmbiguous, "a"},
		{"54 data in the directory", with(func(z *zipFile) { z.inDir = "hidden" }), archive.CodeAmbiguous, ""},
		{"54 data after the directory", with(func(z *zipFile) { z.afterDir = "hidden" }), archive.CodeAmbiguous, ""},
		{"54 data after the end", with(func(z *zipFile) { z.after = "hidden" }), archive.CodeAmbiguous, ""},
		{"54 line break after the end", with(func(z *zipFile) { z.after = "\n" }), archive.CodeAmbiguous, ""},
		{"54 two archives", append(zipOf(a), zipOf(b)...), archive.CodeAmbiguous, ""},
		{"54 two end records", with(func(z *zipFile) { z.after = string(plain[len(plain)-22:]) }), archive.CodeAmbiguous, ""},
		{"54 end record in the comment", with(func(z *zipFile) { z.comment = string(zipFile{}.bytes()) }), archive.CodeAmbiguous, ""},
		{"54 binary comment", with(func(z *zipFile) { z.comment = "\x00" }), archive.CodeAmbiguous, ""},
		{"truncated comment", with(func(z *zipFile) { z.comment = "comment"; z.tamper = func(e []byte) { e[20]++ } }), archive.CodeDamaged, ""},
		{"truncated end", plain[:len(plain)-1], archive.CodeDamaged, ""},
		{"truncated directory", plain[:len(plain)-30], archive.CodeDamaged, ""},
		{"50 locator of zip64", with(func(z *zipFile) { z.afterDir = locator }), archive.CodeUnsupported, ""},
		{"50 zip64 count", with(func(z *zipFile) { z.tamper = func(e []byte) { copy(e[8:], "\xff\xff\xff\xff") } }), archive.CodeUnsupported, ""},
		{"50 zip64 offset", with(func(z *zipFile) { z.tamper = func(e []byte) { copy(e[16:], "\xff\xff\xff\xff") } }), archive.CodeUnsupported, ""},
		{"50 zip64 entry", zipOf(zipPart{name: "a", extra: "\x01\x00\x08\x00\x01\x00\x00\x00\x00\x00\x00\x00"}), archive.CodeUnsupported, "a"},
		{"50 zip64 descriptor", zipOf(zipPart{name: "a", text: "text", descriptor: 24}), archive.CodeUnsupported, "a"},
		{"50 entries with one header", zipOf(a, zipPart{name: "a", text: "text", tamper: set(false, 0, 42, "\x00\x00\x00\x00")}), archive.CodeAmbiguous, "a"},
		{"50 overlapping entries", zipOf(zipPart{name: "a", text: string(plain)}, zipPart{name: "b", text: "text", tamper: set(false, 0, 42, "\x1f\x00\x00\x00")}), archive.CodeAmbiguous, "a"},
		{"50 entry in the directory", zipOf(zipPart{name: "a", text: "text", tamper: set(true, 18, 20, "\x30")}), archive.CodeAmbiguous, "a"},
		{"53 fewer entries than declared", with(func(z *zipFile) { z.tamper = func(e []byte) { e[8], e[10] = 3, 3 } }), archive.CodeDamaged, ""},
		{"53 more entries than declared", with(func(z *zipFile) { z.tamper = func(e []byte) { e[8], e[10] = 1, 1 } }), archive.CodeAmbiguous, ""},
		{"several disks", with(func(z *zipFile) { z.tamper = func(e []byte) { e[4] = 1 } }), archive.CodeUnsupported, ""},
		{"other count on this disk", with(func(z *zipFile) { z.tamper = func(e []byte) { e[8] = 1 } }), archive.CodeUnsupported, ""},
		{"empty", zipFile{}.bytes(), archive.CodeEmpty, ""},
		{"folders only", zipOf(zipPart{name: "a/"}), archive.CodeEmpty, ""},
		{"ignored files only", zipOf(zipPart{name: ".DS_Store"}), archive.CodeEmpty, ""},
	}, archive.Limits{})
}

// The standard library follows a zip64 locator in the comment of an entry if the directory has a
// certain length. It then finds another directory, in the content of a file.
func TestExtract_RejectsAnArchiveWithTwoReadings(t *testing.T) {
	t.Parallel()
	const length, dataAt = 0xffff, 31
	_, hidden, _ := zipPart{name: "evil", text: "x"}.bytes(0)
	end64 := dataAt + len(hidden)
	record := append([]byte("PK\x06\x06"), make([]byte, 20)...)
	for _, n := range []int{1, 1, len(hidden), dataAt} { // entries on the disk and in all, length and offset of the directory
		record = le.AppendUint64(record, uint64(n))
	}
	locator := le.AppendUint64([]byte("PK\x06\x07\x00\x00\x00\x00"), uint64(end64))
	locator = le.AppendUint32(locator, 1)
	comment := strings.Repeat("c", length-47-len(locator)) + string(locator)
	b := zipFile{inDir: comment, parts: []zipPart{{name: "a", text: string(hidden) + string(record), tamper: func(_, central []byte) {
		le.PutUint16(central[32:], uint16(len(comment)))
	}}}}.bytes()

	if r, err := zip.NewReader(bytes.NewReader(b), int64(len(b))); err != nil || len(r.File) != 1 || r.File[0].Name != "evil" {
		t.Fatalf("the library no longer reads it so: %v, %v", r, err)
	}
	checkHostile(t, []hostile{{"50 zip64 directory in a file", b, archive.CodeAmbiguous, "a"}}, archive.Limits{})
}
