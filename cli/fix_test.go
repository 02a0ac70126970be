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
