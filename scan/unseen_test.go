package scan_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"metier/scan"
)

// These skills were written to measure the rules. docs/guides/scanning.md has the figures from before
// the rules were changed for them.
func TestUnseenSkills(t *testing.T) {
	t.Parallel()
	for folder, attack := range map[string]bool{"hostile": true, "benign": false} {
		files, err := filepath.Glob("testdata/" + folder + "/*.txtar")
		if err != nil || len(files) < 10 {
			t.Fatalf("%s has %d skills: %v", folder, len(files), err)
		}
		wrong := 0
		for _, p := range files {
			archive, err := txtar.ParseFile(p)
			if err != nil {
				t.Fatal(err)
			}
			tree := fstest.MapFS{}
			for _, f := range archive.Files {
				tree[f.Name] = &fstest.MapFile{Data: f.Data}
			}
			r, err := scan.Skill(t.Context(), tree, nil)
			if err != nil {
				t.Fatal(err)
			}
			if (r.Verdict != scan.Clean) != attack {
				wrong++
				t.Errorf("%s/%s is %s: %+v", folder, strings.TrimSuffix(filepath.Base(p), ".txtar"), r.Verdict, r.Findings)
			}
		}
		t.Logf("%s: %d of %d wrong", folder, wrong, len(files))
	}
}
