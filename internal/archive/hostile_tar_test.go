package archive_test

import (
	"slices"
	"strings"
	"testing"

	"metier/internal/archive"
)

const gnu = "ustar  \x00"

func TestExtract_RejectsTarKinds(t *testing.T) {
	t.Parallel()
	of := func(kind byte) []byte { return tarOf(tarPart{name: "a", kind: kind, link: "/etc/passwd"}) }
	checkHostile(t, []hostile{
		{"45 symlink, then a file through it", tarOf(tarPart{name: "a", kind: '2', link: "/tmp"}, tarPart{name: "a/x", text: "x"}), archive.CodeKind, "a"},
		{"45 symlink with a long target", tarOf(tarPart{name: "././@LongLink", kind: 'K', text: "/etc\x00", magic: gnu}, tarPart{name: "a", kind: '2', magic: gnu}), archive.CodeKind, "././@LongLink"},
		{"45 symlink with a long name", tarOf(pax("path", "long"), tarPart{name: "a", kind: '2', link: "x"}), archive.CodeKind, "long"},
		{"46 hard link", of('1'), archive.CodeKind, "a"},
		{"47 character device", of('3'), archive.CodeKind, "a"},
		{"47 block device", of('4'), archive.CodeKind, "a"},
		{"47 FIFO", of('6'), archive.CodeKind, "a"},
		{"contiguous file", of('7'), archive.CodeKind, "a"},
		{"GNU sparse file", tarOf(tarPart{name: "a", kind: 'S', magic: gnu}), archive.CodeKind, "a"},
		{"GNU folder dump", of('D'), archive.CodeKind, "a"},
		{"GNU part of a volume", of('M'), archive.CodeKind, "a"},
		{"GNU volume label", of('V'), archive.CodeKind, "a"},
		{"unknown kind", of('Z'), archive.CodeKind, "a"},
		{"file with a link target", of('0'), archive.CodeAmbiguous, "a"},
		{"kind in the mode", tarOf(tarPart{name: "a", mode: 0o120644}), archive.CodeKind, "a"},
		{"folder in the mode", tarOf(tarPart{name: "a", mode: 0o040755}), archive.CodeAmbiguous, "a"},
		{"52 setuid", tarOf(tarPart{name: "a", mode: 0o4755}), archive.CodeMode, "a"},
		{"52 setgid", tarOf(tarPart{name: "a", mode: 0o2755}), archive.CodeMode, "a"},
		{"52 sticky", tarOf(tarPart{name: "a", kind: '5', mode: 0o1777}), archive.CodeMode, "a"},
		{"52 large mode", tarOf(tarPart{name: "a", mode: 0o7777777}), archive.CodeMode, "a"},
		{"52 capabilities", tarOf(pax("SCHILY.xattr.security.capability", "x"), tarPart{name: "a"}), archive.CodeMode, "PaxHeaders/x"},
		{"file named as a folder", tarOf(tarPart{name: "a/", kind: '0'}), archive.CodeAmbiguous, "a/"},
		{"folder with data", tarOf(tarPart{name: "a/", kind: '5', text: "x"}), archive.CodeAmbiguous, "a/"},
		{"V7 folder with data", tarOf(tarPart{name: "a/", v7: true, text: "x"}), archive.CodeAmbiguous, "a/"},
		{"folder without a name", tarOf(tarPart{name: "/", kind: '5'}), archive.CodeName, "/"},
		{"file without a name", tarOf(tarPart{name: ""}), archive.CodeName, ""},
		{"file named as the root", tarOf(tarPart{name: "."}), archive.CodeName, "."},
		{"two dots as prefix", tarOf(tarPart{name: "././a"}), archive.CodeName, "./a"},
	}, archive.Limits{})
}

