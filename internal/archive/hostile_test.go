package archive_test

import (
	"strings"
	"testing"

	"metier/internal/archive"
)

// hostile is an archive that must be rejected. The number of a case is that of the list of attacks
// that it belongs to.
type hostile struct {
	name  string
	bytes []byte
	code  archive.Code
	entry string // that the error names
}

func checkHostile(t *testing.T, cases []hostile, l archive.Limits) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := extract(t, c.bytes, l)
			if archive.CodeOf(err) != c.code {
				t.Fatalf("got %v, want code %s", err, c.code)
			}
			if e := err.(*archive.Error); e.Entry != c.entry {
				t.Errorf("got entry %q, want %q: %v", e.Entry, c.entry, err)
			}
		})
	}
}

// badNames are names that no format may have. The error names the path without a trailing slash.
var badNames = []struct{ what, name string }{
	{"42 parent", "../x"},
	{"42 parent inside", "a/../../x"},
	{"42 parent at the end", "a/.."},
	{"42 parent in full-width dots", "a/．．/x"},
	{"42 full-width slash", "a／..／x"},
	{"43 absolute", "/etc/passwd"},
	{"43 two slashes", "//host/share"},
	{"43 empty part", "a//b"},
	{"43 dot part", "a/./b"},
	{"44 backslash", `..\x`},
	{"44 full-width backslash", "..＼x"},
	{"44 drive letter", "C:/x"},
	{"44 stream", "SKILL.md:x"},
	{"44 device", "NUL"},
	{"44 device with an extension", "a/con.txt"},
	{"44 device with a superscript digit", "com¹"},
	{"44 full-width device", "ＣＯＮ"},
	{"44 dot at the end", "a./b"},
	{"44 space at the end", "SKILL.md "},
	{"line break", "a\nb"},
	{"escape", "a\x1b[2J"},
	{"C1 control", "a\u009bb"},
	{"not UTF-8", "a\xff"},
	{"long part", strings.Repeat("n", 256)},
}

func TestExtract_RejectsBadNames(t *testing.T) {
	t.Parallel()
	var cases []hostile
	for _, b := range badNames {
		parts := []tarPart{pax("path", b.name), {name: "short"}}
		cases = append(cases,
			hostile{b.what + " in zip", zipOf(zipPart{name: "SKILL.md"}, zipPart{name: b.name, text: "x"}), archive.CodeName, b.name},
			hostile{b.what + " of a folder in zip", zipOf(zipPart{name: b.name + "/"}), archive.CodeName, b.name},
			hostile{b.what + " in a pax header", tarOf(parts...), archive.CodeName, b.name})
		if len(b.name) <= 100 {
			cases = append(cases, hostile{b.what + " in tar", tarOf(tarPart{name: b.name, text: "x"}), archive.CodeName, b.name})
		}
	}
	checkHostile(t, cases, archive.Limits{})
}

func TestExtract_RejectsNUL(t *testing.T) {
	t.Parallel()
	checkHostile(t, []hostile{
		{"in zip", zipOf(zipPart{name: "SKILL.md\x00.txt"}), archive.CodeName, "SKILL.md\x00.txt"},
		{"in tar", tarOf(tarPart{name: "SKILL.md\x00.txt"}), archive.CodeAmbiguous, "SKILL.md"},
		{"in a pax header", tarOf(pax("path", "a\x00b"), tarPart{name: "a"}), archive.CodeName, "PaxHeaders/x"},
		{"in a GNU long name", tarOf(tarPart{name: "././@LongLink", kind: 'L', text: "a\x00b\x00", magic: gnu}, tarPart{name: "a", magic: gnu}), archive.CodeAmbiguous, "././@LongLink"},
	}, archive.Limits{})
}

// pairs are two entries that cannot both exist on every system.
var pairs = []struct {
	what, a, b string
	entry      string // empty: b
}{
	{"48 duplicate", "SKILL.md", "SKILL.md", ""},
	{"48 case", "SKILL.md", "skill.md", ""},
	{"48 case of a folder", "Foo/a", "foo/b", ""},
	{"48 Turkish i", "fıle", "fIle", ""},
	{"48 sharp s", "straße", "STRASSE", ""},
	{"48 NFC and NFD", "caf\u00e9", "cafe\u0301", ""},
	{"48 NFKC", "pdf", "\uff50\uff44\uff46", ""},
	{"48 ligature", "file", "\ufb01le", ""},
	{"48 folder twice", "a/", "a/", "a"},
	{"45 file as folder", "a", "a/b", ""},
	{"45 folder as file", "a/b", "a", ""},
	{"45 explicit folder as file", "a/", "a", ""},
	{"45 file as explicit folder", "a", "a/", "a"},
	{"48 ignored duplicate", "__MACOSX/x", "__MACOSX/x", ""},
}

