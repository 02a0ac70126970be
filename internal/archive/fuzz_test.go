package archive_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/archive"
)

// fuzzLimits keep the fuzz targets fast.
var fuzzLimits = archive.Limits{Files: 40, FileBytes: 32 << 10, Bytes: 64 << 10}

// checkExtracted checks what must be true for any input: nothing is written outside the folder, no
// limit is exceeded, the entries are those in the folder, and another archive can hold them. Folders
// are created in top.
func checkExtracted(t *testing.T, top string, b []byte) {
	got, dir, err := extractIn(t, top, b, fuzzLimits)
	if err != nil {
		if archive.CodeOf(err) == "" {
			t.Fatalf("an error without a code: %v", err)
		}
		return
	}
	files, total := filesIn(t, dir), int64(0)
	var again []archive.File
	for _, e := range got.Entries {
		mode := map[bool]string{true: "0755 ", false: "0644 "}[e.Executable]
		text, ok := strings.CutPrefix(files[e.Path], mode)
		if !ok || int64(len(text)) != e.Size || e.Size > fuzzLimits.FileBytes {
			t.Fatalf("%+v is not the file %.100q", e, files[e.Path])
		}
		total += e.Size
		f := fileOf(e.Path, text)
		f.Executable = e.Executable
		again = append(again, f)
	}
	if len(files) != len(got.Entries) || len(files) > fuzzLimits.Files || total > fuzzLimits.Bytes {
		t.Fatalf("%d files, %d entries, %d bytes", len(files), len(got.Entries), total)
	}
	format := archive.Formats()[len(b)%len(archive.Formats())]
	same, dir, err := extractIn(t, top, write(t, format, again), fuzzLimits)
	if err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	if diff := cmp.Diff(got.Entries, same.Entries) + cmp.Diff(files, filesIn(t, dir)); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", format, diff)
	}
}

func addTools(f *testing.F, pattern string, add func(b []byte)) {
	names, err := filepath.Glob("testdata/tools/" + pattern)
	if err != nil || len(names) == 0 {
		f.Fatalf("%d archives, %v", len(names), err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		add(b)
	}
}

// overwrite returns a function that replaces bytes of a header: each pair of changes is an offset and
// a value.
func overwrite(changes []byte) func(header []byte) {
	return func(header []byte) {
		for i := 0; i+1 < len(changes); i += 2 {
			header[int(changes[i])%len(header)] = changes[i+1]
		}
	}
}

// FuzzZip reads an archive, and one whose entries have the names, on separate lines. In the last
// entry, bytes of both headers, and then of the central one, are overwritten. The bits of form are
// whether entries are deflated, and the length of their data descriptors.
func FuzzZip(f *testing.F) {
	addTools(f, "*.zip", func(b []byte) { f.Add(b, "pdf/\npdf/SKILL.md", []byte{}, []byte{}, byte(0)) })
	f.Add(zipFile{parts: []zipPart{{name: "a", text: "a"}}, comment: "comment"}.bytes(), "a\nA", []byte{8, 0}, []byte{38, 0xff, 41, 0xa1}, byte(1))
	f.Add(zipOf(zipPart{name: "a", text: strings.Repeat("a", 1000), deflate: true}), "../a\n__MACOSX/b", []byte{6, 1}, []byte{20, 3}, byte(2))
	f.Add(zipOf(zipPart{name: "a", text: "a", descriptor: 12}), "a/b\nc\n._d", []byte{26, 2}, []byte{42, 0}, byte(3))
	top := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte, names string, both, central []byte, form byte) {
		checkExtracted(t, top, b)
		z := zipFile{}
		for name := range strings.SplitSeq(names, "\n") {
			p := zipPart{name: name, deflate: form&1 != 0, descriptor: []int{0, 12, 16, 24}[form>>1&3]}
			if !strings.HasSuffix(name, "/") {
				p.text = names
			}
			z.parts = append(z.parts, p)
		}
		if len(names) > 1000 || len(z.parts) > 100 {
			return
		}
		z.parts[len(z.parts)-1].tamper = func(l, c []byte) {
			for i := 0; i+1 < len(both); i += 2 {
				at := int(both[i]) % 26 // of the fixed part of the local header, which the central one has two bytes later
				l[4+at], c[6+at] = both[i+1], both[i+1]
			}
			overwrite(central)(c)
		}
		checkExtracted(t, top, z.bytes())
	})
}

// FuzzTar reads an archive, and one whose entries have the names, on separate lines. A name that
// begins with a tab is in a pax header. Bytes of each header are overwritten before its checksum is
// computed.
func FuzzTar(f *testing.F) {
	addTools(f, "*.tar.gz", func(b []byte) { f.Add(b, "pdf/SKILL.md\n\tpdf/long.md", []byte{}) })
	f.Add(tarOf(tarPart{name: "a", text: "a"}, tarPart{name: "b/", kind: '5'}), "a\nb", []byte{156, '5'})
	f.Add(tarOf(pax("path", "a"), tarPart{name: "b", v7: true}), "\ta\n./b", []byte{156, 'L'})
	f.Add(gz(tarOf(tarPart{name: "a", text: "a"})), "a", []byte{124, 0x80})
	top := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte, names string, changes []byte) {
		checkExtracted(t, top, b)
		var parts []tarPart
		for name := range strings.SplitSeq(names, "\n") {
			if long, is := strings.CutPrefix(name, "\t"); is {
				parts = append(parts, pax("path", long))
				name = "short"
			}
			parts = append(parts, tarPart{name: name, text: names, tamper: overwrite(changes)})
		}
		if len(names) > 1000 || len(parts) > 100 {
			return
		}
		checkExtracted(t, top, tarOf(parts...))
		checkExtracted(t, top, gz(tarOf(parts...)))
	})
}
