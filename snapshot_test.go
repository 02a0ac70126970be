package metier_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"metier"
	"metier/settings"
)

// req: C-021
func TestNoBodyIsLoadedAtStart(t *testing.T) {
	t.Parallel()
	const body = "The quick brown body nobody asked for."
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("skills/s%02d/SKILL.md", i)] = skillFile(fmt.Sprintf("s%02d", i), "# Title\n\n"+body+"\n")
		files[fmt.Sprintf("skills/s%02d/references/more.md", i)] = body
	}
	for _, profile := range []string{settings.DefaultProfile, runtimeProf} {
		w := opened(t, profile, files)
		all, err := json.Marshal(w.Snapshot().All())
		if err != nil {
			t.Fatal(err)
		}
		req, err := json.Marshal(w.preview())
		if err != nil {
			t.Fatal(err)
		}
		for what, text := range map[string]string{"memory": string(all), "prompt": string(req), "record": w.said()} {
			if strings.Contains(text, body) || strings.Contains(text, "# Title") {
				t.Errorf("%s: the %s has a body", profile, what)
			}
		}
		mentions(t, string(req), "s00", "Use when testing s00.", "s19", "Use when testing s19.")
	}
}

// req: C-023
func TestSecondListReadsNothing(t *testing.T) {
	t.Parallel()
	w := opened(t, settings.DefaultProfile, map[string]string{"skills/a/SKILL.md": skillFile("a", "x\n"), "skills/g/b/SKILL.md": skillFile("b", "y\n")})
	list, catalog := w.Snapshot().All(), w.Catalog(t.Context())
	if len(list) < 2 || len(catalog.Entries) < 2 {
		t.Fatal(list, catalog)
	}
	if err := os.RemoveAll(w.at("skills")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(fmt.Sprint(list), fmt.Sprint(w.Snapshot().All())); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(catalog, w.Catalog(t.Context()), cmpopts.IgnoreUnexported(metier.Catalog{})); d != "" {
		t.Error(d)
	}
	if _, err := w.Snapshot().Find("b"); err != nil {
		t.Error(err)
	}
	w = newFixture(t, settings.DefaultProfile, map[string]string{"skills/a/SKILL.md": skillFile("a", "x\n"), "skills/a/references/r.md": "r"})
	snap := w.snapshot()
	files := func() []metier.Resource {
		sk, err := snap.Index(t.Context(), snap.All()[0])
		if err != nil || len(sk.Resources) < 1 {
			t.Fatal(sk.Resources, err)
		}
		return sk.Resources
	}
	indexed := files()
	w.put("skills/a/references/r.md", "changed")
	if d := cmp.Diff(indexed, files()); d != "" {
		t.Errorf("the files are read again: %s", d)
	}
	w = newFixture(t, settings.DefaultProfile, map[string]string{"skills/a/SKILL.md": skillFile("a", "x\n"), "skills/g/b/SKILL.md": skillFile("b", "y\n")})
	w.config = func(c *metier.Config) { c.ToolsOnly = true }
	w.open()
	first := w.works("list_skills", args{}).Text()
	mentions(t, first, "Use when testing a.", "Use when testing b.")
	if err := os.RemoveAll(w.at("skills")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first, w.works("list_skills", args{}).Text()); d != "" {
		t.Error(d)
	}
}

func TestBuild_RefusesAMountWithoutASource(t *testing.T) {
	t.Parallel()
	layer, err := settings.Profile(settings.DefaultProfile)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := settings.Resolve(layer)
	if err != nil {
		t.Fatal(err)
	}
	_, err = metier.Build(t.Context(), []metier.Mount{{Label: "shop"}}, set.Parse, set.Names, set.Read.IndexRoot, false)
	if diff := cmp.Diff("source_missing", metier.CodeOf(err)); diff != "" {
		t.Errorf("code (-want +got):\n%s", diff)
	}
}

// A session without a snapshot has no skills, and looks for them as any other.
func TestOpen_WithoutASnapshot(t *testing.T) {
	t.Parallel()
	w := newFixture(t, settings.DefaultProfile, nil)
	w.set.Catalog.Paths = settings.PathsNone
	w.config = func(c *metier.Config) { c.Snapshot, c.View.Paths = nil, settings.PathsNone }
	w.open()
	if diff := cmp.Diff(0, len(w.Snapshot().Entries("x"))); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	w.fails("skill_not_found", "load_skill", args{"skillId": "x:y"})
}