func TestExtract_RejectsPathsThatAreTheSame(t *testing.T) {
	t.Parallel()
	var cases []hostile
	tarNamed := func(name string) tarPart {
		if folder, is := strings.CutSuffix(name, "/"); is {
			return tarPart{name: folder, kind: '5'}
		}
		return tarPart{name: name}
	}
	for _, p := range pairs {
		entry := p.entry
		if entry == "" {
			entry = p.b
		}
		cases = append(cases,
			hostile{p.what + " in zip", zipOf(zipPart{name: p.a}, zipPart{name: p.b}), archive.CodeDuplicate, entry},
			hostile{p.what + " in tar", tarOf(tarNamed(p.a), tarNamed(p.b)), archive.CodeDuplicate, entry},
			hostile{p.what + " in tar.gz", gz(tarOf(tarNamed(p.a), tarNamed(p.b))), archive.CodeDuplicate, entry})
	}
	checkHostile(t, cases, archive.Limits{})
}

func TestExtract_RejectsWhatExceedsLimits(t *testing.T) {
	t.Parallel()
	l := archive.Limits{Files: 3, FileBytes: 100, Bytes: 150, Depth: 2, NameBytes: 10}
	many := []string{"a", "b", "c", "d"}
	big, part := strings.Repeat("x", 101), strings.Repeat("x", 80)
	var zips []zipPart
	var tars []tarPart
	for _, n := range many {
		zips, tars = append(zips, zipPart{name: n}), append(tars, tarPart{name: n})
	}
	checkHostile(t, []hostile{
		{"53 entries in zip", zipOf(zips...), archive.CodeTooLarge, ""},
		{"53 entries in tar", tarOf(tars...), archive.CodeTooLarge, "d"},
		{"53 folders", tarOf(tarPart{name: "a", kind: '5'}, tarPart{name: "b", kind: '5'}, tarPart{name: "c", kind: '5'}, tarPart{name: "d", kind: '5'}), archive.CodeTooLarge, "d"},
		{"49 file in zip", zipOf(zipPart{name: "a", text: big, deflate: true}), archive.CodeTooLarge, "a"},
		{"49 file in tar", tarOf(tarPart{name: "a", text: big}), archive.CodeTooLarge, "a"},
		{"49 ignored file", tarOf(tarPart{name: "._a", text: big}), archive.CodeTooLarge, "._a"},
		{"49 sum in zip", zipOf(zipPart{name: "a", text: part}, zipPart{name: "b", text: part}), archive.CodeTooLarge, "b"},
		{"49 sum in tar", tarOf(tarPart{name: "a", text: part}, tarPart{name: "b", text: part}), archive.CodeTooLarge, "b"},
		{"depth in zip", zipOf(zipPart{name: "a/b/c"}), archive.CodeTooLarge, "a/b/c"},
		{"depth in tar", tarOf(tarPart{name: "a/b/c"}), archive.CodeTooLarge, "a/b/c"},
		{"name in zip", zipOf(zipPart{name: "elevenbytes"}), archive.CodeTooLarge, "elevenbytes"},
		{"name in tar", tarOf(tarPart{name: "elevenbytes"}), archive.CodeTooLarge, "elevenbytes"},
		{"archive", append(tarOf(tarPart{name: "a"}), make([]byte, 40<<10)...), archive.CodeTooLarge, ""},
	}, l)
}

func TestExtract_RejectsBombs(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("\x00", 3<<20)
	checkHostile(t, []hostile{
		{"49 ratio in zip", zipOf(zipPart{name: "a", text: zeros, deflate: true}), archive.CodeTooLarge, "a"},
		{"49 ratio in tar.gz", gz(tarOf(tarPart{name: "a", text: zeros})), archive.CodeTooLarge, "a"},
		{"49 ratio of the padding", gz(append(tarOf(tarPart{name: "a"}), zeros...)), archive.CodeTooLarge, ""},
		{"49 ratio of an ignored file", zipOf(zipPart{name: ".DS_Store", text: zeros, deflate: true}), archive.CodeTooLarge, ".DS_Store"},
	}, archive.Limits{})
	if _, _, err := extract(t, tarOf(tarPart{name: "a", text: zeros}), archive.Limits{}); err != nil {
		t.Errorf("data that is not compressed: %v", err)
	}
}
