package rootfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"metier/internal/rootfile"
	"metier/internal/testenv"
)

func openRoot(t *testing.T) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func TestEnterPath_RejectsLinksAndFiles(t *testing.T) {
	t.Parallel()
	root := openRoot(t)
	if err := errors.Join(root.MkdirAll("a/b", 0o755), root.WriteFile("a/file", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := root.Symlink("b", "a/link"); err != nil {
		testenv.Skip(t, fmt.Sprintf("this system lets us make no links: %v", err))
	}
	for p, want := range map[string]error{".": nil, "a": nil, "a/b": nil, "a/link": rootfile.ErrLink, "a/link/c": rootfile.ErrLink, "a/file": rootfile.ErrLink, "a/none": os.ErrNotExist} {
		dir, err := rootfile.EnterPath(root, p, nil)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", p, err, want)
		}
		if err == nil {
			err = dir.Close()
		}
		if want == nil && err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestEnterPath_CreatesMissingFolders(t *testing.T) {
	t.Parallel()
	root := openRoot(t)
	if err := root.Mkdir("a", 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := rootfile.EnterPath(root, "a/b/c", rootfile.Mkdir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dir.WriteFile("x", nil, 0o600), dir.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(root.Name(), "a", "b", "c", "x")); err != nil {
		t.Error(err)
	}
}
