package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"metier/internal/testenv"
)

func TestWriteReplacesWhole(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	for _, content := range []string{"first, and longer", "second", ""} {
		if err := Write(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); got != content {
			t.Errorf("content = %q, want %q", got, content)
		}
	}
	wantOnly(t, path)
	if runtime.GOOS != "windows" {
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode().Perm() != 0o600 {
			t.Errorf("mode = %v, want 0600", fi.Mode())
		}
	}
}

func TestWriteReplacesASymlinkItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		testenv.Skip(t, fmt.Sprintf("symlinks need a privilege here: %v", err))
	}
	if err := Write(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if read(t, target) != "old" || read(t, link) != "new" {
		t.Errorf("target %q, link %q", read(t, target), read(t, link))
	}
}

// Tests with a hook share one process-wide variable, so the hooks check the
// path.
var hookMu sync.Mutex

func withHook(t *testing.T, h func(stage, path string) error) {
	t.Helper()
	hookMu.Lock()
	undo := SetHook(h)
	t.Cleanup(func() { undo(); hookMu.Unlock() })
}

func TestFaultAtEachStage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		stage, want string
		cause       error
	}{
		{BeforeWrite, "old", syscall.ENOSPC},
		{AfterWrite, "old", syscall.ENOSPC},
		{BeforeRename, "old", syscall.EROFS},
		{AfterRename, "new", syscall.EIO},
	} {
		t.Run(tc.stage, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.json")
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			withHook(t, func(stage, p string) error {
				if p != path || stage != tc.stage {
					return nil
				}
				return fmt.Errorf("made up: %w", tc.cause)
			})
			err := Write(path, []byte("new"), 0o600)
			if !errors.Is(err, tc.cause) || !strings.Contains(err.Error(), path) {
				t.Errorf("err = %v, want %v and the path", err, tc.cause)
			}
			if got := read(t, path); got != tc.want {
				t.Errorf("content = %q, want %q", got, tc.want)
			}
			wantOnly(t, path)
		})
	}
}

// Content that was prepared is not visible before Commit, and leaves nothing after Discard.
func TestPrepare_ChangesNothingBeforeCommit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	if err := Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, commit := range []bool{false, true} {
		p, err := Prepare(root, "state.json", "s", 0o600, true, []byte("new"))
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); got != "old" {
			t.Errorf("content = %q before Commit", got)
		}
		want := "old"
		if commit {
			want, err = "new", p.Commit()
		} else {
			p.Discard()
		}
		if got := read(t, path); got != want || err != nil {
			t.Errorf("content = %q, %v, want %q", got, err, want)
		}
		wantOnly(t, path)
	}
}

func TestReaderNeverSeesAMix(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	a, b := strings.Repeat("a", 1<<16), strings.Repeat("b", 1<<16)
	if err := Write(path, []byte(a), 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 50 {
			if err := Write(path, []byte([]string{a, b}[i%2]), 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	for range 500 {
		if got := read(t, path); got != a && got != b {
			t.Fatalf("mixed content of %d bytes", len(got))
		}
	}
	wg.Wait()
}

func TestErrorsNameThePathAndLeaveNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	missing := filepath.Join(dir, "no", "state")
	if err := Write(missing, nil, 0o600); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing folder: %v", err)
	}
	folder := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(folder, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(folder, nil, 0o600); err == nil {
		t.Error("wrote over a folder")
	}
	wantOnly(t, folder)
}

func TestFixedSuffixClearsALeftover(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	tmp := filepath.Join(filepath.Dir(path), ".state.lock.tmp")
	if err := os.WriteFile(tmp, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(path, "lock", []byte("whole"), 0o600, true); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); got != "whole" {
		t.Errorf("content = %q", got)
	}
	wantOnly(t, path)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// wantOnly fails if path's folder has any other file.
func wantOnly(t *testing.T, path string) {
	t.Helper()
	list, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Name() != filepath.Base(path) {
			t.Errorf("left behind: %s", e.Name())
		}
	}
}
