package repocheck_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"metier/internal/repocheck"
	"metier/internal/testenv"
)

var update = flag.Bool("update", false, "write docs/internal/requirements.md")

// steps are the rows that each step has to prove; the count next to the name
// guards against a lost line.
func steps(t *testing.T) map[string][]string {
	t.Helper()
	b, err := os.ReadFile("testdata/steps.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		var name string
		var n int
		if _, err := fmt.Sscan(line, &name, &n); err != nil {
			t.Fatal(err)
		}
		rows, err := repocheck.ParseRanges(strings.Join(strings.Fields(line)[2:], " "))
		if err != nil || len(rows) != n {
			t.Fatalf("%s: %d rows, want %d, %v", name, len(rows), n, err)
		}
		out[name] = rows
	}
	return out
}

// known reads the ids of all rows.
func known(t *testing.T) map[string]bool {
	t.Helper()
	dir := testenv.Requirements(t)
	docs, err := filepath.Glob(filepath.Join(dir, "[A-E]-*.md"))
	if err != nil || len(docs) == 0 {
		t.Fatalf("no documents in %s, %v", dir, err)
	}
	ids := map[string]bool{}
	for _, doc := range docs {
		b, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range repocheck.Rows(b) {
			ids[r] = true
		}
	}
	return ids
}

func TestRequirements_NamedRowsExist(t *testing.T) {
	t.Parallel()
	_, findings := repository(t).Proofs(known(t))
	for _, f := range findings {
		t.Error(f)
	}
}

func TestRequirementsAreCurrent(t *testing.T) {
	t.Parallel()
	proofs, findings := repository(t).Proofs(nil) // the rows may be missing next to this clone
	for _, f := range findings {
		t.Error(f)
	}
	want := repocheck.Requirements(proofs, steps(t))
	file := filepath.Join(testenv.Module(t), "docs", "internal", "requirements.md")
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), string(want)); diff != "" {
		t.Errorf("make docs writes docs/internal/requirements.md anew (-file +tests):\n%s", diff)
	}
}

func TestProofsAreReadAtTheirPlace(t *testing.T) {
	t.Parallel()
	rows := map[string]bool{"A-001": true, "A-002": true, "A-003": true, "A-004": true}
	const head = "package p\n\n"
	req := "// " + "req: "
	tests := []struct {
		name, path, text string
		proofs           []string
		findings         []string
	}{
		{"directly above a test", "p_test.go", head + "// why\n" + req + "A-001, A-002\nfunc TestA() {}\n" + req + "A-003\nfunc FuzzB() {}\n",
			[]string{"A-001 TestA", "A-002 TestA", "A-003 FuzzB"}, nil},
		{"not the last line above", "p_test.go", head + req + "A-001\n// more\nfunc TestA() {}\n", nil, []string{"p_test.go:3: a req line stands"}},
		{"a blank line between", "p_test.go", head + req + "A-001\n\nfunc TestA() {}\n", nil, []string{"p_test.go:3: a req line stands"}},
		{"inside a test", "p_test.go", head + "func TestA() {\n\t" + req + "A-001\n}\n", nil, []string{"p_test.go:4: a req line stands"}},
		{"above something else", "p_test.go", head + req + "A-001\nfunc helper() {}\n", nil, []string{"p_test.go:3: a req line stands"}},
		{"not a test file", "p.go", head + req + "A-001\nfunc TestA() {}\n", nil, []string{"p.go:3: a req line stands"}},
		{"twice above one test", "p_test.go", head + req + "A-001\n" + req + "A-002\nfunc TestA() {}\n", []string{"A-002 TestA"}, []string{"p_test.go:3: a req line stands"}},
		{"more than three", "p_test.go", head + req + "A-001, A-002, A-003, A-004\nfunc TestA() {}\n",
			[]string{"A-001 TestA", "A-002 TestA", "A-003 TestA", "A-004 TestA"}, []string{"p_test.go:3: 4 rows, at most 3"}},
		{"unknown, malformed, doubled", "p_test.go", head + req + "A-001, B-001, A-1, A-001\nfunc TestA() {}\n",
			[]string{"A-001 TestA"}, []string{"p_test.go:3: there is no row B-001", `p_test.go:3: "A-1" is no row`, "p_test.go:3: A-001 is named twice"}},
		{"a script", "a.txtar", "# why\n# req: A-001\n\nexec true\n-- f --\n# req: A-002\n", []string{"A-001 "}, nil},
		{"late in a script", "a.txtar", "exec true\n# req: A-001\n", nil, []string{"a.txtar:2: a req line stands"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree, err := repocheck.Load(fstest.MapFS{tt.path: {Data: []byte(tt.text)}})
			if err != nil {
				t.Fatal(err)
			}
			proofs, findings := tree.Proofs(rows)
			var got []string
			for _, p := range proofs {
				got = append(got, p.Row+" "+p.Test)
			}
			if diff := cmp.Diff(tt.proofs, got); diff != "" {
				t.Errorf("proofs: %s", diff)
			}
			ok := len(findings) == len(tt.findings)
			for i := range min(len(findings), len(tt.findings)) {
				ok = ok && strings.HasPrefix(findings[i].String(), tt.findings[i])
			}
			if !ok {
				t.Errorf("findings: got %v, want %q", findings, tt.findings)
			}
		})
	}
}

func TestRequirementsPageListsWhatIsMissing(t *testing.T) {
	t.Parallel()
	got := string(repocheck.Requirements(
		[]repocheck.Proof{{Row: "A-001", Path: "p_test.go", Test: "TestA"}, {Row: "A-001", Path: "a.txtar"}},
		map[string][]string{"S1": {"A-001", "A-002"}}))
	for _, want := range []string{"Step S1: 1 of 2 rows have tests. Not yet: A-002.", "| A-001 | `p_test.go:TestA`<br>`a.txtar` |\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}
