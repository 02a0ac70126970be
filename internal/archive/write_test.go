package archive_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/archive"
)

func fileOf(path, text string) archive.File {
	return archive.File{Path: path, Size: int64(len(text)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

func manyFiles(n int) (files []archive.File) {
	for i := range n {
		files = append(files, fileOf(fmt.Sprintf("skill/%d/%d.md", i%10, i), strings.Repeat("text ", i)))
	}
	return files
}

func write(t testing.TB, format archive.Format, files []archive.File) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := archive.Write(t.Context(), &b, format, files); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWrite_CanBeExtracted(t *testing.T) {
	t.Parallel()
	run := fileOf("pdf/scripts/fill.sh", "#!/bin/sh\n")
	run.Executable = true
	noise := make([]byte, 300<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	texts := map[string]string{
		"pdf/SKILL.md":    "---\nname: pdf\n---\n",
		"pdf/empty":       "",
		"pdf/noise":       string(noise),
		"pdf/zeros":       strings.Repeat("\x00", 5<<20), // compresses like a bomb
		"pdf/text":        strings.Repeat("words ", 200<<10),
		"pdf/日本語/café.md": "x",
		strings.Repeat("n", 250) + "/" + strings.Repeat("m", 250): "long",
	}
	files, want := []archive.File{run}, map[string]string{run.Path: "0755 #!/bin/sh\n"}
	for path, text := range texts {
		files = append(files, fileOf(path, text))
		want[path] = "0644 " + text
	}
	for _, format := range archive.Formats() {
		got, dir, err := extract(t, write(t, format, files), archive.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		if got.Format != format || len(got.Entries) != len(want) || !slices.IsSortedFunc(got.Entries, func(a, b archive.Entry) int { return strings.Compare(a.Path, b.Path) }) {
			t.Errorf("%s: %s, %v", format, got.Format, got.Entries)
		}
		if diff := cmp.Diff(want, filesIn(t, dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff[:min(len(diff), 2000)])
		}
	}
}

func TestWrite_IsReproducible(t *testing.T) {
	t.Parallel()
	files := manyFiles(50)
	for _, format := range archive.Formats() {
		want := sha256.Sum256(write(t, format, files))
		other := slices.Clone(files)
		slices.Reverse(other)
		if got := sha256.Sum256(write(t, format, other)); got != want {
			t.Errorf("%s: the order of the files changes the archive", format)
		}
	}
}

func TestWrite_DoesNotChangeTheFiles(t *testing.T) {
	t.Parallel()
	files := []archive.File{fileOf("b", ""), fileOf("a", "")}
	write(t, archive.Zip, files)
	if files[0].Path != "b" {
		t.Error("the files were sorted in place")
	}
}

func TestWrite_RejectsWhatExtractWould(t *testing.T) {
	t.Parallel()
	huge := func(path string, size int64) archive.File { return archive.File{Path: path, Size: size} }
	cases := map[string]struct {
		files []archive.File
		code  archive.Code
		entry string
	}{
		"none":       {nil, archive.CodeEmpty, ""},
		"too many":   {manyFiles(2001), archive.CodeTooLarge, ""},
		"macOS":      {[]archive.File{fileOf("pdf/.DS_Store", "")}, archive.CodeName, "pdf/.DS_Store"},
		"large":      {[]archive.File{huge("a", 64<<20+1)}, archive.CodeTooLarge, "a"},
		"large sum":  {[]archive.File{huge("a", 64<<20), huge("b", 64<<20), huge("c", 64<<20), huge("d", 64<<20), huge("e", 1)}, archive.CodeTooLarge, "e"},
		"negative":   {[]archive.File{huge("a", -1)}, archive.CodeIO, "a"},
		"deep":       {[]archive.File{fileOf(strings.Repeat("a/", 16)+"a", "")}, archive.CodeTooLarge, strings.Repeat("a/", 16) + "a"},
		"folder":     {[]archive.File{fileOf("a/", "")}, archive.CodeName, "a/"},
		"dot prefix": {[]archive.File{fileOf("./a", "")}, archive.CodeName, "./a"},
	}
	type testcase = struct {
		files []archive.File
		code  archive.Code
		entry string
	}
	for _, b := range badNames {
		cases[b.what] = testcase{[]archive.File{fileOf(b.name, "")}, archive.CodeName, b.name}
	}
	for _, p := range pairs {
		if !strings.HasSuffix(p.a, "/") && !strings.HasSuffix(p.b, "/") && !strings.HasPrefix(p.a, "__MACOSX") {
			cases[p.what] = testcase{[]archive.File{fileOf(p.a, ""), fileOf(p.b, "")}, archive.CodeDuplicate, max(p.a, p.b)}
		}
	}
	for name, c := range cases {
		for _, format := range archive.Formats() {
			err := archive.Write(t.Context(), io.Discard, format, c.files)
			if e, is := errors.AsType[*archive.Error](err); !is || e.Code != c.code || e.Entry != c.entry {
				t.Errorf("%s in %s: got %v, want code %s, entry %q", name, format, err, c.code, c.entry)
			}
		}
	}
	if err := archive.Write(t.Context(), io.Discard, "rar", []archive.File{fileOf("a", "")}); archive.CodeOf(err) != archive.CodeUnknownFormat {
		t.Errorf("unknown format: %v", err)
	}
}

func TestWrite_FailsIfAFileChanged(t *testing.T) {
	t.Parallel()
	longer, shorter, missing := fileOf("a", "text"), fileOf("a", "text"), fileOf("a", "text")
	longer.Size, shorter.Size = 3, 5
	missing.Open = func() (io.ReadCloser, error) { return nil, errors.New("missing") }
	reads := 0
	changing := archive.File{Path: "a", Size: 2 << 20, Open: func() (io.ReadCloser, error) {
		reads++
		return io.NopCloser(strings.NewReader(strings.Repeat(string(rune('a'+reads)), 2<<20))), nil
	}}
	for _, format := range archive.Formats() {
		for _, f := range []archive.File{longer, shorter, missing} {
			if err := archive.Write(t.Context(), io.Discard, format, []archive.File{f}); archive.CodeOf(err) != archive.CodeIO {
				t.Errorf("%s: got %v", format, err)
			}
		}
	}
	if err := archive.Write(t.Context(), io.Discard, archive.Zip, []archive.File{changing}); archive.CodeOf(err) != archive.CodeIO {
		t.Errorf("changed while it was packed: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWrite_ReportsFailedWritesAndCancellation(t *testing.T) {
	t.Parallel()
	files := manyFiles(10)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, format := range archive.Formats() {
		if err := archive.Write(t.Context(), failing{}, format, files); archive.CodeOf(err) != archive.CodeIO || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("%s: got %v", format, err)
		}
		if err := archive.Write(canceled, io.Discard, format, files); !errors.Is(err, context.Canceled) || archive.CodeOf(err) != "" {
			t.Errorf("%s: got %v", format, err)
		}
	}
}
