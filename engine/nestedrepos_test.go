package engine

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/testenv"
)

// The user can remove a repository that a program created, and make another one at its path.
func TestRepos_KnowsNewRepositoriesOfTheUser(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		testenv.Skip(t, "programs have a sandbox on Linux only")
		return
	}
	dir, r := t.TempDir(), &repos{}
	for _, p := range []string{"a/.git", "b/.git"} {
		if err := os.MkdirAll(filepath.Join(dir, p), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.created(dir, []string{"a", "b"})
	if got, _ := r.find(dir, 100); len(got) > 0 {
		t.Errorf("of the user: %q", got)
	}
	git := filepath.Join(dir, "b", ".git")
	if err := errors.Join(os.RemoveAll(git), os.MkdirAll(git, 0o700)); err != nil {
		t.Fatal(err)
	}
	got, _ := r.find(dir, 100)
	if diff := cmp.Diff([]string{"b"}, got); diff != "" {
		t.Error(diff)
	}
}
