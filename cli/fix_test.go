package cli_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"metier/cli"
)

// apply puts a diff on a text, as patch does, and fails where a line is not what the diff says.
func apply(t *testing.T, text, diff string) string {
	t.Helper()
	lines := strings.SplitAfter(text, "\n")
	out, at := "", 0
	_, hunks, _ := strings.Cut(diff, "@@ ")
	for hunk := range strings.SplitSeq("\n@@ "+hunks, "\n@@ ") {
		if hunk == "" {
			continue
		}
		head, body, _ := strings.Cut(hunk, "\n")
		var from, n, to, m int
		if _, err := fmt.Sscanf(head, "-%d,%d +%d,%d @@", &from, &n, &to, &m); err != nil {
			t.Fatalf("%q: %v", head, err)
		}
		if n > 0 {
			from--
		}
		if out += strings.Join(lines[at:from], ""); from < at || m > 0 && strings.Count(out, "\n") != to-1 {
			t.Fatalf("%q does not fit at line %d", head, at)
		}
		at = from
		all := strings.SplitAfter(body+"\n", "\n")
		for i, l := range all[:len(all)-1] {
			if l[0] == '\\' || l == "\n" {
				continue
			}
			if i+1 < len(all) && strings.HasPrefix(all[i+1], `\`) {
				l = strings.TrimSuffix(l, "\n")
			}
			if l[0] != '+' {
				if lines[at] != l[1:] {
					t.Fatalf("line %d is %q, the diff says %q", at+1, lines[at], l)
				}
				at, n = at+1, n-1
			}
			if l[0] != '-' {
				out, m = out+l[1:], m-1
			}
		}
		if n != 0 || m != 0 {
			t.Fatalf("%q counts %d and %d lines too many", head, n, m)
		}
	}
	return out + strings.Join(lines[at:], "")
}

// FuzzDiff: a diff makes the new text of the old one.
func FuzzDiff(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nx\nc\n")
	f.Add("", "a")
	f.Add("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n", "0\n1\n2\n3\n4\n5\n6\n7\n9\n10")
	f.Add("a\nb\na\nb\n", "b\na\nb\na\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		if strings.ContainsAny(a+b, "\r\\@") || a == b {
			return // the applier is simple
		}
		if got := apply(t, a, cli.Unified("a", "b", a, b)); got != b {
			t.Fatalf("%q with\n%s\nis %q, not %q", a, cli.Unified("a", "b", a, b), got, b)
		}
	})
}

// A file that is mended keeps its mode, and one that cannot be written is left whole, with nothing beside it.
func TestFixKeepsTheModeOfAFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // it has no such modes
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "a", "SKILL.md")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("---\nname: a: b\n---\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o751); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	if code := cli.Main(t.Context(), []string{"fix", "--write", "a"}, nil, cli.IO{In: strings.NewReader(""), Out: &out, Err: &errs, Dir: dir}); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "---\nname: \"a: b\"\n---\n" {
		t.Errorf("%q, %v", b, err)
	}
	if all, err := os.ReadDir(filepath.Dir(file)); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// A file that somebody else wrote while it was mended is left as it is, and so is what became a link.
func TestFixLeavesAFileThatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	file := filepath.Join(dir, "SKILL.md")
	if err := os.WriteFile(file, []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := cli.Rewrite(root, "SKILL.md", []byte("old"), []byte("new"), 0o644); !errors.Is(err, cli.ErrChanged) {
		t.Error(err)
	}
	if os.Rename(file, filepath.Join(dir, "other")) == nil && os.Symlink("other", file) == nil {
		if err := cli.Rewrite(root, "SKILL.md", []byte("theirs"), []byte("new"), 0o644); !errors.Is(err, cli.ErrChanged) {
			t.Error(err)
		}
		file = filepath.Join(dir, "other")
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "theirs" {
		t.Errorf("%q, %v", b, err)
	}
	if all, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(all) != 0 {
		t.Errorf("left beside it: %q, %v", all, err)
	}
}
