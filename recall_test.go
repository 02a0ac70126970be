package metier_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"metier"
	"metier/internal/testenv"
	"metier/settings"
	"metier/source/local"
)

// question is what a user might ask for, with the skills of the corpus, by
// path, that answer it.
type question struct {
	Question string
	Skills   []string
}

func questions(t *testing.T) []question {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "recall.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []question
	for in := bufio.NewScanner(f); in.Scan(); {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		out = append(out, q)
	}
	if len(out) != 200 {
		t.Fatalf("%d questions", len(out))
	}
	return out
}

// corpusWorld has the corpus of real skills as its only root.
func corpusWorld(t *testing.T) *fixture {
	t.Helper()
	corpus, err := filepath.EvalSymlinks(testenv.Corpus(t))
	if err != nil {
		t.Fatal(err)
	}
	src, err := local.New(corpus, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newFixture(t, settings.DefaultProfile, nil)
	w.roots = []metier.Mount{{Label: "corpus", Source: src, Root: corpus}}
	return w.open()
}

// Of 200 questions about real skills, at least 95% lead to the right one: it is in the catalog of
// 4,000 tokens, or among the first ten results of a search for the question.
func TestTheRightSkillIsFound(t *testing.T) {
	t.Parallel()
	w := corpusWorld(t)
	cat := w.Catalog(t.Context())
	if cat.Budget != 4000 || cat.Tokens > cat.Budget {
		t.Errorf("%d tokens of %d", cat.Tokens, cat.Budget)
	}
	listed := map[string]bool{}
	for _, e := range cat.Entries {
		sk, err := w.Snapshot().Find(e.Name)
		if err != nil {
			t.Fatal(err)
		}
		listed[sk.ID.Path] = true
	}
	var inCatalog, described, first, firstTen, either int
	for _, q := range questions(t) {
		found, err := w.Snapshot().Search(t.Context(), q.Question, 10, nil)
		if err != nil {
			t.Fatal(err)
		}
		rank := slices.IndexFunc(found.Skills, func(sk metier.Skill) bool { return slices.Contains(q.Skills, sk.ID.Path) })
		told := slices.ContainsFunc(q.Skills, func(p string) bool { return listed[p] })
		if told {
			inCatalog++
			if cat.Rung != "names" {
				described++
			}
		}
		if rank == 0 {
			first++
		}
		if rank >= 0 {
			firstTen++
		} else {
			t.Logf("search does not find %s for %q (%q)", q.Skills, q.Question, found.Meant)
		}
		if told || rank >= 0 {
			either++
		}
	}
	t.Logf("catalog: rung %s, %d listed, %d omitted, %d tokens of %d", cat.Rung, len(cat.Entries), cat.Omitted, cat.Tokens, cat.Budget)
	t.Logf("of 200: %d named in the catalog, %d of them described; search: %d first, %d in the first ten; catalog or search %d", inCatalog, described, first, firstTen, either)
	if either < 190 || firstTen < 180 {
		t.Errorf("%d of 200 are found, %d of them by search, want at least 190 and 180", either, firstTen)
	}
}
