package injection_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier/internal/injection"
	"metier/internal/testenv"
)

// samples returns the texts of a file, one per line, with \n and \t escaped.
// The rules were tuned on the even ones; the odd ones measure them.
func samples(t *testing.T, name string) []string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) < 60 {
		t.Fatalf("%s has %d samples", name, len(lines))
	}
	for i := range lines {
		lines[i] = strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(lines[i])
	}
	return lines
}

func TestOrders_SeparatesOrdersFromMentions(t *testing.T) {
	t.Parallel()
	for name, orders := range map[string]bool{"benign.txt": false, "hostile.txt": true} {
		wrong := [2]int{}
		for i, text := range samples(t, name) {
			if injection.Orders(injection.Find(text)) != orders {
				wrong[i%2]++
				t.Errorf("%s: %q", name, text)
			}
		}
		t.Logf("%s: %d wrong of the half for tuning, %d of the half for measuring", name, wrong[0], wrong[1])
	}
}

// Of the skills of the corpus only the hostile one with such an order is kept
// from a model. Those that write about attacks load.
func TestOrders_BlocksOneSkillOfTheCorpus(t *testing.T) {
	t.Parallel()
	root := testenv.Corpus(t)
	var got []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.EqualFold(d.Name(), "SKILL.md") {
			return err
		}
		b, err := os.ReadFile(p)
		if injection.Orders(injection.Find(string(b))) {
			rel, _ := filepath.Rel(root, filepath.Dir(p))
			got = append(got, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"openclaw+skills/skills/c-goro/skillguard/test-fixtures/malicious-skill"}, got); diff != "" {
		t.Error(diff)
	}
}
