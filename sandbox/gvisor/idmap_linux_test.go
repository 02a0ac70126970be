package gvisor

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"metier/sandbox"
)

func TestExchanged_MapsEveryIDOnce(t *testing.T) {
	t.Parallel()
	last := syscall.SysProcIDMap{ContainerID: unused + 1, HostID: unused + 1, Size: highest - unused}
	for id, want := range map[int][]syscall.SysProcIDMap{
		0: {{ContainerID: 0, HostID: unused, Size: 1}, {ContainerID: 1, HostID: 1, Size: unused - 1}, {ContainerID: unused, HostID: 0, Size: 1}, last},
		1000: {{ContainerID: 0, HostID: 0, Size: 1000}, {ContainerID: 1000, HostID: unused, Size: 1},
			{ContainerID: 1001, HostID: 1001, Size: unused - 1001}, {ContainerID: unused, HostID: 1000, Size: 1}, last},
		unused: {{ContainerID: 0, HostID: 0, Size: unused}, {ContainerID: unused, HostID: unused, Size: 1}, last},
		highest: {{ContainerID: 0, HostID: 0, Size: unused}, {ContainerID: unused, HostID: highest, Size: 1},
			{ContainerID: unused + 1, HostID: unused + 1, Size: highest - unused - 1}, {ContainerID: highest, HostID: unused, Size: 1}},
	} {
		if diff := cmp.Diff(want, exchanged(id)); diff != "" {
			t.Errorf("%d: %s", id, diff)
		}
	}
}

// A file system such as ramfs cannot map IDs. An ordinary user does not need to map any.
func TestUse_ReportsThatOwnerCannotBeMapped(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &work{thread: newThread()}
	defer w.thread.close()
	var want []string
	if os.Geteuid() == 0 {
		want = []string{NoteOwner}
		if err := w.thread.do(func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			return unix.Mount("none", dir, "ramfs", 0, "")
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.use(&sandbox.Workspace{Host: dir}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, w.notes); diff != "" {
		t.Error(diff)
	}
	if w.uid != 0 {
		t.Errorf("got the ID %d, want that of the owner", w.uid)
	}
}
