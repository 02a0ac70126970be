package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"metier/cli"
)

// A fixed file keeps its mode. A file that cannot be written stays intact, without leftover files.
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
	if err := os.WriteFile(file, []byte("---\nname: a: b\ndescription: Does it.\n---\n"), 0o640); err != nil {
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
	if b, err := os.ReadFile(file); err != nil || string(b) != "---\nname: \"a: b\"\ndescription: Does it.\n---\n" {
		t.Errorf("%q, %v", b, err)
	}
	if all, err := os.ReadDir(filepath.Dir(file)); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// A file that another program changed while it was being fixed is left alone, and so is one that
// became a link.
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
