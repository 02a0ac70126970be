package guest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGive_ChangesOwnerOfFoldersAndFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names := []string{".", "job", "job/pids.max"}
	if err := os.Mkdir(filepath.Join(dir, "job"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "job/pids.max"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	to := os.Geteuid()
	if to == 0 {
		to = 1
	}
	if err := give(dir, to); err != nil {
		t.Fatal(err)
	}
	want, got := map[string]int{}, map[string]int{}
	for _, name := range names {
		var st syscall.Stat_t
		if err := syscall.Lstat(filepath.Join(dir, name), &st); err != nil {
			t.Fatal(err)
		}
		want[name], got[name] = to, int(st.Uid)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
