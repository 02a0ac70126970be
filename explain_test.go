package metier_test

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"metier"
	"metier/internal/diagcodes"
	"metier/internal/testenv"
	"metier/settings"
	"metier/skillmd"
	"metier/source/local"
)

// judges are the folders and files that can decide the state of a skill, or
// report a problem with it.
var judges = regexp.MustCompile(`^(judge|index|discover|catalog)\.go$|^source/|^skillmd/|^harness/`)

// Words with a hyphen that are not codes.
var notCodes = []string{"disable-model-invocation", "user-invocable", "argument-hint", "allowed-tools", "when-to-use", "wrapper-tag-neutralized"}

// codes returns the codes of diagnostics that the judges can report.
func codes(t *testing.T) []string {
	t.Helper()
	word := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)+$`)
	out := []string{"compatibility-too-long", "description-too-long"} // built in validate.go
	for _, f := range load(t).Go(func(p string) bool {
		return judges.MatchString(p) && !strings.HasSuffix(p, "_test.go") && !strings.Contains(p, "sourcetest") &&
			!strings.HasPrefix(p, "skillmd/folder/") // its findings are about a path, and decide nothing about a loaded skill
	}) {
		ast.Inspect(f.File, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && word.MatchString(s) && !slices.Contains(notCodes, s) {
					out = append(out, s)
				}
			}
			return true
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Every state of a skill has a reason, and every problem a suggested fix.
func TestEveryStateAndRuleIsExplained(t *testing.T) {
	t.Parallel()
	all := codes(t)
	if len(all) < 55 {
		t.Fatalf("only %d codes were found: %q", len(all), all)
	}
	w := newFixture(t, "default", map[string]string{"skills/a/SKILL.md": skillFile("a", "")})
	snap := w.snapshot()
	one := snap.All()[0]
	for _, code := range all {
		r, known := diagcodes.Of(code)
		if !known || r.Why == "" {
			t.Errorf("%s has no explanation: write one in internal/diagcodes", code)
		}
		for _, state := range []metier.Status{metier.Loaded, metier.Hidden, metier.Disabled, metier.Shadowed, metier.Refused} {
			for _, severity := range []skillmd.Severity{skillmd.Error, skillmd.Warning, skillmd.Advice} {
				sk := one
				sk.State = state
				sk.Diagnostics = []metier.Diagnostic{{Severity: severity, Code: code, Detail: "found"}}
				e := snap.Explain(sk, metier.Catalog{}, nil)
				if e.State != state || e.Rule == "" || e.Reason == "" || e.ShownRule == "" || e.ShownReason == "" || e.Shown {
					t.Errorf("%s, %s of severity %s: by %q, %q; shown by %q, %q", state, code, severity, e.Rule, e.Reason, e.ShownRule, e.ShownReason)
				}
				if state == metier.Refused && (e.Rule != code || !strings.HasSuffix(e.Reason, ": found")) {
					t.Errorf("%s of severity %s refuses by %s: %s", code, severity, e.Rule, e.Reason)
				}
			}
		}
	}
	// A code of a third-party source explains itself.
	one.State, one.Diagnostics = metier.Refused, []metier.Diagnostic{{Severity: "error", Code: "odd-moon", Detail: "the moon is odd"}}
	if e := snap.Explain(one, metier.Catalog{}, nil); e.Rule != "odd-moon" || e.Reason != "the moon is odd" {
		t.Errorf("an unknown code is explained by %q: %q", e.Rule, e.Reason)
	}
}

// An explanation names the deciding rule, which skill has the name instead, and how the session's
// catalog treats the skill.
func TestExplain(t *testing.T) {
	t.Parallel()
	const off = "disable-model-invocation: true"
	for name, c := range map[string]struct {
		files  map[string]string
		set    map[string]string
		denied []string
		ask    string
		state  metier.Status
		rule   string
		shown  string
	}{
		"alone":           {map[string]string{"a/SKILL.md": skillFile("a", "")}, nil, nil, "a", metier.Loaded, "unique-name", "listed"},
		"by its ID":       {map[string]string{"a/SKILL.md": skillFile("a", "")}, nil, nil, "skills:a", metier.Loaded, "unique-name", "listed"},
		"by its folder":   {map[string]string{"a/SKILL.md": skillFile("b", "")}, nil, nil, "a", metier.Loaded, "unique-name", "listed"},
		"first":           {map[string]string{"a/n/SKILL.md": skillFile("n", ""), "b/n/SKILL.md": skillFile("n", "")}, nil, nil, "skills:a/n", metier.Loaded, "first-of-name", "listed"},
		"second":          {map[string]string{"a/n/SKILL.md": skillFile("n", ""), "b/n/SKILL.md": skillFile("n", "")}, nil, nil, "skills:b/n", metier.Shadowed, "duplicate-skill-name", "not-loaded"},
		"name is taken":   {map[string]string{"a/SKILL.md": skillFile("n", ""), "n/SKILL.md": skillFile("n", "")}, nil, nil, "skills:a", metier.Hidden, "name-taken", "not-loaded"},
		"refused":         {map[string]string{"a/SKILL.md": ""}, nil, nil, "a", metier.Refused, "empty-file", "not-loaded"},
		"refused by set":  {map[string]string{"a/SKILL.md": "---\nname: Nope\ndescription: d\n---\n"}, map[string]string{"validation": "strict"}, nil, "Nope", metier.Refused, "invalid-name", "not-loaded"},
		"for people":      {map[string]string{"a/SKILL.md": skillFile("a", "", off)}, nil, nil, "a", metier.Loaded, "unique-name", "disable-model-invocation"},
		"denied":          {map[string]string{"a/SKILL.md": skillFile("a", "")}, nil, []string{"a"}, "a", metier.Loaded, "unique-name", "denied"},
		"denied by ID":    {map[string]string{"a/SKILL.md": skillFile("a", "")}, nil, []string{"skills:a"}, "a", metier.Loaded, "unique-name", "denied"},
		"no catalog":      {map[string]string{"a/SKILL.md": skillFile("a", "")}, map[string]string{"catalog_format": "none"}, nil, "a", metier.Loaded, "unique-name", "no-catalog"},
		"catalog is full": {map[string]string{"a/SKILL.md": skillFile("a", ""), "b/SKILL.md": skillFile("b", "")}, map[string]string{"catalog_max": "1", "tool_search": "none"}, nil, "b", metier.Loaded, "unique-name", "catalog-full"},
		"left to search":  {map[string]string{"a/SKILL.md": skillFile("a", ""), "b/SKILL.md": skillFile("b", "")}, map[string]string{"catalog_max": "1"}, nil, "b", metier.Loaded, "unique-name", "search-only"},
		"cut":             {map[string]string{"a/SKILL.md": skillFile("a", "")}, map[string]string{"catalog_desc_max": "5"}, nil, "a", metier.Loaded, "unique-name", "listed-cut"},
		"by name":         {map[string]string{"a/SKILL.md": skillFile(strings.Repeat("a", 60), "")}, map[string]string{"catalog_budget": "80"}, nil, "a", metier.Loaded, "unique-name", "listed-by-name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{}
			for p, text := range c.files {
				files["skills/"+p] = text
			}
			w := newFixture(t, "default", files)
			for _, r := range settings.Table() {
				if v, ok := c.set[r.Name]; ok {
					if err := r.Set(&w.set, v); err != nil {
						t.Fatal(err)
					}
				}
			}
			w.config = func(cfg *metier.Config) { cfg.Grants.Denied = c.denied }
			w.open()
			found := w.Snapshot().Entries(c.ask)
			if len(found) == 0 {
				t.Fatalf("nothing is called %s", c.ask)
			}
			e := w.Snapshot().Explain(found[0], w.Catalog(t.Context()), c.denied)
			if e.State != c.state || e.Rule != c.rule || e.ShownRule != c.shown || e.Shown != strings.HasPrefix(c.shown, "listed") {
				t.Errorf("%s by %s, shown by %s; want %s by %s, shown by %s", e.State, e.Rule, e.ShownRule, c.state, c.rule, c.shown)
			}
			if (e.State == metier.Shadowed) != (e.By.ID.Path != "") || e.State == metier.Shadowed && e.By.ID.Path != "a/n" {
				t.Errorf("the name is taken by %q", e.By.ID)
			}
		})
	}
}

// The explanation of a path that is not a skill says why.
func TestExplainPath(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		testenv.Skip(t, "links need a privilege on this system")
	}
	deep := strings.Repeat("d/", 13)
	w := newFixture(t, "default", map[string]string{"skills/a/SKILL.md": skillFile("a", ""), "skills/a/references/x.md": "text", "skills/a/node_modules/m/x": "x",
		"skills/a/sub/SKILL.md": skillFile("sub", ""), "skills/empty/README.md": "hello", "skills/.git/s/SKILL.md": skillFile("s", ""),
		"skills/group/g/SKILL.md": skillFile("g", ""), "skills/" + deep + "SKILL.md": skillFile("d", ""), "elsewhere/e/SKILL.md": skillFile("e", "")})
	root := filepath.Join(w.dir, "skills")
	for link, to := range map[string]string{"a/out": "/etc", "nowhere/x": "/nonexistent/x", "file": filepath.Join(root, "empty", "README.md")} {
		at := filepath.Join(root, link)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	snap := w.snapshot()
	for at, want := range map[string]string{
		"elsewhere/e":              "outside-roots",
		"skills":                   "group-folder",
		"skills/group":             "group-folder",
		"skills/empty":             "no-skill-file",
		"skills/empty/README.md":   "not-skill-file",
		"skills/empty/README.md/x": "not-a-folder",
		"skills/file":              "not-skill-file",
		"skills/gone":              "path-missing",
		"skills/.git/s":            "folder-skipped",
		"skills/a/sub":             "inside-skill",
		"skills/a/sub/SKILL.md":    "skill-file",
		"skills/a/references/x.md": "skill-file",
		"skills/a/out":             "skill-resource-outside-root",
		"skills/a/node_modules":    "resource-folder-skipped",
		"skills/a/node_modules/m":  "resource-folder-skipped",
		"skills/" + deep:           "max-depth-exceeded",
	} {
		e := snap.ExplainPath(t.Context(), filepath.Join(w.dir, filepath.FromSlash(at)))
		if e.Rule != want || e.Reason == "" || e.State != "" {
			t.Errorf("%s: %s (%s), want %s", at, e.Rule, e.Reason, want)
		}
	}
	// A path with its own entry is explained by it.
	for at, want := range map[string]metier.Status{"skills/a": metier.Loaded, "skills/a/SKILL.md": metier.Loaded, "skills/nowhere/x": metier.Refused} {
		if found := snap.At(filepath.Join(w.dir, filepath.FromSlash(at))); len(found) != 1 || found[0].State != want {
			t.Errorf("%s has %d entries, want one that is %s", at, len(found), want)
		}
	}
}

// Among real skills, each has a reason, and each rejected one a suggested fix. A folder that is not
// a skill is explained.
func TestRealSkillsAreExplained(t *testing.T) {
	t.Parallel()
	corpus := testenv.Corpus(t)
	src, err := local.New(corpus, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newFixture(t, "default", nil)
	if corpus, err = filepath.EvalSymlinks(corpus); err != nil {
		t.Fatal(err)
	}
	w.roots = []metier.Mount{{Label: "corpus", Source: src, Root: corpus}}
	snap := w.snapshot()
	entry := map[string]bool{}
	for _, sk := range snap.All() {
		e := snap.Explain(sk, metier.Catalog{}, nil)
		if _, known := diagcodes.Of(e.Rule); !known || e.Reason == "" || e.State == metier.Refused && e.Fix == "" {
			t.Errorf("%s is %s by %q: %q, %q", sk.ID, e.State, e.Rule, e.Reason, e.Fix)
		}
		entry[filepath.Join(corpus, filepath.FromSlash(sk.ID.Path))] = true
	}
	if len(entry) < 200 {
		t.Fatalf("%d entries", len(entry))
	}
	folders := 0
	err = filepath.WalkDir(corpus, func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() || entry[p] {
			return err
		}
		folders++
		e := snap.ExplainPath(t.Context(), p)
		if !slices.Contains([]string{"group-folder", "inside-skill", "no-skill-file", "folder-skipped", "resource-folder-skipped"}, e.Rule) || e.Reason == "" {
			t.Errorf("%s is none by %q: %q", p, e.Rule, e.Reason)
		}
		return nil
	})
	if err != nil || folders == 0 {
		t.Errorf("%d folders: %v", folders, err)
	}
}
