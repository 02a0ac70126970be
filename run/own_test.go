package run_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/run"
)

// A record from elsewhere does not take the place of the user's own runs.
func TestFindOwn_RefusesANewerRecordFromElsewhere(t *testing.T) {
	t.Parallel()
	root, elsewhere, state := t.TempDir(), t.TempDir(), t.TempDir()
	made := func(root, id, state string, at time.Time) {
		t.Helper()
		f, a := create(t, root, id, &run.Options{StateDir: state, Now: func() time.Time { return at }})
		a.begin()
		ok(t, f.Close())
	}
	now := time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)
	made(root, "own", state, now)
	made(elsewhere, "foreign", t.TempDir(), now.Add(time.Hour))
	if err := os.CopyFS(filepath.Join(root, "foreign"), os.DirFS(filepath.Join(elsewhere, "foreign"))); err != nil {
		t.Fatal(err)
	}
	o := &run.Options{StateDir: state}
	for name, c := range map[string]struct {
		root, what string
		o          *run.Options
		id, code   string
	}{
		"latest":                              {root, "latest", o, "", "run_unwitnessed"},
		"its ID":                              {root, "foreign", o, "foreign", ""},
		"latest without recorded heads":       {root, "latest", nil, "foreign", ""},
		"latest where all are from elsewhere": {elsewhere, "latest", o, "foreign", ""},
	} {
		_, id, err := run.FindOwn(c.root, c.what, c.o)
		code := ""
		if err != nil {
			code = metier.CodeOf(err)
		}
		if diff := cmp.Diff([]string{c.id, c.code}, []string{id, code}); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
