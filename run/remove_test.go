package run_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"metier"
	"metier/event"
	"metier/record"
	"metier/run"
)

// Removing a record deletes everything, including its heads. A record in use is kept.
func TestARecordIsRemovedWhole(t *testing.T) {
	t.Parallel()
	root, state := t.TempDir(), t.TempDir()
	f, a := create(t, root, "gone", &run.Options{StateDir: state})
	a.open("cli-preload")
	o := &run.Options{Now: clock(), StateDir: state}
	var noted []record.Head
	full := errors.New("the note cannot be written")
	note := func(h record.Head) error { noted = append(noted, h); return full }
	wantCode(t, run.Remove(t.Context(), root, "gone", o, note), run.CodeLocked, metier.Conflict)
	ok(t, f.Close())
	if err := run.Remove(t.Context(), root, "gone", o, note); !errors.Is(err, full) {
		t.Errorf("removed without a note: %v", err)
	}
	full = nil
	heads := filepath.Join(state, "heads")
	if n := len(must[[]os.DirEntry](t)(os.ReadDir(heads))); n != 1 {
		t.Fatalf("%d files of heads", n)
	}
	ok(t, run.Remove(t.Context(), root, "gone", o, note))
	if last := must[record.Head](t)(f.Log().Head(t.Context())); len(noted) != 2 || noted[1] != last {
		t.Errorf("noted %v, the head was %v", noted, last)
	}
	for _, dir := range []string{root, heads} {
		if left := must[[]os.DirEntry](t)(os.ReadDir(dir)); len(left) > 0 {
			t.Errorf("%s is left in %s", left[0].Name(), dir)
		}
	}
	wantCode(t, run.Remove(t.Context(), root, "gone", o, note), run.CodeNotFound, metier.NotFound)
	wantCode(t, run.Remove(t.Context(), root, "../gone", o, note), run.CodeIDInvalid, metier.Invalid)
}

// The remains of a removal interrupted by a crash are deleted, and nothing else.
func TestHalfRemovedRecordsAreSweptAway(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{".removing-old/blobs", "kept/blobs"} {
		ok(t, os.MkdirAll(filepath.Join(root, name), 0o755))
	}
	ok(t, run.Sweep(root))
	if _, err := os.Stat(filepath.Join(root, ".removing-old")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "kept")); err != nil {
		t.Error(err)
	}
	ok(t, run.Sweep(filepath.Join(root, "none")))
}

// A session that is not a run is open while a process has it open, ended if its record says so, and
// otherwise interrupted.
func TestASessionThatIsNoRunEnds(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	status := func(id string) string {
		t.Helper()
		list := must[[]run.Summary](t)(run.List(t.Context(), root, nil))
		look := must[*run.Folder](t)(run.Look(root, id, nil))
		defer look.Close()
		shown := must[run.Report](t)(run.Show(t.Context(), look)).Status
		for _, s := range list {
			if s.ID == id {
				if s.Status != shown {
					t.Errorf("listed as %s, shown as %s", s.Status, shown)
				}
				return s.Status
			}
		}
		return "not listed"
	}
	for _, tt := range []struct {
		id, want string
		end      bool
	}{{"left", run.StatusInterrupted, false}, {"done", run.StatusEnded, true}} {
		f, a := create(t, root, tt.id, nil)
		a.add(event.SessionOpened{Session: tt.id})
		if got := status(tt.id); got != run.StatusOpen {
			t.Errorf("%s, while it is written to: %s", tt.id, got)
		}
		if tt.end {
			a.add(event.SessionEnded{Session: tt.id})
			ok(t, f.Checkpoint(t.Context()))
			valid(t, run.FileState, must[[]byte](t)(os.ReadFile(f.Path(run.FileState))))
		}
		ok(t, f.Close())
		if got := status(tt.id); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.id, got, tt.want)
		}
	}
}
