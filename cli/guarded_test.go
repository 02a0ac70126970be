package cli

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Projects that are gone are forgotten, and what cannot be read is said once.
func TestRemember_ForgetsProjectsThatAreGone(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	state, gone, here := t.TempDir(), filepath.Join(t.TempDir(), "gone"), t.TempDir()
	a := newApp([]string{"HOME=" + state, "XDG_STATE_HOME=" + state}, IO{In: strings.NewReader(""), Out: &said, Err: &said})
	if err := os.Mkdir(gone, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := a.remember(gone); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	if err := a.remember(here); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{here}, slices.Collect(maps.Values(a.projects()))); diff != "" {
		t.Errorf("projects (-want +got):\n%s", diff)
	}
	if err := os.Mkdir(filepath.Join(a.env.StateDir(), "projects", strings.Repeat("a", 64)), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if diff := cmp.Diff([]string{here}, slices.Collect(maps.Values(a.projects()))); diff != "" {
			t.Errorf("projects (-want +got):\n%s", diff)
		}
	}
	if n := strings.Count(said.String(), "note: the list of projects"); n != 1 {
		t.Errorf("%d notes: %s", n, said.String())
	}
}
