package gitrepos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The limit of bytes counts the whole path of each folder.
func TestFind_LimitsTheBytesOfPaths(t *testing.T) {
	t.Parallel()
	dir, long := t.TempDir(), strings.Repeat("d", 100)
	if err := os.MkdirAll(filepath.Join(dir, long, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int]bool{100 + 102 + 104: true, 100 + 102 + 103: false} {
		f := Finder{mostBytes: most}
		for range 2 {
			if _, whole := f.Find(t.Context(), dir, 100); whole != want {
				t.Errorf("at most %d bytes: whole %v", most, whole)
			}
		}
	}
}