func TestExtract_RejectsTarTricks(t *testing.T) {
	t.Parallel()
	a := tarPart{name: "a", text: "text"}
	size := func(field string) tarPart {
		return tarPart{name: "a", text: "text", tamper: func(b []byte) { copy(b[124:136], field) }}
	}
	global := func(records ...string) tarPart {
		p := pax(records...)
		p.kind = 'g'
		return p
	}
	raw := func(text string) tarPart { return tarPart{name: "PaxHeaders/x", kind: 'x', text: text} }
	long := tarPart{name: "././@LongLink", kind: 'L', text: "long\x00", magic: gnu}
	ofGNU := tarPart{name: "a", magic: gnu}
	checkHostile(t, []hostile{
		{"negative size", tarOf(size("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfc")), archive.CodeDamaged, "a"},
		{"binary size", tarOf(size("\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04")), archive.CodeDamaged, "a"},
		{"malformed size", tarOf(size("-0000000004\x00")), archive.CodeDamaged, "a"},
		{"malformed mode", tarOf(tarPart{name: "a", tamper: func(b []byte) { copy(b[100:], "rwxr-xr") }}), archive.CodeDamaged, "a"},
		{"49 size beyond the end", tarOf(size("00000077777\x00")), archive.CodeDamaged, "a"},
		{"51 pax size", tarOf(pax("size", "4"), a), archive.CodeUnsupported, "PaxHeaders/x"},
		{"51 pax path twice", tarOf(pax("path", "b", "path", "c"), a), archive.CodeAmbiguous, "PaxHeaders/x"},
		{"51 empty pax path", tarOf(pax("path", ""), a), archive.CodeName, "PaxHeaders/x"},
		{"51 two pax headers", tarOf(pax("path", "b"), pax("path", "c"), a), archive.CodeAmbiguous, "PaxHeaders/x"},
		{"51 pax and GNU long name", tarOf(pax("path", "b"), long, ofGNU), archive.CodeAmbiguous, "././@LongLink"},
		{"51 two GNU long names", tarOf(long, long, ofGNU), archive.CodeAmbiguous, "././@LongLink"},
		{"GNU long name without an end", tarOf(tarPart{name: "././@LongLink", kind: 'L', text: "long", magic: gnu}, ofGNU), archive.CodeAmbiguous, "././@LongLink"},
		{"GNU long name too long", tarOf(tarPart{name: "././@LongLink", kind: 'L', text: strings.Repeat("n", 70<<10), magic: gnu}, ofGNU), archive.CodeTooLarge, "././@LongLink"},
		{"pax link", tarOf(pax("linkpath", "/etc"), a), archive.CodeUnsupported, "PaxHeaders/x"},
		{"pax character set", tarOf(pax("hdrcharset", "BINARY"), a), archive.CodeUnsupported, "PaxHeaders/x"},
		{"pax sparse file", tarOf(pax("GNU.sparse.major", "1", "GNU.sparse.minor", "0", "GNU.sparse.name", "../x", "GNU.sparse.realsize", "4"), a), archive.CodeKind, "PaxHeaders/x"},
		{"unknown pax record", tarOf(pax("METIER.x", "1"), a), archive.CodeUnsupported, "PaxHeaders/x"},
		{"pax record too long", tarOf(raw("99 path=b\n"), a), archive.CodeDamaged, "PaxHeaders/x"},
		{"pax record without a line break", tarOf(raw("9 path=bb"), a), archive.CodeDamaged, "PaxHeaders/x"},
		{"pax length with a sign", tarOf(raw("+9 path=b\n"), a), archive.CodeDamaged, "PaxHeaders/x"},
		{"empty pax header", tarOf(raw(""), a), archive.CodeTooLarge, "PaxHeaders/x"},
		{"global path", tarOf(global("path", "b"), a), archive.CodeAmbiguous, "PaxHeaders/x"},
		{"global header later", tarOf(a, global("comment", "b"), tarPart{name: "b"}), archive.CodeAmbiguous, "PaxHeaders/x"},
		{"pax header for nothing", tarOf(a, pax("path", "b")), archive.CodeDamaged, ""},
		{"data in the padding", hidden(), archive.CodeAmbiguous, "a"},
		{"name with data after its end", tarOf(tarPart{name: "a", tamper: func(b []byte) { b[50] = 'x' }}), archive.CodeAmbiguous, "a"},
		{"name in the times of GNU", tarOf(tarPart{name: "a", magic: gnu, tamper: func(b []byte) { copy(b[345:], "prefix") }}), archive.CodeAmbiguous, "a"},
		{"header of star", tarOf(tarPart{name: "a", tamper: ofStar}), archive.CodeAmbiguous, "p/a"},
		{"unknown magic", tarOf(a, tarPart{name: "b", magic: "ustar\x00xx"}), archive.CodeUnsupported, "b"},
		{"checksum", append(tarParts(a), append([]byte("x"), make([]byte, 2047)...)...), archive.CodeDamaged, ""},
	}, archive.Limits{})
}

