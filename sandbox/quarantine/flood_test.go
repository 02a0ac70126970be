//go:build linux

package quarantine

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
)

// A program that changes the permissions of its files again and again does not keep the guard from
// what it creates meanwhile: such an event costs a look at one folder at most.
func TestLook_ChecksOnlyTheFolderThatChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	g := &guard{host: dir, root: root, modes: modes{".": 0o700 | fs.ModeDir, "a": 0o700 | fs.ModeDir, "b": 0o700 | fs.ModeDir},
		watcher: &fsnotify.Watcher{Events: make(chan fsnotify.Event), Errors: make(chan error)}, ended: make(chan struct{})}
	for _, name := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	go g.look(func() { t.Error("the program was ended") })
	for _, name := range []string{"file", "a/file", "a"} {
		g.watcher.Events <- fsnotify.Event{Name: filepath.Join(dir, name), Op: fsnotify.Chmod}
	}
	close(g.watcher.Events)
	<-g.ended
	if diff := cmp.Diff([]string{"a"}, g.restored); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	if err := root.Close(); err != nil {
		t.Error(err)
	}
}
