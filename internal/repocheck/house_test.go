package repocheck_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"metier/internal/repocheck"
	"metier/internal/testenv"
)

func repository(t *testing.T) *repocheck.Tree {
	t.Helper()
	tree, err := repocheck.Load(os.DirFS(testenv.Module(t)))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// rules are the checks over the whole tree.
var rules = map[string]func(*repocheck.Tree) []repocheck.Finding{
	"sizes":      (*repocheck.Tree).Sizes,
	"docs":       (*repocheck.Tree).Docs,
	"comments":   (*repocheck.Tree).Comments,
	"names":      (*repocheck.Tree).Names,
	"hints":      (*repocheck.Tree).Hints,
	"words":      (*repocheck.Tree).Words,
	"modules":    (*repocheck.Tree).Modules,
	"build tags": (*repocheck.Tree).Tags,
	"waits":      (*repocheck.Tree).Waits,
	"decisions":  (*repocheck.Tree).Decisions,
}

func TestRepositoryKeepsItsRules(t *testing.T) {
	t.Parallel()
	tree := repository(t)
	if len(tree.Go(repocheck.IsGo)) < 50 {
		t.Fatalf("only %d Go files were read", len(tree.Go(repocheck.IsGo)))
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, f := range rule(tree) {
				t.Error(f)
			}
		})
	}
}

