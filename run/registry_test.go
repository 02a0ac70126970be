package run_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"metier/run"
)

// req: A-008
func TestTwoScansGiveTheSameRegistry(t *testing.T) {
	t.Parallel()
	root := must[string](t)(filepath.EvalSymlinks(skillsFolder(t)))
	var scans []map[string]any
	for i := range 2 {
		// The same run, a day later and stored elsewhere: only the scan differs.
		begin := clock()().AddDate(0, 0, i)
		now := func() time.Time { begin = begin.Add(time.Second); return begin }
		f, _ := create(t, t.TempDir(), "scan", nil)
		work(t, f, root, now, counter("id"))
		ok(t, f.Project(t.Context()))
		scans = append(scans, readJSON[map[string]any](t, f, run.FileRegistry))
	}
	if len(scans[0]["skills"].([]any)) != 2 {
		t.Fatalf("registry of %v", scans[0]["skills"])
	}
	if scans[0]["generatedAt"] == scans[1]["generatedAt"] {
		t.Errorf("both were made at %v", scans[0]["generatedAt"])
	}
	for _, s := range scans {
		delete(s, "generatedAt")
	}
	if diff := cmp.Diff(scans[0], scans[1]); diff != "" {
		t.Errorf("(-first +second)\n%s", diff)
	}
}
