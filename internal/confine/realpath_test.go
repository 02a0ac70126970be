package confine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"metier/internal/confine"
	"metier/internal/testenv"
)

func TestRealPath_LeadsWhereEvalSymlinksDoes(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		testenv.Skip(t, "symlinks need a privilege on windows")
	}
	dir := t.TempDir()
	for _, step := range []error{
		os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700), os.WriteFile(filepath.Join(dir, "a", "b", "f"), nil, 0o600),
		os.Symlink("a", filepath.Join(dir, "rel")), os.Symlink(filepath.Join(dir, "rel", "b"), filepath.Join(dir, "abs")),
		os.Symlink("loop", filepath.Join(dir, "loop")), os.Symlink("none", filepath.Join(dir, "dangling")),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	for _, p := range []string{"", "a/b/f", "rel/b/f", "abs/f", "abs/../f", "loop", "dangling", "none", "a/b/f/x"} {
		p = filepath.FromSlash(dir + "/" + p)
		want, wantErr := filepath.EvalSymlinks(p)
		got, err := confine.RealPath(p)
		if got != want || (err == nil) != (wantErr == nil) || errors.Is(err, fs.ErrNotExist) != errors.Is(wantErr, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v, want %q, %v", p, got, err, want, wantErr)
		}
	}
	if _, err := confine.RealPath("a"); err == nil {
		t.Error("a relative path is taken")
	}
}

// Each path is resolved like by the functions for one path, also if paths share folders, and only once.
func TestPaths_ResolveAsOneByOne(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		testenv.Skip(t, "symlinks need a privilege on windows")
	}
	dir := t.TempDir()
	for _, step := range []error{
		os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700), os.WriteFile(filepath.Join(dir, "f"), nil, 0o600),
		os.Symlink("a", filepath.Join(dir, "rel")), os.Symlink("none", filepath.Join(dir, "dangling")), os.Symlink("loop", filepath.Join(dir, "loop")),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	var list []string
	for _, p := range []string{"", "a", "a/b", "rel", "rel/b", "rel/b/../b", "rel/none/x", "none", "none/x", "none/y", "dangling", "dangling/x", "loop", "loop/x", "f", "f/x"} {
		list = append(list, dir+"/"+p)
	}
	list = append(list, "", "a", "a/b", "/")
	var paths confine.Paths
	for range 2 {
		for _, p := range list {
			want, wantErr := confine.RealPath(p)
			if got, err := paths.RealPath(p); got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("RealPath(%s): %q, %v, want %q, %v", p, got, err, want, wantErr)
			}
			if got, want := paths.RealPathOfExisting(p), confine.RealPathOfExisting(p); got != want {
				t.Errorf("RealPathOfExisting(%s): %q, want %q", p, got, want)
			}
			for _, q := range list {
				if got, want := paths.Within(p, q), confine.Within(p, q); got != want {
					t.Errorf("Within(%s, %s): %v, want %v", p, q, got, want)
				}
			}
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "none"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := paths.RealPath(dir + "/none"); err == nil {
		t.Error("a path was resolved again")
	}
}

// A chain of more links than the system follows fails at once, however long its
// paths are.
func TestRealPath_EndsAtLongChains(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "only here the system follows the links")
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		if err := os.Symlink(strings.Repeat("d/../", 100)+fmt.Sprint("l", i+1), filepath.Join(dir, fmt.Sprint("l", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "l60"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := confine.RealPath(filepath.Join(dir, "l0")); err == nil {
		t.Error("60 links are followed")
	}
	if got, err := confine.RealPath(filepath.Join(dir, "l30")); err != nil || filepath.Base(got) != "l60" {
		t.Errorf("30 links: %q, %v", got, err)
	}
}
