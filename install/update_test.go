package install_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"metier"
	"metier/install"
	"metier/settings"
)

func defaults(t *testing.T) settings.Settings {
	t.Helper()
	layer, err := settings.Profile(settings.DefaultProfile)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := settings.Resolve(layer)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// apply prepares and applies a change, or fails.
func apply(t *testing.T, plan *install.Plan, err error) {
	t.Helper()
	if err == nil {
		err = plan.Apply(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// actions returns what a plan does to each skill.
func actions(p *install.Plan) map[string]install.Action {
	out := map[string]install.Action{}
	for _, c := range p.Changes {
		out[c.Name] = c.Action
	}
	return out
}

// TestRestore_FetchesEachSourceOnce restores three skills of one repository, and counts the fetches.
func TestRestore_FetchesEachSourceOnce(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.commit(map[string]string{"a/SKILL.md": skill("a", ""), "b/SKILL.md": skill("b", ""), "c/SKILL.md": skill("c", ""), "d/SKILL.md": skill("d", "")})
	var packs atomic.Int32
	url := gitServer(o, false, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/info/refs") {
				packs.Add(1)
			}
			h.ServeHTTP(w, r)
		})
	})
	p := newPlace(t)
	s := p.openWith(install.Options{Env: o.env()})
	plan, err := p.prepare(s, install.Request{Source: install.Source{Kind: install.Git, Location: url}, Skills: []string{"a", "b", "c"}})
	apply(t, plan, err)
	want, err := os.ReadFile(p.lock)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := os.RemoveAll(filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	packs.Store(0)
	plan, err = s.Restore(t.Context(), true, defaults(t))
	apply(t, plan, err)
	if n := packs.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	got, err := os.ReadFile(p.lock)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the lock changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]install.State{"a": install.Intact, "b": install.Intact, "c": install.Intact}, p.states(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRestore_FailsIfTheCommitIsGone(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.commit(map[string]string{"a/SKILL.md": skill("a", "")})
	p := newPlace(t)
	s := p.openWith(install.Options{Env: o.env()})
	plan, err := p.prepare(s, install.Request{Source: o.source("", "")})
	apply(t, plan, err)
	if err := os.RemoveAll(filepath.Join(p.dir, "a")); err != nil {
		t.Fatal(err)
	}
	o.git("checkout", "--quiet", "--orphan", "new")
	o.commit(map[string]string{"a/SKILL.md": skill("a", "new")})
	o.git("branch", "-D", "main")
	o.git("reflog", "expire", "--expire=now", "--all")
	o.git("gc", "--quiet", "--prune=now")
	if _, err := s.Restore(t.Context(), false, defaults(t)); metier.CodeOf(err) != "lock_differs" || metier.KindOf(err) != metier.Drift {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff([]string{"lock"}, names(t, filepath.Join(p.dir, ".metier/install"))); diff != "" {
		t.Errorf("what was staged is left (-want +got):\n%s", diff)
	}
}

func TestUpdate_KeepsPinnedAndUnchangedSkills(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	first := o.commit(map[string]string{"a/SKILL.md": skill("a", ""), "b/SKILL.md": skill("b", ""), "c/SKILL.md": skill("c", "")})
	p := newPlace(t)
	s := p.openWith(install.Options{Env: o.env()})
	plan, err := p.prepare(s, install.Request{Source: o.source("", ""), Skills: []string{"a", "b"}})
	apply(t, plan, err)
	plan, err = p.prepare(s, install.Request{Source: o.source(first, ""), Skills: []string{"c"}})
	apply(t, plan, err)
	second := o.commit(map[string]string{"a/SKILL.md": skill("a", "new"), "c/SKILL.md": skill("c", "new")})
	plan, err = s.Update(t.Context(), nil, false, defaults(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]install.Action{"a": install.Replace, "b": install.Keep, "c": install.Keep}, actions(plan)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	apply(t, plan, nil)
	got := map[string]string{}
	for name, e := range s.Lock().Skills {
		got[name] = e.Commit
	}
	if diff := cmp.Diff(map[string]string{"a": second, "b": second, "c": first}, got); diff != "" {
		t.Errorf("the commits of the lock (-want +got):\n%s", diff)
	}
}

func TestDiff_OrdersAndCuts(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(map[string]string{"a/SKILL.md": skill("a", ""), "a/long.md": "", "a/tool": "x", "a/image.png": "\x00", "a/gone.md": "old\n"})
	s := p.open()
	p.add(s)
	p.write(map[string]string{"a/SKILL.md": skill("a", "new"), "a/long.md": strings.Repeat("line\n", 500), "a/image.png": "\x00\x01", "a/scripts/run.sh": "echo\n", "a/huge.md": strings.Repeat("x", 300<<10)})
	for _, err := range []error{os.Chmod(filepath.Join(p.in, "a/tool"), 0o755), os.Remove(filepath.Join(p.in, "a/gone.md"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	plan, err := s.Update(t.Context(), nil, false, defaults(t))
	if err != nil {
		t.Fatal(err)
	}
	d, err := plan.Diff(plan.Changes[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Files {
		if len(d.Files[i].Text) > 100 {
			d.Files[i].Text = "long"
		}
	}
	want := []install.FileDiff{
		{Path: "scripts/run.sh", Action: install.Add, Program: true, Text: "--- a/scripts/run.sh\n+++ b/scripts/run.sh\n@@ -0,0 +1,1 @@\n+echo\n"},
		{Path: "tool", Action: install.Replace, Program: true, Note: "mode 0644 → 0755"},
		{Path: "SKILL.md", Action: install.Replace, Text: "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -2,4 +2,4 @@\n name: a\n description: Does a.\n ---\n-\n+new\n"},
		{Path: "gone.md", Action: install.Remove, Text: "--- a/gone.md\n+++ b/gone.md\n@@ -1,1 +0,0 @@\n-old\n"},
		{Path: "huge.md", Action: install.Add, Note: "more than 256 KiB"},
		{Path: "image.png", Action: install.Replace, Note: "not text"},
		{Path: "long.md", Action: install.Replace, Text: "long", Cut: 303},
	}
	if diff := cmp.Diff(want, d.Files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := plan.Discard(); err != nil {
		t.Fatal(err)
	}
}