// Every rule has to find what it forbids, and only that.
func TestRulesFindWhatTheyForbid(t *testing.T) {
	t.Parallel()
	long := "package p\n\nfunc f() {\n" + strings.Repeat("\tprintln()\n", 89) + "}\n"
	tests := []struct {
		rule, name string
		files      map[string]string
		want       []string // prefixes of findings, in order
	}{
		{"sizes", "a function of 91 lines", map[string]string{"p/p.go": long}, []string{"p/p.go:3: f has 91 lines"}},
		{"sizes", "a file of 601 lines", map[string]string{"p/p.go": "package p\n" + strings.Repeat("//\n", 600), "p/p_test.go": "package p\n" + strings.Repeat("//\n", 600)},
			[]string{"p/p.go: 60"}},
		{"docs", "requirements where go doc shows them", map[string]string{"p/p.go": "// Package p (A-00" + "1).\npackage p\n\n// T (ruling 3).\ntype T struct {\n\tX int // of C-00" + "2\n\ty int // of C-00" + "2\n}\n\n// f (D1) is ours.\nfunc f() {}\n\n// F (D1) is theirs.\nfunc F() {}\n",
			"p/p_test.go": "// Package p (A-00" + "1).\npackage p\n"},
			[]string{"p/p.go:1: \"A-001\"", "p/p.go:4: \"ruling 3\"", "p/p.go:6: \"C-002\"", "p/p.go:13: \"(D1)\""}},
		{"comments", "the name of another function", map[string]string{"p/p.go": "package p\n\n// g is a former name.\nfunc f() {}\n\n// g: also here.\ntype t int\n\n// f is right.\nfunc (t) f() {}\n\n// A sentence.\nfunc h() {}\n\n// req: A-00" + "1\nfunc i() {}\n\n// docs/A.md is a file.\nfunc j() {}\n",
			"p/p_test.go": "package p\n\n// f is in a test.\nfunc k() {}\n"},
			[]string{"p/p.go:3: the comment of f begins with g", "p/p.go:6: the comment of t begins with g", "p/p_test.go:3: the comment of k begins with f"}},
		{"names", "an empty name", map[string]string{"a/util/u.go": "package util\n"}, []string{"a/util: package util says nothing"}},
		{"names", "a repeated name", map[string]string{"index/i.go": "package index\n\ntype Index int\ntype IndexEntry int\nfunc ParseIndex() {}\nfunc Indexed() {}\n"},
			[]string{"index/i.go:4: IndexEntry", "index/i.go:5: ParseIndex"}},
		{"names", "a folder that repeats its parent", map[string]string{"agent/agentstep/s.go": "package agentstep\n", "agent/agenttest/s.go": "package agenttest\n"},
			[]string{"agent/agentstep: "}},
		{"names", "a getter", map[string]string{"p/p.go": "package p\n\ntype T int\n\nfunc (T) GetName() {}\nfunc Getaway() {}\n"}, []string{"p/p.go:5: GetName"}},
		{"words", "a machine path and work put off", map[string]string{"a.md": "see /wo" + "rk/main\nok /workspace/main\n", "b.go": "package b // TO" + "DO\n", "testdata/c.md": "TO" + "DO\n"},
			[]string{"a.md:1: ", "b.go:1: "}},
		{"hints", "a command without its argument", map[string]string{"p/p.go": "package p\n\nconst a, b = \"see 'metier runs show'\", \"see 'metier runs show \"\n\nconst c = `reverses 'metier enable'`\n",
			"p/p_test.go": "package p\n\nconst d = \"metier runs show\"\n"},
			[]string{"p/p.go:3: \"metier runs show'\""}},
		{"modules", "old and replaced", map[string]string{"go.mod": "module metier\n\ngo 1.26.4\n\nreplace a => ../a\n", "bench/go.mod": "module metier/bench\n\ngo 1.26.5\n\nreplace metier => ..\n"},
			[]string{"go.mod:3: ", "go.mod:5: "}},
		{"build tags", "in the name and in a comment", map[string]string{"p/p_windows.go": "package p\n", "p/q.go": "//go:build a && !linux\n\npackage p\n", "internal/confine/x_linux.go": "package confine\n", "p/r.go": "//go:build ignore\n\npackage p\n"},
			[]string{"p/p_windows.go: ", "p/q.go:1: "}},
		{"waits", "sleep and skip", map[string]string{"p/p_test.go": "package p\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\nfunc g(t T) { t.Skip(\"x\") }\n", "p/p.go": "package p\n\nimport \"time\"\n\nfunc h() { time.Sleep(1) }\n"},
			[]string{"p/p_test.go:5: time.Sleep", "p/p_test.go:6: Skip"}},
		{"waits", "in a script", map[string]string{"p/testdata/a.txtar": "skip\n[!linux] skip 'needs FIFOs'\nexec sleep 1\n-- f --\nskip\n"},
			[]string{"p/testdata/a.txtar:1: ", "p/testdata/a.txtar:3: "}},
		{"decisions", "a dependency without a page", map[string]string{"go.mod": "module metier\n\nrequire (\n\texample.org/a v1.0.0\n\texample.org/b v1.0.0 // indirect\n)\n", "p/p.go": "package p\n\nimport _ \"example.org/a/sub\"\n"},
			[]string{"go.mod: example.org/a"}},
	}
	for _, tt := range tests {
		t.Run(tt.rule+": "+tt.name, func(t *testing.T) {
			t.Parallel()
			fs := fstest.MapFS{}
			for p, text := range tt.files {
				fs[p] = &fstest.MapFile{Data: []byte(text)}
			}
			tree, err := repocheck.Load(fs)
			if err != nil {
				t.Fatal(err)
			}
			got := rules[tt.rule](tree)
			ok := len(got) == len(tt.want)
			for i := range min(len(got), len(tt.want)) {
				ok = ok && strings.HasPrefix(got[i].String(), tt.want[i])
			}
			if !ok {
				t.Errorf("got %v, want %q", got, tt.want)
			}
		})
	}
}

func TestDecisionsAcceptAPage(t *testing.T) {
	t.Parallel()
	tree, err := repocheck.Load(fstest.MapFS{
		"go.mod":                   {Data: []byte("module metier\n\nrequire example.org/a v1.0.0\n")},
		"p/p.go":                   {Data: []byte("package p\n\nimport _ \"example.org/a/sub\"\n")},
		"docs/decisions/0001-a.md": {Data: []byte("# a: `example.org/a`\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]repocheck.Finding(nil), tree.Decisions()); diff != "" {
		t.Error(diff)
	}
}