// ofStar makes a header one of star, whose prefix is shorter.
func ofStar(b []byte) {
	copy(b[345:], "p")
	copy(b[476:], "00000000000\x0000000000000\x00")
	copy(b[508:], "tar\x00")
}

// hidden returns an archive with data in the padding after an entry.
func hidden() []byte {
	b := tarOf(tarPart{name: "a", text: "text"})
	b[512+100] = 'x'
	return b
}

func TestExtract_RejectsTarStructures(t *testing.T) {
	t.Parallel()
	a := tarPart{name: "a", text: "text"}
	plain := tarOf(a)
	concat := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	badSum := gz(plain)
	badSum[len(badSum)-8]++
	cases := []hostile{
		{"no end mark", tarParts(a), archive.CodeDamaged, ""},
		{"half an end mark", append(tarParts(a), make([]byte, 512)...), archive.CodeDamaged, ""},
		{"truncated in the end mark", plain[:len(plain)-100], archive.CodeDamaged, ""},
		{"truncated in the padding", plain[:1000], archive.CodeDamaged, ""},
		{"truncated in a file", plain[:514], archive.CodeDamaged, "a"},
		{"truncated in a header", concat(tarParts(a), tarParts(a)[:100]), archive.CodeDamaged, ""},
		{"54 two archives", concat(plain, plain), archive.CodeAmbiguous, ""},
		{"54 one zero block between entries", concat(tarParts(a), make([]byte, 512), tarOf(tarPart{name: "b"})), archive.CodeAmbiguous, ""},
		{"54 zip after it", concat(plain, zipOf(zipPart{name: "a"})), archive.CodeAmbiguous, ""},
		{"54 data before", concat([]byte("#!/bin/sh\n"), plain), archive.CodeUnknownFormat, ""},
		{"54 too much padding", concat(plain, make([]byte, 1<<20), make([]byte, 512)), archive.CodeAmbiguous, ""},
		{"folders only", tarOf(tarPart{name: "a/", kind: '5'}), archive.CodeEmpty, ""},
		{"root only", tarOf(tarPart{name: "./", kind: '5'}), archive.CodeEmpty, ""},
	}
	for _, c := range cases {
		if c.code != archive.CodeUnknownFormat && !strings.Contains(c.name, "padding") {
			cases = append(cases, hostile{c.name + " in gzip", gz(c.bytes), c.code, c.entry})
		}
	}
	checkHostile(t, append(cases, []hostile{
		{"54 gzip with two members", concat(gz(plain[:1024]), gz(plain[1024:])), archive.CodeAmbiguous, ""},
		{"54 gzip with an empty member", concat(gz(plain), gz(nil)), archive.CodeAmbiguous, ""},
		{"54 zeros after gzip", append(gz(plain), 0), archive.CodeAmbiguous, ""},
		{"54 data after gzip", append(gz(plain), "hidden"...), archive.CodeAmbiguous, ""},
		{"truncated gzip", gz(plain)[:len(gz(plain))-1], archive.CodeDamaged, ""},
		{"truncated gzip header", gz(plain)[:5], archive.CodeDamaged, ""},
		{"checksum of gzip", badSum, archive.CodeDamaged, ""},
		{"gzip without a tar", gz([]byte("text")), archive.CodeDamaged, ""},
		{"gzip of an empty file", gz(nil), archive.CodeDamaged, ""},
		{"no archive", []byte("text"), archive.CodeUnknownFormat, ""},
		{"empty file", nil, archive.CodeUnknownFormat, ""},
		{"zeros", make([]byte, 1024), archive.CodeUnknownFormat, ""},
	}...), archive.Limits{})
}
