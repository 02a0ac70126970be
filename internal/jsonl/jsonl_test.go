package jsonl_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"metier/internal/jsonl"
)

// lines writes each line as "N off:size bytes flags".
func lines(r io.Reader, limit int) ([]string, error) {
	var out []string
	for l, err := range jsonl.Scan(r, 100, limit) {
		if err != nil {
			return out, err
		}
		flags := ""
		if l.Torn {
			flags += " torn"
		}
		if l.Long {
			flags += " long"
		}
		out = append(out, fmt.Sprintf("%d %d:%d %.5q%s", l.N, l.Off, l.Size, l.Bytes, flags))
	}
	return out, nil
}

func TestScan(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		name, in string
		limit    int
		want     []string
	}{
		{"nothing", "", 9, nil},
		{"lines", "a\nbc\n", 9, []string{`1 100:1 "a"`, `2 102:2 "bc"`}},
		{"an empty line", "\n\na\n", 9, []string{`1 100:0 ""`, `2 101:0 ""`, `3 102:1 "a"`}},
		{"no newline at the end", "a\nbc", 9, []string{`1 100:1 "a"`, `2 102:2 "bc" torn`}},
		{"exactly the limit", "abc\nabc", 3, []string{`1 100:3 "abc"`, `2 104:3 "abc" torn`}},
		{"past the limit", "abcd\na\nabcd", 3, []string{`1 100:4 "" long`, `2 105:1 "a"`, `3 107:4 "" torn long`}},
		{"longer than any buffer", big + "\na\n" + big, 100_000, []string{`1 100:100000 "xxxxx"`, `2 100101:1 "a"`, `3 100103:100000 "xxxxx" torn`}},
		{"much past the limit", big + "\na\n", 10, []string{`1 100:100000 "" long`, `2 100101:1 "a"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for name, r := range map[string]io.Reader{
				"whole": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in)),
				"end with the data": iotest.DataErrReader(strings.NewReader(c.in)),
			} {
				got, err := lines(r, c.limit)
				if err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

func TestScanReportsTheReadersError(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad disk")
	got, err := lines(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(bad)), 9)
	if !errors.Is(err, bad) || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

func open(t *testing.T, path string, o *jsonl.Options) *jsonl.File {
	t.Helper()
	f, err := jsonl.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFailedWriteIsUndone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	fail := errors.New("no more")
	var before func() error
	f := open(t, path, &jsonl.Options{Write: func(f *os.File, b []byte, off int64) (int, error) {
		if before == nil {
			return f.WriteAt(b, off)
		}
		n, err := f.WriteAt(b[:2], off)
		return n, errors.Join(err, before())
	}})
	if _, err := f.Append([]byte("one\n")); err != nil {
		t.Fatal(err)
	}
	before = func() error { return fail }
	if _, err := f.Append([]byte("two\n")); !errors.Is(err, fail) || content(t, path) != "one\n" || f.Size() != 4 {
		t.Errorf("%v, %q", err, content(t, path))
	}
	before = func() error { return nil }
	if _, err := f.Append([]byte("two\n")); !errors.Is(err, io.ErrShortWrite) || content(t, path) != "one\n" {
		t.Errorf("%v, %q", err, content(t, path))
	}
	before = nil
	if off, err := f.Append([]byte("two\n")); err != nil || off != 4 || content(t, path) != "one\ntwo\n" {
		t.Errorf("%d, %v, %q", off, err, content(t, path))
	}
	if err := f.Sync(); err != nil {
		t.Error(err)
	}
	if err := f.Cut(4); err != nil || content(t, path) != "one\n" {
		t.Errorf("%v, %q", err, content(t, path))
	}
}

func TestChangeFromOutsideIsNotWrittenOver(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	f := open(t, path, nil)
	if err := os.WriteFile(path, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Append([]byte("ours\n")); !errors.Is(err, jsonl.ErrChanged) || content(t, path) != "theirs" {
		t.Errorf("%v, %q", err, content(t, path))
	}
}
