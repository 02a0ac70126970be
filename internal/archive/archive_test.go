package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/archive"
	"metier/internal/testenv"
)

// packed is the content of each archive in testdata/tools: a skill that was packed by Info-ZIP 3.0,
// Python 3.11, Java 17, git 2.39, GNU tar 1.34, and bsdtar 3.6, with their options for streams, for
// tar formats, and for packing the folder ".".
var packed = map[string]string{
	"SKILL.md": "---\nname: pdf\ndescription: Fill forms.\n---\nUse scripts/fill.sh.\n",
	"references/" + strings.Repeat("n", 120) + ".md": "long\n",
	"references/café.md":                             "café\n",
	"scripts/fill.sh":                                "#!/bin/sh\necho fill\n",
}

func TestExtract_AcceptsWhatToolsPack(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("testdata/tools/*")
	if err != nil || len(archives) < 15 {
		t.Fatalf("%d archives, %v", len(archives), err)
	}
	for _, name := range archives {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			_, dir, err := extract(t, b, archive.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(name, "-dot") {
				dir = filepath.Join(dir, "pdf")
			}
			want := map[string]string{}
			for path, text := range packed {
				mode := "0644 "
				if path == "scripts/fill.sh" && !strings.Contains(name, "java") { // which has no modes
					mode = "0755 "
				}
				want[path] = mode + text
			}
			if strings.Contains(name, "v7") { // which has no long names
				delete(want, "references/"+strings.Repeat("n", 120)+".md")
				delete(want, "references/café.md")
			}
			if diff := cmp.Diff(want, filesIn(t, dir)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// filesIn returns the mode and text of each file in a folder. Folders must have the mode 0755.
func filesIn(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			if err == nil && info.Mode().Perm() != 0o755 {
				t.Errorf("%s: mode %v", p, info.Mode())
			}
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		text, err := os.ReadFile(p)
		out[filepath.ToSlash(rel)] = fmt.Sprintf("%04o %s", info.Mode(), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestExtract_AcceptsWhatGoPacks(t *testing.T) {
	t.Parallel()
	var zipped, tarred bytes.Buffer
	z, w := zip.NewWriter(&zipped), tar.NewWriter(&tarred)
	if err := z.SetComment("0123456789abcdef"); err != nil {
		t.Fatal(err)
	}
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		name := fmt.Sprintf("skill/%d.md", method)
		f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(f, name)
		h := &tar.Header{Name: name, Size: int64(len(name)), Mode: 0o644, Typeflag: tar.TypeReg}
		if err := errors.Join(err, w.WriteHeader(h)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(z.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{zipped.Bytes(), tarred.Bytes(), gz(tarred.Bytes())} {
		got, dir, err := extract(t, b, archive.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		want := []archive.Entry{{Path: "skill/0.md", Size: 10}, {Path: "skill/8.md", Size: 10}}
		if diff := cmp.Diff(want, got.Entries); diff != "" {
			t.Errorf("%s (-want +got):\n%s", got.Format, diff)
		}
		if diff := cmp.Diff(map[string]string{"skill/0.md": "0644 skill/0.md", "skill/8.md": "0644 skill/8.md"}, filesIn(t, dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", got.Format, diff)
		}
	}
}

// Finder packs files as a stream, without the flag for UTF-8, and adds its own files.
func TestExtract_ListsFilesOfMacOSAsIgnored(t *testing.T) {
	t.Parallel()
	names := []string{"pdf/", "pdf/SKILL.md", "__MACOSX/", "__MACOSX/pdf/", "__MACOSX/pdf/._SKILL.md", "pdf/.DS_Store", "pdf/._café.md", "pdf/café.md"}
	var zips []zipPart
	var tars []tarPart
	for _, n := range names {
		if strings.HasSuffix(n, "/") {
			zips = append(zips, zipPart{name: n, attributes: attributes(0o040755)})
			tars = append(tars, tarPart{name: n, kind: '5', mode: 0o755})
		} else {
			zips = append(zips, zipPart{name: n, text: n, deflate: true, descriptor: 16, attributes: attributes(0o100644)})
			tars = append(tars, tarPart{name: n, text: n})
		}
	}
	for _, b := range [][]byte{zipOf(zips...), tarOf(tars...)} {
		got, dir, err := extract(t, b, archive.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		ignored := []string{"__MACOSX/", "__MACOSX/pdf/", "__MACOSX/pdf/._SKILL.md", "pdf/.DS_Store", "pdf/._café.md"}
		if diff := cmp.Diff(ignored, got.Ignored); diff != "" {
			t.Errorf("%s (-want +got):\n%s", got.Format, diff)
		}
		want := map[string]string{"pdf/SKILL.md": "0644 pdf/SKILL.md", "pdf/café.md": "0644 pdf/café.md"}
		if diff := cmp.Diff(want, filesIn(t, dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", got.Format, diff)
		}
	}
}

func TestExtract_KeepsNestedArchives(t *testing.T) {
	t.Parallel()
	inner := string(zipOf(zipPart{name: "../x", text: "x"}))
	for _, b := range [][]byte{zipOf(zipPart{name: "a.zip", text: inner}), tarOf(tarPart{name: "a.zip", text: inner})} {
		_, dir, err := extract(t, b, archive.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"a.zip": "0644 " + inner}, filesIn(t, dir)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestExtract_AcceptsUnusualParts(t *testing.T) {
	t.Parallel()
	global := pax("comment", "0123456789abcdef")
	global.kind = 'g'
	for name, b := range map[string][]byte{
		"descriptor without a mark":      zipOf(zipPart{name: "a", text: "a", descriptor: 12}),
		"extra fields":                   zipOf(zipPart{name: "a", text: "a", extra: "UT\x05\x00\x01\x00\x00\x00\x00\x75\x70\x06\x00\x01\x00\x00\x00\x00a"}),
		"aligned data":                   zipOf(zipPart{name: "a", text: "a", extra: "\x00\x00\x00\x00\x00\x00"}),
		"directory in another order":     zipFile{parts: []zipPart{{name: "b/"}, {name: "a", text: "a"}}, reversed: true}.bytes(),
		"comment":                        zipFile{parts: []zipPart{{name: "a", text: "a"}}, comment: "Made with\nan editor."}.bytes(),
		"pax attributes":                 tarOf(global, pax("mtime", "1.5", "LIBARCHIVE.xattr.com.apple.provenance", "AQ", "path", "a"), tarPart{name: "b", text: "a"}),
		"the folder itself":              tarOf(tarPart{name: "./", kind: '5'}, tarPart{name: "./a", text: "a"}),
		"a folder after its files":       tarOf(tarPart{name: "b/c", kind: '5'}, tarPart{name: "b", kind: '5'}, tarPart{name: "a", text: "a"}),
		"V7":                             tarOf(tarPart{name: "b/", v7: true}, tarPart{name: "a", text: "a", v7: true}),
		"numbers with spaces":            tarOf(tarPart{name: "a", text: "a", tamper: func(b []byte) { copy(b[124:136], "         1 \x00") }}),
		"padding to the block of a tape": append(tarOf(tarPart{name: "a", text: "a"}), make([]byte, 8<<10)...),
	} {
		got, _, err := extract(t, b, archive.Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff([]archive.Entry{{Path: "a", Size: 1}}, got.Entries); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestExtract_CreatesEmptyFolders(t *testing.T) {
	t.Parallel()
	for _, b := range [][]byte{zipOf(zipPart{name: "a/b/"}, zipPart{name: "c"}), tarOf(tarPart{name: "a/b", kind: '5'}, tarPart{name: "c"})} {
		_, dir, err := extract(t, b, archive.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(dir, "a", "b")); err != nil || !info.IsDir() {
			t.Error(info, err)
		}
	}
}

func TestExtract_NeedsAnEmptyFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	b := zipOf(zipPart{name: "a", text: "theirs"})
	if _, err := archive.Extract(t.Context(), bytes.NewReader(b), int64(len(b)), root, archive.Limits{}); archive.CodeOf(err) != archive.CodeIO {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "a")); string(text) != "mine" || err != nil {
		t.Errorf("%s, %v", text, err)
	}
}

// faulty fails or cancels after a number of reads.
type faulty struct {
	io.ReaderAt
	reads  int
	cancel func() error
}

func (f *faulty) ReadAt(p []byte, off int64) (int, error) {
	if f.reads--; f.reads < 0 {
		if err := f.cancel(); err != nil {
			return 0, err
		}
	}
	return f.ReaderAt.ReadAt(p, off)
}

func TestExtract_ReportsFailedReadsAndCancellation(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken disk")
	text := strings.Repeat("text", 64<<10)
	for _, b := range [][]byte{zipOf(zipPart{name: "a", text: text}), tarOf(tarPart{name: "a", text: text}), gz(tarOf(tarPart{name: "a", text: text}))} {
		for reads := range 4 {
			root, err := os.OpenRoot(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			size := int64(len(b))
			r := &faulty{bytes.NewReader(b), reads, func() error { return broken }}
			_, err = archive.Extract(t.Context(), r, size, root, archive.Limits{})
			if reads == 0 && !errors.Is(err, broken) || err != nil && (archive.CodeOf(err) != archive.CodeIO || !errors.Is(err, broken)) {
				t.Errorf("after %d reads: %v", reads, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			r = &faulty{bytes.NewReader(b), 0, func() error { cancel(); return nil }}
			root, err = os.OpenRoot(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			if _, err = archive.Extract(ctx, r, size, root, archive.Limits{}); !errors.Is(err, context.Canceled) || archive.CodeOf(err) != "" {
				t.Errorf("canceled: %v", err)
			}
		}
	}
}

// A file that is shorter than its size is truncated, and not an endless read.
func TestExtract_RejectsAShrunkenFile(t *testing.T) {
	t.Parallel()
	for _, b := range [][]byte{zipOf(zipPart{name: "a", text: "text"}), tarOf(tarPart{name: "a", text: "text"})} {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_, err = archive.Extract(t.Context(), bytes.NewReader(b), int64(len(b))+100, root, archive.Limits{})
		if archive.CodeOf(err) != archive.CodeDamaged {
			t.Errorf("got %v", err)
		}
	}
}

func TestExtract_ManyFiles(t *testing.T) {
	t.Parallel()
	files := manyFiles(testenv.Count(1000, 2000))
	for _, format := range []archive.Format{archive.Zip, archive.TarGz} {
		got, dir, err := extract(t, write(t, format, files), archive.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(filesIn(t, dir)); n != len(files) || len(got.Entries) != len(files) {
			t.Errorf("%s: %d files, %d entries, want %d", format, n, len(got.Entries), len(files))
		}
	}
}

func TestError_ShowsNoControlCharacters(t *testing.T) {
	t.Parallel()
	_, _, err := extract(t, zipOf(zipPart{name: "a\x1b]0;title\x07\u202e"}), archive.Limits{})
	want := `archive_name_invalid: entry "a\x1b]0;title\x07\u{202e}": the path has a control character`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSniff(t *testing.T) {
	t.Parallel()
	for want, b := range map[archive.Format][]byte{
		archive.Zip: zipOf(zipPart{name: "a"}), archive.Tar: tarOf(tarPart{name: "a"}), archive.TarGz: gz(nil), "": []byte("text"),
	} {
		if got, ok := archive.Sniff(b); got != want || ok != (want != "") {
			t.Errorf("got %q, %v, want %q", got, ok, want)
		}
	}
}
