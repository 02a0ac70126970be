package scan

import (
	"regexp"
	"slices"
	"testing"
	"testing/fstest"
)

func scanned(t *testing.T, files ...sample) Report {
	t.Helper()
	tree := fstest.MapFS{}
	for _, f := range files {
		tree[f.file] = &fstest.MapFile{Data: []byte(f.text)}
	}
	r, err := Skill(t.Context(), tree, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func finds(r Report, id string, least Confidence) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Rule == id && sure(f.Confidence) >= sure(least) })
}

func TestRules_MatchTheirExamples(t *testing.T) {
	t.Parallel()
	ids, word := map[string]bool{}, regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	for _, r := range rules {
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			if len(r.bad) == 0 || len(r.good) == 0 {
				t.Error("it needs an example that matches and one that does not")
			}
			for _, x := range r.bad {
				if got := scanned(t, x); !finds(got, r.ID, min2(Likely, r.Confidence)) {
					t.Errorf("%s %q is not found: %+v", x.file, x.text, got.Findings)
				}
			}
			for _, x := range r.good {
				if got := scanned(t, x); finds(got, r.ID, min2(Likely, r.Confidence)) {
					t.Errorf("%s %q is found: %+v", x.file, x.text, got.Findings)
				}
			}
		})
		switch {
		case ids[r.ID] || !word.MatchString(r.ID):
			t.Errorf("%s: not an ID, or used twice", r.ID)
		case r.Title == "" || r.Why == "" || r.Fix == "" || rank(r.Severity) < 0 || sure(r.Confidence) < 0:
			t.Errorf("%s is incomplete", r.ID)
		}
		ids[r.ID] = true
	}
}

func min2(a, b Confidence) Confidence {
	if sure(a) < sure(b) {
		return a
	}
	return b
}
