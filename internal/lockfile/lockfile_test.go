package lockfile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"metier/internal/lockfile"
)

func TestOneHolderAtATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	if lockfile.Held(path) {
		t.Fatal("a file that is not there is held")
	}
	var all sync.WaitGroup
	inside, most := 0, 0
	var guard sync.Mutex
	for range 8 {
		all.Go(func() {
			l, err := lockfile.Wait(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			guard.Lock()
			inside++
			most = max(most, inside)
			guard.Unlock()
			if !lockfile.Held(path) {
				t.Error("nobody seems to hold it")
			}
			guard.Lock()
			inside--
			guard.Unlock()
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most != 1 {
		t.Errorf("%d held it at once", most)
	}
	if lockfile.Held(path) {
		t.Error("it is held after all let go")
	}
}

func TestATakenLockIsNotTakenAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, ok, err := lockfile.Try(path)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if second, ok, err := lockfile.Try(path); ok || err != nil || second.Release() != nil {
		t.Errorf("taken twice: %v %v", ok, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockfile.Wait(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting ended with %v", err)
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if l, ok, err := lockfile.Try(path); !ok || err != nil || l.Release() != nil {
		t.Errorf("a free lock: %v %v", ok, err)
	}
	if _, _, err := lockfile.Try(filepath.Join(path, "below-a-file")); err == nil {
		t.Error("a lock where no file can be")
	}
}

// A file of another type in place of a lock neither blocks nor is followed.
func TestALockThatIsNoFileIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, link, target := filepath.Join(dir, "folder"), filepath.Join(dir, "link"), filepath.Join(dir, "target")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	paths := []string{folder}
	if os.Symlink(target, link) == nil {
		paths = append(paths, link)
	}
	for _, path := range paths {
		if _, ok, err := lockfile.Try(path); ok || err == nil {
			t.Errorf("Try(%s): %v %v", path, ok, err)
		}
		if _, err := lockfile.Wait(t.Context(), path); err == nil {
			t.Errorf("Wait(%s): no error", path)
		}
	}
	if _, err := os.Lstat(target); err == nil {
		t.Error("a lock was made behind a link")
	}
}

// If a link replaces a lock that is held, nothing is written to the link's
// target.
func TestSign_LeavesAloneWhatReplacedTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "lock"), filepath.Join(dir, "victim")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, other := range []string{"link", "file"} {
		l, ok, err := lockfile.Try(path)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if err := l.Sign(root, []byte("first\n")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(victim, []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		place := os.Rename // the victim itself
		if other == "link" {
			place = os.Symlink
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		if err := place(victim, path); err != nil {
			t.Fatal(err)
		}
		if err := l.Sign(root, []byte("second\n")); err == nil {
			t.Errorf("%s: signed", other)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "kept" {
			t.Errorf("%s: it holds %q (%v)", other, b, err)
		}
		if err := errors.Join(l.Release(), os.Remove(path)); err != nil {
			t.Fatal(err)
		}
	}
}
